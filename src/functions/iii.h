#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

struct err;
struct function;

/* The functions of the worker `iii-sandbox`, by its names and with its shapes, over the same engine
 * as all others. They are rows as those of the table, but in a list of their own, since some have
 * the same ids and other fields. A face that speaks iii looks here first. */

/* The limits of the operator that a call can run into, for errors that name what to change. */
enum iii_limit {
    III_LIMIT_SANDBOXES,     /* max_concurrent_sandboxes */
    III_LIMIT_ALL_SANDBOXES, /* of all callers of the daemon */
    III_LIMIT_EXECS,         /* max_concurrent_exec_per_sandbox */
    III_LIMIT_EXEC_MS,       /* max_exec_timeout_ms */
    III_LIMIT_COMMAND,       /* seconds of a command of any caller */
    III_LIMIT_IMAGES,        /* image_allowlist */
    III_LIMIT_CAPS,          /* per_image_caps */
    III_LIMIT_INSTALL,       /* auto_install */
    III_LIMIT_PULL,          /* when a create pulls */
    III_LIMITS,
};

/* The variable that sets each: "CAY_III_SANDBOXES". */
extern const char *const iii_limit_variables[III_LIMITS];

/* What the operator has set for them; a daemon that is told nothing has III_SETTINGS_DEFAULT. */
struct iii_settings {
    uint32_t idle_s;          /* of a sandbox for which none is given; 0 = it is never idle */
    uint32_t sandboxes_max;   /* that live at once; 0 = as many as the daemon has */
    uint32_t execs_max;       /* at once in one sandbox */
    uint32_t exec_ms_max;     /* of one command */
    uint32_t exec_ms;         /* of a command without timeout_ms; 0 = III_EXEC_S */
    uint32_t stall_s;         /* seconds without a byte until an upload fails; 0 = III_STALL_S */
    uint32_t cpus, memory_mb; /* of a sandbox for which none are given; 0 = as the daemon has it */
    /* Where the operator has set each limit: "III_ALLOWED_IMAGES", "config.yaml:7: auto_install".
     * NULL = its variable. */
    const char *sources[III_LIMITS];
};

#define III_EXEC_S  30
#define III_STALL_S 30

#define III_SETTINGS_DEFAULT                                                                       \
    {                                                                                              \
        .idle_s = 300, .execs_max = 4, .exec_ms_max = 300000, .exec_ms = III_EXEC_S * 1000,        \
        .stall_s = III_STALL_S                                                                     \
    }

/* One of these rows, or NULL. */
const struct function *iii_function(const char *id);
/* All of them, in order; calls each until it returns non-zero. */
int iii_functions_each(int (*each)(const struct function *f, void *arg), void *arg);

/* A sandbox's id as a UUID and back, without a table: a UUID has room for all of it, and for a
 * check that tells those that are none of ours. */
#define UUID_SIZE 37
void iii_uuid_of_id(const char *id, char ret[UUID_SIZE]);
/* ERR_INVALID "bad_uuid" when it is no UUID; ERR_NOT_FOUND "sandbox_not_found" when no sandbox can
 * have it. */
int iii_id_of_uuid(const char *uuid, char ret[ID_SIZE], struct err *err);

/* Of a call of such a row: its input as it came becomes what the row takes; `sandbox_id` becomes
 * `sandboxId`, or fails as iii_id_of_uuid() does. What is wrong in it is ERR_INVALID "bad_payload",
 * which iii tells without one of its codes. To be called in place of input_check(). */
int iii_input(const struct function *f, json_t *in, struct err *err);

/* Why such a row failed, as clients of iii know it: the whole text of an error, "handler error: "
 * and {type, code: "S002", message, docs_url, retryable, fix, fix_note}; or, of "bad_payload",
 * "serialization error: …". function: its id, for the log. out: what the function has left (NULL =
 * nothing), of which `fix` and `fix_note` are taken. What is ours to mend is logged here, once.
 * Free it. */
char *iii_error_text(const struct err *err, const char *function, const json_t *out);
