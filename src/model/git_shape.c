#include "model/shapes.h"

static const struct field credentials_fields[] = {
    {"username", FIELD_STRING, .optional = true, .min = 1, .max = 255,
     .help = "x-access-token when there is only a token"},
    {"password", FIELD_STRING, .optional = true, .max = 4096, .help = "or token"},
    {"token", FIELD_STRING, .optional = true, .min = 1, .max = 4096, .help = "or password"},
    {0},
};
const struct shape git_credentials_shape = {
    "GitCredentials", credentials_fields,
    .help = "for the server of the repository, and for this call only"};

static const struct field file_fields[] = {
    {"status", FIELD_STRING, .example = "\"M\"",
     .help = "the letters of git status --short without blanks; ?? is not known to git"},
    {"path", FIELD_STRING, .example = "\"src/main.c\"", .help = "in the repository"},
    {"staged", FIELD_BOOL, .example = "false", .help = "a commit would have it, or a part of it"},
    {"from", FIELD_STRING, .optional = true, .help = "what it was called, when it was renamed"},
    {0},
};
static const struct shape file_shape = {"GitFile", file_fields,
                                        .help = "a file that is not as in the last commit"};

static const struct field status_fields[] = {
    {"branch", FIELD_STRING, .example = "\"main\"", .help = "HEAD when none is checked out"},
    {"clean", FIELD_BOOL, .example = "true", .help = "there are no files below"},
    {"files", FIELD_ARRAY, .of = &file_shape, .help = "changed, staged or not known to git"},
    {"repository", FIELD_BOOL, .example = "true",
     .help = "false of a workspace that has no repository, or of a sandbox without git"},
    {"message", FIELD_STRING, .optional = true, .help = "when there is none: why"},
    {"upstream", FIELD_STRING, .optional = true, .example = "\"origin/main\"",
     .help = "what the branch follows"},
    {"ahead", FIELD_INT, .optional = true, .help = "commits that the upstream lacks"},
    {"behind", FIELD_INT, .optional = true, .help = "commits of the upstream that it lacks"},
    {"truncated", FIELD_BOOL, .optional = true,
     .help = "true when there are more files than an answer has: 20000, or 10 MiB of names"},
    {0},
};
const struct shape git_status_shape = {"GitStatus", status_fields,
                                       .help = "what is not as in the last commit"};

static const struct field diff_fields[] = {
    {"diff", FIELD_STRING, .example = "\"--- a/f\\n+++ b/f\\n\"", .help = "as text"},
    {"truncated", FIELD_BOOL, .example = "false", .help = "it is longer than 10 MiB"},
    {0},
};
const struct shape git_diff_shape = {"GitDiff", diff_fields, .help = "what has changed"};

static const struct field entry_fields[] = {
    {"hash", FIELD_STRING, .example = "\"2f1d0c9e8b7a6f5e4d3c2b1a0f9e8d7c6b5a4f3e\"",
     .help = "of the commit"},
    {"message", FIELD_STRING, .example = "\"first\"", .help = "its first paragraph, as one line"},
    {"author", FIELD_STRING, .example = "\"Ada\"", .help = "name"},
    {"email", FIELD_STRING, .example = "\"ada@example.com\"", .help = "of the author"},
    {"date", FIELD_STRING, .example = "\"2026-01-01T00:00:00Z\"", .help = "ISO 8601"},
    {0},
};
static const struct shape entry_shape = {"GitEntry", entry_fields, .help = "a commit"};

static const struct field log_fields[] = {
    {"entries", FIELD_ARRAY, .of = &entry_shape, .help = "the newest first"},
    {0},
};
const struct shape git_log_shape = {"GitLog", log_fields, .help = "the last commits"};

static const struct field branches_fields[] = {
    {"branches", FIELD_STRINGS, .example = "[\"main\", \"remotes/origin/main\"]",
     .help = "those of remotes begin with remotes/"},
    {"current", FIELD_STRING, .example = "\"main\"", .help = "HEAD when none is checked out"},
    {"truncated", FIELD_BOOL, .optional = true,
     .help = "true when there are more than an answer has: 20000, or 10 MiB of names"},
    {0},
};
const struct shape git_branches_shape = {"GitBranches", branches_fields,
                                         .help = "the branches of a repository"};

static const char *const progress_word[] = {"progress", NULL}, *const result_word[] = {"result",
                                                                                       NULL};

static const struct field progress_fields[] = {
    {"event", FIELD_STRING, .choices = progress_word, .help = "git goes on"},
    {"phase", FIELD_STRING, .example = "\"Receiving objects\"", .help = "what it does"},
    {"percent", FIELD_INT, .example = "45", .help = "of this phase"},
    {"current", FIELD_INT, .example = "450", .help = "how many are done"},
    {"total", FIELD_INT, .example = "1000", .help = "of how many"},
    {"text", FIELD_STRING, .example = "\"Receiving objects:  45% (450/1000)\"",
     .help = "as git says it"},
    {0},
};
static const struct shape progress_shape = {"GitProgress", progress_fields,
                                            .help = "how far git is"};

static const struct field done_fields[] = {
    {"event", FIELD_STRING, .choices = result_word, .help = "the last one"},
    {"result", FIELD_OBJECT, .of = &exec_result_shape, .help = "how it ended"},
    {0},
};
static const struct shape done_shape = {"GitResultEvent", done_fields, .help = "git has ended"};

static const struct shape *const events[] = {&progress_shape, &done_shape, &error_event_shape,
                                             NULL};
const struct shape git_event_shape = {"GitEvent", .one_of = events,
                                      .help = "how far git is, then how it ended or an error"};
