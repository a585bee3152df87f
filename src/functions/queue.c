#include "service/queue.h"

#include <math.h>

#include "base/clock.h"
#include "base/err.h"
#include "functions/functions_internal.h"
#include "service/services.h"

#define ERRORS_JOB "job_not_found"

/* A daemon without one says so. */
static struct queue *queue_of(struct call *call, struct err *err)
{
    struct queue *q = call->services ? call->services->queue : NULL;

    if (!q)
        (void)err_set(err, ERR_UNSUPPORTED, "this daemon has no queue");
    return q;
}

static const char *in_job(const struct call *call)
{
    return in_str(call, "jobId");
}

static int job_owner(struct call *call, const char *id, char ret[ID_SIZE], struct err *err)
{
    struct queue *q = queue_of(call, err);

    return q ? queue_owner(q, id, ret, err) : -1;
}

static const struct owned job_owned = {
    .param = "jobId",
    .owner = job_owner,
    .code = "job_not_found",
    .text = "Queue job not found: %s",
};

static int64_t run_at(const struct call *call)
{
    double delay = in_number(call, "delay");

    return delay > 0 ? now_ms() + (int64_t)ceil(delay * 1000) : in_int(call, "runAt");
}

static int submit(struct call *call, struct err *err)
{
    struct queue *q = queue_of(call, err);
    struct queue_submission s = {
        .command = json_object_get(call->in, "command"),
        .cwd = in_str(call, "cwd"),
        .user = in_str(call, "user"),
        .env = in_env(call),
        .timeout_ms = (uint64_t)ceil(in_number(call, "timeout") * 1000),
        .max_retries = (unsigned)in_int(call, "maxRetries"),
        .retry_ms = (int64_t)ceil(in_number(call, "retryDelay") * 1000),
        .retry_exit = in_bool(call, "retryOnExit"),
        .priority = (int)in_int(call, "priority"),
        .run_ms = run_at(call),
    };

    return q ? queue_submit(q, in_id(call), &s, &call->out, err) : -1;
}

static int status(struct call *call, struct err *err)
{
    struct queue *q = queue_of(call, err);

    return q ? queue_get(q, in_job(call), &call->out, err) : -1;
}

static int logs(struct call *call, struct err *err)
{
    struct queue *q = queue_of(call, err);

    return q ? queue_logs(q, in_job(call), (uint64_t)in_int(call, "cursor"), &call->out, err) : -1;
}

static int cancel(struct call *call, struct err *err)
{
    struct queue *q = queue_of(call, err);

    if (!q || queue_cancel(q, in_job(call), err) < 0)
        return -1;
    call->out = json_pack("{s:s}", "cancelled", in_job(call));
    return 0;
}

static int list_of(struct call *call, const char *which, struct err *err)
{
    struct queue *q = queue_of(call, err);
    struct queue_query query = {
        .sandbox = in_id(call),
        .status = which,
        .limit = (uint32_t)in_int(call, "limit"),
        .offset = (uint32_t)in_int(call, "offset"),
    };

    return q ? queue_list(q, &query, &call->out, err) : -1;
}

static int list(struct call *call, struct err *err)
{
    return list_of(call, in_str(call, "status"), err);
}

static int dead_letters(struct call *call, struct err *err)
{
    return list_of(call, "failed", err);
}

static int requeue(struct call *call, struct err *err)
{
    struct queue *q = queue_of(call, err);

    return q ? queue_requeue(q, in_job(call), &call->out, err) : -1;
}

static int purge(struct call *call, struct err *err)
{
    struct queue *q = queue_of(call, err);
    uint64_t n;

    if (!q || queue_purge(q, in_job(call), in_id(call), &n, err) < 0)
        return -1;
    call->out = json_pack("{s:I}", "purged", (json_int_t)n);
    return 0;
}

static const struct field submit_fields[] = {
    {"command", FIELD_COMMAND, .min = 1, .max = ARG_BYTES_MAX, .example = "\"make test\"",
     .help = "a string for the shell, or an array of arguments run as it is"},
    {"maxRetries", FIELD_INT, .clamp = true, .min = 0, .max = QUEUE_RETRIES_MAX, .preset = "3",
     .help = "how often it is tried when it cannot be run or takes too long; at least once"},
    {"timeout", FIELD_NUMBER, .optional = true, .min = 0, .max = 1e9,
     .help = "seconds that a try may take; 0 or absent = CAY_MAX_CMD_TIMEOUT, more is cut to it"},
    {"retryOnExit", FIELD_BOOL, .preset = "false",
     .help = "an exit code other than 0 is a failure, too"},
    {"retryDelay", FIELD_NUMBER, .clamp = true, .min = 0, .max = QUEUE_RETRY_S_MAX, .preset = "1",
     .help = "seconds before the second try; each further wait is twice as long, up to 300, and up "
             "to a half of it is left to chance"},
    {"priority", FIELD_INT, .clamp = true, .min = -QUEUE_PRIORITY_MAX, .max = QUEUE_PRIORITY_MAX,
     .preset = "0", .help = "of jobs that wait, the highest starts first"},
    {"delay", FIELD_NUMBER, .optional = true, .min = 0, .max = QUEUE_DELAY_S_MAX,
     .help = "seconds before which it does not start"},
    {"runAt", FIELD_INT, .optional = true, .min = 0, .max = 1e15,
     .help = "Unix milliseconds before which it does not start; delay goes before it"},
    {"cwd", FIELD_STRING, .optional = true, .max = PATH_BYTES_MAX,
     .help = "directory it starts in; the sandbox's workdir when absent"},
    {"env", FIELD_STRING_MAP, .optional = true, .max = ARG_BYTES_MAX,
     .help = "added to the sandbox's variables"},
    {"user", FIELD_STRING, .optional = true, .max = 256, .help = "name or uid[:group] it runs as"},
    {0},
};

#define PAGE_FIELDS                                                                                \
    {"limit",                                                                                      \
     FIELD_INT,                                                                                    \
     .clamp = true,                                                                                \
     .min = 1,                                                                                     \
     .max = 500,                                                                                   \
     .preset = "50",                                                                               \
     .help = "at most so many"},                                                                   \
    {                                                                                              \
        "offset", FIELD_INT, .clamp = true, .min = 0, .max = 1e9, .preset = "0",                   \
                             .help = "leaves out so many"                                          \
    }

#define SANDBOX_FIELD                                                                              \
    {                                                                                              \
        "sandboxId", FIELD_STRING, .optional = true, .max = 1024, .help = "only of this sandbox"   \
    }

static const struct field list_fields[] = {
    SANDBOX_FIELD,
    {"status", FIELD_STRING, .optional = true, .choices = job_status_words,
     .help = "only those that are so"},
    PAGE_FIELDS,
    {0},
};

static const struct field dead_fields[] = {SANDBOX_FIELD, PAGE_FIELDS, {0}};

static const struct field purge_fields[] = {SANDBOX_FIELD, {0}};

static const struct field logs_fields[] = {
    {"cursor", FIELD_INT, .min = 0, .max = 9e15, .preset = "0", .help = "where to read on"},
    {0},
};

const struct function queue_functions[] = {
    {"queue::submit", "POST", "/sandboxes/:sandboxId/exec/queue", submit_fields, submit,
     "sandbox_exec_queue", SCOPE_EXEC, .reach = REACH_SANDBOX, .flags = FUNCTION_MAKES,
     .rate = RATE_EXEC,
     .help = "Puts a command into the queue, which runs it when its turn comes, also after a "
             "restart; while the sandbox is paused or stopped it waits",
     .gives = &job_shape, .errors = ERRORS_GONE " queue_full no_space"},
    {"queue::list", "GET", "/queue", list_fields, list, NULL, SCOPE_READ, .reach = REACH_FILTER,
     .help = "Lists jobs, the newest first", .gives = &job_list_shape, .errors = ERRORS_GONE},
    {"queue::status", "GET", "/queue/:jobId/status", NULL, status, "sandbox_queue_status",
     SCOPE_READ, .reach = REACH_OWNED, .owned = &job_owned,
     .help = "Shows a job, and once it is over its result", .gives = &job_shape,
     .errors = ERRORS_JOB},
    {"queue::logs", "GET", "/queue/:jobId/logs", logs_fields, logs, NULL, SCOPE_READ,
     .reach = REACH_OWNED, .owned = &job_owned,
     .help = "Gives what a job has put out, also while it runs", .gives = &job_logs_shape,
     .errors = ERRORS_JOB},
    {"queue::cancel", "POST", "/queue/:jobId/cancel", NULL, cancel, NULL, SCOPE_EXEC,
     .reach = REACH_OWNED, .owned = &job_owned,
     .help = "Takes a job out of the queue; one that runs is ended, with all that it started",
     .gives = &job_cancelled_shape, .errors = ERRORS_JOB " job_not_pending no_space"},
    {"queue::dlq", "GET", "/queue/dlq", dead_fields, dead_letters, NULL, SCOPE_READ,
     .reach = REACH_FILTER, .help = "Lists the jobs that failed: the dead letters",
     .gives = &job_list_shape, .errors = ERRORS_GONE},
    {"queue::requeue", "POST", "/queue/dlq/:jobId/requeue", NULL, requeue, NULL, SCOPE_EXEC,
     .reach = REACH_OWNED, .owned = &job_owned,
     .help = "Puts a job that failed into the queue again, with all its tries", .gives = &job_shape,
     .errors = ERRORS_JOB " " ERRORS_GONE " job_not_failed queue_full no_space"},
    {"queue::purge", "DELETE", "/queue/dlq", purge_fields, purge, NULL, SCOPE_EXEC,
     .reach = REACH_FILTER, .help = "Forgets the jobs that failed", .gives = &job_purged_shape,
     .errors = ERRORS_GONE " no_space"},
    {"queue::forget", "DELETE", "/queue/dlq/:jobId", NULL, purge, NULL, SCOPE_EXEC,
     .reach = REACH_OWNED, .owned = &job_owned, .help = "Forgets a job that failed",
     .gives = &job_purged_shape, .errors = ERRORS_JOB " job_not_failed no_space"},
    {0},
};
