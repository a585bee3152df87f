#include "cli/name.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#define NAME_MAX_BYTES 63 /* as a host name's, which is what people use them for */

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

int name_check(const char *name, struct err *err)
{
    static const char *const ids[] = {"sbx_", "bg_", "ex_"};
    size_t len = strlen(name);

    if (len == 0 || len > NAME_MAX_BYTES || name[strspn(name, LETTERS "-_.")] ||
        !strchr(LETTERS, name[0]))
        return err_set(err, ERR_INVALID,
                       "\"%.80s\" cannot be a name: it needs 1 to %d letters, digits, '-', '_' or "
                       "'.', the first one a letter or digit",
                       name, NAME_MAX_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        if (str_starts(name, ids[i]))
            return err_set(err, ERR_INVALID,
                           "\"%s\" cannot be a name: what begins with \"%s\" is taken for an id",
                           name, ids[i]);
    }
    return 0;
}
