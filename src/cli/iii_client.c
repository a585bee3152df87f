#include "cli/iii_client.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/escape.h"
#include "cli/ui.h"
#include "http/websocket_client.h"
#include "libcay/api.h"

#define DIAL_MS       5000
#define MESSAGE_MAX   (64u << 20) /* what a genuine engine sends at most */
#define CLOSE_MS      1000
#define SEND_MS       30000
#define TIMED_OUT     "S200"
#define HANDLER_ERROR "handler error: "

/* ---- where it is ---- */

static const char *env_text(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

int iii_client_address_of(const char *host, unsigned port, char **ret, struct err *err)
{
    static const char *const schemes[] = {"ws://", "http://"};
    const char *name = host, *colon;
    size_t len;

    if (str_starts(host, "unix:") || host[0] == '/')
        return err_set(err, ERR_INVALID,
                       "iii is spoken over TCP: give HOST:PORT or ws://HOST:PORT, not \"%.80s\"",
                       host);
    if (str_starts(host, "wss://") || str_starts(host, "https://"))
        return err_set(err, ERR_INVALID,
                       "there is no TLS here (\"%.80s\"): use ws://HOST:PORT on this machine or "
                       "through a tunnel",
                       host);
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (str_starts(host, schemes[i]))
            name = host + strlen(schemes[i]);
    len = strcspn(name, "/?#");
    if (len == 0 || strcspn(name, "@ ") < len)
        return err_set(err, ERR_INVALID, "\"%.80s\" is no HOST:PORT", host);
    /* A path is kept, of which a proxy may have one. */
    colon = name[0] == '[' ? strstr(name, "]:") : memchr(name, ':', len);
    if (port || !colon || colon > name + len)
        *ret = xasprintf(
            "ws://%.*s:%u%s",
            (int)(colon && colon < name + len ? (size_t)(colon - name) + (name[0] == '[') : len),
            name, port ? port : III_PORT, name + len);
    else
        *ret = xasprintf("ws://%s", name);
    for (len = strlen(*ret); (*ret)[len - 1] == '/'; len--)
        (*ret)[len - 1] = '\0';
    return 0;
}

static int port_of(const char *what, const char *text, unsigned *ret, struct err *err)
{
    uint64_t port;

    if (str_u64(text, &port) < 0 || port > 65535)
        return err_set(err, ERR_INVALID, "%s is \"%.40s\", not a port number", what, text);
    if (port == 0)
        return err_set(err, ERR_INVALID, "%s is 0: the daemon does not speak iii then", what);
    *ret = (unsigned)port;
    return 0;
}

/* The machine of the daemon that other commands talk to, when it is another one; NULL = here. The
 * caller frees it. */
static char *machine_of(const char *host)
{
    const char *name;

    if (!host || str_starts(host, "unix:") || host[0] == '/')
        return NULL;
    name = str_starts(host, "http://") ? host + strlen("http://") : host;
    return xstrndup(name, name[0] == '[' ? strcspn(name, "]") + 1 : strcspn(name, ":/"));
}

int iii_client_address(const struct args *args, char **ret, struct err *err)
{
    const char *host = args_text(args, "host"), *address = args_text(args, "address");
    const char *ours = env_text("CAY_WS_PORT"), *url = env_text("III_URL");
    const char *daemon = env_text("CAY_HOST");
    auto_free char *machine = NULL;
    unsigned port = 0;

    if (args_has(args, "port") && port_of("--port", args_text(args, "port"), &port, err) < 0)
        return -1;
    if (host || address)
        return iii_client_address_of(host ? host : address, port, ret, err);
    if (!port && url)
        return iii_client_address_of(url, 0, ret, err);
    if (daemon && str_starts(daemon, "ws://"))
        return iii_client_address_of(daemon, port, ret, err);
    if (!port && ours && port_of("CAY_WS_PORT", ours, &port, err) < 0)
        return -1;
    machine = machine_of(daemon);
    if (machine)
        return iii_client_address_of(machine, port, ret, err);
    address = env_text("CAY_WS_HOST");
    /* Where a daemon listens for everybody, it is here too. */
    if (!address || strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0)
        address = "127.0.0.1";
    if (strchr(address, ':')) {
        auto_free char *six = xasprintf("[%s]", address);

        return iii_client_address_of(six, port, ret, err);
    }
    return iii_client_address_of(address, port, ret, err);
}

/* ---- the connection ---- */

static struct websocket_client *dial(const char *url, bool with_token, int stop_fd, struct err *err)
{
    const char *token = with_token ? api_token() : NULL;
    auto_free char *header = token ? xasprintf("Authorization: Bearer %s", token) : NULL;
    char *headers[] = {header, NULL};
    const struct websocket_dial d = {.url = url,
                                     .headers = headers,
                                     .timeout_ms = DIAL_MS,
                                     .stop_fd = stop_fd,
                                     .message_max = MESSAGE_MAX};

    return websocket_dial(&d, err);
}

int iii_client_open(struct iii_client *c, const char *url, int stop_fd, struct err *err)
{
    auto_free char *root = xasprintf("%s/", url);

    *c = (struct iii_client){.url = xstrdup(url), .stop_fd = stop_fd};
    c->ws = dial(root, true, stop_fd, err);
    return c->ws ? 0 : -1;
}

void iii_client_close(struct iii_client *c)
{
    if (c->ws)
        websocket_client_close(c->ws, WEBSOCKET_NORMAL, "", CLOSE_MS);
    websocket_client_free(c->ws);
    free(c->url);
    json_decref(c->error);
    json_decref(c->envelope);
    *c = (struct iii_client){.stop_fd = -1};
}

/* ---- questions ---- */

static void uuid_new(char ret[III_UUID_SIZE])
{
    unsigned char b[16];

    if (getrandom(b, sizeof(b), 0) != sizeof(b))
        abort();
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    (void)snprintf(ret, III_UUID_SIZE,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                   b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                   b[14], b[15]);
}

/* Takes message. */
static int send_json(struct iii_client *c, json_t *message, struct err *err)
{
    char *text = json_dumps(message, JSON_COMPACT);
    int r;

    json_decref(message);
    if (!text)
        return err_set(err, ERR_INVALID, "what was given is no text that can be sent");
    r = websocket_client_send(c->ws, true, text, strlen(text), SEND_MS, err);
    free(text);
    return r;
}

int iii_client_ask(struct iii_client *c, const char *function, const char *namespace, json_t *data,
                   struct err *err)
{
    json_t *message;

    uuid_new(c->call);
    message = json_pack("{s:s, s:s, s:s, s:o}", "type", "invokefunction", "invocation_id", c->call,
                        "function_id", function, "data", data);
    if (!message)
        return err_set(err, ERR_INVALID, "\"%.80s\" is no name of a function", function);
    json_put_text(message, "namespace", namespace);
    return send_json(c, message, err);
}

json_t *iii_client_envelope(const char *message)
{
    const char *brace = strchr(message, '{');
    json_t *o = brace ? json_loads(brace, JSON_DISABLE_EOF_CHECK, NULL) : NULL;

    if (json_is_string(json_object_get(o, "code")) && json_is_string(json_object_get(o, "message")))
        return o;
    json_decref(o);
    return NULL;
}

void iii_client_forget_error(struct iii_client *c)
{
    json_decref(c->error);
    json_decref(c->envelope);
    c->error = c->envelope = NULL;
}

/* Why it failed, as whoever did the work says it. Takes error. */
static int failed(struct iii_client *c, json_t *error, struct err *err)
{
    const char *message = json_text(error, "message");

    iii_client_forget_error(c);
    c->error = error;
    c->envelope = iii_client_envelope(message);
    if (c->envelope)
        return err_set(err, ERR_INVALID, "[%.20s] %s", json_text(c->envelope, "code"),
                       json_text(c->envelope, "message"));
    if (str_starts(message, HANDLER_ERROR))
        message += strlen(HANDLER_ERROR);
    return err_set(err, ERR_INVALID, "%.60s%s%s", json_text(error, "code"), *message ? ": " : "",
                   message);
}

/* 1 = it is the answer, 0 = it is something else, -1. */
static int take(struct iii_client *c, const struct websocket_message *m, json_t **ret,
                struct err *err)
{
    /* The output of a command may have a NUL. */
    json_t *o = json_loadb(m->data, m->len, JSON_ALLOW_NUL, NULL);
    json_t *error = json_object_get(o, "error");
    const char *type = json_text(o, "type");
    int r = 0;

    if (strcmp(type, "ping") == 0) {
        r = send_json(c, json_pack("{s:s}", "type", "pong"), err);
    } else if (strcmp(type, "error") == 0 && json_is_object(error)) {
        r = failed(c, json_incref(error), err); /* it does not want us */
    } else if (strcmp(type, "invocationresult") == 0 && *c->call &&
               strcasecmp(json_text(o, "invocation_id"), c->call) == 0) {
        json_t *result = json_object_get(o, "result");

        c->call[0] = '\0';
        r = 1;
        if (error && !json_is_null(error))
            r = failed(c, json_incref(error), err);
        else if (ret)
            *ret = result && !json_is_null(result) ? json_incref(result) : NULL;
    }
    json_decref(o);
    return r;
}

static int gone(const struct iii_client *c, struct err *err)
{
    return err_code(err, ERR_UNAVAILABLE, "connection_lost",
                    "%.100s has closed the connection before it has answered", c->url);
}

/* Milliseconds to wait: until then, but no longer than to the next ping. */
static int wait_ms(const struct iii_client *c, int64_t until_ns)
{
    int64_t ping_ns = websocket_ping_ns(websocket_client_socket(c->ws));
    int64_t left_ms = ((until_ns < ping_ns ? until_ns : ping_ns) - mono_ns() + 999999) / 1000000;

    return c->more || left_ms < 0 ? 0 : left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

/* 0 = something may have come, 1 = the time is over, -1. Does not wait while there is more. A peer
 * that is gone without a word is found by pings that it does not answer. */
static int await(struct iii_client *c, int64_t until_ns, struct err *err)
{
    struct pollfd p[2] = {
        {.fd = websocket_client_fd(c->ws), .events = websocket_client_events(c->ws)},
        {.fd = c->stop_fd, .events = POLLIN}};

    if (mono_ns() >= until_ns)
        return 1;
    if (poll(p, 2, wait_ms(c, until_ns)) < 0 && errno != EINTR)
        return err_sys(err, errno, "wait for %.100s", c->url);
    if (p[1].revents)
        return err_code(err, ERR_CONFLICT, "cancelled", "interrupted");
    if (websocket_keep_alive(websocket_client_socket(c->ws), true) < 0)
        return gone(c, err);
    return websocket_client_flush(c->ws) < 0 ? gone(c, err) : 0;
}

int iii_client_answer(struct iii_client *c, int64_t timeout_ms, json_t **ret, struct err *err)
{
    int64_t until_ns = mono_ns() + timeout_ms * 1000000;

    for (;;) {
        struct websocket_message m;
        int r = websocket_next(websocket_client_socket(c->ws), &m);

        if (r < 0)
            return gone(c, err);
        c->more = r > 0;
        if (c->more) {
            r = take(c, &m, ret, err);
            if (r != 0)
                return r;
        }
        /* Also behind a message: who sends without end does not make us wait for ever. */
        r = await(c, until_ns, err);
        if (r != 0)
            return r < 0 ? -1 : 0;
    }
}

int iii_client_call(struct iii_client *c, const char *function, const char *namespace, json_t *data,
                    int64_t timeout_ms, json_t **ret, struct err *err)
{
    int r;

    if (iii_client_ask(c, function, namespace, data, err) < 0)
        return -1;
    r = iii_client_answer(c, timeout_ms, ret, err);
    if (r == 0)
        return err_code(err, ERR_TIMEOUT, "timeout", "%.80s has not answered in %lld ms", function,
                        (long long)timeout_ms);
    return r < 0 ? -1 : 0;
}

/* ---- channels ---- */

int iii_client_channel_new(struct iii_client *c, json_t **ret, struct err *err)
{
    return iii_client_call(c, "engine::channels::create", NULL, json_object(), III_CALL_MS, ret,
                           err);
}

struct websocket_client *iii_client_channel_open(struct iii_client *c, const json_t *ref,
                                                 struct err *err)
{
    auto_free char *id = url_encoded(json_text(ref, "channel_id")),
                   *key = url_encoded(json_text(ref, "access_key")), *url = NULL;
    const char *direction = json_text(ref, "direction");

    if (!*id || !*key || (strcmp(direction, "read") != 0 && strcmp(direction, "write") != 0)) {
        (void)err_set(err, ERR_INTERNAL, "%.100s names no channel in its answer", c->url);
        return NULL;
    }
    url = xasprintf("%s/ws/channels/%s?key=%s&dir=%s", c->url, id, key, direction);
    /* Its key is all that it wants. */
    return dial(url, false, c->stop_fd, err);
}

/* ---- failures ---- */

int iii_client_fail(const struct iii_client *c, const struct err *err)
{
    const char *code = json_text(c->envelope, "code");
    auto_free char *whole = NULL, *shown = NULL;

    /* Of what was told, all of it: an err has no room for the end of a program's stderr. */
    if (c->envelope)
        whole = xasprintf("[%s] %s", code, json_text(c->envelope, "message"));
    shown = escape_text(ESCAPE_LINES, whole ? whole : err->text);
    (void)fprintf(stderr, "error: %s\n", shown);
    if (!c->ws && err->kind == ERR_UNAVAILABLE && err->sys)
        (void)fprintf(stderr, "hint: start the daemon with \"cay serve\" (its CAY_WS_PORT), or say "
                              "where an engine is with --address and --port\n");
    else if (!c->ws && err->kind == ERR_UNAUTHORIZED)
        (void)fprintf(stderr, "hint: this daemon wants a token: set CAY_TOKEN\n");
    return strcmp(code, TIMED_OUT) == 0 ? STATUS_TIMEOUT : STATUS_FAILED;
}

int iii_client_start(struct iii_client *c, const struct args *args, int stop_fd)
{
    auto_free char *url = NULL;
    struct err err = {0};

    *c = (struct iii_client){.stop_fd = -1};
    if (iii_client_address(args, &url, &err) < 0)
        return ui_usage(args, "%s", err.text);
    if (iii_client_open(c, url, stop_fd, &err) == 0)
        return STATUS_OK;
    return iii_client_fail(c, &err);
}
