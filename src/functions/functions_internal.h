#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/mem.h"
#include "engine/sandboxes.h"
#include "functions/error_codes.h"
#include "functions/function.h"
#include "model/limits.h"
#include "model/shapes.h"

/* Shared by the files that hold rows. Input has been checked when these are asked. */

/* NULL when absent. */
static inline const char *in_str(const struct call *call, const char *name)
{
    return json_string_value(json_object_get(call->in, name));
}

static inline json_int_t in_int(const struct call *call, const char *name)
{
    return json_integer_value(json_object_get(call->in, name));
}

static inline double in_number(const struct call *call, const char *name)
{
    return json_number_value(json_object_get(call->in, name));
}

/* `mode` in octal digits; FILE_MODE_KEEP when it is not given. */
int in_mode(const struct call *call, uint32_t *ret, struct err *err);

static inline struct maybe_number in_maybe(const struct call *call, const char *name)
{
    const json_t *value = json_object_get(call->in, name);

    return (struct maybe_number){.given = value, .value = json_number_value(value)};
}

static inline bool in_bool(const struct call *call, const char *name)
{
    return json_is_true(json_object_get(call->in, name));
}

/* A list of its own, which the caller frees; NULL when absent. */
static inline char **in_strings(const struct call *call, const char *name)
{
    const json_t *array = json_object_get(call->in, name);
    char **list = array ? xcalloc(1, sizeof(*list)) : NULL;

    for (size_t i = 0; i < json_array_size(array); i++)
        list = strv_add(list, json_string_value(json_array_get(array, i)));
    return list;
}

/* Of the sandbox that the path names. */
static inline const char *in_id(const struct call *call)
{
    return in_str(call, "sandboxId");
}

/* `env` of what is about to be run, and which trace that is part of, if the caller said one. NULL
 * when there is neither. */
json_t *in_env(struct call *call);

/* Of the command that the path names. */
static inline const char *in_exec_id(const struct call *call)
{
    return in_str(call, "execId");
}

/* Answers {"success": true}; returns 0. */
static inline int reply_success(struct call *call)
{
    call->out = json_pack("{s:b}", "success", 1);
    return 0;
}

struct engine_watch;
struct err;

/* Who waits for work that takes time: its events go to the call's sink, and it ends when nobody
 * wants the answer any more. */
struct engine_watch call_watch(struct call *call);

/* made: a sandbox that the call has made, or an array of them. When the caller has gone it does not
 * know their ids: they are removed, *made is NULL, and err says so. Not with an Idempotency-Key,
 * with which the caller can ask again. */
int call_gives_made(struct call *call, json_t **made, struct err *err);

/* Of a call that makes a sandbox: adds the label of the caller's token to `metadata`. ERR_FORBIDDEN
 * when a restricted caller names volumes, folders of the host or networks, or sets a key that is
 * the label of other tokens. */
int call_take_label(struct call *call, struct err *err);

struct image_export;

/* The archive as the answer, until its end. */
int send_archive(struct call *call, struct image_export *archive, struct err *err);

#define PID_NUMBER_MAX 4194304

/* Fields of several rows. */
#define REGISTRY_AUTH_FIELD                                                                        \
    {                                                                                              \
        "registry_auth", FIELD_OBJECT, .optional = true, .of = &registry_auth_shape,               \
                                       .help = "for the image's registry; else the daemon's own"   \
    }
/* Of what makes sandboxes; call_read_maker() reads it. */
#define ON_TIMEOUT_FIELD                                                                           \
    {                                                                                              \
        "onTimeout", FIELD_STRING, .optional = true, .choices = sandbox_timeout_words,             \
                                   .help = "what happens when its time is over: stop keeps its "   \
                                           "files until they are removed for room or "             \
                                           "CAY_STOPPED_TTL; absent = stop for clients that send " \
                                           "the header Cay-Client, else remove"                    \
    }
#define PLATFORM_FIELD                                                                             \
    {                                                                                              \
        "platform", FIELD_STRING, .optional = true, .min = 3, .max = 64,                           \
                                  .help = "as linux/arm64; this machine's when absent"             \
    }
