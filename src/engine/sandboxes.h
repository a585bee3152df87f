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

/* What a new sandbox shall be. What is NULL or not given takes its default; numbers are brought
 * into their ranges, which end at the ceilings. A timeout of 0 is no end where there is no ceiling
 * for it, else the least. */
struct sandbox_request {
    const char *image; /* required */
    /* A record of the image store, which somebody holds (engine/images.h): then nothing is looked
     * up, pulled or asked of the list of allowed images, and `image` is only what is shown. */
    const char *image_id;
    const char *template; /* what the template is called that all this came from; NULL = none */
    const char *template_build; /* the image that it had become; NULL = none */
    const char *name;           /* NULL = the id */
    bool unique;                /* no other sandbox may have that name */
    struct maybe_number timeout_s, memory_mb, cpu_cores, pids, disk_mb;
    bool network;
    const json_t *env, *metadata; /* objects of strings */
    const char *workdir;
    char *const *entrypoint; /* the main process */
    const json_t *patches;   /* an array of Patch objects (model/patches.h), or NULL */
    bool run_entrypoint;     /* the main process is the image's own; not together with entrypoint */
    bool pull_given;
    enum pull_policy pull;           /* not given = as the engine is configured */
    const json_t *volumes, *tmpfs;   /* arrays of the shapes that the table has; NULL = none */
    const char *platform;            /* NULL = this machine's */
    const char *username, *password; /* for the image's registry; NULL = the daemon's own */
};

/* Pulls the image when that is asked for or needed; watch (NULL = nobody) is told. Gives a Sandbox,
 * as do the others here. */
int engine_create(struct engine *e, const struct sandbox_request *req,
                  const struct engine_watch *watch, json_t **ret, struct err *err);
/* Can sandboxes have a network? ERR_UNSUPPORTED "network_unsupported" says what to do else. */
int engine_check_network(const struct engine *e, struct err *err);
int engine_get(struct engine *e, const char *id, json_t **ret, struct err *err);
bool engine_has(struct engine *e, const char *id);
/* The id of the one sandbox that has this name. ERR_NOT_FOUND when none has it; ERR_CONFLICT
 * "name_ambiguous", which lists ids, when several have it. */
int engine_id_of_name(struct engine *e, const char *name, char ret[ID_SIZE], struct err *err);

struct sandbox_query {
    const char *status;     /* NULL = any */
    const json_t *metadata; /* NULL = any; an object: those that have all of it */
    uint32_t page;          /* counted from 1; what comes and goes between two calls moves others */
    uint32_t page_size;
    uint64_t cursor; /* in place of a page: nextCursor of the answer before; 0 = none */
};

/* {items, total, page, pageSize}, newest first, and nextCursor if there are more. */
void engine_list(struct engine *e, const struct sandbox_query *query, json_t **ret);
int engine_remove(struct engine *e, const char *id, struct err *err);
int engine_pause(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_resume(struct engine *e, const char *id, json_t **ret, struct err *err);
/* Ends its processes and keeps the rest; gives it as it is if it has none. ERR_UNAVAILABLE when
 * they do not end, or what they wrote cannot be put on the disk: it is stopped then, too. */
int engine_stop_sandbox(struct engine *e, const char *id, json_t **ret, struct err *err);
/* Brings up another box over what the last one wrote, and runs the entrypoint; gives it as it is if
 * it runs. */
int engine_start_sandbox(struct engine *e, const char *id, json_t **ret, struct err *err);
/* expires_ms 0 = never, as with a timeout of 0. */
int engine_renew(struct engine *e, const char *id, int64_t expires_ms, json_t **ret,
                 struct err *err);
/* Removes expired ones now; *ret is how many. */
int engine_sweep(struct engine *e, unsigned *ret, struct err *err);
