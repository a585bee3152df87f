#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/escape.h"
#include "cli/ui.h"
#include "libcay/sse.h"

/* `cay events`: what has happened, and with -f what happens. */

#define QUERY_MAX (16u << 10)
#define AGAIN_MS  500

/* ---- a line each ---- */

static void print_time(int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    char text[32];
    struct tm tm;

    (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));
    printf("%s.%03dZ", text, (int)(ms % 1000));
}

static void print_value(const json_t *value)
{
    auto_free char *text =
        json_is_string(value)
            ? xstrdup(json_string_value(value))
            : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    auto_free char *shown = escape_text(ESCAPE_CELL, text ? text : "");

    printf("%s", shown);
}

/* What the line has already is left out. */
static bool is_said(const json_t *event, const char *key, const json_t *value)
{
    const char *text = json_string_value(value), *id = json_text(event, "sandboxId");

    return strcmp(key, "sandboxId") == 0 ||
           (strcmp(key, "name") == 0 && text && strcmp(text, id) == 0);
}

static void print_event(const json_t *event)
{
    const char *key;
    json_t *value;

    print_time(json_int(event, "timestamp"));
    printf("  %-17s ", json_text(event, "topic"));
    print_value(json_object_get(event, "sandboxId"));
    json_object_foreach(json_object_get(event, "data"), key, value)
    {
        auto_free char *name = escape_text(ESCAPE_CELL, key);

        if (is_said(event, key, value))
            continue;
        printf(" %s=", name);
        print_value(value);
    }
    printf("\n");
}

static void print_one(const struct args *args, const json_t *event)
{
    if (args_has(args, "json"))
        ui_json_line(event);
    else
        print_event(event);
}

/* ---- which ---- */

static void add_pair(struct buf *query, const char *key, const char *value)
{
    (void)buf_addf(query, "%s%s=", query->len ? "&" : "?", key);
    url_encode(query, value);
}

static void add_topics(struct buf *query, char *const *topics)
{
    auto_buf struct buf list = {0};

    buf_init(&list, QUERY_MAX);
    for (; topics && *topics; topics++)
        (void)buf_addf(&list, "%s%s", list.len ? "," : "", *topics);
    if (list.len)
        add_pair(query, "topic", list.data);
}

/* One that is gone is still asked for by its id. */
static int add_sandbox(struct api *api, struct buf *query, const char *word, struct err *err)
{
    auto_free char *id = NULL;

    if (!word)
        return 0;
    if (id_valid(word, "sbx"))
        id = xstrdup(word);
    else if (api_sandbox_id(api, word, &id, err) < 0)
        return -1;
    add_pair(query, "sandboxId", id);
    return 0;
}

static int add_filters(const struct args *args, struct api *api, struct buf *query, struct err *err)
{
    buf_init(query, QUERY_MAX);
    add_topics(query, args_list(args, "topic"));
    return add_sandbox(api, query, args_text(args, "sandbox"), err);
}

static void add_since(const struct args *args, struct buf *query)
{
    char text[32];

    if (!args_has(args, "since"))
        return;
    (void)snprintf(text, sizeof(text), "%lld", (long long)args_since_ms(args));
    add_pair(query, "since", text);
}

/* ---- what was ---- */

static int print_history(const struct args *args, struct api *api, struct err *err)
{
    auto_buf struct buf query = {0};
    char limit[16];
    json_t *answer = NULL, *events;

    if (add_filters(args, api, &query, err) < 0)
        return -1;
    add_since(args, &query);
    (void)snprintf(limit, sizeof(limit), "%.0f",
                   args_number(args, "tail", args_has(args, "since") ? 1000 : 50));
    add_pair(&query, "limit", limit);
    if (api_call(api, "GET", NULL, &answer, err, "/events/history%s", query.data) < 0)
        return -1;
    events = json_object_get(answer, "events");
    for (size_t i = json_array_size(events); i > 0; i--)
        print_one(args, json_array_get(events, i - 1));
    json_decref(answer);
    return 0;
}

/* ---- what happens ---- */

/* Until the stream ends, or the reader of what is printed has gone. last: the id of the last. */
static int print_stream(const struct args *args, struct sse_reader *s, char last[ID_SIZE],
                        struct err *err)
{
    json_t *event;
    int r;

    while ((r = sse_next(s, &event, err)) == 1) {
        (void)snprintf(last, ID_SIZE, "%s", json_text(event, "id"));
        print_one(args, event);
        json_decref(event);
        if (fflush(stdout) != 0)
            return 0;
    }
    return r;
}

static int follow_once(const struct args *args, const struct buf *filters, char last[ID_SIZE],
                       bool *ret_open, struct err *err)
{
    auto_buf struct buf query = {0};
    auto_free char *path = NULL;
    auto_api struct api api = {0};
    struct sse_reader stream = {0};
    int r;

    buf_init(&query, QUERY_MAX);
    (void)buf_add(&query, filters->data ? filters->data : "", filters->len);
    if (*last)
        add_pair(&query, "lastEventId", last);
    else
        add_since(args, &query);
    path = xasprintf("/stream/events%s", query.data ? query.data : "");
    if (api_open(&api, args, err) < 0 || sse_open(&stream, &api, path, err) < 0)
        return -1;
    *ret_open = true;
    r = print_stream(args, &stream, last, err);
    sse_close(&stream);
    return r;
}

/* A daemon that is replaced or started again is waited for, and nothing is missed meanwhile. */
static int follow(const struct args *args, struct api *api, struct err *err)
{
    auto_buf struct buf filters = {0};
    char last[ID_SIZE] = "";
    bool open = false;

    if (add_filters(args, api, &filters, err) < 0)
        return -1;
    for (;;) {
        struct err why = {0};

        if (follow_once(args, &filters, last, &open, &why) < 0 && !open) {
            *err = why;
            return -1;
        }
        if (ferror(stdout))
            return 0;
        (void)poll(NULL, 0, AGAIN_MS);
    }
}

int cmd_events(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    int r;

    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    r = args_has(args, "follow") ? follow(args, &api, &err) : print_history(args, &api, &err);
    return r < 0 ? ui_fail(&err) : STATUS_OK;
}
