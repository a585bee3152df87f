#include "model/limits.h"
#include "model/shapes.h"

static const char *const change_types[] = {"ready", "create",   "write", "remove", "rename",
                                           "chmod", "overflow", "end",   NULL};
static const struct field change_fields[] = {
    {"type", FIELD_STRING, .choices = change_types, .example = "\"write\"",
     .help = "ready: what happens from here on is told; overflow: something is not, see lost and "
             "directories; end: the last one"},
    {"path", FIELD_STRING, .optional = true, .example = "\"/workspace/a.txt\"",
     .help = "absolute; of an overflow one of the directories"},
    {"pathBase64", FIELD_STRING, .optional = true,
     .help = "the bytes of path, when they are no UTF-8"},
    {"from", FIELD_STRING, .optional = true, .help = "what it was called before a rename"},
    {"fromBase64", FIELD_STRING, .optional = true,
     .help = "the bytes of from, when they are no UTF-8"},
    {"isDirectory", FIELD_BOOL, .optional = true, .example = "false", .help = "is it one"},
    {"timestamp", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"lost", FIELD_INT, .optional = true,
     .help = "of an overflow: changes that are not told, or more"},
    {"directories", FIELD_INT, .optional = true,
     .help = "when it is ready, so many are watched; of an overflow, so many are not"},
    {"reason", FIELD_STRING, .optional = true, .help = "of the end: why"},
    {0},
};
const struct shape file_change_shape = {"FileChange", change_fields,
                                        .help = "a change to files that are watched"};

static const struct field text_value = {.type = FIELD_STRING, .example = "\"hello\\n\""};
const struct shape file_text_shape = {"FileText", .value = &text_value,
                                      .help = "a file's text; bytes that are none are replaced"};

static const struct field bytes_value = {.type = FIELD_STRING, .example = "\"aGVsbG8K\""};
const struct shape file_bytes_shape = {"FileBytes", .value = &bytes_value,
                                       .help = "a file's bytes in base64 with padding"};

#define PATH_BASE64                                                                                \
    {                                                                                              \
        "pathBase64", FIELD_STRING, .optional = true,                                              \
                                    .help = "the bytes of path, when they are no UTF-8: give it "  \
                                            "with pathEncoding base64"                             \
    }

static const struct field info_fields[] = {
    {"name", FIELD_STRING, .example = "\"a.txt\"", .help = "in its directory"},
    {"path", FIELD_STRING, .example = "\"/workspace/a.txt\"", .help = "absolute"},
    PATH_BASE64,
    {"size", FIELD_INT, .example = "6", .help = "bytes"},
    {"isDirectory", FIELD_BOOL, .example = "false", .help = "links are none"},
    {"isSymlink", FIELD_BOOL, .example = "false", .help = "is it a symbolic link"},
    {"mode", FIELD_STRING, .example = "\"0644\"", .help = "octal digits, as chmod takes them"},
    {"target", FIELD_STRING, .optional = true, .help = "of a link: what it says"},
    {"modifiedAt", FIELD_INT, .example = "1767225600000",
     .help = "Unix milliseconds; negative before 1970"},
    {0},
};
const struct shape file_info_shape = {"FileInfo", info_fields, .help = "an entry of a directory"};

static const struct field list_value = {.type = FIELD_ARRAY, .of = &file_info_shape};
const struct shape file_list_shape = {"FileList", .value = &list_value,
                                      .help = "a directory; empty when there is none"};

static const struct field meta_fields[] = {
    {"path", FIELD_STRING, .example = "\"/workspace/a.txt\"", .help = "absolute"},
    PATH_BASE64,
    {"size", FIELD_INT, .example = "6", .help = "bytes"},
    {"permissions", FIELD_STRING, .example = "\"-rw-r--r--\"", .help = "as ls shows them"},
    {"owner", FIELD_STRING, .example = "\"root\"", .help = "name, or number when it has none"},
    {"group", FIELD_STRING, .example = "\"root\"", .help = "name, or number when it has none"},
    {"isDirectory", FIELD_BOOL, .example = "false", .help = "links are none"},
    {"isSymlink", FIELD_BOOL, .example = "false", .help = "is it a symbolic link"},
    {"mode", FIELD_STRING, .example = "\"0644\"", .help = "octal digits, as chmod takes them"},
    {"target", FIELD_STRING, .optional = true, .help = "of a link: what it says"},
    {"modifiedAt", FIELD_INT, .example = "1767225600000",
     .help = "Unix milliseconds; negative before 1970"},
    {0},
};
const struct shape file_meta_shape = {"FileMeta", meta_fields, .help = "what a path is"};

static const struct field meta_list_value = {.type = FIELD_ARRAY, .of = &file_meta_shape};
const struct shape file_meta_list_shape = {"FileMetaList", .value = &meta_list_value,
                                           .help = "in the order of the paths"};

static const struct shape *const meta_answers[] = {&file_meta_list_shape, &file_meta_shape, NULL};
const struct shape file_meta_answer_shape = {"FileMetaAnswer", .one_of = meta_answers,
                                             .help = "a list for paths, one for path"};

static const struct field paths_value = {.type = FIELD_STRINGS,
                                         .example = "[\"/workspace/a.txt\"]"};
const struct shape file_paths_shape = {"FilePaths", .value = &paths_value,
                                       .help = "absolute paths; at most 10000"};

static const struct field move_fields[] = {
    {"from", FIELD_STRING, .min = 1, .max = PATH_TEXT_MAX, .example = "\"a.txt\"",
     .help = "absolute, or relative to the workspace"},
    {"to", FIELD_STRING, .min = 1, .max = PATH_TEXT_MAX, .example = "\"b.txt\"",
     .help = "an existing directory takes it in"},
    {0},
};
const struct shape file_move_shape = {"FileMove", move_fields, .help = "what goes where"};
