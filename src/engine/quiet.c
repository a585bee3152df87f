#include "engine/quiet_internal.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/boot_internal.h"
#include "engine/engine_internal.h"
#include "engine/idle_internal.h"
#include "engine/network_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/threads_internal.h"
#include "engine/volumes_internal.h"
#include "runtime/runtime.h"

#define IDLE_NS   (5 * 1000000000ll)   /* so long a quiet box waits for another call */
#define TURN_NS   (50 * 1000000ll)     /* until the thread tries again to have a turn */
#define READY_NS  (300 * 1000000000ll) /* so long one is kept ready for a start */
#define READY_MAX 8
#define AGAIN_NS  (10 * 1000000000ll) /* and what could not be taken away is tried again */

struct quiet {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct sandbox *list; /* with something to take away, in no order; a reference each */
    bool stop, running;
    pthread_t thread;
};

/* ---- which are to be looked at ---- */

static void list_add(struct quiet *q, struct sandbox *sb)
{
    pthread_mutex_lock(&q->lock);
    if (!sb->quiet_listed) {
        sb->quiet_listed = true;
        sb->quiet_next = q->list;
        q->list = sandbox_ref(sb);
    }
    pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->lock);
}

/* With the lock held: out of the list, unless at is NULL. */
static struct sandbox *list_take(struct sandbox **at)
{
    struct sandbox *sb = *at;

    *at = sb->quiet_next;
    sb->quiet_listed = false;
    return sb;
}

static int64_t due_ns(struct sandbox *sb)
{
    int64_t due;

    pthread_mutex_lock(&sb->lock);
    due = sb->quiet_until_ns;
    pthread_mutex_unlock(&sb->lock);
    return due;
}

static void set_due(struct sandbox *sb, int64_t due)
{
    pthread_mutex_lock(&sb->lock);
    sb->quiet_until_ns = due;
    pthread_mutex_unlock(&sb->lock);
}

/* ---- taking away ---- */

void quiet_set(struct sandbox *sb, int what)
{
    pthread_mutex_lock(&sb->lock);
    sb->quiet = what;
    pthread_mutex_unlock(&sb->lock);
}

/* Of a stopped one that nobody uses, or reads the disk of: from here on none can begin to. */
static bool claim(struct sandbox *sb, bool now)
{
    bool mine;

    pthread_mutex_lock(&sb->lock);
    mine = sb->quiet != QUIET_NOTHING && sb->visits == 0 && !sb->committing &&
           (now || sb->quiet_until_ns <= mono_ns());
    if (mine)
        sb->quiet = QUIET_REST;
    pthread_mutex_unlock(&sb->lock);
    return mine;
}

static int take_away(struct engine *e, struct sandbox *sb, struct err *err)
{
    if (runtime_stop(e->runtime, &sb->box, err) < 0)
        return -1;
    network_detach(e, sb);
    quiet_set(sb, QUIET_NOTHING);
    volumes_settle(e, sb->spec.mounts);
    return 0;
}

/* ---- making ready ---- */

static bool has_room(struct quiet *q)
{
    unsigned n = 0;

    pthread_mutex_lock(&q->lock);
    for (struct sandbox *sb = q->list; sb; sb = sb->quiet_next) {
        pthread_mutex_lock(&sb->lock);
        n += sb->quiet == QUIET_READY;
        pthread_mutex_unlock(&sb->lock);
    }
    pthread_mutex_unlock(&q->lock);
    return n < READY_MAX;
}

/* In its turn. A start does without: what fails here it finds out itself. */
static void make_ready(struct engine *e, struct sandbox *sb)
{
    struct box box = sb->box;
    bool ready;

    sb->ready_wanted = false;
    if (sb->quiet != QUIET_NOTHING || sandbox_is_committing(sb) || !has_room(e->quiet))
        return;
    ready = runtime_ready(e->runtime, &box, &sb->spec.limits, NULL) == 0;
    pthread_mutex_lock(&sb->lock);
    sb->quiet = ready ? QUIET_READY : QUIET_REST; /* what a failure has left goes */
    sb->quiet_until_ns = ready ? mono_ns() + READY_NS : 0;
    pthread_mutex_unlock(&sb->lock);
}

void quiet_make_ready(struct engine *e, struct sandbox *sb)
{
    sb->ready_wanted = true;
    set_due(sb, 0);
    list_add(e->quiet, sb);
}

/* ---- the thread ---- */

/* In its turn. False = it is to be looked at again. */
static bool is_settled(struct engine *e, struct sandbox *sb)
{
    struct err err = {0};

    if (sandbox_is_stopped(sb) && sb->ready_wanted)
        make_ready(e, sb);
    if (!sandbox_is_stopped(sb) || sb->quiet == QUIET_NOTHING)
        return true; /* it was started or removed, or is settled already */
    if (!claim(sb, false)) {
        if (due_ns(sb) <= mono_ns())
            set_due(sb, mono_ns() + IDLE_NS);
        return false;
    }
    if (take_away(e, sb, &err) == 0)
        return true;
    log_warn("what a stopped sandbox has left could not be taken away; trying again", "id",
             sb->box.id, "error", err.text);
    set_due(sb, mono_ns() + AGAIN_NS);
    return false;
}

static void settle(struct engine *e, struct sandbox *sb)
{
    bool settled = false;

    if (turn_try(&sb->turn)) {
        settled = is_settled(e, sb);
        turn_give(&sb->turn);
    } else {
        set_due(sb, mono_ns() + TURN_NS);
    }
    if (!settled)
        list_add(e->quiet, sb);
    sandbox_unref(sb);
}

/* With the lock held: the first that is due, or until when there is none. */
static struct sandbox *take_due(struct quiet *q, int64_t *ret_next)
{
    int64_t now = mono_ns();

    *ret_next = INT64_MAX;
    for (struct sandbox **at = &q->list; *at; at = &(*at)->quiet_next) {
        int64_t due = due_ns(*at);

        if (due <= now)
            return list_take(at);
        if (due < *ret_next)
            *ret_next = due;
    }
    return NULL;
}

static void *quiet_main(void *arg)
{
    struct engine *e = arg;
    struct quiet *q = e->quiet;

    thread_is_background();
    pthread_mutex_lock(&q->lock);
    while (!q->stop) {
        int64_t next;
        struct sandbox *sb = take_due(q, &next);
        struct timespec until = {.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};

        if (sb) {
            pthread_mutex_unlock(&q->lock);
            settle(e, sb);
            pthread_mutex_lock(&q->lock);
        } else if (next == INT64_MAX) {
            pthread_cond_wait(&q->more, &q->lock);
        } else {
            (void)pthread_cond_timedwait(&q->more, &q->lock, &until);
        }
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

void quiet_leave_rest(struct engine *e, struct sandbox *sb)
{
    pthread_mutex_lock(&sb->lock);
    sb->quiet = QUIET_REST;
    sb->quiet_until_ns = 0;
    pthread_mutex_unlock(&sb->lock);
    list_add(e->quiet, sb);
}

int quiet_end(struct engine *e, struct sandbox *sb, struct err *err)
{
    if (sb->quiet == QUIET_NOTHING)
        return 0;
    if (!claim(sb, true))
        return err_code(err, ERR_UNAVAILABLE, "sandbox_busy",
                        "calls on the files of the sandbox are not done yet; try again later");
    return take_away(e, sb, err);
}

/* ---- calls on files ---- */

bool quiet_has_box(struct engine *e, struct sandbox *sb)
{
    return sb->quiet == QUIET_BOX && runtime_lives(e->runtime, &sb->box);
}

/* One that is there can be used without a turn. */
static bool visit(struct engine *e, struct sandbox *sb)
{
    bool lives = runtime_lives(e->runtime, &sb->box), yes;

    pthread_mutex_lock(&sb->lock);
    yes = sb->state == SANDBOX_STOPPED && sb->quiet == QUIET_BOX && lives && !sb->committing;
    sb->visits += yes;
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

static int make_in_turn(struct engine *e, struct sandbox *sb, struct err *err)
{
    if (!sandbox_is_stopped(sb))
        return sandbox_check_running(sb, err);
    if (sandbox_is_committing(sb))
        return sandbox_stands_still(err);
    if (!quiet_has_box(e, sb) && sandbox_boot(e, sb, BOOT_QUIET, err) < 0)
        return err_wrap(err, "reach the files of a stopped sandbox");
    return 0;
}

static int make_and_visit(struct engine *e, struct sandbox *sb, struct err *err)
{
    int r;

    if (turn_take(e, &sb->turn, err) < 0)
        return -1;
    r = make_in_turn(e, sb, err);
    if (r == 0) {
        pthread_mutex_lock(&sb->lock);
        sb->visits++;
        sb->quiet_until_ns = mono_ns() + IDLE_NS;
        pthread_mutex_unlock(&sb->lock);
        list_add(e->quiet, sb);
    }
    turn_give(&sb->turn);
    return r;
}

int files_begin(struct engine *e, const char *id, struct sandbox **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    if (!sandbox_is_stopped(sb)) {
        sandbox_unref(steal_ptr(sb));
        if (sandbox_get_running(e, id, &sb, err) < 0)
            return -1;
        pthread_mutex_lock(&sb->lock);
        sb->visits++;
        pthread_mutex_unlock(&sb->lock);
    } else if (!visit(e, sb) && make_and_visit(e, sb, err) < 0) {
        return -1;
    }
    *ret = steal_ptr(sb);
    return 0;
}

void files_done(struct sandbox *sb)
{
    if (!sb)
        return;
    idle_note(sb);
    pthread_mutex_lock(&sb->lock);
    sb->visits--;
    if (sb->quiet == QUIET_BOX) /* what is ready for a start is so for longer */
        sb->quiet_until_ns = mono_ns() + IDLE_NS;
    pthread_mutex_unlock(&sb->lock);
    sandbox_unref(sb);
}

/* ---- start and stop ---- */

struct quiet *quiet_new(void)
{
    struct quiet *q = xcalloc(1, sizeof(*q));

    pthread_mutex_init(&q->lock, NULL);
    cond_init_monotonic(&q->more);
    return q;
}

void quiet_free(struct quiet *q)
{
    if (!q)
        return;
    while (q->list)
        sandbox_unref(list_take(&q->list));
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->more);
    free(q);
}

int quiet_start(struct engine *e, struct err *err)
{
    int r = pthread_create(&e->quiet->thread, NULL, quiet_main, e);

    if (r != 0)
        return err_sys(err, r, "start the thread that looks after stopped sandboxes");
    e->quiet->running = true;
    return 0;
}

void quiet_stop(struct engine *e)
{
    struct quiet *q = e->quiet;

    if (!q->running)
        return;
    pthread_mutex_lock(&q->lock);
    q->stop = true;
    pthread_cond_broadcast(&q->more);
    pthread_mutex_unlock(&q->lock);
    (void)pthread_join(q->thread, NULL);
    q->running = false;
    for (struct sandbox *sb = q->list; sb; sb = sb->quiet_next) {
        if (!turn_try(&sb->turn))
            continue;
        if (sandbox_is_stopped(sb))
            (void)quiet_end(e, sb, NULL); /* else the next start does */
        turn_give(&sb->turn);
    }
}
