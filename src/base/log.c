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
#include "base/hidden.h"
#include "base/str.h"

#define LINE_MAX_BYTES  4096
#define VALUE_MAX_BYTES 1000 /* of a value; the rest is cut */
#define WARNINGS_MAX    50   /* of one kind, in a second */
#define KINDS           64

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

static bool needs_quotes(const char *s)
{
    size_t len = strlen(s);
    uint32_t code;

    for (size_t i = 0; i < len; i++)
        if (strchr(" \"\\=", s[i]) || hidden_char(s + i, len - i, &code) > 0)
            return true;
    return len == 0;
}

/* Such characters never reach a terminal or split a line, whatever a sandbox put into a name.
 * 0, or not when there is no room for all of it. */
static int add_quoted(struct buf *b, const char *s)
{
    int r = buf_add(b, "\"", 1);
    size_t len = strlen(s);

    while (len > 0) {
        uint32_t code;
        size_t n = hidden_char(s, len, &code);

        if (n > 0)
            r |= buf_addf(b, "\\u%04x", code);
        else if (*s == '"' || *s == '\\')
            r |= buf_addf(b, "\\%c", *s);
        else
            r |= buf_add(b, s, 1);
        n += n == 0;
        s += n;
        len -= n;
    }
    return r | buf_add(b, "\"", 1);
}

/* A pair that does not fit is left out: the line would be no JSON. */
static void add_json_pair(struct buf *b, const char *key, const char *value)
{
    size_t before = b->len;

    if (buf_add(b, ",", before > 1 ? 1 : 0) != 0 || add_quoted(b, key) != 0 ||
        buf_add(b, ":", 1) != 0 || add_quoted(b, value) != 0) {
        b->len = before;
        b->data[before] = '\0';
    }
}

static void add_pair(struct buf *b, const char *key, const char *value)
{
    char cut[VALUE_MAX_BYTES + 1];

    if (strnlen(value, sizeof(cut)) == sizeof(cut)) {
        (void)snprintf(cut, sizeof(cut), "%.*s", (int)utf8_cut(value, VALUE_MAX_BYTES), value);
        value = cut;
    }
    if (as_json) {
        add_json_pair(b, key, value);
        return;
    }
    if (b->len > 0)
        (void)buf_add(b, " ", 1);
    (void)buf_addf(b, "%s=", key);
    if (needs_quotes(value))
        (void)add_quoted(b, value);
    else
        (void)buf_add_str(b, value);
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
