#include <string.h>

#include "base/str.h"
#include "service/queue/queue_internal.h"

/* What is not UTF-8 becomes U+FFFD. */
static json_t *text(const char *s, size_t len)
{
    auto_buf struct buf clean = {0};

    buf_init(&clean, 3 * len + 1);
    (void)utf8_clean(&clean, s ? s : "", len);
    return json_stringn_nocheck(clean.data ? clean.data : "", clean.len);
}

void put_streams(json_t *o, const struct job *j, uint64_t cursor)
{
    auto_buf struct buf out = {0}, errors = {0};

    buf_init(&out, j->output.len + 1);
    buf_init(&errors, j->output.len + 1);
    job_output_split(&j->output, &j->runs, (uint64_t)j->base, cursor, &out, &errors);
    (void)json_object_set_new(o, "stdout", text(out.data, out.len));
    (void)json_object_set_new(o, "stderr", text(errors.data, errors.len));
}

static json_t *result_json(const struct job *j)
{
    json_t *o = json_pack("{s:i, s:f, s:s, s:b}", "exitCode", j->exit_code, "duration",
                          j->duration_ms, "reason", j->reason, "truncated", j->truncated);

    put_streams(o, j, 0);
    if (j->exec_id[0])
        (void)json_object_set_new(o, "execId", json_string(j->exec_id));
    return o;
}

static void put_time(json_t *o, const char *key, int64_t ms)
{
    if (ms > 0)
        (void)json_object_set_new(o, key, json_integer(ms));
}

json_t *job_json(const struct job *j, bool result)
{
    json_t *o = json_pack("{s:s, s:s, s:o, s:s, s:I, s:I, s:I, s:i, s:b}", "id", j->id, "sandboxId",
                          j->sandbox, "command", text(j->command, strlen(j->command)), "status",
                          job_word(j->state), "retries", (json_int_t)j->retries, "maxRetries",
                          (json_int_t)j->max_retries, "createdAt", (json_int_t)j->created_ms,
                          "priority", j->priority, "retryOnExit", j->retry_exit);

    if (j->timeout_ms > 0)
        (void)json_object_set_new(o, "timeout", json_real((double)j->timeout_ms / 1000));
    (void)json_object_set_new(o, "retryDelay", json_real((double)j->retry_ms / 1000));
    put_time(o, "runAt", j->run_ms);
    put_time(o, "startedAt", j->started_ms);
    put_time(o, "completedAt", j->ended_ms);
    if (j->error)
        (void)json_object_set_new(o, "error", text(j->error, strlen(j->error)));
    if (j->has_result)
        (void)json_object_set_new(o, "exitCode", json_integer(j->exit_code));
    if (j->exec_id[0])
        (void)json_object_set_new(o, "execId", json_string(j->exec_id));
    if (j->has_result && result)
        (void)json_object_set_new(o, "result", result_json(j));
    return o;
}
