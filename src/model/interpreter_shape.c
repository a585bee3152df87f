#include "model/shapes.h"

/* ---- what code gives ---- */

static const struct field result_fields[] = {
    {"type", FIELD_STRING, .example = "\"text\"",
     .help = "text, html, markdown, latex, json, table, image, svg or data"},
    {"mime", FIELD_STRING, .example = "\"text/plain\"", .help = "what data is"},
    {"data", FIELD_ANY, .example = "\"2\"",
     .help = "a text, base64 of a picture, or of JSON and tables the value itself"},
    {"main", FIELD_BOOL, .optional = true, .help = "it is the value of the last expression"},
    {"group", FIELD_INT, .optional = true, .example = "1",
     .help = "forms of the same thing have the same number"},
    {0},
};
const struct shape code_result_shape = {
    "CodeResult", result_fields, .help = "a value that code left, in one of the forms it can have"};

static const struct field frame_fields[] = {
    {"file", FIELD_STRING, .example = "\"<code>\"", .help = "where it is"},
    {"line", FIELD_INT, .nullable = true, .example = "3", .help = "counted from 1"},
    {"function", FIELD_STRING, .example = "\"<module>\"", .help = "in which function"},
    {"text", FIELD_STRING, .optional = true, .example = "\"1/0\"", .help = "the line itself"},
    {0},
};
static const struct shape code_frame_shape = {"CodeFrame", frame_fields,
                                              .help = "a place in a traceback"};

static const struct field exception_fields[] = {
    {"name", FIELD_STRING, .example = "\"ZeroDivisionError\"", .help = "its class"},
    {"value", FIELD_STRING, .example = "\"division by zero\"", .help = "what it says"},
    {"traceback", FIELD_ARRAY, .of = &code_frame_shape, .help = "from the code inwards"},
    {"line", FIELD_INT, .nullable = true, .example = "1", .help = "of the code, where it is known"},
    {"text", FIELD_STRING, .optional = true, .help = "as the language shows it"},
    {0},
};
const struct shape code_exception_shape = {"CodeException", exception_fields,
                                           .help = "what code raised and did not catch"};

#define END_FIELDS                                                                                 \
    {"error", FIELD_STRING, .nullable = true, .example = "null",                                   \
     .help = "null when it ended well, else what it said on stderr; the last 64 KiB of it"},       \
        {"executionTime", FIELD_NUMBER, .example = "12.5", .help = "milliseconds"},                \
        {"exitCode", FIELD_INT, .example = "0",                                                    \
         .help = "of its process; of a context 0, or 1 after an exception"},                       \
        {"truncated", FIELD_BOOL, .example = "false",                                              \
         .help = "there was more output than an answer can have; streams have no such bound"},     \
    {                                                                                              \
        "exception", FIELD_OBJECT, .optional = true, .of = &code_exception_shape,                  \
                                   .help = "what it raised, where the language tells"              \
    }

static const struct field execution_fields[] = {
    {"output", FIELD_STRING, .example = "\"2\\n\"", .help = "stdout as text"},
    END_FIELDS,
    {"stderr", FIELD_STRING, .example = "\"\"", .help = "stderr as text"},
    {"results", FIELD_ARRAY, .of = &code_result_shape,
     .help = "values and pictures, in the order in which they came"},
    {0},
};
const struct shape execution_shape = {"Execution", execution_fields,
                                      .help = "what a run of code came to"};

/* ---- its events ---- */

static const char *const text_words[] = {"stdout", "stderr", NULL},
                         *const result_word[] = {"result", NULL},
                         *const exception_word[] = {"exception", NULL},
                         *const done_word[] = {"done", NULL};

static const struct field text_event_fields[] = {
    {"event", FIELD_STRING, .choices = text_words, .example = "\"stdout\"", .help = "which stream"},
    {"text", FIELD_STRING, .example = "\"2\\n\"", .help = "a piece of it"},
    {0},
};
static const struct shape text_event_shape = {"CodeTextEvent", text_event_fields,
                                              .help = "code printed something"};

static const struct field result_event_fields[] = {
    {"event", FIELD_STRING, .choices = result_word, .help = "there is a result"},
    {"result", FIELD_OBJECT, .of = &code_result_shape, .help = "one form of it"},
    {0},
};
static const struct shape result_event_shape = {"CodeResultEvent", result_event_fields,
                                                .help = "code left a value or a picture"};

static const struct field exception_event_fields[] = {
    {"event", FIELD_STRING, .choices = exception_word, .help = "code raised something"},
    {"exception", FIELD_OBJECT, .of = &code_exception_shape, .help = "what"},
    {0},
};
static const struct shape exception_event_shape = {"CodeExceptionEvent", exception_event_fields,
                                                   .help = "code ended with an exception"};

/* Who was told all of it is not told again. */
static const struct field end_fields[] = {
    END_FIELDS,
    {"output", FIELD_STRING, .optional = true, .help = "where it was not told by events"},
    {"stderr", FIELD_STRING, .optional = true, .help = "where it was not told by events"},
    {"results", FIELD_ARRAY, .optional = true, .of = &code_result_shape,
     .help = "where they were not told by events"},
    {0},
};
static const struct shape execution_end_shape = {"ExecutionEnd", end_fields,
                                                 .help = "how a run of code ended"};

static const struct field done_fields[] = {
    {"event", FIELD_STRING, .choices = done_word, .help = "the last one"},
    {"execution", FIELD_OBJECT, .of = &execution_end_shape, .help = "how it ended"},
    {0},
};
static const struct shape done_event_shape = {"ExecutionDoneEvent", done_fields,
                                              .help = "a run of code has ended"};

static const struct shape *const execution_events[] = {
    &text_event_shape, &result_event_shape, &exception_event_shape,
    &done_event_shape, &error_event_shape,  NULL,
};
const struct shape execution_event_shape = {
    "ExecutionEvent", .one_of = execution_events,
    .help = "what code prints and gives as it comes, then its end or an error"};

/* ---- packages and kernels ---- */

static const struct field installed_fields[] = {
    {"output", FIELD_STRING, .example = "\"Successfully installed six-1.16.0\\n\"",
     .help = "what the manager said on stdout"},
    {"exitCode", FIELD_INT, .example = "0", .help = "always 0; else it is an error"},
    {0},
};
const struct shape installed_shape = {"Installed", installed_fields,
                                      .help = "packages were installed"};

static const struct field kernel_fields[] = {
    {"name", FIELD_STRING, .example = "\"python3\"", .help = "of the program"},
    {"language", FIELD_STRING, .example = "\"python\"", .help = "for execute"},
    {"displayName", FIELD_STRING, .example = "\"Python 3\"", .help = "for people"},
    {"version", FIELD_STRING, .example = "\"3.11.2\"", .help = "as it says itself; \"\" = nothing"},
    {"path", FIELD_STRING, .example = "\"/usr/bin/python3\"", .help = "in the sandbox"},
    {"stateful", FIELD_BOOL, .example = "true", .help = "contexts can be made of it"},
    {0},
};
static const struct shape kernel_shape = {"Kernel", kernel_fields,
                                          .help = "a language that this sandbox has"};

static const struct field kernels_value = {"", FIELD_ARRAY, .of = &kernel_shape,
                                           .help = "what is really there"};
const struct shape kernels_shape = {"Kernels", .value = &kernels_value,
                                    .help = "the languages of a sandbox"};

/* ---- contexts ---- */

static const struct field context_fields[] = {
    {"id", FIELD_STRING, .example = EXAMPLE_CONTEXT_ID, .help = "ctx_ and 24 hex digits"},
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "where it is"},
    {"language", FIELD_STRING, .example = "\"python\"", .help = "what it runs"},
    {"execId", FIELD_STRING, .example = EXAMPLE_EXEC_ID, .help = "of its process"},
    {"createdAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"version", FIELD_STRING, .optional = true, .example = "\"3.11.2\"",
     .help = "of the language, to who made or restarted it"},
    {0},
};
const struct shape code_context_shape = {"CodeContext", context_fields,
                                         .help = "an interpreter that keeps its variables"};

static const struct field context_list_fields[] = {
    {"contexts", FIELD_ARRAY, .of = &code_context_shape, .help = "the newest first"},
    {0},
};
const struct shape code_context_list_shape = {"CodeContextList", context_list_fields,
                                              .help = "the contexts of a sandbox"};
