#include "model/limits.h"
#include "model/patches.h"
#include "model/shapes.h"

const char *const patch_words[PATCH_TYPES + 1] = {"text",    "file", "append", "mkdir",
                                                  "symlink", "copy", "remove", "chmod"};

static const struct field fields[] = {
    {"type", FIELD_STRING, .choices = patch_words, .example = "\"text\"",
     .help = "text and file write content, append adds it to the end, mkdir makes a directory with "
             "all above it, symlink points to target, copy copies from, remove and chmod are what "
             "they are called"},
    {"path", FIELD_STRING, .min = 1, .max = PATH_BYTES_MAX, .example = "\"/etc/motd\"",
     .help = "what is made or changed; below the workspace when it is not absolute"},
    {"content", FIELD_STRING, .optional = true, .max = PATCH_BYTES_MAX / 3 * 4 + 4,
     .example = "\"hello\\n\"", .help = "of text and append; of file its bytes in base64"},
    {"target", FIELD_STRING, .optional = true, .max = PATH_BYTES_MAX,
     .help = "of symlink: what it points to"},
    {"from", FIELD_STRING, .optional = true, .max = PATH_BYTES_MAX,
     .help = "of copy: a file or directory of the image"},
    {"mode", FIELD_STRING, .optional = true, .max = 4, .example = "\"0644\"",
     .help = "octal; of new files 0644 when absent, of directories 0755, of copies that of from"},
    {"replace", FIELD_BOOL, .optional = true,
     .help = "of text, file, symlink and copy: take the place of what is there already, which is "
             "refused else"},
    {0},
};
const struct shape patch_shape = {
    "Patch", fields, .help = "a change to a new sandbox's files, before anything runs"};
