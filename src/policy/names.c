#include "policy/policy_internal.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

int net_name_canonical(const char *text, char ret[POLICY_NAME_MAX + 1])
{
    size_t len = strlen(text), label = 0;

    if (len > 0 && text[len - 1] == '.')
        len--;
    if (len == 0 || len > POLICY_NAME_MAX)
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '.') {
            if (label == 0 || text[i - 1] == '-')
                return -EINVAL;
            label = 0;
            ret[i] = '.';
            continue;
        }
        /* Underscores are in names of services. */
        if (!(c < 128 && isalnum(c)) && c != '_' && !(c == '-' && label > 0))
            return -EINVAL;
        if (++label > 63)
            return -EINVAL;
        ret[i] = (char)tolower(c);
    }
    if (label == 0 || text[len - 1] == '-')
        return -EINVAL;
    ret[len] = '\0';
    return 0;
}

bool net_name_below(const char *name, const char *suffix)
{
    size_t n = strlen(name), s = strlen(suffix);

    return n >= s && strcmp(name + n - s, suffix) == 0 && (n == s || name[n - s - 1] == '.');
}

bool net_name_is_metadata(const char *name)
{
    static const char *const names[] = {
        "metadata.google.internal",
        "metadata.goog",
        "metadata",
        "instance-data",
        "instance-data.ec2.internal",
        "metadata.tencentyun.com",
        "metadata.azure.internal",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

bool net_name_is_own(const char *name)
{
    return net_name_below(name, "localhost") || net_name_below(name, "local") ||
           net_name_below(name, "localdomain");
}
