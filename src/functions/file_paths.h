#pragma once

#include "engine/files.h"
#include "model/limits.h"
#include "model/shape.h"

struct call;
struct err;

/* What every row with paths in a sandbox has in common. */

/* Before a function looks at its input: from then on paths are bytes, however they came. */
int file_take_paths(struct call *call, struct err *err);
/* The field; the workspace when it is absent. */
struct file_path file_in_path(const struct call *call, const char *name);

extern const char *const file_path_encodings[];

#define FILE_PATH_FIELDS                                                                           \
    {"anywhere", FIELD_BOOL, .preset = "false",                                                    \
     .help = "also allow paths outside of the workspace"},                                         \
    {                                                                                              \
        "pathEncoding", FIELD_STRING, .choices = file_path_encodings, .preset = "\"utf8\"",        \
                                      .help = "base64: every path of the call and of its answer "  \
                                              "is base64 of its bytes, as names that are no "      \
                                              "UTF-8 need it"                                      \
    }
