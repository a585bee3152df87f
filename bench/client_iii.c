/* client-iii: a cay daemon over iii's protocol beside its REST API, on one kept connection each and
 * by turns, so that both meet the same noise.
 *
 *   client-iii REST WS execs ID MS      /bin/true in this sandbox, the only one, for so long
 *   client-iii REST WS files ID MIB N   a file of so many MiB there and back, N times
 *   client-iii REST WS crowd N          N clients that say who they are and then nothing, until a
 *                                       line comes on stdin */

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/client.h"
#include "http/websocket_client.h"
#include "samples.h"

#define WARM        20
#define PIECE       65536 /* as iii's own SDKs cut what they send */
#define WAIT_MS     60000
#define MESSAGE_MAX (4u << 20)
#define BODY_MAX    (1u << 20)
#define CALL_SIZE   37
#define OCTETS      "application/octet-stream"

struct side {
    struct http_client *http;
    struct websocket_client *ws;
    const char *ws_url;   /* ws://host:port */
    const char *id;       /* of the sandbox, as REST has it */
    char *uuid;           /* and as iii has it */
    char call[CALL_SIZE]; /* the last one */
    unsigned long long asked;
};

/* ---- iii ---- */

static struct websocket_client *dial(const char *url, struct err *err)
{
    const struct websocket_dial d = {
        .url = url, .timeout_ms = WAIT_MS, .stop_fd = -1, .message_max = MESSAGE_MAX};

    return websocket_dial(&d, err);
}

static int ask(struct side *s, const char *function, const char *data, struct err *err)
{
    auto_free char *text = NULL;

    (void)snprintf(s->call, sizeof(s->call), "00000000-0000-4000-8000-%012llx", ++s->asked);
    text = xasprintf("{\"type\":\"invokefunction\",\"invocation_id\":\"%s\",\"function_id\":\"%s\","
                     "\"data\":%s}",
                     s->call, function, data);
    return websocket_client_send(s->ws, true, text, strlen(text), WAIT_MS, err);
}

/* The message that answers the last call, to be freed. */
static int answer(struct side *s, char **ret, struct err *err)
{
    struct websocket_message m;
    int r;

    while ((r = websocket_client_next(s->ws, WAIT_MS, &m, err)) > 0)
        if (memmem(m.data, m.len, s->call, strlen(s->call))) {
            *ret = xstrndup(m.data, m.len);
            return 0;
        }
    return r < 0 ? -1 : err_set(err, ERR_TIMEOUT, "no answer in %d ms", WAIT_MS);
}

static int invoke(struct side *s, const char *function, const char *data, char **ret,
                  struct err *err)
{
    return ask(s, function, data, err) < 0 ? -1 : answer(s, ret, err);
}

/* The result of a call; an error is a failure. */
static json_t *result_of(const char *text, struct err *err)
{
    json_t *o = json_loads(text, 0, NULL), *result = json_incref(json_object_get(o, "result"));

    json_decref(o);
    if (!result)
        (void)err_set(err, ERR_INTERNAL, "no result in the answer: %.160s", text);
    return result;
}

/* The end of a channel that a ref is for. */
static struct websocket_client *open_channel(struct side *s, const json_t *ref, struct err *err)
{
    auto_free char *url =
        xasprintf("%s/ws/channels/%s?key=%s&dir=%s", s->ws_url, json_text(ref, "channel_id"),
                  json_text(ref, "access_key"), json_text(ref, "direction"));

    return dial(url, err);
}

/* ---- a command ---- */

/* A wrong answer that comes quickly is no result. */
static int expect(const char *text, const char *part, struct err *err)
{
    if (strstr(text, part))
        return 0;
    return err_set(err, ERR_INTERNAL, "expected %.60s in the answer: %.120s", part, text);
}

static int exec_iii(struct side *s, struct samples *row, struct err *err)
{
    auto_free char *text = NULL;
    char data[128];
    int64_t t = mono_ns();

    (void)snprintf(data, sizeof(data), "{\"sandbox_id\":\"%s\",\"cmd\":\"/bin/true\"}", s->uuid);
    if (invoke(s, "sandbox::exec", data, &text, err) < 0)
        return -1;
    (void)samples_since(row, t);
    return expect(text, "\"exit_code\":0", err);
}

static int exec_rest(struct side *s, struct samples *row, struct err *err)
{
    static const char body[] = "{\"command\":[\"/bin/true\"]}";
    struct http_response res;
    auto_free char *text = NULL;
    char path[128];
    size_t len;
    int64_t t = mono_ns();

    (void)snprintf(path, sizeof(path), "/sandbox/sandboxes/%s/exec", s->id);
    if (http_client_send(s->http, "POST", path, "application/json", body, sizeof(body) - 1, &res,
                         err) < 0 ||
        http_client_body(s->http, BODY_MAX, &text, &len, err) < 0)
        return -1;
    (void)samples_since(row, t);
    return expect(text, "\"exitCode\":0", err);
}

/* By turns, and who is first in turns too. */
static int execs_turn(struct side *s, bool iii_first, struct samples *iii, struct samples *rest,
                      struct err *err)
{
    if (iii_first && exec_iii(s, iii, err) < 0)
        return -1;
    if (exec_rest(s, rest, err) < 0)
        return -1;
    return !iii_first && exec_iii(s, iii, err) < 0 ? -1 : 0;
}

static int measure_execs(struct side *s, uint64_t ms, struct err *err)
{
    struct samples iii = {"exec_iii", "us"}, rest = {"exec_rest", "us"};
    int64_t until;
    int r = 0;

    for (int i = 0; i < WARM && r == 0; i++)
        r = execs_turn(s, i % 2, &iii, &rest, err);
    iii.n = rest.n = 0;
    until = mono_ns() + (int64_t)ms * 1000000;
    for (unsigned i = 0; r == 0 && mono_ns() < until; i++)
        r = execs_turn(s, i % 2, &iii, &rest, err);
    samples_print(&iii);
    samples_print(&rest);
    return r;
}

/* ---- a file ---- */

struct file {
    char *data;
    size_t len;
};

static struct file file_new(size_t len)
{
    struct file f = {xmalloc(len), len};
    uint64_t x = 88172645463325252ull;

    for (size_t i = 0; i + sizeof(x) <= len; i += sizeof(x)) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(f.data + i, &x, sizeof(x));
    }
    return f;
}

/* What has come, at this place of it. */
static int compare(const struct file *f, size_t at, const void *data, size_t len, struct err *err)
{
    if (len <= f->len - at && memcmp(f->data + at, data, len) == 0)
        return 0;
    return err_set(err, ERR_INTERNAL, "other bytes came back than were sent, from %zu on", at);
}

static int whole(const struct file *f, size_t at, struct err *err)
{
    return at == f->len ? 0 : err_set(err, ERR_INTERNAL, "%zu bytes of %zu came", at, f->len);
}

static size_t piece_at(const struct file *f, size_t at)
{
    return f->len - at < PIECE ? f->len - at : PIECE;
}

static int send_pieces(struct websocket_client *channel, const struct file *f, struct err *err)
{
    for (size_t at = 0; at < f->len; at += PIECE)
        if (websocket_client_send(channel, false, f->data + at, piece_at(f, at), WAIT_MS, err) < 0)
            return -1;
    websocket_close(websocket_client_socket(channel), WEBSOCKET_NORMAL, "stream_complete");
    return websocket_client_flush(channel);
}

static int put_iii(struct side *s, const struct file *f, struct err *err)
{
    auto_free char *made = NULL, *text = NULL, *data = NULL, *reader = NULL, *size = NULL;
    struct websocket_client *channel = NULL;
    json_t *refs;
    int r;

    if (invoke(s, "engine::channels::create", "{}", &made, err) < 0 ||
        !(refs = result_of(made, err)))
        return -1;
    reader = json_dumps(json_object_get(refs, "reader"), JSON_COMPACT);
    channel = open_channel(s, json_object_get(refs, "writer"), err);
    json_decref(refs);
    if (!channel)
        return -1;
    data = xasprintf("{\"sandbox_id\":\"%s\",\"path\":\"/workspace/iii\",\"content\":%s}", s->uuid,
                     reader);
    size = xasprintf("\"bytes_written\":%zu", f->len);
    r = ask(s, "sandbox::fs::write", data, err);
    if (r == 0)
        r = send_pieces(channel, f, err);
    if (r == 0)
        r = answer(s, &text, err);
    websocket_client_free(channel);
    return r < 0 ? -1 : expect(text, size, err);
}

static int get_iii(struct side *s, const struct file *f, struct err *err)
{
    auto_free char *text = NULL, *data = NULL;
    struct websocket_client *channel;
    struct websocket_message m;
    size_t at = 0;
    json_t *result;
    int r;

    data = xasprintf("{\"sandbox_id\":\"%s\",\"path\":\"/workspace/iii\"}", s->uuid);
    if (invoke(s, "sandbox::fs::read", data, &text, err) < 0 || !(result = result_of(text, err)))
        return -1;
    channel = open_channel(s, json_object_get(result, "content"), err);
    json_decref(result);
    if (!channel)
        return -1;
    while ((r = websocket_client_next(channel, WAIT_MS, &m, err)) > 0) {
        if (compare(f, at, m.data, m.len, err) < 0)
            break;
        at += m.len;
    }
    websocket_client_free(channel);
    return r > 0 ? -1 : whole(f, at, err);
}

static int put_rest(struct side *s, const struct file *f, struct err *err)
{
    struct http_response res;
    auto_free char *text = NULL;
    char path[128];
    size_t len;

    (void)snprintf(path, sizeof(path), "/sandbox/sandboxes/%s/files/upload?path=/workspace/rest",
                   s->id);
    if (http_client_begin(s->http, "POST", path, OCTETS, (int64_t)f->len, err) < 0)
        return -1;
    for (size_t at = 0; at < f->len; at += PIECE)
        if (http_client_write(s->http, f->data + at, piece_at(f, at), err) < 0)
            return -1;
    if (http_client_finish(s->http, &res, err) < 0 ||
        http_client_body(s->http, BODY_MAX, &text, &len, err) < 0)
        return -1;
    return expect(text, "true", err);
}

static int get_rest(struct side *s, const struct file *f, struct err *err)
{
    static const char body[] = "{\"path\":\"/workspace/rest\"}";
    static char piece[PIECE];
    struct http_response res;
    char path[128];
    size_t at = 0;
    ssize_t n;
    int r;

    (void)snprintf(path, sizeof(path), "/sandbox/sandboxes/%s/files/download", s->id);
    http_client_accept(s->http, OCTETS);
    r = http_client_send(s->http, "POST", path, "application/json", body, sizeof(body) - 1, &res,
                         err);
    http_client_accept(s->http, NULL);
    if (r < 0)
        return -1;
    while ((n = http_client_read(s->http, piece, sizeof(piece), err)) > 0) {
        if (compare(f, at, piece, (size_t)n, err) < 0)
            return -1;
        at += (size_t)n;
    }
    return n < 0 ? -1 : whole(f, at, err);
}

enum way { PUT_III, PUT_REST, GET_III, GET_REST, WAYS };

static struct samples ways[WAYS] = {
    {"up_iii", "us"}, {"up_rest", "us"}, {"down_iii", "us"}, {"down_rest", "us"}};

static int move_file(struct side *s, const struct file *f, enum way way, struct err *err)
{
    static int (*const move[WAYS])(struct side *, const struct file *,
                                   struct err *) = {put_iii, put_rest, get_iii, get_rest};
    int64_t t = mono_ns();

    if (move[way](s, f, err) < 0)
        return err_wrap(err, "%s", ways[way].name);
    (void)samples_since(&ways[way], t);
    return 0;
}

static int measure_files(struct side *s, uint64_t mib, uint64_t n, struct err *err)
{
    struct file f = file_new(mib << 20);
    int r = 0;

    for (uint64_t i = 0; i <= n && r == 0; i++) {
        if (i == 1) /* the first warms */
            for (enum way w = 0; w < WAYS; w++)
                ways[w].n = 0;
        for (enum way w = 0; w < WAYS && r == 0; w++)
            r = move_file(s, &f, w ^ (i & 1), err);
    }
    for (enum way w = 0; w < WAYS; w++)
        samples_print(&ways[w]);
    free(f.data);
    return r;
}

/* ---- clients that wait ---- */

/* As iii's SDKs do when they have connected. */
static struct websocket_client *join(const char *url, uint64_t i, struct err *err)
{
    struct websocket_client *c = dial(url, err);
    auto_free char *text =
        xasprintf("{\"type\":\"invokefunction\",\"function_id\":\"engine::workers::register\","
                  "\"data\":{\"runtime\":\"node\",\"version\":\"0.22.1\",\"name\":\"idle-%llu\","
                  "\"os\":\"linux\",\"pid\":%llu},\"action\":{\"type\":\"void\"}}",
                  (unsigned long long)i, (unsigned long long)i + 1);

    if (c && websocket_client_send(c, true, text, strlen(text), WAIT_MS, err) == 0)
        return c;
    websocket_client_free(c);
    return NULL;
}

/* Answers its pings. */
static int hear(struct websocket_client *c, struct err *err)
{
    struct websocket_message m;
    int r;

    while ((r = websocket_next(websocket_client_socket(c), &m)) > 0)
        ;
    if (r == 0 && websocket_client_flush(c) == 0)
        return 0;
    return err_set(err, ERR_UNAVAILABLE, "the daemon has closed the connection of an idle client");
}

static int wait_for_line(struct websocket_client **crowd, uint64_t n, struct err *err)
{
    auto_free struct pollfd *p = xcalloc(n + 1, sizeof(*p));
    int r = 0;

    p[n] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (uint64_t i = 0; i < n; i++)
        p[i] = (struct pollfd){.fd = websocket_client_fd(crowd[i]), .events = POLLIN};
    while (r == 0 && p[n].revents == 0) {
        if (poll(p, n + 1, -1) < 0)
            return err_sys(err, errno, "poll");
        for (uint64_t i = 0; i < n && r == 0; i++)
            if (p[i].revents)
                r = hear(crowd[i], err);
    }
    return r;
}

static int crowd_wait(const char *ws_url, uint64_t n, struct err *err)
{
    auto_free struct websocket_client **crowd = xcalloc(n + 1, sizeof(struct websocket_client *));
    auto_free char *url = xasprintf("%s/", ws_url);
    struct rlimit files = {65536, 65536};
    uint64_t i;
    int r;

    (void)setrlimit(RLIMIT_NOFILE, &files);
    for (i = 0; i < n && (crowd[i] = join(url, i, err)); i++)
        ;
    r = i < n ? err_wrap(err, "client %llu", (unsigned long long)i) : 0;
    if (r == 0) {
        (void)puts("open");
        (void)fflush(stdout);
        r = wait_for_line(crowd, n, err);
    }
    while (i-- > 0)
        websocket_client_free(crowd[i]);
    return r;
}

/* ---- the program ---- */

/* Both connections, and what iii calls the sandbox. */
static int side_open(struct side *s, const char *rest_url, struct err *err)
{
    auto_free char *root = xasprintf("%s/", s->ws_url), *text = NULL;
    json_t *list, *boxes;

    s->http = http_client_new(rest_url, NULL);
    s->ws = dial(root, err);
    if (!s->ws || invoke(s, "sandbox::list", "{}", &text, err) < 0 ||
        !(list = result_of(text, err)))
        return -1;
    boxes = json_object_get(list, "sandboxes");
    if (json_array_size(boxes) == 1)
        s->uuid = xstrdup(json_text(json_array_get(boxes, 0), "sandbox_id"));
    json_decref(list);
    return s->uuid ? 0 : err_set(err, ERR_CONFLICT, "there is not one sandbox: %.100s", text);
}

static void side_close(struct side *s)
{
    http_client_free(s->http);
    websocket_client_free(s->ws);
    free(s->uuid);
}

static int measure(int argc, char **argv, struct err *err)
{
    struct side s = {.ws_url = argc > 2 ? argv[2] : "", .id = argc > 4 ? argv[4] : ""};
    uint64_t a = 0, b = 0;
    int r = -1;

    if (argc == 5 && strcmp(argv[3], "crowd") == 0 && str_u64(argv[4], &a) == 0)
        return crowd_wait(s.ws_url, a, err);
    if (argc == 6 && strcmp(argv[3], "execs") == 0 && str_u64(argv[5], &a) == 0)
        r = side_open(&s, argv[1], err) < 0 ? -1 : measure_execs(&s, a, err);
    else if (argc == 7 && strcmp(argv[3], "files") == 0 && str_u64(argv[5], &a) == 0 &&
             str_u64(argv[6], &b) == 0)
        r = side_open(&s, argv[1], err) < 0 ? -1 : measure_files(&s, a, b, err);
    else
        (void)err_set(err, ERR_INVALID,
                      "usage: client-iii REST WS execs ID MS | files ID MIB N | crowd N");
    side_close(&s);
    return r;
}

int main(int argc, char **argv)
{
    struct err err = {0};

    if (measure(argc, argv, &err) < 0) {
        (void)fprintf(stderr, "client-iii: %s\n", err.text);
        return 1;
    }
    return 0;
}
