#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"

#define LINE_MAX_BYTES 4096
#define WARNINGS_MAX   50 /* of one kind, in a second */
#define KINDS          64

static enum log_level least_level = LOG_LEVEL_INFO;
static int as_json;
static atomic_ulong dropped;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_setup(enum log_level least, int json)
{
    least_level = least;
    as_json = json;
}

bool log_shows(enum log_level level)
{
    return level >= least_level;
}

/* Control bytes never reach a terminal or split a line, whatever a sandbox put into a name. */
static void add_quoted(struct buf *b, const char *s)
{
    (void)buf_add(b, "\"", 1);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            (void)buf_addf(b, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            (void)buf_addf(b, "\\u%04x", c);
        else
            (void)buf_add(b, s, 1);
    }
    (void)buf_add(b, "\"", 1);
}

static void add_pair(struct buf *b, const char *key, const char *value)
{
    if (as_json) {
        (void)buf_add(b, ",", b->len > 1 ? 1 : 0);
        add_quoted(b, key);
        (void)buf_add(b, ":", 1);
        add_quoted(b, value);
        return;
    }
    if (b->len > 0)
        (void)buf_add(b, " ", 1);
    (void)buf_addf(b, "%s=", key);
    if (*value && !strpbrk(value, " \"\\=\t\r\n\x1b\x7f"))
        (void)buf_add_str(b, value);
    else
        add_quoted(b, value);
}

/* One at a time: room that two have seen is there for one, and the other would wait for whoever
 * should read. */
static void write_line(const struct buf *b)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    (void)pthread_mutex_lock(&lock);
    if (poll(&p, 1, 0) <= 0 || write(STDERR_FILENO, b->data, b->len) < 0)
        atomic_fetch_add(&dropped, 1);
    (void)pthread_mutex_unlock(&lock);
}

/* What clients do wrong is warned of, and they can do it as often as they like. */
static bool is_flood(const char *message, time_t second)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        time_t second;
        unsigned lines;
    } kinds[KINDS];
    size_t i = str_hash(message) % KINDS;
    bool flood;

    (void)pthread_mutex_lock(&lock);
    if (kinds[i].second != second)
        kinds[i].lines = 0;
    kinds[i].second = second;
    flood = kinds[i].lines++ >= WARNINGS_MAX;
    (void)pthread_mutex_unlock(&lock);
    return flood;
}

void log_event(enum log_level level, const char *message, ...)
{
    auto_buf struct buf b = {0};
    struct timespec ts;
    struct tm tm;
    char when[64], lost_text[32];
    unsigned long lost;
    const char *key;
    va_list ap;
    size_t n;

    if (level < least_level)
        return;
    buf_init(&b, LINE_MAX_BYTES - 2);
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    if (level == LOG_LEVEL_WARN && is_flood(message, ts.tv_sec)) {
        atomic_fetch_add(&dropped, 1);
        return;
    }
    (void)gmtime_r(&ts.tv_sec, &tm);
    n = strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(when + n, sizeof(when) - n, ".%03ldZ", ts.tv_nsec / 1000000);

    if (as_json)
        (void)buf_add(&b, "{", 1);
    add_pair(&b, "time", when);
    add_pair(&b, "level", level_names[level]);
    add_pair(&b, "msg", message);
    va_start(ap, message);
    while ((key = va_arg(ap, const char *))) {
        const char *value = va_arg(ap, const char *);

        if (value)
            add_pair(&b, key, value);
    }
    va_end(ap);
    lost = atomic_exchange(&dropped, 0);
    if (lost > 0) {
        (void)snprintf(lost_text, sizeof(lost_text), "%lu", lost);
        add_pair(&b, "lines_lost_before", lost_text);
    }
    b.max += 2;
    if (as_json)
        (void)buf_add(&b, "}", 1);
    (void)buf_add(&b, "\n", 1);
    write_line(&b);
}
