#include "cli/limit_args.h"

#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/rlimits.h"
#include "base/str.h"
#include "cli/args.h"

static int read_amount(const char *text, json_int_t *ret)
{
    uint64_t n;

    *ret = -1;
    if (strcmp(text, "-1") == 0 || strcmp(text, "unlimited") == 0)
        return 0;
    if (str_u64(text, &n) < 0 || n > INT64_MAX)
        return -1;
    *ret = (json_int_t)n;
    return 0;
}

static int add_limit(json_t *limits, const char *text, struct err *err)
{
    size_t n = strcspn(text, "=");
    auto_free char *name = xstrndup(text, n);
    auto_free char *soft = text[n] ? xstrndup(text + n + 1, strcspn(text + n + 1, ":")) : NULL;
    const char *hard = strchr(text + n, ':');
    json_int_t amounts[2];
    json_t *limit;

    if (!soft || rlimit_of_word(name) < 0 || read_amount(soft, &amounts[0]) < 0 ||
        (hard && read_amount(hard + 1, &amounts[1]) < 0))
        return err_set(err, ERR_INVALID,
                       "--ulimit needs NAME=SOFT[:HARD], such as nofile=1024:2048, not \"%.100s\"",
                       text);
    limit = json_pack("{s:s, s:I}", "resource", name, "soft", amounts[0]);
    if (hard)
        (void)json_object_set_new(limit, "hard", json_integer(amounts[1]));
    (void)json_array_append_new(limits, limit);
    return 0;
}

int limit_args(const struct args *args, json_t **ret, struct err *err)
{
    char **list = args_list(args, "ulimit");
    json_t *limits;

    *ret = NULL;
    if (!list)
        return 0;
    limits = json_array();
    for (; *list; list++) {
        if (add_limit(limits, *list, err) < 0) {
            json_decref(limits);
            return -1;
        }
    }
    *ret = limits;
    return 0;
}
