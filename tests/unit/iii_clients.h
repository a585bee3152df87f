#pragma once

/* Clients of iii over real sockets, as tests of the hub have them. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "http/websocket.h"
#include "http/websocket_client.h"
#include "iii/iii_internal.h"
#include "tap.h"

#define WAIT_MS 60000

struct client {
    struct websocket_client *ws;
    char id[UUID_SIZE], token[UUID_SIZE];
};

static int listen_on_any(unsigned *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t len = sizeof(a);

    CHECK_INT(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    CHECK_INT(listen(fd, 256), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static void say(struct client *c, const char *text)
{
    struct err err = {0};

    if (websocket_client_send(c->ws, true, text, strlen(text), WAIT_MS, &err) < 0)
        TAP_FAIL("send: %s", err.text);
}

/* The next message; NULL at the end. */
static json_t *hear(struct client *c)
{
    struct websocket_message m;
    struct err err = {0};
    int r = websocket_client_next(c->ws, WAIT_MS, &m, &err);
    json_t *value;

    if (r == 0)
        TAP_FAIL("nothing came");
    if (r < 0)
        return NULL;
    value = json_loadb(m.data, m.len, 0, NULL);
    CHECK(value);
    return value;
}

/* The next of that type; others are thrown away. */
static json_t *hear_type(struct client *c, const char *type)
{
    for (;;) {
        json_t *m = hear(c);

        if (!m)
            TAP_FAIL("the connection ended before a %s came", type);
        if (strcmp(json_text(m, "type"), type) == 0)
            return m;
        json_decref(m);
    }
}

static void dial(struct client *c, unsigned port, const char *path, char *const *headers)
{
    auto_free char *url = xasprintf("ws://127.0.0.1:%u%s", port, path);
    struct websocket_dial how = {.url = url,
                                 .headers = headers,
                                 .timeout_ms = WAIT_MS,
                                 .stop_fd = -1,
                                 .message_max = 64u << 20};
    struct err err = {0};

    c->ws = websocket_dial(&how, &err);
    if (!c->ws)
        TAP_FAIL("dial: %s", err.text);
}

static void welcome(struct client *c)
{
    json_t *m = hear_type(c, "workerregistered");

    (void)snprintf(c->id, sizeof(c->id), "%s", json_text(m, "worker_id"));
    (void)snprintf(c->token, sizeof(c->token), "%s", json_text(m, "reattach_token"));
    json_decref(m);
}

static void leave(struct client *c)
{
    websocket_client_free(c->ws);
    c->ws = NULL;
}

static void invoke(struct client *c, const char *id, const char *function, const char *data,
                   const char *more)
{
    auto_free char *text = xasprintf("{\"type\":\"invokefunction\",\"invocation_id\":\"%s\","
                                     "\"function_id\":\"%s\",\"data\":%s%s}",
                                     id, function, data, more);

    say(c, text);
}

/* The whole invocationresult. */
static json_t *call(struct client *c, const char *function, const char *data, const char *more)
{
    char id[UUID_SIZE];
    json_t *m;

    iii_uuid_new(id);
    invoke(c, id, function, data, more);
    m = hear_type(c, "invocationresult");
    CHECK_STR(json_text(m, "invocation_id"), id);
    return m;
}

/* What it was sent before has been read. */
static void settle(struct client *c)
{
    say(c, "{\"type\":\"ping\"}");
    json_decref(hear_type(c, "pong"));
}

static void answer(struct client *c, const json_t *invoke, const char *what)
{
    auto_free char *text = xasprintf(
        "{\"type\":\"invocationresult\",\"invocation_id\":\"%s\",\"function_id\":\"%s\",%s}",
        json_text(invoke, "invocation_id"), json_text(invoke, "function_id"), what);

    say(c, text);
}
