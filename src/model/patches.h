#pragma once

/* Changes to a sandbox's files that come with its create, applied in order before anything runs in
 * it. Here what they are called; the shape is in shapes.h. */

enum patch_type {
    PATCH_TYPE_TEXT,
    PATCH_TYPE_FILE, /* as text, in base64 */
    PATCH_TYPE_APPEND,
    PATCH_TYPE_MKDIR,
    PATCH_TYPE_SYMLINK,
    PATCH_TYPE_COPY,
    PATCH_TYPE_REMOVE,
    PATCH_TYPE_CHMOD,
    PATCH_TYPES,
};

/* By type, ended by NULL. */
extern const char *const patch_words[PATCH_TYPES + 1];

#define PATCHES_MAX     1000
#define PATCH_BYTES_MAX (16u << 20) /* of all contents together, once decoded */
