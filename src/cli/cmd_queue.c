#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/env_args.h"
#include "cli/escape.h"
#include "cli/table.h"
#include "cli/ui.h"

/* Jobs of the queue: commands that the daemon keeps until they have run. */

#define POLL_MIN_MS 20
#define POLL_MAX_MS 500

/* ---- following one ---- */

struct follower {
    struct api *api;
    char *job; /* for a URL */
    int64_t cursor;
    bool raw;
    struct escape state[2];
};

static void print_text(struct follower *f, const json_t *logs, const char *key, int which)
{
    const char *text = json_text(logs, key);
    FILE *to = which ? stderr : stdout;
    auto_buf struct buf shown = {0};
    size_t len = json_string_length(json_object_get(logs, key));

    if (len == 0)
        return;
    if (f->raw || !isatty(fileno(to))) {
        (void)fwrite(text, 1, len, to);
    } else {
        buf_init(&shown, 8 * len + 64);
        escape_add(&f->state[which], ESCAPE_OUTPUT, text, len, &shown);
        (void)fwrite(shown.data ? shown.data : "", 1, shown.len, to);
    }
    (void)fflush(to);
}

/* What there is since the last time: 1 = it is over, 0, -1. */
static int print_more(struct follower *f, struct err *err)
{
    json_t *logs = NULL;
    int64_t lost;
    int done;

    if (api_call(f->api, "GET", NULL, &logs, err, "/queue/%s/logs?cursor=%" PRId64, f->job,
                 f->cursor) < 0)
        return -1;
    lost = json_int(logs, "lost");
    if (lost > 0)
        ui_warn("%" PRId64 " bytes of output before this are not kept", lost);
    print_text(f, logs, "stdout", 0);
    print_text(f, logs, "stderr", 1);
    done = json_is_true(json_object_get(logs, "done"));
    f->cursor = json_int(logs, "cursor");
    json_decref(logs);
    return done;
}

static void rest_a_while(long *ms)
{
    struct timespec t = {.tv_sec = *ms / 1000, .tv_nsec = *ms % 1000 * 1000000};

    (void)nanosleep(&t, NULL);
    *ms = *ms * 3 / 2 < POLL_MAX_MS ? *ms * 3 / 2 : POLL_MAX_MS;
}

static int follow(struct follower *f, struct err *err)
{
    long ms = POLL_MIN_MS;
    int r;

    while ((r = print_more(f, err)) == 0 && !ui_output_failed())
        rest_a_while(&ms);
    return r < 0 ? -1 : 0;
}

/* ---- how one ended ---- */

/* The exit status of its command; what failed otherwise is said. */
static int status_of(const json_t *job)
{
    const char *status = json_text(job, "status");
    const json_t *code = json_object_get(job, "exitCode");

    if (*json_text(job, "error"))
        ui_warn("%s: %s", json_text(job, "id"), json_text(job, "error"));
    else if (strcmp(status, "cancelled") == 0)
        ui_warn("%s was cancelled", json_text(job, "id"));
    if (strcmp(status, "cancelled") != 0 && json_is_integer(code))
        return (int)(json_integer_value(code) & 0xff);
    return strcmp(status, "completed") == 0 ? STATUS_OK : STATUS_CAY;
}

static int get_job(struct api *api, const char *job, json_t **ret, struct err *err)
{
    return api_call(api, "GET", NULL, ret, err, "/queue/%s/status", job);
}

static bool is_over(const json_t *job)
{
    const char *status = json_text(job, "status");

    return strcmp(status, "pending") != 0 && strcmp(status, "running") != 0;
}

/* ---- submit ---- */

static void put_number(const struct args *args, const char *flag, const char *key, json_t *body)
{
    if (args_has(args, flag))
        (void)json_object_set_new(body, key, json_real(args_number(args, flag, 0)));
}

static int put_priority(const struct args *args, json_t *body, struct err *err)
{
    const char *text = args_text(args, "priority");
    char *end;
    long n;

    if (!text)
        return 0;
    n = strtol(text, &end, 10);
    if (end == text || *end)
        return err_set(err, ERR_INVALID, "--priority takes a whole number, not \"%.40s\"", text);
    (void)json_object_set_new(body, "priority", json_integer(n));
    return 0;
}

static json_t *submit_body(struct args *args, struct err *err)
{
    json_t *body = json_object(), *env = NULL, *command;

    command =
        args->n_rest > 1 || args->exact ? command_line_json(args) : json_string(args->rest[0]);
    if (!command || env_read_args(args, &env, err) < 0 || put_priority(args, body, err) < 0) {
        json_decref(env);
        if (!command)
            (void)err_set(err, ERR_INVALID, "the command is not valid UTF-8 text");
        json_decref(command);
        json_decref(body);
        return NULL;
    }
    (void)json_object_set_new(body, "command", command);
    if (env)
        (void)json_object_set_new(body, "env", env);
    json_put_text(body, "cwd", args_text(args, "workdir"));
    json_put_text(body, "user", args_text(args, "user"));
    put_number(args, "timeout", "timeout", body);
    put_number(args, "retries", "maxRetries", body);
    put_number(args, "retry-delay", "retryDelay", body);
    put_number(args, "delay", "delay", body);
    if (args_has(args, "retry-on-exit"))
        (void)json_object_set_new(body, "retryOnExit", json_true());
    return body;
}

static int wait_quietly(struct api *api, const char *id, json_t **ret, struct err *err)
{
    long ms = POLL_MIN_MS;

    for (;;) {
        if (get_job(api, id, ret, err) < 0)
            return -1;
        if (is_over(*ret))
            return 0;
        json_decref(*ret);
        rest_a_while(&ms);
    }
}

/* With its output, and as its command ended. */
static int wait_for(struct args *args, struct api *api, const char *id)
{
    struct follower f = {.api = api, .job = (char *)(uintptr_t)id};
    struct err err = {0};
    json_t *job = NULL;
    int status;

    if (args_has(args, "json") ? wait_quietly(api, id, &job, &err)
                               : (follow(&f, &err) < 0 || get_job(api, id, &job, &err) < 0)) {
        (void)ui_fail(&err);
        return STATUS_CAY;
    }
    if (args_has(args, "json"))
        ui_json(job);
    status = status_of(job);
    json_decref(job);
    return status;
}

int cmd_queue_submit(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL, *job_id = NULL;
    struct err err = {0};
    json_t *job = NULL, *body;

    if (args->n_rest == 0)
        return ui_usage(args, "queue submit needs a command: cay queue submit %s make",
                        args->words[0]);
    body = submit_body(args, &err);
    if (!body)
        return ui_usage(args, "%s", err.text);
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &job, &err, "/sandboxes/%s/exec/queue", id) < 0)
        return ui_fail(&err);
    if (!args_has(args, "wait"))
        return ui_made(args, job);
    job_id = url_encoded(json_text(job, "id"));
    json_decref(job);
    return wait_for(args, &api, job_id);
}

/* ---- lists ---- */

static void print_jobs(const json_t *jobs, bool failed)
{
    auto_table struct table t;
    int64_t now = now_ms();
    json_t *job;
    size_t i;

    table_init(&t, failed ? "JOB|SANDBOX|>FAILED|>AGE|ERROR|COMMAND"
                          : "JOB|SANDBOX|STATUS|>EXIT|>FAILED|>AGE|COMMAND");
    json_array_foreach(jobs, i, job)
    {
        char age[24];

        ui_duration(now - json_int(job, "createdAt"), age);
        table_cell(&t, json_text(job, "id"));
        table_cell(&t, json_text(job, "sandboxId"));
        if (!failed) {
            table_cell(&t, json_text(job, "status"));
            if (json_object_get(job, "exitCode"))
                table_cellf(&t, "%" PRId64, json_int(job, "exitCode"));
            else
                table_cell(&t, "-");
        }
        table_cellf(&t, "%" PRId64 "/%" PRId64, json_int(job, "retries"),
                    json_int(job, "maxRetries"));
        table_cell(&t, age);
        if (failed)
            table_cell(&t, json_text(job, "error"));
        table_cell(&t, json_text(job, "command"));
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

static int show_list(struct args *args, struct api *api, const char *path, const char *sandbox,
                     const char *status)
{
    struct err err = {0};
    json_t *answer = NULL, *jobs, *job;
    size_t i;

    if (api_call(api, "GET", NULL, &answer, &err, "/%s?limit=%.0f%s%s%s%s", path,
                 args_number(args, "limit", 50), sandbox ? "&sandboxId=" : "",
                 sandbox ? sandbox : "", status ? "&status=" : "", status ? status : "") < 0)
        return ui_fail(&err);
    jobs = json_object_get(answer, "jobs");
    if (args_has(args, "json"))
        ui_json(jobs);
    else if (args_has(args, "quiet"))
        json_array_foreach(jobs, i, job) printf("%s\n", json_text(job, "id"));
    else if (json_array_size(jobs) > 0)
        print_jobs(jobs, strcmp(path, "queue/dlq") == 0);
    else
        fputs("No jobs.\n", stderr);
    if (!args_has(args, "json") && json_int(answer, "total") > (int64_t)json_array_size(jobs))
        ui_warn("%zu of %" PRId64 " are shown: see --limit", json_array_size(jobs),
                json_int(answer, "total"));
    json_decref(answer);
    return STATUS_OK;
}

int cmd_queue_ls(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *sandbox = NULL;
    struct err err = {0};

    if (api_open(&api, args, &err) < 0 ||
        (args->n_words > 0 && api_sandbox_id(&api, args->words[0], &sandbox, &err) < 0))
        return ui_fail(&err);
    return show_list(args, &api, "queue", sandbox, args_text(args, "status"));
}

/* ---- one of them ---- */

int cmd_queue_status(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = url_encoded(args->words[0]);
    struct err err = {0};
    json_t *job = NULL;

    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    if (args_has(args, "wait"))
        return wait_for(args, &api, id);
    if (get_job(&api, id, &job, &err) < 0)
        return ui_fail(&err);
    if (args_has(args, "json"))
        ui_json(job);
    else
        printf("%s\n", json_text(job, "status"));
    json_decref(job);
    return STATUS_OK;
}

int cmd_queue_logs(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = url_encoded(args->words[0]);
    struct follower f = {.api = &api, .job = id, .raw = args_has(args, "raw")};
    struct err err = {0};

    if (api_open(&api, args, &err) < 0 ||
        (args_has(args, "follow") ? follow(&f, &err) : print_more(&f, &err)) < 0)
        return ui_fail(&err);
    return STATUS_OK;
}

/* Each word is a job; what was done is printed. */
static int do_each(struct args *args, struct api *api, size_t from, const char *method,
                   const char *before, const char *after)
{
    int status = STATUS_OK;

    for (size_t i = from; i < args->n_words; i++) {
        auto_free char *id = url_encoded(args->words[i]);
        struct err err = {0};

        if (api_call(api, method, NULL, NULL, &err, "/queue/%s%s%s", before, id, after) < 0)
            status = ui_fail(&err);
        else if (!args_has(args, "quiet"))
            printf("%s\n", args->words[i]);
    }
    return status;
}

int cmd_queue_cancel(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};

    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    return do_each(args, &api, 0, "POST", "", "/cancel");
}

/* ---- those that failed ---- */

static int purge_all(struct args *args, struct api *api)
{
    struct err err = {0};
    json_t *answer = NULL;

    if (api_call(api, "DELETE", NULL, &answer, &err, "/queue/dlq") < 0)
        return ui_fail(&err);
    if (!args_has(args, "quiet"))
        printf("%" PRId64 "\n", json_int(answer, "purged"));
    json_decref(answer);
    return STATUS_OK;
}

int cmd_queue_dlq(struct args *args)
{
    const char *word = args->n_words > 0 ? args->words[0] : "";
    auto_api struct api api = {0};
    auto_free char *sandbox = NULL;
    struct err err = {0};

    if (strcmp(word, "requeue") == 0 && args->n_words == 1)
        return ui_usage(args, "which job? `cay queue dlq` lists them");
    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    if (strcmp(word, "requeue") == 0)
        return do_each(args, &api, 1, "POST", "dlq/", "/requeue");
    if (strcmp(word, "purge") == 0 && args->n_words > 1)
        return do_each(args, &api, 1, "DELETE", "dlq/", "");
    if (strcmp(word, "purge") == 0)
        return purge_all(args, &api);
    if (args->n_words > 1)
        return ui_usage(args, "\"%s\" is neither requeue nor purge", word);
    if (*word && api_sandbox_id(&api, word, &sandbox, &err) < 0)
        return ui_fail(&err);
    return show_list(args, &api, "queue/dlq", sandbox, NULL);
}
