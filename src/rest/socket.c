#include "rest/socket.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/signals.h"
#include "base/str.h"
#include "http/server.h"
#include "http/websocket.h"

#define MESSAGE_MAX (128u << 10) /* of what a client sends; an agent takes twice as much */
#define SIDE_MAX    65535        /* of a terminal */
#define AT_ONCE     64           /* messages; epoll tells of the rest */

int socket_init(struct socket *s, struct http_req *req, bool plain, struct err *err)
{
    const char *protocols = http_req_header(req, "Sec-WebSocket-Protocol");

    if (websocket_check(req, err) < 0)
        return -1;
    *s = (struct socket){
        .req = req, .plain = plain, .has_protocol = websocket_list_has(protocols, SOCKET_PROTOCOL)};
    (void)snprintf(s->key, sizeof(s->key), "%s", http_req_header(req, "Sec-WebSocket-Key"));
    return 0;
}

void socket_done(struct socket *s)
{
    websocket_free(s->ws);
    s->ws = NULL;
}

/* ---- to the client ---- */

static int begin(struct socket *s)
{
    if (!s->ws)
        s->ws =
            websocket_accept(s->req, s->key, s->has_protocol ? SOCKET_PROTOCOL : NULL, MESSAGE_MAX);
    return s->ws ? 0 : -1;
}

int socket_event(struct socket *s, const json_t *event)
{
    auto_free char *text = NULL;

    if (begin(s) < 0)
        return -1;
    if (!event || s->plain)
        return 0;
    text = json_dumps(event, JSON_COMPACT);
    return websocket_send(s->ws, true, text, strlen(text));
}

int socket_output(struct socket *s, const void *data, size_t len)
{
    return begin(s) < 0 ? -1 : websocket_send(s->ws, false, data, len);
}

void socket_exit(struct socket *s, const json_t *end)
{
    char reason[40];

    (void)snprintf(reason, sizeof(reason), "exit %d",
                   (int)json_integer_value(json_object_get(end, "exitCode")));
    if (socket_event(s, end) == 0)
        websocket_close(s->ws, WEBSOCKET_NORMAL, reason);
}

static unsigned close_code(const struct err *err)
{
    static const struct {
        const char *code;
        enum websocket_code close;
    } codes[] = {
        {"too_slow", WEBSOCKET_TOO_SLOW},   {"channel_taken", WEBSOCKET_TAKEN},
        {"exec_attached", WEBSOCKET_TAKEN}, {"restarting", WEBSOCKET_RESTART},
        {"bad_message", WEBSOCKET_POLICY},
    };

    for (size_t i = 0; err->code && i < ARRAY_LEN(codes); i++)
        if (strcmp(err->code, codes[i].code) == 0)
            return codes[i].close;
    return WEBSOCKET_FAILED;
}

void socket_error(struct socket *s, const struct err *err)
{
    const char *code = err->code ? err->code : err_kind_code(err->kind);
    json_t *event;

    if (websocket_is_closed(s->ws))
        return;
    event = json_pack("{s:s, s:s, s:s}", "type", "error", "error", err->text, "code", code);
    (void)socket_event(s, event);
    json_decref(event);
    websocket_close(s->ws, close_code(err), err->text);
}

/* ---- from the client ---- */

static int bad_message(struct err *err)
{
    return err_code(err, ERR_INVALID, "bad_message",
                    "a text is {\"resize\": {\"cols\": 80, \"rows\": 24}} or {\"signal\": "
                    "\"SIGINT\"}; what is typed comes as binary");
}

static bool read_size(const json_t *size, const char *name, uint32_t *ret)
{
    const json_t *n = json_object_get(size, name);

    *ret = (uint32_t)json_integer_value(n);
    return json_is_integer(n) && json_integer_value(n) >= 1 && json_integer_value(n) <= SIDE_MAX;
}

static int read_word(const json_t *word, struct input *ret, struct err *err)
{
    const json_t *size = json_object_get(word, "resize");
    const char *name = json_string_value(json_object_get(word, "signal"));
    int number = name ? signal_parse(name) : 0;

    *ret = (struct input){.what = INPUT_RESIZE};
    if (size && read_size(size, "rows", &ret->first) && read_size(size, "cols", &ret->second))
        return 0;
    *ret = (struct input){.what = INPUT_SIGNAL, .first = (uint32_t)number};
    return !size && number > 0 ? 0 : bad_message(err);
}

static int pass_message(struct socket *s, const struct websocket_message *m, struct task *task,
                        struct err *err)
{
    struct input in = {.what = INPUT_STDIN, .data = m->data, .len = m->len};
    json_t *word;
    int r;

    if (task->drops_input)
        return 0;
    if (!m->is_text)
        return task->ops->input(task, &in, err);
    if (s->plain)
        return 0;
    word = json_loadb(m->data, m->len, JSON_REJECT_DUPLICATES, NULL);
    r = word ? read_word(word, &in, err) : bad_message(err);
    json_decref(word);
    return r < 0 ? -1 : task->ops->input(task, &in, err);
}

int socket_input(struct socket *s, struct task *task, struct err *err)
{
    struct websocket_message m;
    int r = 1;

    for (int i = 0; i < AT_ONCE && task->takes_input; i++) {
        r = websocket_next(s->ws, &m);
        if (r == 0)
            break;
        if (r < 0)
            return err_code(err, ERR_CONFLICT, "cancelled", "the client went away");
        if (pass_message(s, &m, task, err) < 0)
            return -1;
    }
    return 0;
}

bool socket_has_message(const struct socket *s)
{
    return s->ws && websocket_has_message(s->ws);
}
