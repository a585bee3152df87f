#pragma once

#include <jansson.h>
#include <stdbool.h>

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

static inline bool in_bool(const struct call *call, const char *name)
{
    return json_is_true(json_object_get(call->in, name));
}

/* Of the sandbox that the path names. */
static inline const char *in_id(const struct call *call)
{
    return in_str(call, "sandboxId");
}

/* Of the background command that the path names. */
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

struct err;
struct exec_request;

/* Runs a command over an upgraded connection (rest/attach.c). */
int exec_attach(struct call *call, const struct exec_request *req, struct err *err);

/* What a failure looks like from outside; one of ours is logged (rest/router.c). */
json_t *api_error(struct http_req *req, const struct err *err);

#define PID_NUMBER_MAX 4194304

/* Fields of several rows. */
#define REGISTRY_AUTH_FIELD                                                                        \
    {                                                                                              \
        "registry_auth", FIELD_OBJECT, .optional = true, .of = &registry_auth_shape,               \
                                       .help = "for the image's registry; else the daemon's own"   \
    }
#define PLATFORM_FIELD                                                                             \
    {                                                                                              \
        "platform", FIELD_STRING, .optional = true, .min = 3, .max = 64,                           \
                                  .help = "as linux/arm64; this machine's when absent"             \
    }
