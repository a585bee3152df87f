/* Requests of the daemon: one JSON object a datagram, one answer each, in order. The table at the
 * end has them all. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "gateway/warden.h"

#define PAGE_MAX    1000 /* boxes in one answer */
#define UNHEARD_MAX 64   /* events that are kept while no connection watches */

struct conn {
    struct source source; /* first, so that one is the other */
    bool watches;
    unsigned lost; /* events that it was too slow for */
};

struct control {
    struct conn conns[CONTROL_MAX];
    json_t *unheard; /* events since the last watching connection ended, the newest UNHEARD_MAX */
    unsigned unheard_lost;
};

/* A request: fd is a descriptor that came with it, or -1; it is closed afterwards unless it was
 * stolen. */
struct request {
    struct warden *w;
    struct conn *conn;
    json_t *in;
    int fd;
    json_t *out; /* NULL = {} */
};

/* ---- sending ---- */

static int send_json(int fd, json_t *message)
{
    auto_free char *text = json_dumps(message, JSON_COMPACT);
    ssize_t n = -1;

    if (text && strlen(text) <= CONTROL_BYTES_MAX)
        n = send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
    return n < 0 ? -1 : 0;
}

static void send_event(struct conn *c, json_t *event)
{
    if (c->lost > 0)
        (void)json_object_set_new(event, "lost", json_integer(c->lost));
    c->lost = send_json(c->source.fd, event) < 0 ? c->lost + 1 : 0;
    (void)json_object_del(event, "lost");
}

/* The daemon's first request starts the gateway, and a moment later the daemon watches: a packet
 * can be refused in between. A link that was lost is not kept: a daemon that connects compares all
 * links, and the box may have another one by then. */
static void keep_unheard(struct control *control, json_t *event)
{
    if (strcmp(json_string_value(json_object_get(event, "event")), "lost") == 0)
        return;
    if (!control->unheard)
        control->unheard = json_array();
    (void)json_array_append(control->unheard, event);
    if (json_array_size(control->unheard) <= UNHEARD_MAX)
        return;
    (void)json_array_remove(control->unheard, 0);
    control->unheard_lost++;
}

static void send_unheard(struct control *control, struct conn *c)
{
    json_t *event;
    size_t i;

    c->lost = control->unheard_lost;
    json_array_foreach(control->unheard, i, event)
    {
        send_event(c, event);
    }
    json_decref(control->unheard);
    control->unheard = NULL;
    control->unheard_lost = 0;
}

void control_tell(struct warden *w, json_t *event)
{
    bool is_heard = false;

    for (size_t i = 0; w->control && i < CONTROL_MAX; i++) {
        struct conn *c = &w->control->conns[i];

        if (c->source.fd < 0 || !c->watches)
            continue;
        send_event(c, event);
        is_heard = true;
    }
    if (w->control && !is_heard)
        keep_unheard(w->control, event);
    json_decref(event);
}

void control_log(struct warden *w, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    control_tell(w, json_pack("{s:s, s:s}", "event", "log", "message", text));
}

/* ---- parts of requests and answers ---- */

static const char *text_of(const struct request *r, const char *key)
{
    return json_string_value(json_object_get(r->in, key));
}

static struct box *box_of(const struct request *r, struct err *err)
{
    const char *id = text_of(r, "id");
    struct box *b = id ? box_find(r->w, id) : NULL;

    if (!b)
        (void)err_code(err, ERR_CONFLICT, "network_not_attached", "%.60s has no network",
                       id ? id : "?");
    return b;
}

static json_t *address_json(const struct net_address *a)
{
    char text[NET_ADDRESS_TEXT];

    if (a->family == 0)
        return json_null();
    net_address_text(a, text);
    return json_string(text);
}

static json_t *box_json(const struct box *b)
{
    return json_pack("{s:s, s:o, s:o}", "id", b->id, "address", address_json(&b->address),
                     "address6", address_json(&b->address6));
}

/* Those from that one on, as many as fit into a message: boxes, and from where the next go on. */
static void put_boxes(const struct warden *w, json_int_t from, json_t *out)
{
    json_t *list = json_array();
    json_int_t n = 0;

    for (const struct box *b = w->boxes; b; b = b->next, n++) {
        if (n < from)
            continue;
        if (n - from == PAGE_MAX) {
            (void)json_object_set_new(out, "next", json_integer(n));
            break;
        }
        (void)json_array_append_new(list, box_json(b));
    }
    (void)json_object_set_new(out, "boxes", list);
}

static void set_names(struct warden *w, struct box *b, const json_t *names)
{
    const json_t *name;
    size_t i;

    while (b->n_names > 0)
        free(b->names[--b->n_names]);
    json_array_foreach(names, i, name)
    {
        const char *text = json_string_value(name);

        if (text && text[0] && strlen(text) <= NAME_MAX && b->n_names < NAMES_MAX)
            b->names[b->n_names++] = xstrdup(text);
    }
    peers_tell(w, b);
}

/* ---- requests ---- */

static int op_hello(struct request *r, struct err *err)
{
    struct warden *w = r->w;
    const json_t *port = json_object_get(r->in, "port");

    if (w->broken.kind != ERR_NONE) {
        w->ending = true; /* the next may find what we lack */
        *err = w->broken;
        return -1;
    }
    if (port)
        w->api_port = (uint16_t)json_integer_value(port);
    helper_tell_world(w); /* the host's name servers may be others by now */
    r->out = json_pack("{s:s, s:I, s:b}", "build", w->setup.build, "pid", (json_int_t)getpid(),
                       "worker", w->worker_pid > 0);
    put_boxes(w, json_integer_value(json_object_get(r->in, "from")), r->out);
    return 0;
}

static int op_attach(struct request *r, struct err *err)
{
    const char *id = text_of(r, "id");
    struct warden *w = r->w;
    struct box *b;

    if (!id || strlen(id) > ID_BYTES_MAX || r->fd < 0)
        return err_code(err, ERR_INVALID, "gateway_request", "attach: no id or no namespace");
    if (box_attach(w, id, json_object_get(r->in, "policy"), r->fd, &b, err) < 0)
        return -1;
    if (json_object_get(r->in, "names"))
        set_names(w, b, json_object_get(r->in, "names"));
    r->out = box_json(b);
    (void)json_object_set_new(r->out, "gateway", address_json(&w->gateway));
    (void)json_object_set_new(r->out, "gateway6",
                              w->ipv6 ? address_json(&w->gateway6) : json_null());
    return 0;
}

static int op_policy(struct request *r, struct err *err)
{
    struct box *b = box_of(r, err);
    unsigned cut;

    if (b && b->index == 0)
        return err_code(err, ERR_CONFLICT, "network_not_attached", "%s has lost its link", b->id);
    if (!b || box_policy(r->w, b, json_object_get(r->in, "policy"), &cut, err) < 0)
        return -1;
    if (json_object_get(r->in, "names"))
        set_names(r->w, b, json_object_get(r->in, "names"));
    r->out = json_pack("{s:i}", "cut", (int)cut);
    return 0;
}

static int op_detach(struct request *r, struct err *err)
{
    const char *id = text_of(r, "id");
    struct box *b = id ? box_find(r->w, id) : NULL;

    (void)err;
    if (b)
        box_detach(r->w, b);
    return 0;
}

static int op_names(struct request *r, struct err *err)
{
    struct box *b = box_of(r, err);

    if (!b)
        return -1;
    set_names(r->w, b, json_object_get(r->in, "names"));
    return 0;
}

static int op_join(struct request *r, struct err *err)
{
    const char *network = text_of(r, "network"), *name = text_of(r, "name");
    struct box *b = box_of(r, err);

    if (!b)
        return -1;
    if (!network || !name || strlen(network) > NAME_MAX || strlen(name) > NAME_MAX)
        return err_code(err, ERR_INVALID, "gateway_request", "join: no network or no name");
    return network_join(r->w, network, name, b, err);
}

static int op_leave(struct request *r, struct err *err)
{
    const char *network = text_of(r, "network"), *id = text_of(r, "id");
    struct box *b = id ? box_find(r->w, id) : NULL;

    return b && network ? network_leave(r->w, network, b, err) : 0;
}

static int op_explain(struct request *r, struct err *err)
{
    struct box *b = box_of(r, err);

    r->out = b ? explain(r->w, b, r->in, err) : NULL;
    return r->out ? 0 : -1;
}

/* The daemon has told all: what one before us left in the rules goes. */
static int op_settled(struct request *r, struct err *err)
{
    if (!r->w->inherited)
        return 0;
    r->w->inherited = false;
    return rules_assert(r->w, err);
}

static int op_watch(struct request *r, struct err *err)
{
    (void)err;
    r->conn->watches = true;
    send_unheard(r->w->control, r->conn);
    return 0;
}

/* Another takes our place and finds all as it is. */
static int op_quit(struct request *r, struct err *err)
{
    (void)err;
    r->w->ending = true;
    return 0;
}

static int op_stop(struct request *r, struct err *err)
{
    (void)err;
    warden_take_down(r->w);
    r->w->ending = true;
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct request *r, struct err *err);
} ops[] = {
    {"hello", op_hello},     {"attach", op_attach}, {"policy", op_policy}, {"detach", op_detach},
    {"join", op_join},       {"leave", op_leave},   {"names", op_names},   {"explain", op_explain},
    {"settled", op_settled}, {"watch", op_watch},   {"quit", op_quit},     {"stop", op_stop},
};

static int dispatch(struct request *r, struct err *err)
{
    const char *op = json_string_value(json_object_get(r->in, "op"));

    for (size_t i = 0; op && i < ARRAY_LEN(ops); i++)
        if (strcmp(ops[i].name, op) == 0)
            return ops[i].run(r, err);
    return err_code(err, ERR_INVALID, "gateway_request", "no such request");
}

static void answer(struct request *r)
{
    struct err err = {0};

    if (dispatch(r, &err) < 0) {
        json_decref(r->out);
        r->out = json_pack("{s:s, s:s}", "error", err.text, "code",
                           err.code ? err.code : "gateway_failed");
    }
    if (!r->out)
        r->out = json_object();
    if (send_json(r->conn->source.fd, r->out) < 0)
        source_drop(r->w, &r->conn->source); /* who asks reads the answer */
    json_decref(r->out);
}

static void receive(struct warden *w, struct source *s)
{
    static char text[CONTROL_BYTES_MAX + 1];
    struct request r = {.w = w, .conn = (struct conn *)s, .fd = -1};
    size_t nfds = 1;
    ssize_t n = recv_fds(s->fd, text, sizeof(text), &r.fd, &nfds);

    if (n == -EAGAIN)
        return;
    if (n <= 0 || n > (ssize_t)CONTROL_BYTES_MAX) {
        source_drop(w, s);
    } else {
        w->busy_ns = mono_ns();
        r.in = json_loadb(text, (size_t)n, 0, NULL);
        answer(&r);
        w->busy_ns = mono_ns(); /* an answer can take longer than a sweep waits */
    }
    json_decref(r.in);
    close_fd(&r.fd);
}

static void take(struct warden *w, struct source *s)
{
    int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    for (size_t i = 0; fd >= 0 && i < CONTROL_MAX; i++) {
        struct conn *c = &w->control->conns[i];

        if (c->source.fd >= 0)
            continue;
        c->watches = false;
        c->lost = 0;
        source_add(w, &c->source, fd, receive);
        return;
    }
    if (fd >= 0)
        (void)close(fd);
}

void control_start(struct warden *w, int listener)
{
    w->control = xcalloc(1, sizeof(*w->control));
    for (size_t i = 0; i < CONTROL_MAX; i++)
        w->control->conns[i].source.fd = -1;
    source_add(w, &w->listener, listener, take);
}

void control_done(struct warden *w)
{
    for (size_t i = 0; i < CONTROL_MAX; i++)
        source_drop(w, &w->control->conns[i].source);
    source_drop(w, &w->listener);
    json_decref(w->control->unheard);
    free(w->control);
    w->control = NULL;
}
