#include "model/shapes.h"

const char *const job_status_words[] = {"pending", "running",   "completed",
                                        "failed",  "cancelled", NULL};

static const struct field job_fields[] = {
    {"id", FIELD_STRING, .example = EXAMPLE_JOB_ID, .help = "job_ and 24 hex digits"},
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "where it runs"},
    {"command", FIELD_STRING, .example = "\"make test\"",
     .help = "as text; arguments with spaces between them"},
    {"status", FIELD_STRING, .choices = job_status_words, .help = "how it is"},
    {"result", FIELD_OBJECT, .optional = true, .of = &exec_result_shape,
     .help = "how the command ended; not in lists"},
    {"exitCode", FIELD_INT, .optional = true, .example = "0", .help = "of the result"},
    {"error", FIELD_STRING, .optional = true, .help = "why the last try failed"},
    {"retries", FIELD_INT, .example = "0", .help = "tries that failed"},
    {"maxRetries", FIELD_INT, .example = "3", .help = "so many tries, and at least one"},
    {"createdAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"startedAt", FIELD_INT, .optional = true, .help = "of the last try"},
    {"completedAt", FIELD_INT, .optional = true,
     .help = "when it completed, failed or was cancelled"},
    {"runAt", FIELD_INT, .optional = true, .help = "it does not start before that"},
    {"priority", FIELD_INT, .example = "0", .help = "the higher the earlier"},
    {"timeout", FIELD_NUMBER, .optional = true, .help = "seconds that a try may take"},
    {"retryOnExit", FIELD_BOOL, .example = "false",
     .help = "an exit code other than 0 is a failure"},
    {"retryDelay", FIELD_NUMBER, .example = "1", .help = "seconds before the second try"},
    {"execId", FIELD_STRING, .optional = true, .example = EXAMPLE_EXEC_ID,
     .help = "the command of the last try"},
    {0},
};
const struct shape job_shape = {"Job", job_fields, .help = "a command in the queue"};

static const struct field list_fields[] = {
    {"jobs", FIELD_ARRAY, .of = &job_shape, .help = "the newest first, without results"},
    {"total", FIELD_INT, .example = "1", .help = "how many there are in all"},
    {0},
};
const struct shape job_list_shape = {"JobList", list_fields, .help = "a part of the queue"};

static const struct field cancelled_fields[] = {
    {"cancelled", FIELD_STRING, .example = EXAMPLE_JOB_ID, .help = "id of the job"},
    {0},
};
const struct shape job_cancelled_shape = {"JobCancelled", cancelled_fields,
                                          .help = "a job does not run any more"};

static const struct field purged_fields[] = {
    {"purged", FIELD_INT, .example = "1", .help = "how many were forgotten"},
    {0},
};
const struct shape job_purged_shape = {"JobsPurged", purged_fields,
                                       .help = "jobs that failed are gone"};

static const struct field logs_fields[] = {
    {"jobId", FIELD_STRING, .example = EXAMPLE_JOB_ID, .help = "whose output it is"},
    {"status", FIELD_STRING, .choices = job_status_words, .help = "how the job is"},
    {"done", FIELD_BOOL, .example = "true", .help = "no more will come"},
    {"stdout", FIELD_STRING, .example = "\"ok\\n\"", .help = "of the last try, from the cursor on"},
    {"stderr", FIELD_STRING, .example = "\"\"", .help = "of the last try, from the cursor on"},
    {"cursor", FIELD_INT, .example = "3", .help = "where to read on"},
    {"lost", FIELD_INT, .example = "0", .help = "bytes after the cursor that are not kept"},
    {0},
};
const struct shape job_logs_shape = {"JobLogs", logs_fields,
                                     .help = "a part of what a job has put out"};
