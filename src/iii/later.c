#include <pthread.h>
#include <string.h>

#include "base/budget.h"
#include "base/mem.h"
#include "iii/iii_internal.h"

/* What the hub is asked about others takes longer the more of them there are, and who asks is read
 * by the threads that serve everybody's requests. So such questions wait in a line of their own,
 * and one thread of the runner answers one at a time. Those who ask take turns: the n-th question
 * of one is behind the n-th of each who asks too, however many he has. */

struct later {
    struct iii_question q; /* with copies of its own */
    iii_answered answered;
    void *arg;
    uint64_t turn;
    struct later *next;
};

struct iii_line {
    struct work work;
    struct iii_hub *hub;
    iii_run run;
    pthread_mutex_t lock;
    struct later *first; /* by turn */
    uint64_t turn;       /* whose it is */
    bool busy;           /* the work is the runner's */
};

static void later_free(struct iii_hub *hub, struct later *l)
{
    budget_give(hub->config.memory, l->q.weight);
    iii_call_end(hub, l->q.asker);
    iii_asker_unref(l->q.asker);
    json_decref(l->q.data);
    free((char *)(uintptr_t)l->q.namespace);
    free((char *)(uintptr_t)l->q.function_id);
    free(l);
}

static struct later *take_first(struct iii_line *line)
{
    struct later *l;

    (void)pthread_mutex_lock(&line->lock);
    l = line->first;
    line->first = l->next;
    line->turn = l->turn;
    (void)pthread_mutex_unlock(&line->lock);
    return l;
}

/* Under the lock. */
static void enter(struct iii_line *line, struct later *l)
{
    struct iii_share *s = l->q.asker->share;
    struct later **at = &line->first;

    l->turn = (s->turn > line->turn ? s->turn : line->turn) + 1;
    s->turn = l->turn;
    while (*at && (*at)->turn <= l->turn)
        at = &(*at)->next;
    l->next = *at;
    *at = l;
}

static bool is_done(struct iii_line *line)
{
    bool done;

    (void)pthread_mutex_lock(&line->lock);
    done = !line->first;
    line->busy = !done;
    (void)pthread_mutex_unlock(&line->lock);
    return done;
}

static void refuse(struct later *l)
{
    json_t *error = iii_error("invocation_stopped", "nobody waits for it any more");

    l->answered(l->arg, NULL, error);
    json_decref(error);
}

static void run(struct work *w)
{
    struct iii_line *line = (struct iii_line *)w;
    struct later *l = take_first(line);

    if (runner_stops(line->hub->runner) || atomic_load(&l->q.asker->gone))
        refuse(l);
    else
        line->run(line->hub, &l->q, l->answered, l->arg);
    later_free(line->hub, l);
    if (!is_done(line))
        runner_add(line->hub->runner, w);
}

void iii_line_ask(struct iii_line *line, const struct iii_question *q, iii_answered answered,
                  void *arg)
{
    json_t *error = iii_call_begin(line->hub, q->asker);
    struct later *l;
    bool idle;

    if (error) {
        answered(arg, NULL, error);
        json_decref(error);
        return;
    }
    l = xcalloc(1, sizeof(*l));
    *l = (struct later){
        .q = {.asker = iii_asker_ref(q->asker),
              .namespace = q->namespace ? xstrdup(q->namespace) : NULL,
              .function_id = xstrdup(q->function_id),
              .data = json_deep_copy(q->data),
              .weight = q->weight},
        .answered = answered,
        .arg = arg,
    };
    budget_add(line->hub->config.memory, q->weight);
    (void)pthread_mutex_lock(&line->lock);
    enter(line, l);
    idle = !line->busy;
    line->busy = true;
    (void)pthread_mutex_unlock(&line->lock);
    if (idle)
        runner_add(line->hub->runner, &line->work);
}

struct iii_line *iii_line_new(struct iii_hub *hub, iii_run answer)
{
    struct iii_line *line = xcalloc(1, sizeof(*line));

    (void)pthread_mutex_init(&line->lock, NULL);
    line->work.run = run;
    line->hub = hub;
    line->run = answer;
    return line;
}

void iii_line_free(struct iii_line *line)
{
    if (!line)
        return;
    (void)pthread_mutex_destroy(&line->lock);
    free(line);
}
