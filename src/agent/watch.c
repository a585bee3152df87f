#include "agent/watch.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "proto/frame.h"

/* Watching files: a handler that stays, and tells what inotify tells it in the words of CALL_WATCH.
 *
 *  1. It is never waited for its caller: while that does not read, news are taken from the kernel
 *     and thrown away, so that they do not fill the agent's memory. Then it is told that some were
 *     lost, once all directories have been gone through anew, so that nothing after that is.
 *     The same when the kernel had to throw some away.
 *  2. What is in a directory that is new was made before its watch or after it: all that is found
 *     in it is told as made, and what inotify says of the same is left out (known).
 *  3. The two halves of a rename belong together by a number. Of the first half alone, something
 *     was moved away; of the second alone, moved in.
 *  4. What a call writes comes to its place by a rename, of which only the end is told: it was made
 *     and written. The name before that is nobody's business.
 *  5. Between two looks there are PAUSE_MS: of many writes to a file in between one is told.
 *  6. The agent has more of the processor than its box may use, so a box that renames deep trees
 *     without end must not have it work for that all the time: who has worked for long rests twice
 *     as long, and what takes longer than ROUND_NS is as in rule 1. */

#define PAUSE_MS   10
#define HALF_NS    (20 * 1000000ll)   /* so long the first half of a rename waits for the second */
#define ANEW_NS    (500 * 1000000ll)  /* between two times that all is gone through */
#define TOLD_NS    (1000 * 1000000ll) /* between two words on directories that are too many */
#define ROUND_NS   (2000 * 1000000ll) /* of work on what inotify says, at a time */
#define LONG_NS    (20 * 1000000ll)   /* of work that is rested after, */
#define REST_NS    (5000 * 1000000ll) /* at most so long */
#define HALVES_MAX 16
#define SET_SIZE   4096
#define READ_BYTES (16u << 10)
#define READS_MAX  64 /* at a time, then what was told is sent */
#define UNSENT_MAX (128u << 10)

/* Names in directories, by their hashes; full, it has none. */
struct name_set {
    uint64_t hashes[SET_SIZE];
    size_t n;
};

struct half {
    uint32_t cookie; /* 0 = free */
    bool is_dir;
    int64_t until_ns;
    int wd; /* of its directory, which may be dropped meanwhile, and with it what was there */
    char name[256];
};

struct watch {
    struct agent_call *call;
    struct watch_tree tree;
    uint32_t kinds;
    const char *only; /* the name of the one file, below its directory; NULL = all */
    struct name_set known, written;
    struct half halves[HALVES_MAX];
    uint32_t placed; /* rule 4: the number of the rename */
    bool behind, over;
    uint64_t lost;
    int64_t anew_ns, told_ns; /* when that may be next */
    int64_t round_ns;         /* when this look began */
};

/* It is the only one of its process, and large. */
static struct watch watch;

/* ---- names that are remembered for a moment ---- */

static uint64_t hash_of(const struct watch_dir *dir, const char *name)
{
    uint64_t h = 14695981039346656037u ^ (uintptr_t)dir;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h ? h : 1;
}

/* Where it is, or would be. */
static uint64_t *place_of(struct name_set *s, uint64_t hash)
{
    size_t i = hash % SET_SIZE;

    while (s->hashes[i] != 0 && s->hashes[i] != hash)
        i = (i + 1) % SET_SIZE;
    return &s->hashes[i];
}

static void set_clear(struct name_set *s)
{
    if (s->n > 0)
        memset(s, 0, sizeof(*s));
}

/* True if it was in it. */
static bool set_add(struct name_set *s, const struct watch_dir *dir, const char *name)
{
    uint64_t hash = hash_of(dir, name), *place;

    if (s->n >= SET_SIZE / 2)
        set_clear(s);
    place = place_of(s, hash);
    if (*place)
        return true;
    *place = hash;
    s->n++;
    return false;
}

/* True if it was in it. It leaves a mark there, so that others are still found. */
static bool set_take(struct name_set *s, const struct watch_dir *dir, const char *name)
{
    uint64_t *place = s->n > 0 ? place_of(s, hash_of(dir, name)) : NULL;

    if (!place || !*place)
        return false;
    *place = UINT64_MAX;
    return true;
}

/* ---- telling ---- */

static void send_change(struct watch *w, const struct call_change *change)
{
    auto_buf struct buf b = {0};

    if (call_flush_try(w->call) < 0)
        _exit(0);
    if (w->call->out.len > UNSENT_MAX) {
        w->behind = true;
        w->lost++;
        return;
    }
    buf_init(&b, 4 * WATCH_PATH_MAX);
    call_change_put(&b, change);
    if (call_queue(w->call, FRAME_ITEM, b.data, b.len) < 0)
        _exit(1);
}

static void tell_path(struct watch *w, enum call_change_kind kind, bool is_dir, char *path,
                      char *from)
{
    struct call_change change = {
        .kind = kind, .is_dir = is_dir, .time_ms = (uint64_t)now_ms(), .path = path, .from = from};

    if (w->kinds & 1u << kind)
        send_change(w, &change);
}

static bool is_meant(const struct watch *w, const char *name)
{
    return !w->only || strcmp(w->only, name) == 0;
}

/* Of a name in a directory. One that is longer than a path can be is left out. */
static void tell(struct watch *w, enum call_change_kind kind, bool is_dir,
                 const struct watch_dir *dir, const char *name)
{
    char path[WATCH_PATH_MAX];

    if (is_meant(w, name) && watch_tree_path(&w->tree, dir, name, path))
        tell_path(w, kind, is_dir, path, NULL);
}

static void tell_count(struct watch *w, enum call_change_kind kind, uint64_t n, char *path)
{
    struct call_change change = {
        .kind = kind, .time_ms = (uint64_t)now_ms(), .lost = n, .path = path};

    send_change(w, &change);
}

static void tell_unwatched(struct watch *w)
{
    if (w->tree.unwatched == 0 || mono_ns() < w->told_ns)
        return;
    tell_count(w, CHANGE_UNWATCHED, w->tree.unwatched, w->tree.unwatched_path);
    w->tree.unwatched = 0;
    w->told_ns = mono_ns() + TOLD_NS;
}

/* ---- what inotify says ---- */

/* Rule 2. */
static void on_found(struct watch_dir *dir, const char *name, bool is_dir, void *arg)
{
    struct watch *w = arg;

    (void)set_add(&w->known, dir, name);
    tell(w, CHANGE_CREATE, is_dir, dir, name);
}

static void come(struct watch *w, struct watch_dir *dir, const char *name, bool is_dir)
{
    set_clear(&w->written);
    if (!set_take(&w->known, dir, name))
        tell(w, CHANGE_CREATE, is_dir, dir, name);
    if (is_dir)
        watch_tree_add(&w->tree, dir, name);
}

static void go(struct watch *w, struct watch_dir *dir, const char *name, bool is_dir)
{
    set_clear(&w->written);
    (void)set_take(&w->known, dir, name);
    if (is_dir)
        watch_tree_drop(&w->tree, watch_tree_child(&w->tree, dir, name));
    tell(w, CHANGE_REMOVE, is_dir, dir, name);
}

static void end_half(struct watch *w, struct half *h)
{
    struct watch_dir *dir = watch_tree_find(&w->tree, h->wd);

    h->cookie = 0;
    if (dir)
        go(w, dir, h->name, h->is_dir);
}

static void end_halves(struct watch *w, int64_t now)
{
    for (size_t i = 0; i < HALVES_MAX; i++)
        if (w->halves[i].cookie && w->halves[i].until_ns <= now)
            end_half(w, &w->halves[i]);
}

static struct half *find_half(struct watch *w, uint32_t cookie)
{
    for (size_t i = 0; i < HALVES_MAX; i++)
        if (w->halves[i].cookie == cookie)
            return &w->halves[i];
    return NULL;
}

static void first_half(struct watch *w, struct watch_dir *dir, const struct inotify_event *e)
{
    struct half *h = find_half(w, 0);

    if (!h) {
        h = &w->halves[0];
        for (size_t i = 1; i < HALVES_MAX; i++)
            if (w->halves[i].until_ns < h->until_ns)
                h = &w->halves[i];
        end_half(w, h);
    }
    *h = (struct half){.cookie = e->cookie,
                       .is_dir = e->mask & IN_ISDIR,
                       .until_ns = mono_ns() + HALF_NS,
                       .wd = dir->wd};
    (void)snprintf(h->name, sizeof(h->name), "%s", e->name);
}

/* What was at the new place is no more, unless it was read before this was heard of. What was read
 * so far ahead that one would be inside of itself is read anew. */
static void move_dir(struct watch *w, struct watch_dir *old, const struct half *h,
                     struct watch_dir *dir, const char *name)
{
    struct watch_dir *from = watch_tree_child(&w->tree, old, h->name);
    struct watch_dir *to = watch_tree_child(&w->tree, dir, name);

    if (from && (watch_tree_is_below(dir, from) || watch_tree_is_below(from, to))) {
        w->behind = true;
    } else if (from && from->wd < 0 && to) {
        watch_tree_drop(&w->tree, from);
    } else if (from) {
        watch_tree_drop(&w->tree, to);
        watch_tree_move(&w->tree, from, dir, name);
    } else {
        watch_tree_add(&w->tree, dir, name);
    }
}

static void second_half(struct watch *w, struct watch_dir *dir, const struct inotify_event *e)
{
    struct half *h = find_half(w, e->cookie), half;
    struct watch_dir *old = h ? watch_tree_find(&w->tree, h->wd) : NULL;
    char path[WATCH_PATH_MAX], from[WATCH_PATH_MAX];
    bool told;

    if (!old) {
        if (h)
            h->cookie = 0;
        come(w, dir, e->name, e->mask & IN_ISDIR);
        if (e->cookie == w->placed && !(e->mask & IN_ISDIR))
            tell(w, CHANGE_WRITE, false, dir, e->name);
        return;
    }
    half = *h;
    h->cookie = 0;
    set_clear(&w->written);
    (void)set_take(&w->known, old, half.name);
    (void)set_take(&w->known, dir, e->name);
    told = (is_meant(w, half.name) || is_meant(w, e->name)) &&
           watch_tree_path(&w->tree, old, half.name, from) &&
           watch_tree_path(&w->tree, dir, e->name, path);
    if (half.is_dir && w->tree.recursive)
        move_dir(w, old, &half, dir, e->name);
    if (told)
        tell_path(w, CHANGE_RENAME, half.is_dir, path, from);
}

/* Of a name that is left out: the other half of a rename may be of one that is not. */
static void on_ignored(struct watch *w, const struct inotify_event *e)
{
    struct half *h = e->mask & IN_MOVED_TO ? find_half(w, e->cookie) : NULL;

    if (h)
        end_half(w, h);
    if (e->mask & IN_MOVED_FROM && watch_is_passing(e->name))
        w->placed = e->cookie;
}

/* The directory itself: when the top goes, or is not where it was, there is nothing left to tell.
 */
static void on_self(struct watch *w, struct watch_dir *dir, uint32_t mask)
{
    char path[WATCH_PATH_MAX];

    if (dir->above) {
        if (mask & (IN_IGNORED | IN_UNMOUNT))
            watch_tree_drop(&w->tree, dir);
        return;
    }
    if (!(mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) || w->over)
        return;
    if (watch_tree_path(&w->tree, dir, w->only, path))
        tell_path(w, CHANGE_REMOVE, !w->only, path, NULL);
    w->over = true;
}

/* Is it in the directory that was moved? */
static bool is_below_half(struct watch *w, const struct half *h, const struct watch_dir *dir)
{
    struct watch_dir *from = h->is_dir ? watch_tree_find(&w->tree, h->wd) : NULL;
    const struct watch_dir *moved = from ? watch_tree_child(&w->tree, from, h->name) : NULL;

    return watch_tree_is_below(dir, moved);
}

/* Something else happens with a name that was moved, or below it: then it was moved away, and that
 * is told first. */
static void end_half_of(struct watch *w, const struct inotify_event *e)
{
    for (size_t i = 0; i < HALVES_MAX; i++) {
        const struct watch_dir *dir = watch_tree_find(&w->tree, e->wd); /* ending one may drop it */
        struct half *h = &w->halves[i];

        if (h->cookie && h->cookie != e->cookie &&
            ((h->wd == e->wd && strcmp(h->name, e->name) == 0) || is_below_half(w, h, dir)))
            end_half(w, h);
    }
}

static void on_event(struct watch *w, const struct inotify_event *e)
{
    struct watch_dir *dir = watch_tree_find(&w->tree, e->wd);
    bool is_dir = e->mask & IN_ISDIR;

    if (dir && e->len > 0) {
        end_half_of(w, e);
        dir = watch_tree_find(&w->tree, e->wd);
    }
    if (!dir) {
        return;
    } else if (e->len == 0) {
        on_self(w, dir, e->mask);
    } else if (watch_tree_ignores(&w->tree, e->name)) {
        on_ignored(w, e);
    } else if (e->mask & IN_CREATE) {
        come(w, dir, e->name, is_dir);
    } else if (e->mask & IN_DELETE) {
        go(w, dir, e->name, is_dir);
    } else if (e->mask & IN_MOVED_FROM) {
        first_half(w, dir, e);
    } else if (e->mask & IN_MOVED_TO) {
        second_half(w, dir, e);
    } else if (e->mask & IN_MODIFY) {
        if (!set_add(&w->written, dir, e->name))
            tell(w, CHANGE_WRITE, false, dir, e->name);
    } else if (e->mask & IN_ATTRIB) {
        tell(w, CHANGE_CHMOD, is_dir, dir, e->name);
    }
}

static void take_events(struct watch *w, const char *data, size_t len)
{
    for (size_t at = 0; at + sizeof(struct inotify_event) <= len;) {
        const struct inotify_event *e = (const struct inotify_event *)(const void *)(data + at);

        at += sizeof(*e) + e->len;
        w->behind |= e->mask & IN_Q_OVERFLOW || mono_ns() > w->round_ns + ROUND_NS;
        if (e->mask & IN_Q_OVERFLOW)
            continue;
        if (w->behind)
            w->lost++;
        else
            on_event(w, e);
    }
}

/* All that there is now; true if there was any. */
static bool take_news(struct watch *w)
{
    static _Alignas(struct inotify_event) char data[READ_BYTES];
    ssize_t n = 0;
    int i;

    for (i = 0; i < READS_MAX && (n = read(w->tree.fd, data, sizeof(data))) > 0; i++)
        take_events(w, data, (size_t)n);
    if (n < 0)
        set_clear(&w->known);
    return i > 0;
}

/* ---- the call ---- */

static uint32_t mask_of(uint32_t kinds)
{
    uint32_t mask =
        IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF;

    if (kinds & 1u << CHANGE_WRITE)
        mask |= IN_MODIFY;
    if (kinds & 1u << CHANGE_CHMOD)
        mask |= IN_ATTRIB;
    return mask;
}

/* Rule 1. */
static int begin_anew(struct watch *w, struct err *err)
{
    uint64_t lost = w->lost;
    int64_t began = mono_ns(), took;

    if (w->call->out.len > 0 || began < w->anew_ns)
        return 0;
    w->behind = false;
    w->lost = 0;
    memset(w->halves, 0, sizeof(w->halves));
    set_clear(&w->known);
    set_clear(&w->written);
    w->tree.found = NULL;
    if (watch_tree_build(&w->tree, err) < 0)
        return -1;
    w->tree.found = on_found;
    tell_count(w, CHANGE_OVERFLOW, lost, NULL);
    took = mono_ns() - began;
    w->anew_ns = began + took + (4 * took > ANEW_NS ? 4 * took : ANEW_NS);
    return 0;
}

static bool waits_for_time(const struct watch *w)
{
    for (size_t i = 0; i < HALVES_MAX; i++)
        if (w->halves[i].cookie)
            return true;
    return w->behind || w->tree.late || w->tree.unwatched > 0;
}

/* Rule 6. Who asked may take what is unsent, and may go. */
static void rest(struct watch *w)
{
    int64_t now = mono_ns(), worked = now - w->round_ns;
    int64_t until = now + (2 * worked < REST_NS ? 2 * worked : REST_NS);

    while (worked > LONG_NS && now < until) {
        struct pollfd p = {.fd = w->call->fd,
                           .events = (short)(POLLRDHUP | (w->call->out.len > 0 ? POLLOUT : 0))};

        (void)poll(&p, 1, (int)((until - now) / 1000000) + 1);
        if (p.revents & ~POLLOUT || call_flush_try(w->call) < 0)
            _exit(0);
        now = mono_ns();
    }
}

static void wait_for_news(struct watch *w, bool busy)
{
    struct pollfd p[] = {
        {.fd = w->call->fd, .events = (short)(POLLRDHUP | (w->call->out.len > 0 ? POLLOUT : 0))},
        {.fd = busy ? -1 : w->tree.fd, .events = POLLIN},
    };

    (void)poll(p, ARRAY_LEN(p), busy || waits_for_time(w) ? PAUSE_MS : -1);
    if (p[0].revents & ~POLLOUT)
        _exit(0);
}

static int tell_all(struct watch *w, struct err *err)
{
    while (!w->over) {
        bool busy;

        w->round_ns = mono_ns();
        busy = take_news(w);
        end_halves(w, mono_ns());
        if (!w->behind)
            watch_tree_retry(&w->tree);
        tell_unwatched(w);
        set_clear(&w->written);
        if (call_flush_try(w->call) < 0)
            _exit(0);
        if (w->behind && begin_anew(w, err) < 0)
            return -1;
        if (!w->over) {
            rest(w);
            wait_for_news(w, busy);
        }
    }
    end_halves(w, INT64_MAX);
    return 0;
}

/* A file is watched in its directory, so that it can be replaced. */
static int set_top(struct watch *w, char *path, struct err *err)
{
    char *slash = strrchr(path, '/');
    struct stat st;

    if (stat(path, &st) < 0)
        return file_error(err, errno, path);
    w->tree.top = path;
    if (S_ISDIR(st.st_mode))
        return 0;
    w->only = slash + 1;
    w->tree.recursive = false;
    *slash = '\0';
    if (slash == path)
        w->tree.top = "/";
    return 0;
}

static int take_place(struct err *err)
{
    struct slot *slot = agent_own_slot();
    unsigned n = 0;

    if (agent_become_stream(err) < 0)
        return -1;
    if (slot)
        slot->watched = 1;
    for (size_t i = 0; i < HANDLERS_MAX; i++)
        n += agents->handlers[i].pid != 0 && agents->handlers[i].watched > 0;
    if (n > WATCH_CALLS_MAX)
        return err_code(err, ERR_LIMIT, "watch_limit",
                        "%d callers watch files of this sandbox already; end some",
                        WATCH_CALLS_MAX);
    return 0;
}

static int check_all_watched(const struct watch *w, struct err *err)
{
    if (w->tree.unwatched == 0)
        return 0;
    return err_code(err, ERR_LIMIT, "watch_limit",
                    "%.80s has more directories than can be watched (%d for all callers of a "
                    "sandbox); begin further down, or leave some out with ignore",
                    w->tree.top, WATCH_DIRS_MAX);
}

static int watch_path(struct watch *w, char *path, struct err *err)
{
    if (set_top(w, path, err) < 0 || take_place(err) < 0)
        return -1;
    call_reply(w->call, FRAME_OK, NULL, 0);
    call_flush(w->call);
    if (watch_tree_build(&w->tree, err) < 0 || check_all_watched(w, err) < 0)
        return -1;
    w->tree.found = on_found;
    w->tree.arg = w;
    tell_count(w, CHANGE_READY, w->tree.n, NULL);
    if (tell_all(w, err) < 0)
        return -1;
    call_reply(w->call, FRAME_END, NULL, 0);
    return 0;
}

int watch_call(struct agent_call *c, struct err *err)
{
    auto_free char *path = wire_get_str(&c->args);
    auto_free char *user = wire_get_str(&c->args);
    uint32_t recursive = wire_get_u32(&c->args), kinds = wire_get_u32(&c->args);
    auto_strv char **ignore = wire_get_list(&c->args, CALL_IGNORES_MAX);
    int r;

    if (call_args_ok(c, err) < 0 || path_check(path, err) < 0 || identity_become(c, user, err) < 0)
        return -1;
    watch.call = c;
    watch.kinds = kinds & CHANGE_KINDS_ALL;
    watch.tree.fd = -1;
    watch.tree.recursive = recursive;
    watch.tree.ignore = ignore;
    watch.tree.mask = mask_of(watch.kinds);
    r = watch_path(&watch, path, err);
    watch_tree_done(&watch.tree);
    return r;
}
