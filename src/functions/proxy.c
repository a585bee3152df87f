#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/dial.h"
#include "engine/idle.h"
#include "engine/proxy.h"
#include "functions/functions_internal.h"
#include "functions/proxied.h"
#include "functions/proxy_internal.h"
#include "functions/proxy_request.h"
#include "model/sandbox.h"

/* Signed addresses are for sharing: an hour unless something else is asked for, a month at most. */
#define EXPIRES_S     "3600"
#define EXPIRES_S_MAX (31 * 86400)

_Static_assert(PROXIED_CORS_SIZE == PROXY_CORS_MAX + 1, "both are the same text");

int in_port(const struct call *call, uint16_t *ret, struct err *err)
{
    const char *text = in_str(call, "port");
    uint64_t n = 0;

    if (str_u64(text, &n) < 0 || n < 1 || n > 65535)
        return err_set(err, ERR_INVALID, "port must be a number from 1 to 65535");
    *ret = (uint16_t)n;
    return 0;
}

/* ---- for faces ---- */

int proxied_find(struct engine *e, const struct caller *caller, const char *word, uint16_t port,
                 const char *const signatures[2], struct proxied *ret, struct err *err)
{
    struct proxy_settings settings;
    struct sandbox_pick pick;

    *ret = (struct proxied){.by_name = !sandbox_name_is_like_id(word)};
    if (!ret->by_name)
        (void)snprintf(ret->id, sizeof(ret->id), "%s", word);
    else if (engine_id_of_name(e, caller ? caller_pick(caller, &pick) : NULL, word, ret->id, err) <
             0)
        return -1;
    if (engine_proxy_settings(e, ret->id, port, &settings, err) < 0)
        return -1;
    ret->exposed = settings.exposed;
    ret->reached =
        caller && caller->scopes & 1u << SCOPE_EXEC && caller_reaches(caller, e, ret->id);
    for (int i = 0; i < 2; i++) {
        if (signatures[i] && engine_proxy_is_signed(e, ret->id, port, &settings, signatures[i])) {
            ret->is_signed = true;
            ret->by_first |= i == 0;
        }
    }
    ret->require_auth = settings.require_auth;
    ret->timeout_ms = settings.timeout_ms;
    (void)snprintf(ret->cors, sizeof(ret->cors), "%s", settings.cors);
    return 0;
}

int proxied_check(struct engine *e, const char *id, struct err *err)
{
    return engine_proxy_check(e, id, err);
}

int proxied_dial(struct engine *e, const char *id, uint16_t port, int *ret_fd, struct err *err)
{
    return engine_dial(e, id, port, DIAL_TCP, ret_fd, err);
}

void proxied_active(struct engine *e, const char *id)
{
    engine_active(e, id);
}

void proxied_close(int fd)
{
    dial_close(fd, false);
}

/* ---- rows ---- */

/* "https://app.example": a scheme, a host, perhaps a port, and no path. */
static bool is_origin(const char *s, size_t len)
{
    size_t scheme = strncmp(s, "https://", 8) == 0 ? 8 : strncmp(s, "http://", 7) == 0 ? 7 : 0;

    if (scheme == 0 || len <= scheme)
        return false;
    for (size_t i = scheme; i < len; i++)
        if ((unsigned char)s[i] <= 0x20 || strchr("/?#@\\\x7f", s[i]))
            return false;
    return true;
}

static int check_cors(const char *cors, struct err *err)
{
    if (!cors || !*cors || strcmp(cors, "*") == 0)
        return 0;
    while (*cors) {
        size_t len;

        cors += strspn(cors, " ,");
        len = strcspn(cors, " ,");
        if (len > 0 && !is_origin(cors, len))
            return err_set(err, ERR_INVALID,
                           "cors must be *, nothing, or origins like https://app.example with "
                           "commas between them");
        cors += len;
    }
    return 0;
}

static int config(struct call *call, struct err *err)
{
    const json_t *auth = json_object_get(call->in, "requireAuth");
    bool require = json_is_true(auth);
    struct proxy_change change = {
        .cors = in_str(call, "cors"),
        .require_auth = auth ? &require : NULL,
        .timeout_ms = (uint32_t)in_int(call, "timeout"),
        .revoke = in_bool(call, "revokeSigned"),
    };
    auto_free char *base = NULL, *url = NULL;
    char host[ID_SIZE];

    if (check_cors(change.cors, err) < 0 ||
        engine_proxy_configure(call->engine, in_id(call), &change, &call->out, err) < 0)
        return -1;
    base = xasprintf("%s%sproxy/%s", call->about->prefix, *call->about->prefix ? "/" : "",
                     in_id(call));
    id_hostname(in_id(call), host);
    url = xasprintf("%s://{port}-%s.%s/", call->about->proxy_scheme, host, call->about->proxy_host);
    (void)json_object_set_new(call->out, "proxyBase", json_string(base));
    (void)json_object_set_new(call->out, "url", json_string(url));
    return 0;
}

static bool is_path(const char *s)
{
    for (const unsigned char *p = (const unsigned char *)s; *p; p++)
        if (*p <= 0x20 || *p >= 0x7f || *p == '#')
            return false;
    return s[0] == '/';
}

static int sign(struct call *call, struct err *err)
{
    int64_t expires_ms = now_ms() + (int64_t)in_int(call, "expiresIn") * 1000;
    int64_t of_caller = call->caller->expires_ms;
    const char *path = in_str(call, "path"), *prefix = call->about->prefix;
    char signature[PROXY_SIGNATURE_SIZE], host[ID_SIZE];
    auto_free char *url = NULL, *below = NULL;
    unsigned port = (unsigned)in_int(call, "port");

    if (!is_path(path))
        return err_set(err, ERR_INVALID,
                       "path must start with / and have all that is special percent-encoded");
    if (of_caller && of_caller < expires_ms) /* no address outlives the token that it came from */
        expires_ms = of_caller;
    if (engine_proxy_sign(call->engine, in_id(call), (uint16_t)port, expires_ms, signature, err) <
        0)
        return -1;
    id_hostname(in_id(call), host);
    url = xasprintf("%s://%u-%s.%s%s%c" PROXIED_SIGNATURE "=%s", call->about->proxy_scheme, port,
                    host, call->about->proxy_host, path, strchr(path, '?') ? '&' : '?', signature);
    below = xasprintf("%s%s/proxy/%s/%u%s%c" PROXIED_SIGNATURE "=%s", *prefix ? "/" : "", prefix,
                      in_id(call), port, path, strchr(path, '?') ? '&' : '?', signature);
    call->out = json_pack("{s:s, s:s, s:I}", "url", url, "path", below, "expiresAt",
                          (json_int_t)expires_ms);
    return 0;
}

static const struct field request_fields[] = {
    {"method", FIELD_STRING, .max = 32, .preset = "\"GET\"", .help = "of the request"},
    {"path", FIELD_STRING, .max = 16384, .preset = "\"/\"", .help = "with its query"},
    {"headers", FIELD_STRING_MAP, .optional = true, .max = 16384, .help = "of the request"},
    {"body", FIELD_STRING, .optional = true, .max = 8u << 20,
     .help = "of the request; not for GET and HEAD"},
    {0},
};

static const struct field config_fields[] = {
    {"cors", FIELD_STRING, .optional = true, .max = PROXY_CORS_MAX, .example = "\"*\"",
     .help = "origins whose pages may read answers, with commas; * = all, \"\" = as the server in "
             "the sandbox says"},
    {"requireAuth", FIELD_BOOL, .optional = true,
     .help = "true: exposed ports need a token or a signature, too"},
    {"timeout", FIELD_INT, .optional = true, .min = PROXY_TIMEOUT_MS_MIN,
     .max = PROXY_TIMEOUT_MS_MAX, .example = "30000",
     .help = "ms until the head of an answer must come"},
    {"revokeSigned", FIELD_BOOL, .optional = true,
     .help = "true: addresses that were signed before lead nowhere from now on"},
    {0},
};

static const struct field sign_fields[] = {
    {"port", FIELD_INT, .min = 1, .max = 65535, .example = "8080", .help = "in the sandbox"},
    {"expiresIn", FIELD_INT, .clamp = true, .min = 1, .max = EXPIRES_S_MAX, .preset = EXPIRES_S,
     .help = "seconds"},
    {"path", FIELD_STRING, .max = 4096, .preset = "\"/\"",
     .help = "where the address leads; the whole port is open to who has it"},
    {0},
};

const struct function proxy_functions[] = {
    {"proxy::request", "POST", "/proxy/:sandboxId/:port", request_fields, proxy_request, NULL,
     SCOPE_EXEC, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .body_max = 10u << 20,
     .help = "Sends one request to an exposed port of a sandbox", .gives = &proxy_answer_shape,
     .errors = ERRORS_AGENT " port_not_exposed port_closed port_busy bad_answer answer_too_large "
                            "proxy_timeout"},
    {"proxy::config", "POST", "/sandboxes/:sandboxId/proxy/config", config_fields, config, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX,
     .help = "Sets how requests are passed on to a sandbox; tells it when nothing is "
             "given",
     .gives = &proxy_config_shape,
     .errors = ERRORS_GONE " sandbox_not_running sandbox_busy no_space"},
    {"proxy::sign", "POST", "/sandboxes/:sandboxId/proxy/sign", sign_fields, sign, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX,
     .help = "Makes an address that opens one port of a sandbox for a while",
     .gives = &proxy_signed_shape, .errors = ERRORS_GONE},
    {0},
};
