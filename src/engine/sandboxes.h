#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "engine/pull_policy.h"

struct engine;
struct engine_watch;
struct err;

/* What the engine gives is JSON in the shape that the contract has for it; what it takes are plain
 * structs and arguments. */

/* A number that may be left out. */
struct maybe_number {
    bool given;
    double value;
};

/* What the caller that makes a sandbox is, as far as the engine has to know it. */
struct sandbox_maker {
    bool expiry_stops;  /* at the end of its time the sandbox is stopped, not removed */
    const char *tenant; /* "KEY=VALUE", the label that the caller's token is for; NULL = none. The
                         * limits of stopped sandboxes are shared between tenants */
    bool replaces;      /* it takes the name of an expired sandbox, which is removed */
    const struct sandbox_pick *pick; /* among those that the caller may know of; NULL = all */
};

/* What a new sandbox shall be. What is NULL or not given takes its default; numbers are brought
 * into their ranges, which end at the ceilings. A timeout of 0 is no end where there is no ceiling
 * for it, else the least. */
struct sandbox_request {
    const char *image; /* required */
    /* A record of the image store, which somebody holds (engine/images.h): then nothing is looked
     * up, pulled or asked of the list of allowed images, and `image` is only shown and judged for
     * caps. */
    const char *image_id;
    /* Limits of the sandbox that this one is a clone of, which it may have too; NULL = no clone. */
    const struct sandbox_limits *granted;
    const char *template; /* what the template is called that all this came from; NULL = none */
    const char *template_build; /* the image that it had become; NULL = none */
    const char *name;           /* NULL = the id */
    bool unique;                /* no other sandbox may have that name */
    struct sandbox_maker maker;
    bool passing; /* for one call, which removes it: if the daemon dies before, its next start does
                   */
    struct maybe_number timeout_s, memory_mb, cpu_cores, pids, disk_mb;
    struct maybe_number idle_s;   /* engine/idle.h; 0 = none */
    bool idle_removes;            /* it is removed when it is idle, not stopped */
    const json_t *network;        /* NULL or false = none; true, a preset's name, or a policy */
    const json_t *networks;       /* array of names and ids of named networks; NULL = none */
    const json_t *env, *metadata; /* objects of strings */
    const char *workdir;
    char *const *entrypoint; /* the main process */
    const json_t *patches;   /* an array of Patch objects (model/patches.h), or NULL */
    bool run_entrypoint;     /* the main process is the image's own; not together with entrypoint */
    bool pull_given;
    enum pull_policy pull;           /* not given = as the engine is configured */
    const json_t *volumes, *tmpfs;   /* arrays of the shapes that the table has; NULL = none */
    const json_t *ports;             /* an array of PortRequest; NULL = none */
    const char *platform;            /* NULL = this machine's */
    const char *username, *password; /* for the image's registry; NULL = the daemon's own */
};

/* Pulls the image when that is asked for or needed; watch (NULL = nobody) is told. Gives a Sandbox,
 * as do the others here, with `warnings` when it replaced an expired sandbox. */
int engine_create(struct engine *e, const struct sandbox_request *req,
                  const struct engine_watch *watch, json_t **ret, struct err *err);
/* Can sandboxes have a network? Starts the gateway, if none runs yet. ERR_UNSUPPORTED
 * "network_unsupported" says what is missing. */
int engine_check_network(struct engine *e, struct err *err);
int engine_get(struct engine *e, const char *id, json_t **ret, struct err *err);
bool engine_has(struct engine *e, const char *id);

/* Which of them somebody may know of: the one with this id, those whose metadata has this entry;
 * what is NULL is not asked. */
struct sandbox_pick {
    const char *id;
    const char *key, *value;
};

/* Is there one with this id, and is it one of those? */
bool engine_picks(struct engine *e, const struct sandbox_pick *pick, const char *id);
/* The id of the one sandbox that a name or a selector (model/sandbox.h) stands for, among those
 * (NULL = all). ERR_NOT_FOUND when there is none; ERR_CONFLICT "name_ambiguous", which lists ids,
 * when there are several. */
int engine_id_of_name(struct engine *e, const struct sandbox_pick *pick, const char *word,
                      char ret[ID_SIZE], struct err *err);

struct sandbox_query {
    const char *status;              /* NULL = any */
    const json_t *metadata;          /* NULL = any; an object: those that have all of it */
    const struct sandbox_pick *pick; /* NULL = all */
    uint32_t page; /* counted from 1; what comes and goes between two calls moves others */
    uint32_t page_size;
    uint64_t cursor; /* in place of a page: nextCursor of the answer before; 0 = none */
};

/* {items, total, page, pageSize}, newest first, and nextCursor if there are more. */
void engine_list(struct engine *e, const struct sandbox_query *query, json_t **ret);
int engine_remove(struct engine *e, const char *id, struct err *err);
int engine_pause(struct engine *e, const char *id, json_t **ret, struct err *err);
/* The same, and it tells whoever finds it paused why. */
int engine_pause_by_alert(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_resume(struct engine *e, const char *id, json_t **ret, struct err *err);
/* Ends its processes and keeps the rest; gives it as it is if it has none. ERR_UNAVAILABLE when
 * they do not end, or what they wrote cannot be put on the disk: it is stopped then, too. */
int engine_stop_sandbox(struct engine *e, const char *id, json_t **ret, struct err *err);

/* The same without a thread that waits for it. From here on it takes no new commands, which fail
 * with ERR_CONFLICT "sandbox_draining"; it is in its row, so the next daemon goes on with it. Gives
 * it as it is now. A start in between lets it run on. */
struct stop_request {
    bool drain;          /* commands that run may come to their end */
    uint32_t timeout_ms; /* how long: drained, commands, 0 = as long as they take; else the
                            entrypoint, after it was asked to end */
};
int engine_stop_later(struct engine *e, const char *id, const struct stop_request *req,
                      json_t **ret, struct err *err);
/* Has it come to that? 1, and then *ret is it; 0 = not yet; -1 = it will not. */
int engine_has_stopped(struct engine *e, const char *id, json_t **ret, struct err *err);
/* Brings up another box over what the last one wrote, and runs the entrypoint; gives it as it is if
 * it runs. */
int engine_start_sandbox(struct engine *e, const char *id, json_t **ret, struct err *err);

/* What shall change; the rest stays. Numbers are brought into their ranges. */
struct sandbox_change {
    const json_t *metadata, *env; /* in place of what there is; NULL = as it is */
    const json_t *locked; /* an object whose keys keep their values in the metadata, also when it
                           * leaves them out; NULL = none. ERR_FORBIDDEN for another value */
    struct maybe_number memory_mb, cpu_cores, pids;
    struct maybe_number timeout_s; /* its life, from now and with each start */
    struct maybe_number idle_s;
};
/* Of one that runs, is paused (then not its environment) or is stopped. Limits hold at once, but
 * programs are told of them, and get more processors, with the next start. ERR_CONFLICT when it
 * uses more memory than it shall have. */
int engine_modify(struct engine *e, const char *id, const struct sandbox_change *change,
                  json_t **ret, struct err *err);
/* expires_ms 0 = never, as with a timeout of 0. */
int engine_renew(struct engine *e, const char *id, int64_t expires_ms, json_t **ret,
                 struct err *err);
/* Removes or stops now the sandboxes whose time is over, and removes expired ones beyond the limits
 * of stopped sandboxes; *ret is how many. */
int engine_sweep(struct engine *e, unsigned *ret, struct err *err);
