#include <string.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "iii/lane_internal.h"

#define DELAY_MAX 3600000 /* ms that a job that failed is put off */
#define ERROR_MAX 1000    /* bytes that are kept of why one failed */

/* ---- jobs ---- */

struct job *job_garbage_next(struct job *j)
{
    return j->next;
}

void job_unref(struct iii_triggers *t, struct job *j)
{
    (void)t;
    if (!j || atomic_fetch_sub(&j->refs, 1) != 1)
        return;
    iii_asker_unref(j->asker);
    free(j->data);
    free(j->who);
    free(j->function_id);
    free(j->namespace);
    free(j->metadata);
    free(j->traceparent);
    free(j->baggage);
    free(j->queue);
    free(j->error);
    free(j->binder);
    free(j->group_key);
    free(j);
}

static void unlink_from(struct job **first, struct job **last, struct job *j)
{
    if (j->prev)
        j->prev->next = j->next;
    else
        *first = j->next;
    if (j->next)
        j->next->prev = j->prev;
    else if (last)
        *last = j->prev;
    j->prev = j->next = NULL;
}

static void append(struct job **first, struct job **last, struct job *j)
{
    j->next = NULL;
    j->prev = *last;
    if (*last)
        (*last)->next = j;
    else
        *first = j;
    *last = j;
}

static void prepend(struct job **first, struct job **last, struct job *j)
{
    j->prev = NULL;
    j->next = *first;
    if (*first)
        (*first)->prev = j;
    else if (last)
        *last = j;
    *first = j;
}

/* Out of whatever it is in. */
void job_leave(struct iii_triggers *t, struct job *j)
{
    switch (j->state) {
    case JOB_READY:
        if (j->held) {
            group_unlist(j);
            break;
        }
        unlink_from(&j->lane->first, &j->lane->last, j);
        j->lane->ready--;
        break;
    case JOB_DELAYED:
        unlink_from(&t->delayed, NULL, j);
        j->lane->delayed--;
        if (!j->group)
            j->lane->blocked = false; /* whatever its rules have become since */
        break;
    case JOB_RUNS:
        unlink_from(&t->running, &t->running_end, j);
        j->lane->running--;
        break;
    case JOB_DEAD:
        unlink_from(&t->dead, &t->dead_end, j);
        t->n_dead--;
        break;
    case JOB_OVER:
        break;
    }
    j->state = JOB_OVER;
}

void job_end(struct iii_triggers *t, struct job *j)
{
    if (j->state == JOB_OVER)
        return;
    if (j->state != JOB_DEAD && j->lane->consumer && j->lane->consumer->kind == &sandbox_trigger)
        follow_told(t, j->lane->consumer);
    job_leave(t, j);
    group_leave(t, j);
    j->lane = NULL;
    if (j->who) {
        t->n_jobs--;
        budget_give_share(&t->room, j->who, 1);
        budget_give_share(t->hub->config.memory, j->who, j->bytes);
    }
    j->next = t->garbage_jobs;
    t->garbage_jobs = j;
}

static struct job *dead_of(struct iii_triggers *t, const char *who)
{
    struct job *j = t->dead;

    while (j && (!j->who || strcmp(j->who, who) != 0))
        j = j->next;
    return j;
}

/* Room for one more of a caller's: old dead letters make some. */
int job_take_room(struct iii_triggers *t, const char *who, size_t bytes, struct err *err)
{
    if (t->n_jobs >= JOBS_MAX && t->dead)
        job_end(t, t->dead);
    while (!budget_take_share(&t->room, who, 1)) {
        struct job *old = dead_of(t, who);

        if (!old)
            return err_code(err, ERR_LIMIT, "queue_full",
                            "as many calls wait in queues as may be: %d, and half of them of one "
                            "caller",
                            JOBS_MAX);
        job_end(t, old);
    }
    while (!budget_take_share(t->hub->config.memory, who, bytes)) {
        struct job *old = dead_of(t, who);

        if (!old) {
            budget_give_share(&t->room, who, 1);
            return err_code(err, ERR_LIMIT, "queue_full",
                            "there is no memory for more calls that wait in queues");
        }
        job_end(t, old);
    }
    t->n_jobs++;
    return 0;
}

struct job *job_new(char *data)
{
    struct job *j = xcalloc(1, sizeof(*j));

    atomic_init(&j->refs, 1);
    iii_uuid_new(j->id);
    j->state = JOB_OVER;
    j->data = data;
    return j;
}

/* ---- lanes ---- */

bool lane_can_run(const struct lane *l)
{
    return l->ready > 0 && l->running < l->rules.at_once && !l->blocked &&
           (l->kind == LANE_NAMED || l->consumer);
}

void lane_arm(struct iii_triggers *t, struct lane *l)
{
    if (l->active || !lane_can_run(l))
        return;
    l->active = true;
    l->next_active = NULL;
    *t->active_end = l;
    t->active_end = &l->next_active;
}

void lane_disarm(struct iii_triggers *t, struct lane *l)
{
    struct lane **at = &t->active;

    if (!l->active)
        return;
    while (*at != l)
        at = &(*at)->next_active;
    *at = l->next_active;
    if (!*at)
        t->active_end = at;
    l->active = false;
}

struct lane *lane_new(struct iii_triggers *t, enum lane_kind kind, const char *name,
                      const struct lane_rules *rules)
{
    struct lane *l = xcalloc(1, sizeof(*l));

    l->kind = kind;
    l->name = xstrdup(name);
    l->rules = *rules;
    l->next = t->lanes;
    if (l->next)
        l->next->prev = l;
    t->lanes = l;
    t->n_queues += kind == LANE_NAMED;
    return l;
}

struct lane *lane_find_queue(const struct iii_triggers *t, const char *name)
{
    for (struct lane *l = t->lanes; l; l = l->next)
        if (l->kind == LANE_NAMED && strcmp(l->name, name) == 0)
            return l;
    return NULL;
}

struct lane *lane_find_topic(const struct iii_triggers *t, const char *name,
                             const char *function_id, const char *namespace, const char *binder)
{
    for (struct lane *l = t->lanes; l; l = l->next)
        if (l->kind == LANE_TOPIC && strcmp(l->name, name) == 0 &&
            strcmp(l->function_id, function_id) == 0 && strcmp(l->namespace, namespace) == 0 &&
            strcmp(l->binder, binder) == 0)
            return l;
    return NULL;
}

static void end_those_of(struct iii_triggers *t, struct job *list, const struct lane *l)
{
    for (struct job *j = list, *next; j; j = next) {
        next = j->next;
        if (j->lane == l)
            job_end(t, j);
    }
}

unsigned lane_pending(const struct lane *l)
{
    return l->ready + l->held + l->delayed + l->running;
}

unsigned lane_waiting(const struct lane *l)
{
    return l->ready + l->held + l->delayed;
}

unsigned lane_empty(struct iii_triggers *t, struct lane *l)
{
    unsigned n = lane_pending(l);

    while (lane_pending(l) > 0) { /* one that ends may make another of its group ready */
        while (l->first)
            job_end(t, l->first);
        if (l->delayed > 0)
            end_those_of(t, t->delayed, l);
        if (l->running > 0)
            end_those_of(t, t->running, l);
    }
    return n;
}

static void lane_free(struct iii_triggers *t, struct lane *l)
{
    (void)lane_empty(t, l);
    lane_disarm(t, l);
    if (l->prev)
        l->prev->next = l->next;
    else
        t->lanes = l->next;
    if (l->next)
        l->next->prev = l->prev;
    t->n_queues -= l->kind == LANE_NAMED && !l->definer;
    t->n_defined -= l->definer != NULL;
    t->n_alone -= l->kind == LANE_TOPIC && l->consumers == 0;
    free(l->name);
    free(l->function_id);
    free(l->namespace);
    free(l->binder);
    free(l->group_field);
    free(l->definer);
    free(l);
}

/* Of a lane that nobody holds and that has nothing. */
void lane_settle(struct iii_triggers *t, struct lane *l)
{
    if (lane_pending(l) == 0 &&
        ((l->kind == LANE_NAMED && !l->definer) || (l->kind == LANE_TOPIC && !l->consumers)))
        lane_free(t, l);
    else
        lane_arm(t, l);
}

void lane_open(struct iii_triggers *t, struct bound *b, const struct lane_rules *rules)
{
    b->lane = lane_new(t, LANE_OWN, b->topic ? b->topic : "", rules);
    b->lane->consumer = b;
    b->lane->consumers = 1;
}

static struct bound *another(const struct iii_triggers *t, const struct bound *b)
{
    for (struct bound *o = t->all; o; o = o->next)
        if (o != b && o->lane == b->lane)
            return o;
    return NULL;
}

void lane_leave(struct iii_triggers *t, struct bound *b)
{
    struct lane *l = b->lane;

    if (!l)
        return;
    if (l->kind == LANE_OWN) {
        lane_free(t, l);
    } else {
        l->consumers--;
        if (l->consumer == b)
            l->consumer = another(t, b);
        if (l->consumers == 0) {
            l->alone_ns = mono_ns();
            t->n_alone++;
        }
        lane_settle(t, l);
    }
    b->lane = NULL;
}

static void put_off(struct iii_triggers *t, struct job *j, int64_t at_ns)
{
    j->state = JOB_DELAYED;
    j->at_ns = at_ns;
    prepend(&t->delayed, NULL, j);
    j->lane->delayed++;
    if (!t->delayed_due_ns || at_ns < t->delayed_due_ns)
        t->delayed_due_ns = at_ns;
}

void job_ready(struct iii_triggers *t, struct job *j, bool ahead)
{
    struct lane *l = j->lane;

    j->state = JOB_READY;
    if (j->group_key && !group_enter(t, j))
        return;
    if (ahead)
        prepend(&l->first, &l->last, j);
    else
        append(&l->first, &l->last, j);
    l->ready++;
    lane_arm(t, l);
}

void job_run(struct iii_triggers *t, struct job *j)
{
    job_leave(t, j);
    j->state = JOB_RUNS;
    /* No two attempts of a job begin at once. */
    j->at_ns = mono_ns() > j->at_ns ? mono_ns() : j->at_ns + 1;
    append(&t->running, &t->running_end, j);
    if (j->lane->running++ == 0 && j->lane->consumer)
        j->lane->consumer->answered_ns = j->at_ns;
}

void lane_tell(struct iii_triggers *t, struct lane *l, json_t *data, int64_t at_ns)
{
    struct job *j = job_new(data ? json_dumps(data, JOB_DUMP) : NULL);

    json_decref(data);
    j->lane = l;
    if (at_ns)
        put_off(t, j, at_ns);
    else
        job_ready(t, j, false);
}

/* ---- how a job ends ---- */

/* Then it pushes out its own, and not those of others. */
static bool has_half_of_dead(const struct iii_triggers *t, const char *who)
{
    unsigned n = 0;

    for (const struct job *j = t->dead; j; j = j->next)
        n += strcmp(j->who, who) == 0;
    return n > DEAD_MAX / 2;
}

static void bury(struct iii_triggers *t, struct job *j, const char *error)
{
    struct lane *l = j->lane;
    size_t len = strnlen(error, ERROR_MAX);

    while (error[len] && len > 0 && ((unsigned char)error[len] & 0xc0) == 0x80)
        len--; /* to where a character begins */
    job_leave(t, j);
    group_leave(t, j);
    j->queue = xstrdup(l->name);
    if (!j->function_id) {
        j->function_id = xstrdup(l->function_id ? l->function_id : "");
        j->namespace = xstrdup(l->namespace ? l->namespace : III_NAMESPACE);
    }
    j->binder = l->binder ? xstrdup(l->binder) : NULL;
    j->lane = NULL;
    j->error = xstrndup(error, len);
    j->failed_ms = now_ms();
    j->state = JOB_DEAD;
    append(&t->dead, &t->dead_end, j);
    if (++t->n_dead > DEAD_MAX)
        job_end(t, has_half_of_dead(t, j->who) ? dead_of(t, j->who) : t->dead);
}

void job_wait(struct iii_triggers *t, struct job *j, int64_t until_ns)
{
    j->attempts -= !j->prepared;
    job_leave(t, j);
    put_off(t, j, until_ns);
    j->lane->blocked |= j->lane->rules.fifo && !j->group;
}

void job_fail(struct iii_triggers *t, struct job *j, const char *error)
{
    struct lane *l = j->lane;
    int64_t ms = l->rules.backoff_ms;

    j->prepared = false;
    if (j->attempts < l->rules.attempts) {
        for (unsigned i = 1; i < j->attempts && ms < DELAY_MAX; i++)
            ms *= 2;
        job_leave(t, j);
        put_off(t, j, mono_ns() + (ms < DELAY_MAX ? ms : DELAY_MAX) * 1000000);
        l->blocked |= l->rules.fifo && !j->group;
        return;
    }
    log_warn("a function that was triggered failed", "queue", l->name, "job", j->id, "error",
             error);
    if (l->rules.buries)
        bury(t, j, error);
    else
        job_end(t, j);
}

int64_t lanes_tick(struct iii_triggers *t, int64_t now)
{
    int64_t next = 0;

    if (t->delayed_due_ns && t->delayed_due_ns <= now) {
        t->delayed_due_ns = 0;
        for (struct job *j = t->delayed, *after; j; j = after) {
            after = j->next;
            if (j->at_ns <= now) {
                job_leave(t, j);
                job_ready(t, j, j->lane->rules.fifo);
            } else if (!t->delayed_due_ns || j->at_ns < t->delayed_due_ns) {
                t->delayed_due_ns = j->at_ns;
            }
        }
    }
    next = t->delayed_due_ns;
    for (struct job *j = t->running, *after; j && j->at_ns + JOB_LIMIT_NS <= now; j = after) {
        struct lane *l = j->lane;

        after = j->next;
        job_fail(t, j, "it has not answered in time");
        lane_settle(t, l);
    }
    if (t->running && (!next || t->running->at_ns + JOB_LIMIT_NS < next))
        next = t->running->at_ns + JOB_LIMIT_NS;
    for (struct lane *l = t->lanes, *after; l && t->n_alone > 0; l = after) {
        after = l->next;
        if (l->kind != LANE_TOPIC || l->consumers > 0)
            continue;
        if (l->alone_ns + LANE_ALONE_NS <= now)
            lane_free(t, l);
        else if (!next || l->alone_ns + LANE_ALONE_NS < next)
            next = l->alone_ns + LANE_ALONE_NS;
    }
    return next;
}

void lanes_drop(struct iii_triggers *t)
{
    for (struct lane *l = t->lanes, *next; l; l = next) {
        next = l->next;
        lane_free(t, l);
    }
    while (t->dead)
        job_end(t, t->dead);
}
