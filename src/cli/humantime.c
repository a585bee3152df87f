#include "cli/humantime.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define HUMANTIME_MS_MAX INT64_C(3155760000000) /* a hundred years */

static const struct {
    const char *words; /* with spaces around each */
    double ms;
} units[] = {
    {" ns nsec nanos ", 1e-6},
    {" us usec micros ", 1e-3},
    {" ms msec millis ", 1},
    {" s sec secs second seconds ", 1e3},
    {" m min mins minute minutes ", 6e4},
    {" h hr hrs hour hours ", 3.6e6},
    {" d day days ", 8.64e7},
    {" w week weeks ", 6.048e8},
    {" M month months ", 2.63016e9},
    {" y year years ", 3.15576e10},
};

static double unit_of(const char *word, size_t len)
{
    char padded[16];

    if (len == 0 || len > sizeof(padded) - 3)
        return -1;
    padded[0] = ' ';
    memcpy(padded + 1, word, len);
    memcpy(padded + 1 + len, " ", 2);
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (strstr(units[i].words, padded))
            return units[i].ms;
    return -1;
}

int humantime_ms(const char *text, int64_t *ret)
{
    double sum = 0;
    bool any = false;

    if (strcmp(text, "0") == 0) {
        *ret = 0;
        return 0;
    }
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        double n = 0, ms;
        size_t len;

        if (!isdigit((unsigned char)*text))
            return -EINVAL;
        for (; isdigit((unsigned char)*text); text++)
            n = n * 10 + (*text - '0');
        text += strspn(text, " ");
        for (len = 0; isalpha((unsigned char)text[len]);)
            len++;
        ms = unit_of(text, len);
        sum += n * ms;
        if (ms < 0 || sum > (double)HUMANTIME_MS_MAX)
            return -EINVAL;
        text += len;
        any = true;
    }
    if (!any)
        return -EINVAL;
    *ret = (int64_t)sum;
    if ((double)*ret < sum)
        ++*ret;
    return 0;
}
