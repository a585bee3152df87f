#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "worker/worker.h"

#define PAUSE_NS 100000000L

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Under the lock. */
static void write_event(json_t *event)
{
    auto_free char *text = json_dumps(event, JSON_COMPACT);
    size_t len;

    json_decref(event);
    if (!text)
        abort(); /* a string that is not UTF-8: whoever put it in had to check */
    len = strlen(text);
    text[len] = '\n'; /* in place of the NUL: the line's end */
    if (write_all(STDOUT_FILENO, text, len + 1) < 0)
        _exit(1); /* nobody listens */
}

void event_send(json_t *event)
{
    (void)pthread_mutex_lock(&lock);
    write_event(event);
    (void)pthread_mutex_unlock(&lock);
}

void event_pause(pthread_cond_t *ended, pthread_mutex_t *held)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PAUSE_NS;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    (void)pthread_cond_timedwait(ended, held, &until);
}

json_t *error_json(const struct err *failure)
{
    struct err copy = *failure, *err = &copy;
    auto_buf struct buf text = {0};

    (void)err_no_space(err, NO_SPACE_ADVICE);
    /* It may quote what a stranger wrote, and may be cut within a character. */
    buf_init(&text, 4 * sizeof(err->text));
    (void)utf8_clean(&text, err->text, utf8_cut(err->text, strlen(err->text)));
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
            text.data[i] = '?';
    return json_pack("{s:s, s:s*, s:s}", "kind", err_kind_code(err->kind), "code", err->code,
                     "text", text.len > 0 ? text.data : "");
}

void error_from_json(const json_t *o, struct err *ret)
{
    const char *kind = json_string_value(json_object_get(o, "kind"));
    const char *code = json_string_value(json_object_get(o, "code"));
    const char *text = json_string_value(json_object_get(o, "text"));
    enum err_kind found = ERR_INTERNAL;

    for (int k = ERR_INVALID; kind && k < ERR_KINDS; k++)
        if (strcmp(err_kind_code((enum err_kind)k), kind) == 0)
            found = (enum err_kind)k;
    /* The process ends with this error, so that the code may stay. */
    (void)err_code(ret, found, code ? xstrdup(code) : NULL, "%s", text ? text : "");
}

void event_fail(const struct err *err)
{
    json_t *event = error_json(err);

    (void)json_object_set_new(event, "event", json_string("error"));
    (void)pthread_mutex_lock(&lock); /* never given back: this is the last event */
    write_event(event);
    _exit(1);
}
