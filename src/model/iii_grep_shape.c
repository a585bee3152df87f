#include "model/shapes.h"

/* Names as the iii protocol has them. */

static const struct field match_fields[] = {
    {"path", FIELD_STRING, .example = "\"/workspace/a.txt\"", .help = "absolute"},
    {"line", FIELD_INT, .example = "1", .help = "its number; the first is 1"},
    {"content", FIELD_STRING, .example = "\"hello\"",
     .help = "the line without its end; a long one is cut and ends with …"},
    {0},
};
const struct shape iii_grep_match_shape = {"GrepMatch", match_fields,
                                           .help = "a line that has a match"};

static const struct field grep_fields[] = {
    {"matches", FIELD_ARRAY, .of = &iii_grep_match_shape, .help = "in no order of files"},
    {"truncated", FIELD_BOOL, .example = "false",
     .help = "are there more than are told: matches have 960 KiB as JSON"},
    {0},
};
const struct shape iii_grep_shape = {"GrepResult", grep_fields,
                                     .help = "lines of files that a pattern is found in"};

static const struct field sed_file_fields[] = {
    {"path", FIELD_STRING, .example = "\"/workspace/a.txt\"", .help = "absolute"},
    {"replacements", FIELD_INT, .example = "2", .help = "0: the file stays as it was"},
    {"success", FIELD_BOOL, .example = "true", .help = "or it stays as it was"},
    {"error", FIELD_STRING, .optional = true, .help = "why not"},
    {0},
};
const struct shape iii_sed_file_shape = {"SedFile", sed_file_fields,
                                         .help = "what became of a file"};

static const struct field sed_fields[] = {
    {"results", FIELD_ARRAY, .of = &iii_sed_file_shape, .help = "one for each file"},
    {"total_replacements", FIELD_INT, .example = "2", .help = "in all of them"},
    {0},
};
const struct shape iii_sed_shape = {"SedResult", sed_fields,
                                    .help = "what was replaced in which files"};
