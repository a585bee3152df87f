#include "cli/ranges.h"

#include "base/err.h"
#include "cli/args.h"
#include "cli/client.h"
#include "cli/ui.h"
#include "model/sandbox.h"

static int check(const char *flag, double value, double min, double max, const char *unit,
                 struct err *err)
{
    if (value >= min && value <= max)
        return 0;
    return err_set(err, ERR_INVALID, "%s must be from %.10g to %.10g%s, not %.10g", flag, min, max,
                   unit, value);
}

static double limit(const json_t *limits, const char *key, double preset)
{
    const json_t *v = json_object_get(limits, key);

    return json_is_number(v) ? json_number_value(v) : preset;
}

static int check_life(const json_t *limits, const char *flag, double life_s, struct err *err)
{
    return check(flag, life_s, limit(limits, "timeoutMin", TIMEOUT_S_MIN),
                 limit(limits, "timeoutMax", TIMEOUT_S_MAX), " seconds", err);
}

/* A daemon that does not tell has those that it was built with. */
static int check_all(const json_t *limits, const struct args *args, const char *flag, double life_s,
                     struct err *err)
{
    if (args_has(args, "memory") &&
        check("--memory", args_number(args, "memory", 0),
              limit(limits, "memoryMinMb", MEMORY_MB_MIN),
              limit(limits, "memoryMaxMb", MEMORY_MB_MAX), " MB", err) < 0)
        return -1;
    if (args_has(args, "cpu") &&
        check("--cpu", args_number(args, "cpu", 0), limit(limits, "cpuMin", CPU_MILLIS_MIN / 1e3),
              limit(limits, "cpuMax", CPU_MILLIS_MAX / 1e3), " cores", err) < 0)
        return -1;
    if (args_has(args, "disk") &&
        check("--disk", args_number(args, "disk", 0), DISK_MB_MIN, DISK_MB_MAX, " MB", err) < 0)
        return -1;
    return life_s > 0 ? check_life(limits, flag, life_s, err) : 0;
}

int ranges_check_life(struct api *api, const char *flag, double life_s, struct err *err)
{
    json_t *info = NULL;
    int r;

    if (api_call(api, "GET", NULL, &info, err, "/info") < 0)
        return -1;
    r = check_life(json_object_get(info, "limits"), flag, life_s, err);
    json_decref(info);
    return r;
}

int ranges_check(struct api *api, const struct args *args, const char *flag, double life_s,
                 struct err *err)
{
    json_t *info = NULL;
    int r;

    if (!args_has(args, "memory") && !args_has(args, "cpu") && !args_has(args, "disk") &&
        life_s <= 0)
        return 0;
    if (api_call(api, "GET", NULL, &info, err, "/info") < 0)
        return -1;
    r = check_all(json_object_get(info, "limits"), args, flag, life_s, err);
    json_decref(info);
    return r;
}
