#include "engine/main_state_internal.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/background_internal.h"
#include "engine/exec_internal.h"
#include "engine/json_text_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/stop_internal.h"

#define OUTPUT_MAX 2048
#define LINES_MAX  10
#define FRESH_NS   (100 * 1000000ll) /* so long what was heard of it is good enough */
#define AGAIN_NS   (2 * 1000000000ll)
#define LEAST_NS   (20 * 1000000ll) /* that one who is asked must have to answer */

void main_state_begin(struct sandbox *sb)
{
    pthread_mutex_lock(&sb->lock);
    free(sb->main.output);
    sb->main = (struct main_state){.what = MAIN_RUNS, .asking = sb->main.asking};
    pthread_mutex_unlock(&sb->lock);
}

/* The last lines: the first byte that is shown. */
static size_t first_line(const struct buf *b)
{
    size_t at = b->len, lines = 0;

    while (at > 0 && (b->data[at - 1] != '\n' || at == b->len || ++lines < LINES_MAX))
        at--;
    return at;
}

static char *read_output(struct engine *e, struct sandbox *sb, uint64_t size)
{
    uint64_t from = size > OUTPUT_MAX ? size - OUTPUT_MAX : 0;
    auto_buf struct buf b = {0};
    struct call_log log;
    size_t at;

    buf_init(&b, OUTPUT_MAX);
    if (size == 0 || log_read(e, sb, "main", from, OUTPUT_MAX, &b, &log, NULL) < 0 || b.len == 0)
        return NULL;
    at = first_line(&b);
    return xstrndup(b.data + at, b.len - at);
}

/* True for one caller at a time, while there is something to hear. */
static bool may_ask(struct sandbox *sb, uint32_t pause, uint32_t *ret_boots)
{
    bool yes;

    pthread_mutex_lock(&sb->lock);
    yes = sb->spec.entrypoint && sb->main.what != MAIN_ENDED && !sb->main.asking &&
          mono_ns() >= sb->main.again_ns && !sb->committing &&
          (pause == 0 || sb->main.pause != pause) &&
          (sb->state == SANDBOX_RUNNING || sb->state == SANDBOX_PAUSED);
    sb->main.asking |= yes;
    *ret_boots = sb->boots;
    pthread_mutex_unlock(&sb->lock);
    return yes;
}

static int ask(struct engine *e, struct sandbox *sb, int64_t until, struct call_log *ret)
{
    int r = paused_log_look(e, sb, "main", ret);

    if (r > 0)
        r = main_look(e, sb, until, ret);
    return r < 0 || !exit_reason_of(&ret->exit) ? -1 : 0;
}

void main_state_ask(struct engine *e, struct sandbox *sb, int64_t until)
{
    auto_free char *output = NULL;
    uint32_t pause = sandbox_pause(sb), boots;
    struct call_log log;
    int r;

    /* When others have used up the time it is left for another call, and is not taken for silent.
     */
    if (until - mono_ns() < LEAST_NS || !may_ask(sb, pause, &boots))
        return;
    r = ask(e, sb, until, &log);
    if (r == 0 && !log.running)
        output = read_output(e, sb, log.size);
    pthread_mutex_lock(&sb->lock);
    sb->main.asking = false;
    sb->main.again_ns = mono_ns() + (r < 0 ? AGAIN_NS : FRESH_NS);
    if (r == 0 && sb->boots == boots) { /* else it is of the box before */
        sb->main.pause = pause;
        sb->main.what = log.running ? MAIN_RUNS : MAIN_ENDED;
        sb->main.end = log;
        sb->main.output = steal_ptr(output);
    }
    pthread_mutex_unlock(&sb->lock);
}

static void put_end(json_t *o, const struct sandbox *sb)
{
    const char *output = sb->main.output;

    exit_put(o, sb, &sb->main.end.exit);
    (void)json_object_set_new(o, "startedAt", json_integer((json_int_t)sb->main.end.started_ms));
    (void)json_object_set_new(o, "finishedAt", json_integer((json_int_t)sb->main.end.finished_ms));
    if (output)
        (void)json_object_set_new(o, "output", json_of_bytes(output, strlen(output)));
}

json_t *main_state_json(struct sandbox *sb)
{
    static const char *const words[] = {
        [MAIN_UNKNOWN] = "unknown", [MAIN_RUNS] = "running", [MAIN_ENDED] = "exited"};
    json_t *o = json_object();
    bool stopped;

    if (!sb->spec.entrypoint) {
        json_decref(o);
        return NULL;
    }
    pthread_mutex_lock(&sb->lock);
    stopped = sb->state == SANDBOX_STOPPED && sb->main.what != MAIN_ENDED;
    (void)json_object_set_new(o, "state", json_string(words[stopped ? MAIN_ENDED : sb->main.what]));
    if (stopped)
        (void)json_object_set_new(o, "message", json_string("ended with its sandbox"));
    else if (sb->main.what == MAIN_ENDED)
        put_end(o, sb);
    pthread_mutex_unlock(&sb->lock);
    return o;
}
