/* cay-gateway begins as the warden. argv[1] is its setup, a JSON object; descriptor 3 the socket
 * that it takes orders at. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "gateway/warden.h"

#define FD_LISTEN 3

void source_add(struct warden *w, struct source *s, int fd,
                void (*ready)(struct warden *, struct source *))
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};

    s->fd = fd;
    s->ready = ready;
    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &e) < 0)
        _exit(1);
}

void source_drop(struct warden *w, struct source *s)
{
    if (s->fd >= 0)
        (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, s->fd, NULL);
    close_fd(&s->fd);
}

static char *setup_text(const json_t *setup, const char *key, const char *preset)
{
    const char *text = json_string_value(json_object_get(setup, key));

    return text ? xstrdup(text) : preset ? xstrdup(preset) : NULL;
}

static bool read_setup(struct setup *s, const char *text)
{
    json_t *setup = json_loads(text, 0, NULL);

    s->build = setup_text(setup, "build", "");
    s->run = setup_text(setup, "run", NULL);
    s->pool = setup_text(setup, "pool", "10.241.0.0/16");
    s->pool6 = setup_text(setup, "pool6", "fd63:6179::/64");
    s->ipv6 = setup_text(setup, "ipv6", "auto");
    s->uplink = setup_text(setup, "uplink", NULL);
    s->nameservers = setup_text(setup, "nameservers", NULL);
    json_decref(setup);
    return s->run && s->run[0] == '/';
}

/* ---- what it makes ---- */

void warden_take_down(struct warden *w)
{
    helper_stop(w);
    uplink_remove(w);
    crossroads_unpin(w);
}

/* Most boxes have the same policy: it is there before the first of them. */
static void usual_policy(struct warden *w)
{
    struct policy *p = NULL;
    struct err err = {0};

    if (policy_parse(json_true(), &p, &err) == 0)
        chain_put(w, chain_get(w, p, &err));
    policy_free(p);
}

/* Boxes that are adopted need the table for their chains. Rules that another left stay until the
 * daemon has told all. */
static int adopt_or_make(struct warden *w, struct err *err)
{
    w->inherited = w->inherited && rules_are_there(w);
    if (!w->inherited && rules_assert(w, err) < 0)
        return -1;
    if (boxes_adopt(w, err) < 0)
        return -1;
    return w->inherited || !w->boxes ? 0 : rules_assert(w, err);
}

/* What is missing here is told to who asks, and is not made half. */
static int start(struct warden *w, struct err *err)
{
    if (tasks_open(w, err) < 0 || crossroads_open(w, err) < 0 || adopt_or_make(w, err) < 0)
        return -1;
    if (uplink_open(w, err) < 0)
        return -1;
    uplink_host_addresses(w);
    usual_policy(w);
    if (walls_warden(err) < 0)
        return -1;
    helper_start(w);
    return 0;
}

static void start_or_tell(struct warden *w)
{
    if (start(w, &w->broken) == 0)
        return;
    if (w->broken.sys == EPERM || w->broken.sys == EOPNOTSUPP || w->broken.sys == EPROTONOSUPPORT ||
        w->broken.sys == ENOSYS)
        w->broken.code = "network_unsupported";
    if (w->cross_ns >= 0 && !w->boxes)
        warden_take_down(w);
}

static void loop(struct warden *w)
{
    while (!w->ending) {
        struct epoll_event events[64];
        int n = epoll_wait(w->epoll, events, ARRAY_LEN(events), -1);

        if (n < 0 && errno != EINTR)
            return;
        for (int i = 0; i < n; i++) {
            struct source *s = events[i].data.ptr;

            if (s->fd >= 0)
                s->ready(w, s);
        }
    }
}

static void sources_init(struct warden *w)
{
    struct source *all[] = {&w->listener,       &w->watch_host_rt,  &w->watch_host_nf,
                            &w->watch_cross_nf, &w->watch_cross_rt, &w->nflog,
                            &w->timer,          &w->worker,         &w->worker_end};

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        all[i]->fd = -1;
    for (size_t i = 0; i < ARRAY_LEN(w->listeners); i++)
        w->listeners[i] = -1;
    w->epoll = w->host_ns = w->cross_ns = -1;
}

int main(int argc, char **argv)
{
    static struct warden w;

    (void)prctl(PR_SET_NAME, "cay-gateway"); /* it runs from a descriptor */
    (void)signal(SIGPIPE, SIG_IGN);
    sources_init(&w);
    if (argc != 2 || !read_setup(&w.setup, argv[1]) || close_range(FD_LISTEN + 1, ~0u, 0) < 0)
        return 2;
    w.epoll = epoll_create1(EPOLL_CLOEXEC);
    /* Once more, in our name: whoever connects can tell whom it is talking to. */
    if (w.epoll < 0 || fd_set_cloexec(FD_LISTEN, true) < 0 || listen(FD_LISTEN, CONTROL_MAX) < 0)
        return 1;
    control_start(&w, FD_LISTEN);
    start_or_tell(&w);
    loop(&w);
    control_done(&w);
    return 0;
}
