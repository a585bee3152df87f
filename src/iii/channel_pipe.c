#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "iii/channels_internal.h"

/* Ends of channels that are ours: functions read and write them (functions/pipe.h). Texts that a
 * client sends are words to a program of its own, and mean nothing to us. */

#define TURN_NS (20 * 1000000ll) /* then it is another feed's turn */

struct channel_pipe {
    struct pipe pipe;
    struct channel_holder holder;
    struct iii_channel *channel;
    enum channel_side side;
    int fd; /* -1 of one that is fed */

    struct channel_item *item; /* that is being read, */
    size_t at;                 /* from here on */

    struct pipe_feed *feed;
    struct work work;
};

static void ring(struct channel_holder *h)
{
    struct channel_pipe *p =
        (struct channel_pipe *)((char *)h - offsetof(struct channel_pipe, holder));

    (void)eventfd_write(p->fd, 1);
}

static int pipe_fd(struct pipe *pipe)
{
    return ((struct channel_pipe *)pipe)->fd;
}

/* Asks, and when it has to wait once more behind the bell: what rang it before is known then. The
 * bell stays rung while there is something to do. */
static int ask(struct channel_pipe *p, int (*question)(struct channel_pipe *p))
{
    eventfd_t count;
    int r = question(p);

    if (r != 0 || p->fd < 0)
        return r;
    (void)eventfd_read(p->fd, &count);
    r = question(p);
    if (r != 0)
        (void)eventfd_write(p->fd, 1);
    return r;
}

/* ---- reading ---- */

static int ask_item(struct channel_pipe *p)
{
    return channel_get(p->channel, &p->item);
}

static void drop_item(struct channel_pipe *p)
{
    if (!p->item)
        return;
    channel_taken(p->channel, p->item->len);
    free(p->item);
    p->item = NULL;
    p->at = 0;
}

static ssize_t pipe_read(struct pipe *pipe, void *data, size_t len)
{
    struct channel_pipe *p = (struct channel_pipe *)pipe;
    size_t done = 0;
    int r = 1;

    while (done < len && (p->item || (r = ask(p, ask_item)) > 0)) {
        size_t left = p->item->is_text ? 0 : p->item->len - p->at;
        size_t n = left < len - done ? left : len - done;

        memcpy((char *)data + done, p->item->data + p->at, n);
        done += n;
        p->at += n;
        if (n == left)
            drop_item(p);
    }
    if (done > 0)
        return (ssize_t)done;
    return r < 0 && !channel_is_whole(p->channel) ? PIPE_LOST : r;
}

/* ---- writing ---- */

static int ask_room(struct channel_pipe *p)
{
    return channel_room(p->channel, true);
}

static int put(struct pipe *pipe, bool is_text, const void *data, size_t len)
{
    struct channel_pipe *p = (struct channel_pipe *)pipe;
    int r = ask(p, ask_room);

    if (r > 0)
        channel_put(p->channel, is_text, data, len);
    return r;
}

static int pipe_write(struct pipe *pipe, const void *data, size_t len)
{
    return put(pipe, false, data, len);
}

static int pipe_say(struct pipe *pipe, const char *text)
{
    return put(pipe, true, text, strlen(text));
}

/* Of one that has no channel, yet or any more. */
static void pipe_free(struct channel_pipe *p)
{
    close_fd(&p->fd);
    free(p);
}

static void pipe_close(struct pipe *pipe)
{
    struct channel_pipe *p = (struct channel_pipe *)pipe;

    drop_item(p);
    channel_leave(p->channel, p->side);
    pipe_free(p);
}

static const struct pipe_ops pipe_ops = {pipe_fd, pipe_read, pipe_write, pipe_say, pipe_close};

static struct channel_pipe *pipe_new(enum channel_side side, struct err *err)
{
    struct channel_pipe *p;
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0) {
        (void)err_code(err, ERR_UNAVAILABLE, "busy",
                       "the daemon has no descriptor left to wait with (%s); try again later",
                       strerror(errno));
        return NULL;
    }
    p = xcalloc(1, sizeof(*p));
    *p = (struct channel_pipe){.pipe.ops = &pipe_ops, .side = side, .fd = fd};
    p->holder.wake = ring;
    return p;
}

static bool claim(struct channel_pipe *p, struct iii_channel *c)
{
    p->channel = c;
    return channel_claim(c, p->side, &p->holder);
}

/* ---- feeds ---- */

static void wake_feed(struct channel_holder *h)
{
    struct channel_pipe *p =
        (struct channel_pipe *)((char *)h - offsetof(struct channel_pipe, holder));

    runner_wake(p->channel->all->hub->runner, &p->work);
}

static void feed_run(struct work *w)
{
    struct channel_pipe *p =
        (struct channel_pipe *)((char *)w - offsetof(struct channel_pipe, work));
    struct runner *runner = p->channel->all->hub->runner;
    int64_t end = mono_ns() + TURN_NS;

    for (;;) {
        int r = runner_stops(runner) ? -1 : channel_room(p->channel, true);

        if (r == 0) {
            runner_wait(runner, w, -1, 0, 0);
            return;
        }
        if (r < 0 || p->feed->fill(p->feed, &p->pipe) == 0)
            break;
        if (mono_ns() >= end) {
            runner_add(runner, w);
            return;
        }
    }
    p->feed->free(p->feed);
    pipe_close(&p->pipe);
}

static void pipes_feed(struct pipes *pipes, struct pipe *pipe, struct pipe_feed *feed)
{
    struct channel_pipe *p = (struct channel_pipe *)pipe;

    (void)pipes;
    p->feed = feed;
    p->work.run = feed_run;
    p->work.share = p->channel->maker->threads;
    (void)pthread_mutex_lock(&p->channel->lock);
    p->holder.wake = wake_feed;
    close_fd(&p->fd);
    (void)pthread_mutex_unlock(&p->channel->lock);
    runner_add(p->channel->all->hub->runner, &p->work);
}

/* ---- for functions ---- */

static struct pipe *pipes_make(struct pipes *pipes, json_t **ret_ref, struct err *err)
{
    struct channel_pipes *of = (struct channel_pipes *)pipes;
    struct channel_pipe *p = pipe_new(CHANNEL_WRITER, err);
    struct iii_channel *c;

    if (!p)
        return NULL;
    c = channel_make(of->all, CHANNEL_ITEMS, of->maker, of->token_id, err);
    if (!c) {
        pipe_free(p);
        return NULL;
    }
    (void)claim(p, c); /* nobody knows of it */
    *ret_ref = channel_ref_json(c, CHANNEL_READER);
    channel_unref(c);
    return &p->pipe;
}

static struct pipe *open_with(struct iii_channels *all, const char *id, const char *key,
                              enum channel_side side, struct err *err)
{
    struct iii_channel *c = channel_find(all, id, key);
    struct channel_pipe *p = NULL;

    if (!c)
        (void)err_code(err, ERR_NOT_FOUND, "channel_not_found",
                       "there is no such channel, or its key is another");
    else
        p = pipe_new(side, err);
    if (p && !claim(p, c)) {
        (void)err_code(err, ERR_NOT_FOUND, "channel_not_found",
                       "somebody else has or had that end of the channel");
        pipe_free(steal_ptr(p));
    }
    channel_unref(c);
    return p ? &p->pipe : NULL;
}

static struct pipe *pipes_open(struct pipes *pipes, const json_t *ref, bool writes, struct err *err)
{
    const char *id = json_string_value(json_object_get(ref, "channel_id"));
    const char *key = json_string_value(json_object_get(ref, "access_key"));
    const char *direction = json_string_value(json_object_get(ref, "direction"));

    if (id && key && direction && strcmp(direction, writes ? "write" : "read") == 0)
        return open_with(((struct channel_pipes *)pipes)->all, id, key,
                         writes ? CHANNEL_WRITER : CHANNEL_READER, err);
    (void)err_code(err, ERR_INVALID, "bad_channel",
                   "a channel is {channel_id, access_key, direction: \"%s\"}",
                   writes ? "write" : "read");
    return NULL;
}

void channel_pipes_init(struct channel_pipes *p, struct iii_channels *all,
                        const struct iii_asker *maker)
{
    static const struct pipes_ops pipes_ops = {pipes_open, pipes_make, pipes_feed};

    *p = (struct channel_pipes){.pipes.ops = &pipes_ops, .all = all};
    p->maker = maker ? iii_share_ref(maker->share) : iii_share_new(NULL);
    if (maker)
        (void)snprintf(p->token_id, sizeof(p->token_id), "%s", maker->caller.token_id);
}
