#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "engine/sandboxes.h"

struct engine;
struct err;

/* The warm pool: boxes that are up before somebody asks for them, so many of each profile. */

#define POOL_SIZE_MAX     1000 /* of one profile, and of all together */
#define POOL_PROFILES_MAX 64

/* What is NULL or not given takes its default, as in a create. */
struct pool_request {
    const char *image; /* one of these two is required */
    /* Id or name; its image, limits and workdir, unless they are given here. */
    const char *template;
    struct maybe_number memory_mb, cpu_cores, pids, disk_mb;
    const json_t *network; /* as in a create */
    /* What waits in each of them, for who set engine_pool_helper(); NULL = nothing. */
    const json_t *helper;
    uint32_t size;
};

/* {total, ready, by_profile, profiles}; without names, which say what the sandboxes are made from,
 * the last is not there and the one before empty. */
void engine_pool_status(struct engine *e, bool names, json_t **ret);
/* {profiles}. */
void engine_pool_profiles(struct engine *e, json_t **ret);
/* Gives a PoolProfile. It is kept over restarts, and filled in the background. ERR_CONFLICT
 * "pool_profile_exists"; ERR_LIMIT "pool_limit" when there would be too many boxes or profiles. */
int engine_pool_add(struct engine *e, const struct pool_request *req, json_t **ret,
                    struct err *err);
/* Its boxes go too. ERR_NOT_FOUND "pool_profile_not_found"; those of the configuration have no id.
 */
int engine_pool_remove(struct engine *e, const char *id, struct err *err);

/* Is this a list of profiles as the configuration has them? ERR_INVALID says what it must be. */
int pool_profiles_check(const char *text, struct err *err);

/* ---- helpers: commands that run in boxes of the pool before somebody asks for those ---- */

/* Makes the command of a profile's helper, which the caller frees; NULL = it has none. It is ready
 * once it has written a line. Before engine_start(). */
void engine_pool_helper(struct engine *e, char **(*argv)(const json_t *helper));
/* The exec of the helper that came with the sandbox, for the caller alone until it is given back;
 * false when there is none, or another has it. One that was ended, or might be, is not given back.
 */
bool engine_helper_take(struct engine *e, const char *id, char ret_exec[ID_SIZE]);
void engine_helper_give(struct engine *e, const char *id);
