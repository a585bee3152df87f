#include "cli/ranges.h"

#include "base/err.h"
#include "base/mem.h"
#include "cli/args.h"
#include "cli/client.h"
#include "cli/ui.h"

/* A flag and what /info calls its two ends. variable: what the operator can move the upper one
 * with, or NULL. */
struct range {
    const char *flag, *min, *max, *unit, *variable;
};

static const struct range ranges[] = {
    {"memory", "memoryMinMb", "memoryMaxMb", " MB", "CAY_MAX_MEMORY"},
    {"cpu", "cpuMin", "cpuMax", " cores", "CAY_MAX_CPU"},
    {"pids", "pidsMin", "pidsMax", " processes", "CAY_MAX_PIDS"},
    {"disk", "diskMinMb", "diskMaxMb", " MB", NULL},
};

static const struct range life = {NULL, "timeoutMin", "timeoutMax", " seconds", "CAY_MAX_TIMEOUT"};

/* An older daemon does not tell all of them, and moves to the nearer end what is beyond. */
static int check(const json_t *limits, const struct range *r, const char *name, double value,
                 struct err *err)
{
    const json_t *max = json_object_get(limits, r->max);
    double least = json_num(limits, r->min), most = json_number_value(max);

    if (value >= least && (!max || value <= most))
        return 0;
    if (!max)
        return err_set(err, ERR_INVALID, "%s must be %.10g%s or more, not %.10g", name, least,
                       r->unit, value);
    return err_set(err, ERR_INVALID, "%s must be from %.10g to %.10g%s, not %.10g%s%s%s", name,
                   least, most, r->unit, value,
                   value > most && r->variable ? " (the daemon's " : "",
                   value > most && r->variable ? r->variable : "",
                   value > most && r->variable ? " says so)" : "");
}

static int check_life(const json_t *limits, const char *name, double life_s, struct err *err)
{
    bool endless = json_object_get(limits, life.min) && !json_object_get(limits, life.max);

    if (life_s != 0)
        return check(limits, &life, name, life_s, err);
    return endless ? 0
                   : err_set(err, ERR_INVALID,
                             "%s must be from %.10g to %.10g%s; 0, for no end, is only for daemons "
                             "with %s=0",
                             name, json_num(limits, life.min), json_num(limits, life.max),
                             life.unit, life.variable);
}

static int check_flags(const json_t *limits, const struct args *args, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
        const struct range *r = &ranges[i];
        auto_free char *name = xasprintf("--%s", r->flag);

        if (args_has(args, r->flag) &&
            check(limits, r, name, args_number(args, r->flag, 0), err) < 0)
            return -1;
    }
    if (args_has(args, "pids") && !json_object_get(limits, "pidsMax"))
        return err_set(err, ERR_INVALID,
                       "--pids: the daemon is older than this and has one limit for all sandboxes");
    return 0;
}

static bool has_any(const struct args *args)
{
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
        if (args_has(args, ranges[i].flag))
            return true;
    return false;
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

    if (!has_any(args))
        return life_s < 0 ? 0 : ranges_check_life(api, flag, life_s, err);
    if (api_call(api, "GET", NULL, &info, err, "/info") < 0)
        return -1;
    r = check_flags(json_object_get(info, "limits"), args, err);
    if (r == 0 && life_s >= 0)
        r = check_life(json_object_get(info, "limits"), flag, life_s, err);
    json_decref(info);
    return r;
}
