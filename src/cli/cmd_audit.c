#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/escape.h"
#include "cli/ui.h"

#define FOLLOW_NS 500000000

/* 2026-01-01 12:00:00.123 who function sandbox result detail */
static void print_entry(const json_t *e)
{
    int64_t ms = json_int(e, "time");
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    char when[32] = "";
    const json_t *detail = json_object_get(e, "detail");
    auto_free char *text = detail ? json_dumps(detail, JSON_COMPACT) : NULL;
    auto_free char *shown = escape_text(ESCAPE_CELL, text ? text : "");

    (void)localtime_r(&s, &tm);
    (void)strftime(when, sizeof(when), "%F %T", &tm);
    printf("%s.%03d  %-7s  %-28s  %s", when, (int)(ms % 1000), json_text(e, "result"),
           *json_text(e, "who") ? json_text(e, "who") : "-", json_text(e, "function"));
    if (*json_text(e, "sandboxId"))
        printf("  %s", json_text(e, "sandboxId"));
    if (*json_text(e, "code"))
        printf("  %s", json_text(e, "code"));
    if (text)
        printf("  %s", shown);
    printf("\n");
}

static void print_all(const struct args *args, const json_t *entries)
{
    json_t *e;
    size_t i;

    json_array_foreach(entries, i, e)
    {
        if (args_has(args, "json"))
            ui_json_line(e);
        else
            print_entry(e);
    }
    (void)fflush(stdout);
}

/* after 0 = the last ones, as the flags say; else what came after that line. */
static void put_query(const struct args *args, uint64_t after, struct buf *q)
{
    static const char *const names[][2] = {
        {"sandbox", "sandboxId"}, {"who", "who"}, {"function", "function"}};

    if (after)
        (void)buf_addf(q, "limit=1000&after=%llu", (unsigned long long)after);
    else
        (void)buf_addf(q, "limit=%.0f", args_number(args, "tail", 100));
    if (!after && args_has(args, "since"))
        (void)buf_addf(q, "&since=%lld", (long long)args_since_ms(args));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!args_has(args, names[i][0]))
            continue;
        (void)buf_addf(q, "&%s=", names[i][1]);
        url_encode(q, args_text(args, names[i][0]));
    }
}

static int show(const struct args *args, struct api *api, uint64_t *after, struct err *err)
{
    auto_buf struct buf q = {0};
    json_t *answer = NULL;

    buf_init(&q, 4096);
    put_query(args, *after, &q);
    if (api_call(api, "GET", NULL, &answer, err, "/audit?%s", q.data) < 0)
        return -1;
    print_all(args, json_object_get(answer, "entries"));
    *after = (uint64_t)json_int(answer, "n");
    json_decref(answer);
    return 0;
}

int cmd_audit(struct args *args)
{
    const struct timespec pause = {.tv_nsec = FOLLOW_NS};
    auto_api struct api api = {0};
    struct err err = {0};
    uint64_t after = 0;

    if (api_open(&api, args, &err) < 0 || show(args, &api, &after, &err) < 0)
        return ui_fail(&err);
    while (args_has(args, "follow") && !ui_output_failed()) {
        (void)nanosleep(&pause, NULL);
        if (show(args, &api, &after, &err) < 0)
            return ui_fail(&err);
    }
    return STATUS_OK;
}

static void print_report(const json_t *r)
{
    if (json_is_true(json_object_get(r, "ok")))
        printf("the audit log is whole: lines %lld to %lld\n", (long long)json_int(r, "firstN"),
               (long long)json_int(r, "n"));
    else
        printf("%s, line %lld: %s; all up to number %lld is right\n", json_text(r, "file"),
               (long long)json_int(r, "line"), json_text(r, "problem"),
               (long long)json_int(r, "lastGoodN"));
    printf("head %lld:%s\n", (long long)json_int(r, "n"), json_text(r, "hash"));
}

/* The list of lines says where the log ends; no file is read for it. */
int cmd_audit_head(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *head = NULL;
    struct err err = {0};
    json_t *r = NULL;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "GET", NULL, &r, &err, "/audit?limit=1") < 0)
        return ui_fail(&err);
    head = xasprintf("%lld:%s", (long long)json_int(r, "n"), json_text(r, "hash"));
    if (args_has(args, "json")) {
        (void)json_object_del(r, "entries");
        (void)json_object_set_new(r, "head", json_string(head));
        ui_json(r);
    } else {
        printf("%s\n", head);
    }
    json_decref(r);
    return STATUS_OK;
}

int cmd_audit_verify(struct args *args)
{
    const char *head = args_text(args, "head");
    auto_free char *word = head ? url_encoded(head) : NULL;
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *r = NULL;
    bool found, ok;

    if (api_open(&api, args, &err) < 0 || api_call(&api, "GET", NULL, &r, &err, "/audit/verify%s%s",
                                                   word ? "?head=" : "", word ? word : "") < 0)
        return ui_fail(&err);
    found = !head || json_is_true(json_object_get(r, "headFound"));
    ok = json_is_true(json_object_get(r, "ok"));
    if (args_has(args, "json"))
        ui_json(r);
    else
        print_report(r);
    if (!found)
        ui_warn("%s", json_text(r, "headProblem"));
    json_decref(r);
    return ok && found ? STATUS_OK : STATUS_FAILED;
}
