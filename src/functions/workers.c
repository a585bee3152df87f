#include "base/err.h"
#include "functions/functions_internal.h"
#include "service/node.h"
#include "service/services.h"

/* A daemon is one machine: it is the only worker, and no other can be dead. */

static int take_node(const struct call *call, struct node **ret, struct err *err)
{
    *ret = call->services ? call->services->node : NULL;
    return *ret ? 0 : err_set(err, ERR_UNSUPPORTED, "this daemon is no worker");
}

static int heartbeat(struct call *call, struct err *err)
{
    struct node *n;

    return take_node(call, &n, err) < 0 ? -1 : node_worker(n, &call->out, err);
}

static int list(struct call *call, struct err *err)
{
    struct node *n;
    json_t *worker;

    if (take_node(call, &n, err) < 0 || node_worker(n, &worker, err) < 0)
        return -1;
    call->out = json_pack("{s:[o], s:i, s:i}", "workers", worker, "alive", 1, "dead", 0);
    return 0;
}

static int select_one(struct call *call, struct err *err)
{
    struct node *n;
    const char *id;

    if (take_node(call, &n, err) < 0 || node_select(n, &id, err) < 0)
        return -1;
    call->out = json_pack("{s:s}", "workerId", id);
    return 0;
}

static int reap(struct call *call, struct err *err)
{
    (void)err;
    call->out = json_pack("{s:i, s:i, s:i}", "reaped", 0, "reassigned", 0, "expired", 0);
    return 0;
}

static int migrate(struct call *call, struct err *err)
{
    (void)err;
    call->out = json_pack("{s:i}", "migrated", 0);
    return 0;
}

/* The reference's documentation has other routes than its program: both are here. */
#define HEARTBEAT(ID, ROUTE)                                                                       \
    {                                                                                              \
        ID, "POST", ROUTE, NULL, heartbeat, NULL, SCOPE_ADMIN,                                     \
            .reach = REACH_NEVER, .help = "Shows this machine as it is now",                       \
            .gives = &worker_shape                                                                 \
    }
#define LIST(ID, ROUTE)                                                                            \
    {                                                                                              \
        ID, "GET", ROUTE, NULL, list, NULL, SCOPE_READ,                                            \
            .reach = REACH_NEVER, .help = "Lists the machines with sandboxes: this one",           \
            .gives = &worker_list_shape                                                            \
    }
#define SELECT(ID, METHOD, ROUTE)                                                                  \
    {                                                                                              \
        ID, METHOD, ROUTE, NULL, select_one, NULL, SCOPE_READ,                                     \
            .reach = REACH_NEVER,                                                                  \
            .help = "Says on which machine there is room for another sandbox",                     \
            .gives = &worker_selected_shape, .errors = "no_capacity"                               \
    }
#define REAP(ID, ROUTE)                                                                            \
    {                                                                                              \
        ID, "POST", ROUTE, NULL, reap, NULL, SCOPE_ADMIN,                                          \
            .reach = REACH_NEVER,                                                                  \
            .help = "Takes over what machines had that are gone: of one machine there are none",   \
            .gives = &workers_reaped_shape                                                         \
    }
#define MIGRATE(ID, ROUTE)                                                                         \
    {                                                                                              \
        ID, "POST", ROUTE, NULL, migrate, NULL, SCOPE_ADMIN,                                       \
            .reach = REACH_NEVER,                                                                  \
            .help = "Gives sandboxes without a machine to this one: all have it already",          \
            .gives = &workers_migrated_shape                                                       \
    }

const struct function worker_functions[] = {
    HEARTBEAT("worker::heartbeat", "/admin/workers/heartbeat"),
    LIST("worker::list", "/admin/workers"),
    SELECT("worker::select", "GET", "/admin/workers/select"),
    REAP("worker::reap", "/admin/workers/reap"),
    MIGRATE("worker::migrate", "/admin/workers/migrate"),
    HEARTBEAT("worker::heartbeat_too", "/workers/heartbeat"),
    LIST("worker::list_too", "/workers"),
    SELECT("worker::select_too", "POST", "/workers/select"),
    SELECT("worker::select_get", "GET", "/workers/select"),
    REAP("worker::reap_too", "/workers/reap"),
    MIGRATE("worker::migrate_too", "/workers/migrate"),
    {0},
};
