#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/jobs.h"
#include "cli/logs.h"
#include "cli/table.h"
#include "cli/ui.h"
#include "libcay/sse.h"

/* ---- which ---- */

static int add_jobs(struct api *api, const json_t *sandbox, bool all, json_t *to, struct err *err)
{
    auto_free char *id = url_encoded(json_text(sandbox, "id"));
    json_t *answer = NULL, *exec;
    size_t i;

    if (api_call(api, "GET", NULL, &answer, err, "/sandboxes/%s/exec", id) < 0)
        return -1;
    json_array_foreach(json_object_get(answer, "execs"), i, exec)
    {
        if (!all && !json_is_true(json_object_get(exec, "running")))
            continue;
        (void)json_object_set(exec, "sandboxId", json_object_get(sandbox, "id"));
        (void)json_object_set(exec, "sandboxName", json_object_get(sandbox, "name"));
        (void)json_array_append(to, exec);
    }
    json_decref(answer);
    return 0;
}

int jobs_everywhere(struct api *api, bool all, json_t **ret, struct err *err)
{
    json_t *sandboxes = NULL, *jobs = json_array(), *s;
    int64_t total;
    size_t i;

    if (api_sandboxes(api, "running", 0, &sandboxes, &total, err) < 0) {
        json_decref(jobs);
        return -1;
    }
    json_array_foreach(sandboxes, i, s)
    {
        struct err gone = {0}; /* it may have ended meanwhile */

        (void)add_jobs(api, s, all, jobs, &gone);
    }
    json_decref(sandboxes);
    *ret = jobs;
    return 0;
}

/* Which sandboxes jobs_everywhere knows nothing of, because they are paused; NULL = none. */
static char *not_seen(struct api *api)
{
    struct err err = {0};
    json_t *paused = NULL;
    int64_t total;
    size_t n;
    char *text = NULL;

    if (api_sandboxes(api, "paused", 0, &paused, &total, &err) < 0)
        return NULL;
    n = json_array_size(paused);
    if (n == 1)
        text = xasprintf("%.80s is paused, and its jobs are not seen until `cay resume`",
                         json_text(json_array_get(paused, 0), "name"));
    else if (n > 1)
        text = xasprintf("%zu sandboxes are paused, and their jobs are not seen until `cay resume`",
                         n);
    json_decref(paused);
    return text;
}

static int jobs_of(struct args *args, struct api *api, json_t **ret, struct err *err)
{
    json_t *jobs;

    if (args->n_words == 0)
        return jobs_everywhere(api, args_has(args, "all"), ret, err);
    jobs = json_array();
    for (size_t i = 0; i < args->n_words; i++) {
        auto_free char *id = NULL;
        json_t *sandbox = NULL;
        int r = api_sandbox_id(api, args->words[i], &id, err);

        if (r == 0)
            r = api_call(api, "GET", NULL, &sandbox, err, "/sandboxes/%s", id);
        if (r == 0)
            r = add_jobs(api, sandbox, args_has(args, "all"), jobs, err);
        json_decref(sandbox);
        if (r < 0) {
            json_decref(jobs);
            return -1;
        }
    }
    *ret = jobs;
    return 0;
}

struct job_place {
    char *sandbox, *exec;
};

static void job_place_done(struct job_place *p)
{
    free(p->sandbox);
    free(p->exec);
}
#define auto_place __attribute__((cleanup(job_place_done)))

/* In some sandbox, by its id or the beginning of it. */
static int search_job(struct api *api, const char *word, struct job_place *ret, struct err *err)
{
    auto_free char *paused = NULL;
    json_t *jobs = NULL, *job;
    size_t i, matches = 0;

    if (jobs_everywhere(api, true, &jobs, err) < 0)
        return -1;
    json_array_foreach(jobs, i, job)
    {
        if (!str_starts(json_text(job, "id"), word))
            continue;
        job_place_done(ret);
        ret->sandbox = url_encoded(json_text(job, "sandboxId"));
        ret->exec = url_encoded(json_text(job, "id"));
        matches++;
    }
    json_decref(jobs);
    if (matches == 1)
        return 0;
    if (matches > 1)
        return err_set(err, ERR_INVALID, "%zu jobs fit \"%.80s\": give a whole id", matches, word);
    paused = not_seen(api);
    return err_set(err, ERR_NOT_FOUND, "no job has the id \"%.80s\": see `cay jobs --all`%s%s",
                   word, paused ? "; " : "", paused ? paused : "");
}

static int find_job(struct api *api, const char *word, struct job_place *ret, struct err *err)
{
    json_t *status = NULL;

    if (!id_valid(word, "bg"))
        return search_job(api, word, ret, err);
    if (api_call(api, "GET", NULL, &status, err, "/exec/background/%s/status", word) < 0)
        return -1;
    ret->sandbox = url_encoded(json_text(status, "sandboxId"));
    ret->exec = xstrdup(word);
    json_decref(status);
    return 0;
}

/* ---- the list ---- */

/* The exit code of a command that a signal ended is 128 and the signal. */
static void status_cell(struct table *t, const json_t *job)
{
    const char *reason = json_text(job, "reason");
    int64_t code = json_int(job, "exitCode");

    if (json_is_true(json_object_get(job, "running")))
        table_cell(t, "running");
    else if (strcmp(reason, "exit") == 0)
        table_cellf(t, "exit %" PRId64, code);
    else if (strcmp(reason, "signal") == 0 && code > 128)
        table_cellf(t, "signal %" PRId64, code - 128);
    else
        table_cell(t, reason);
}

static void print_jobs(const json_t *jobs)
{
    auto_table struct table t;
    int64_t now = now_ms();
    json_t *job;
    size_t i;

    table_init(&t, "JOB|SANDBOX|STATUS|>AGE|COMMAND");
    json_array_foreach(jobs, i, job)
    {
        char age[24];

        ui_duration(now - json_int(job, "startedAt"), age);
        table_cell(&t, json_text(job, "id"));
        table_cell(&t, json_text(job, "sandboxName"));
        status_cell(&t, job);
        table_cell(&t, age);
        table_cell(&t, json_text(job, "command"));
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

int cmd_jobs(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *paused = NULL;
    struct err err = {0};
    json_t *jobs = NULL, *job;
    size_t i;

    if (api_open(&api, args, &err) < 0 || jobs_of(args, &api, &jobs, &err) < 0)
        return ui_fail(&err);
    if (args_has(args, "json"))
        ui_json(jobs);
    else if (args_has(args, "quiet"))
        json_array_foreach(jobs, i, job) printf("%s\n", json_text(job, "id"));
    else if (json_array_size(jobs) > 0)
        print_jobs(jobs);
    else
        fputs("No jobs. `cay exec -d ID COMMAND` starts one.\n", stderr);
    if (args->n_words == 0 && (paused = not_seen(&api)))
        ui_warn("%s", paused);
    json_decref(jobs);
    return STATUS_OK;
}

/* ---- one job ---- */

int cmd_job_logs(struct args *args)
{
    auto_api struct api api = {0};
    auto_place struct job_place job = {0};
    struct err err = {0};

    if (api_open(&api, args, &err) < 0 || find_job(&api, args->words[0], &job, &err) < 0 ||
        exec_logs(args, &api, job.sandbox, job.exec, &err) < 0)
        return ui_fail(&err);
    return STATUS_OK;
}

int cmd_job_stop(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    int status = STATUS_OK;

    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    for (size_t i = 0; i < args->n_words && status != STATUS_NO_DAEMON; i++) {
        auto_place struct job_place job = {0};

        if (find_job(&api, args->words[i], &job, &err) < 0 ||
            api_call(&api, "POST", NULL, NULL, &err, "/sandboxes/%s/exec/%s/kill", job.sandbox,
                     job.exec) < 0)
            status = ui_fail(&err);
        else if (!args_has(args, "quiet"))
            printf("%s\n", job.exec);
    }
    return status;
}

/* Its events, past any output, until the last one: its exit. */
static int wait_for_end(struct api *api, const struct job_place *job, struct err *err)
{
    auto_free char *path =
        xasprintf("/sandboxes/%s/exec/%s/stream?cursor=9007199254740991", job->sandbox, job->exec);
    struct sse_reader events = {0};
    json_t *event;
    int r = sse_open(&events, api, path, err) < 0 ? -1 : 1;

    while (r > 0 && (r = sse_next(&events, &event, err)) > 0)
        json_decref(event);
    sse_close(&events);
    return r;
}

static int wait_for(struct api *api, const char *word, int *ret_status, struct err *err)
{
    auto_place struct job_place job = {0};
    json_t *state = NULL;

    if (find_job(api, word, &job, err) < 0 || wait_for_end(api, &job, err) < 0 ||
        api_call(api, "GET", NULL, &state, err, "/sandboxes/%s/exec/%s?cursor=9007199254740991",
                 job.sandbox, job.exec) < 0)
        return -1;
    if (!json_is_integer(json_object_get(state, "exitCode"))) {
        json_decref(state);
        return err_set(err, ERR_INTERNAL, "%s ended and nobody saw how", job.exec);
    }
    *ret_status = (int)(json_int(state, "exitCode") & 0xff);
    if (*json_text(state, "message"))
        ui_warn("%s: %s", job.exec, json_text(state, "message"));
    json_decref(state);
    return 0;
}

int cmd_job_wait(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    int status = STATUS_OK;

    if (api_open(&api, args, &err) < 0) {
        (void)ui_fail(&err);
        return attach_fail_status(&err);
    }
    for (size_t i = 0; i < args->n_words; i++) {
        if (wait_for(&api, args->words[i], &status, &err) < 0) {
            (void)ui_fail(&err);
            return attach_fail_status(&err);
        }
    }
    return status;
}
