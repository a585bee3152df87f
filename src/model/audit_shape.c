#include "model/shapes.h"

#define EXAMPLE_HASH "\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\""

static const char *const results[] = {"ok", "refused", "failed", NULL};

static const struct field entry_fields[] = {
    {"n", FIELD_INT, .example = "42", .help = "number of the line"},
    {"time", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"who", FIELD_STRING, .optional = true, .example = "\"root\"",
     .help = "root, admin (CAY_AUTH_TOKEN), anyone, uid:N, or the id of a token"},
    {"face", FIELD_STRING, .optional = true, .example = "\"rest\"", .help = "by which way"},
    {"from", FIELD_STRING, .optional = true, .example = "\"127.0.0.1\"", .help = "its address"},
    {"function", FIELD_STRING, .example = "\"cmd::run\"",
     .help = "what was called; daemon.started and the like are no calls"},
    {"sandboxId", FIELD_STRING, .optional = true, .example = EXAMPLE_SANDBOX_ID,
     .help = "that it was about"},
    {"result", FIELD_STRING, .choices = results, .help = "how it ended"},
    {"code", FIELD_STRING, .optional = true, .example = "\"scope_missing\"",
     .help = "why it was not ok"},
    {"ms", FIELD_NUMBER, .optional = true, .example = "1.5", .help = "that it took"},
    {"detail", FIELD_OBJECT, .optional = true, .example = "{\"command\": \"make\"}",
     .help = "what was asked, without secrets"},
    {"prev", FIELD_STRING, .example = EXAMPLE_HASH, .help = "hash of the line before"},
    {"hash", FIELD_STRING, .example = EXAMPLE_HASH, .help = "of this line"},
    {0},
};
static const struct shape audit_entry_shape = {"AuditEntry", entry_fields,
                                               .help = "a line of the audit log"};

static const struct field list_fields[] = {
    {"entries", FIELD_ARRAY, .of = &audit_entry_shape, .help = "the oldest first"},
    {"n", FIELD_INT, .example = "42", .help = "number of the newest line"},
    {"hash", FIELD_STRING, .example = EXAMPLE_HASH, .help = "of the newest line"},
    {0},
};
const struct shape audit_list_shape = {"AuditList", list_fields, .help = "who did what"};

static const struct field report_fields[] = {
    {"ok", FIELD_BOOL, .example = "true",
     .help = "no line was changed, removed, put in or appended by another"},
    {"entries", FIELD_INT, .example = "42", .help = "lines that were read and are right"},
    {"firstN", FIELD_INT, .example = "1", .help = "number of the oldest line that is kept"},
    {"n", FIELD_INT, .example = "42", .help = "number of the newest line"},
    {"hash", FIELD_STRING, .example = EXAMPLE_HASH,
     .help = "of the newest line: keep it elsewhere, and ask for it later"},
    {"files", FIELD_INT, .example = "1", .help = "how many there are"},
    {"problem", FIELD_STRING, .optional = true,
     .example = "\"a line was changed: its hash is another\"", .help = "the first thing wrong"},
    {"file", FIELD_STRING, .optional = true, .example = "\"audit-0000000000000001.jsonl\"",
     .help = "where"},
    {"line", FIELD_INT, .optional = true, .example = "7", .help = "in that file"},
    {"lastGoodN", FIELD_INT, .optional = true, .example = "6", .help = "up to which all is right"},
    {"headFound", FIELD_BOOL, .optional = true, .example = "true",
     .help = "whether the line of the head that was given is there"},
    {"headProblem", FIELD_STRING, .optional = true,
     .example = "\"the line of the head was replaced\"", .help = "why it is not there"},
    {0},
};
const struct shape audit_report_shape = {"AuditReport", report_fields,
                                         .help = "whether the audit log is whole"};
