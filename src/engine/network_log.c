#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/regular.h"
#include "engine/engine_internal.h"
#include "engine/network.h"
#include "engine/network_internal.h"
#include "engine/news_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"

/* What sandboxes were refused: <data>/netlog/<id>.jsonl, a line each, and <id>.old, which the first
 * becomes when it is long. Nothing depends on it, so it is not synced; it goes with the sandbox. */

#define FOLDER     "netlog"
#define FILE_MAX   (128u << 10)
#define LINE_BYTES 2048
#define READ_MAX   (2 * FILE_MAX + LINE_BYTES)

#define WATCHES_MAX 16 /* of one sandbox */

/* Somebody who waits for more lines of one sandbox. */
struct network_watch {
    struct network_watch *next;
    struct network_log *log;
    char id[ID_SIZE];
    int wake; /* an eventfd */
};

struct network_log {
    pthread_mutex_t lock; /* the files, what sandboxes have of it, and who waits */
    char *folder;
    int dir; /* -1 = it cannot be had, and nothing is kept */
    struct network_watch *watches;
};

struct network_log *network_log_new(const char *data_dir)
{
    struct network_log *l = xcalloc(1, sizeof(*l));

    pthread_mutex_init(&l->lock, NULL);
    l->folder = xasprintf("%s/" FOLDER, data_dir);
    (void)mkdir(l->folder, 0700);
    l->dir = open(l->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return l;
}

void network_log_free(struct network_log *l)
{
    if (!l)
        return;
    close_fd(&l->dir);
    free(l->folder);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* All below with the lock held. */

struct names {
    char now[ID_SIZE + 8], old[ID_SIZE + 8];
};

static struct names names_of(const char *id)
{
    struct names n;

    (void)snprintf(n.now, sizeof(n.now), "%s.jsonl", id);
    (void)snprintf(n.old, sizeof(n.old), "%s.old", id);
    return n;
}

static void append(int dir, const struct names *n, const char *line, size_t len)
{
    auto_close int fd = regular_open(dir, n->now, O_WRONLY | O_CREAT | O_APPEND, 0600, NULL);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    if (st.st_size + (off_t)len > FILE_MAX) {
        (void)renameat(dir, n->now, dir, n->old);
        close_fd(&fd);
        fd = regular_open(dir, n->now, O_WRONLY | O_CREAT | O_EXCL, 0600, NULL);
    }
    if (fd >= 0)
        (void)write_all(fd, line, len);
}

static int read_into(int dir, const char *name, struct buf *out)
{
    auto_close int fd = regular_open(dir, name, O_RDONLY, 0, NULL);
    char part[4096];
    ssize_t n;

    if (fd < 0)
        return fd;
    while ((n = read_some(fd, part, sizeof(part))) > 0)
        if (buf_add(out, part, (size_t)n) < 0)
            break;
    return 0;
}

/* A line that a power cut has left half written is none. */
static json_t *read_lines(struct network_log *l, const char *id)
{
    struct names n = names_of(id);
    auto_buf struct buf text = {0};
    json_t *lines = json_array();
    int dir = l->dir;

    buf_init(&text, READ_MAX);
    if (dir >= 0) {
        (void)read_into(dir, n.old, &text);
        (void)read_into(dir, n.now, &text);
    }
    for (const char *p = text.data ? text.data : "", *end = p + text.len; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        json_t *line = nl ? json_loadb(p, (size_t)(nl - p), 0, NULL) : NULL;

        if (json_is_object(line))
            (void)json_array_append(lines, line);
        json_decref(line);
        p = nl ? nl + 1 : end;
    }
    return lines;
}

static uint64_t seq_of(const json_t *line)
{
    json_int_t seq = json_integer_value(json_object_get(line, "seq"));

    return seq > 0 ? (uint64_t)seq : 0;
}

/* The numbers go on from what is on the disk. */
static uint64_t next_seq(struct network_log *l, struct sandbox *sb)
{
    if (sb->net.log_seq == 0) {
        json_t *lines = read_lines(l, sb->box.id);

        sb->net.log_seq = seq_of(json_array_get(lines, json_array_size(lines) - 1));
        json_decref(lines);
    }
    return ++sb->net.log_seq;
}

/* Of an event: only what a denial has. */
static json_t *denial_of(const json_t *event)
{
    static const char *const kept[] = {"time", "direction", "protocol", "address", "port",
                                       "name", "rule",      "why",      "count"};
    json_t *o = json_object();

    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        json_t *v = json_object_get(event, kept[i]);

        if (v && !json_is_null(v))
            (void)json_object_set(o, kept[i], v);
    }
    if (!json_is_integer(json_object_get(o, "time")))
        (void)json_object_set_new(o, "time", json_integer(now_ms()));
    if (!json_is_integer(json_object_get(o, "count")))
        (void)json_object_set_new(o, "count", json_integer(1));
    return o;
}

static void add_line(struct network_log *l, struct sandbox *sb, json_t *denial)
{
    auto_free char *text = NULL;
    auto_free char *line = NULL;
    struct names n = names_of(sb->box.id);
    int dir = l->dir;

    (void)json_object_set_new(denial, "seq", json_integer((json_int_t)next_seq(l, sb)));
    text = json_dumps(denial, JSON_COMPACT);
    if (dir < 0 || !text || strlen(text) >= LINE_BYTES)
        return;
    line = xasprintf("%s\n", text);
    append(dir, &n, line, strlen(line));
}

static void wake_watches(struct network_log *l, const char *id)
{
    for (struct network_watch *w = l->watches; w; w = w->next)
        if (strcmp(w->id, id) == 0)
            (void)eventfd_write(w->wake, 1);
}

void network_log_add(struct engine *e, const json_t *event)
{
    const char *kind = json_string_value(json_object_get(event, "event"));
    const char *id = json_string_value(json_object_get(event, "id"));
    struct network_log *l = network_log_of(e);
    auto_sandbox struct sandbox *sb = NULL;
    json_t *denial, *told;

    if (!kind || strcmp(kind, "denied") != 0 || !id)
        return;
    sb = roster_find(e, id);
    if (!sb)
        return;
    denial = denial_of(event);
    pthread_mutex_lock(&l->lock);
    add_line(l, sb, denial);
    json_decref(sb->net.denied);
    sb->net.denied = denial;
    sb->net.n_denied += (uint64_t)json_integer_value(json_object_get(denial, "count"));
    sb->net.denied_ms = now_ms();
    wake_watches(l, sb->box.id);
    told = json_deep_copy(denial);
    pthread_mutex_unlock(&l->lock);
    (void)json_object_set_new(told, "sandboxId", json_string(sb->box.id));
    engine_tell(e, "network.denied", sb->box.id, told);
}

void network_log_remove(struct engine *e, const char *id)
{
    struct network_log *l = network_log_of(e);
    struct names n = names_of(id);

    pthread_mutex_lock(&l->lock);
    if (l->dir >= 0) {
        (void)unlinkat(l->dir, n.now, 0);
        (void)unlinkat(l->dir, n.old, 0);
    }
    wake_watches(l, id);
    pthread_mutex_unlock(&l->lock);
}

json_t *network_log_read(struct engine *e, struct sandbox *sb, uint64_t after, size_t limit)
{
    struct network_log *l = network_log_of(e);
    json_t *lines, *found = json_array(), *line;
    size_t i, n;

    pthread_mutex_lock(&l->lock);
    lines = read_lines(l, sb->box.id);
    pthread_mutex_unlock(&l->lock);
    json_array_foreach(lines, i, line)
    {
        if (seq_of(line) > after)
            (void)json_array_append(found, line);
    }
    json_decref(lines);
    for (n = json_array_size(found); n > limit; n--)
        (void)json_array_remove(found, 0);
    return found;
}

json_t *network_log_last(struct engine *e, struct sandbox *sb, int64_t since_ms)
{
    struct network_log *l = network_log_of(e);
    json_t *last = NULL;

    pthread_mutex_lock(&l->lock);
    if (sb->net.denied && sb->net.denied_ms >= since_ms)
        last = json_deep_copy(sb->net.denied);
    pthread_mutex_unlock(&l->lock);
    return last;
}

uint64_t network_denied(struct engine *e, struct sandbox *sb)
{
    struct network_log *l = network_log_of(e);
    uint64_t n;

    pthread_mutex_lock(&l->lock);
    n = sb->net.n_denied;
    pthread_mutex_unlock(&l->lock);
    return n;
}

/* ---- who waits for more ---- */

static unsigned count_watches(const struct network_log *l, const char *id)
{
    unsigned n = 0;

    for (const struct network_watch *w = l->watches; w; w = w->next)
        n += strcmp(w->id, id) == 0;
    return n;
}

int engine_network_watch(struct engine *e, const char *id, struct network_watch **ret,
                         struct err *err)
{
    struct network_log *l = network_log_of(e);
    auto_sandbox struct sandbox *sb = NULL;
    auto_close int wake = -1;
    struct network_watch *w;
    bool full;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    wake = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* there may be some already */
    if (wake < 0)
        return err_sys(err, errno, "eventfd");
    pthread_mutex_lock(&l->lock);
    full = count_watches(l, sb->box.id) >= WATCHES_MAX;
    if (!full) {
        w = xcalloc(1, sizeof(*w));
        *w = (struct network_watch){.next = l->watches, .log = l, .wake = steal_fd(wake)};
        (void)snprintf(w->id, sizeof(w->id), "%s", sb->box.id);
        l->watches = *ret = w;
    }
    pthread_mutex_unlock(&l->lock);
    return full ? err_code(err, ERR_LIMIT, "too_many_streams",
                           "%d callers follow what %s is refused, which is as many as may",
                           WATCHES_MAX, id)
                : 0;
}

int network_watch_fd(const struct network_watch *w)
{
    return w->wake;
}

void network_watch_seen(const struct network_watch *w)
{
    eventfd_t count;

    (void)eventfd_read(w->wake, &count);
}

void network_watch_close(struct network_watch *w)
{
    struct network_log *l = w->log;

    pthread_mutex_lock(&l->lock);
    for (struct network_watch **p = &l->watches; *p; p = &(*p)->next)
        if (*p == w) {
            *p = w->next;
            break;
        }
    pthread_mutex_unlock(&l->lock);
    close_fd(&w->wake);
    free(w);
}
