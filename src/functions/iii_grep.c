#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/files.h"
#include "functions/functions_internal.h"
#include "functions/iii_internal.h"

/* Searching and replacing in files, by the names that the iii protocol has for it. */

#define MATCHES_MAX   50000
#define PATTERN_MAX   (32u << 10)
#define REPLACE_MAX   (64u << 10)
#define FIRST_MATCHES "10000"
#define FIRST_LINE    "4096"

struct findings {
    const struct call *call;
    int64_t until_ns; /* files of a sandbox can be made so that it would take for ever */
    json_t *list;
    json_int_t replacements;
};

static struct findings findings_for(const struct call *call)
{
    int64_t ms = iii_settings_of(call)->exec_ms_max;

    return (struct findings){.call = call,
                             .until_ns = ms > 0 ? mono_ns() + ms * 1000000 : INT64_MAX,
                             .list = json_array()};
}

/* NULL = nothing yet, and the agent goes on; do we? */
static int add_item(json_t *item, void *arg, struct err *err)
{
    struct findings *a = arg;

    if (item) {
        a->replacements += json_integer_value(json_object_get(item, "replacements"));
        (void)json_array_append_new(a->list, item);
    }
    if (!item && !call_is_wanted(a->call))
        return err_code(err, ERR_CONFLICT, "cancelled", "nobody waits for it any more");
    if (mono_ns() >= a->until_ns)
        return err_code(err, ERR_CONFLICT, "file_failed",
                        "it took longer than a command may: ask for fewer files, or for a simpler "
                        "pattern");
    return 0;
}

/* What it refers to is the caller's to free, *ret_path too. */
static struct file_text in_text(const struct call *call, char **include, char **exclude,
                                char **ret_path)
{
    const char *path = in_str(call, "path");

    return (struct file_text){.path = path ? iii_path(path, "", ret_path)
                                           : (struct file_path){.anywhere = true},
                              .recursive = in_bool(call, "recursive"),
                              .pattern = in_str(call, "pattern"),
                              .ignore_case = in_bool(call, "ignore_case"),
                              .include = include,
                              .exclude = exclude};
}

static int grep(struct call *call, struct err *err)
{
    auto_strv char **include = in_strings(call, "include_glob");
    auto_strv char **exclude = in_strings(call, "exclude_glob");
    auto_free char *path = NULL;
    struct file_grep req = {.text = in_text(call, include, exclude, &path),
                            .matches_max = (uint32_t)in_int(call, "max_matches"),
                            .line_max = (uint32_t)in_int(call, "max_line_bytes"),
                            .bytes_max = III_ANSWER_MAX};
    struct findings a = findings_for(call);
    bool truncated;

    if (engine_file_grep(call->engine, in_id(call), &req, add_item, &a, &truncated, err) < 0) {
        json_decref(a.list);
        return iii_file_error(err);
    }
    call->out = json_pack("{s:o, s:b}", "matches", a.list, "truncated", (int)truncated);
    return 0;
}

static char **in_files(const struct call *call)
{
    char **files = in_strings(call, "files");

    for (char **file = files; file && *file; file++) {
        auto_free char *given = *file;

        (void)iii_path(given, "", file);
    }
    return files;
}

static int sed(struct call *call, struct err *err)
{
    auto_strv char **include = in_strings(call, "include_glob");
    auto_strv char **exclude = in_strings(call, "exclude_glob");
    auto_strv char **files = in_files(call);
    auto_free char *path = NULL;
    struct file_sed req = {.text = in_text(call, include, exclude, &path),
                           .replacement = in_str(call, "replacement"),
                           .literal = !in_bool(call, "regex"),
                           .first_only = in_bool(call, "first_only")};
    struct findings a = findings_for(call);

    req.text.files = files;
    if (engine_file_sed(call->engine, in_id(call), &req, add_item, &a, err) < 0) {
        json_decref(a.list);
        return iii_file_error(err);
    }
    call->out = json_pack("{s:o, s:I}", "results", a.list, "total_replacements", a.replacements);
    return 0;
}

/* Which is taken before (iii_input()): here for the schema. */
#define ID_FIELD                                                                                   \
    {                                                                                              \
        "sandbox_id", FIELD_STRING, .optional = true, .max = 64, .example = EXAMPLE_SANDBOX_UUID,  \
                                    .help = "a UUID, which is required"                            \
    }

#define TEXT_FIELDS                                                                                \
    {"pattern", FIELD_STRING, .max = PATTERN_MAX, .example = "\"hel+o\"",                          \
     .help = "a regular expression as in Rust, without \\\\p, look-around and back-references"},   \
        {"recursive", FIELD_BOOL, .preset = "true", .help = "path may be a directory"},            \
        {"ignore_case", FIELD_BOOL, .preset = "false", .help = "letters match in either case"},    \
        {"include_glob",                                                                           \
         FIELD_STRINGS,                                                                            \
         .optional = true,                                                                         \
         .min = 1,                                                                                 \
         .max = GLOB_BYTES_MAX,                                                                    \
         .example = "[\"*.c\"]",                                                                   \
         .help = "files must match one; without a slash it is about the name, ** is any depth"},   \
    {                                                                                              \
        "exclude_glob", FIELD_STRINGS, .optional = true, .min = 1, .max = GLOB_BYTES_MAX,          \
                                       .help = "files must match none"                             \
    }

static const struct field grep_fields[] = {
    ID_FIELD,
    {"path", FIELD_STRING, .min = 1, .max = PATH_TEXT_MAX, .example = "\"/workspace\"",
     .help = "a file, or a directory with all that is below"},
    TEXT_FIELDS,
    {"max_matches", FIELD_INT, .min = 1, .max = MATCHES_MAX, .clamp = true, .preset = FIRST_MATCHES,
     .help = "lines that are told at most"},
    {"max_line_bytes", FIELD_INT, .min = 1, .max = FILE_LINE_MAX, .clamp = true,
     .preset = FIRST_LINE, .help = "of a longer line so much is told"},
    {0},
};

static const struct field sed_fields[] = {
    ID_FIELD,
    {"files", FIELD_STRINGS, .optional = true, .min = 1, .max = PATH_TEXT_MAX,
     .example = "[\"/workspace/a.txt\"]", .help = "files, or path instead"},
    {"path", FIELD_STRING, .optional = true, .min = 1, .max = PATH_TEXT_MAX,
     .help = "a file, or a directory with all that is below"},
    TEXT_FIELDS,
    {"replacement", FIELD_STRING, .max = REPLACE_MAX, .example = "\"$1\"",
     .help = "with $1, $name and ${name} for groups, $$ for a $"},
    {"regex", FIELD_BOOL, .preset = "true", .help = "else pattern and replacement are texts"},
    {"first_only", FIELD_BOOL, .preset = "false", .help = "the first match of each line only"},
    {0},
};

#define ERRORS_TEXT ERRORS_FILE " bad_regex bad_fs_request file_failed agent_too_old cancelled"

const struct function iii_grep_functions[] = {
    {"sandbox::fs::grep", NULL, NULL, grep_fields, grep, NULL, SCOPE_READ, .reach = REACH_SANDBOX,
     .rate = RATE_FILE, .help = "Finds lines of files by a regular expression",
     .gives = &iii_grep_shape, .errors = ERRORS_TEXT},
    {"sandbox::fs::sed", NULL, NULL, sed_fields, sed, NULL, SCOPE_WRITE, .reach = REACH_SANDBOX,
     .rate = RATE_FILE, .help = "Replaces what a regular expression finds, in files",
     .gives = &iii_sed_shape, .errors = ERRORS_TEXT},
    {0},
};
