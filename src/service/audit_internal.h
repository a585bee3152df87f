#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "oci/digest.h"

struct audit;
struct err;

/* What the files of the audit log share: audit.c writes it, audit_read.c reads it again. */

#define AUDIT_LINE_MAX  (16u << 10)
#define AUDIT_NAME_SIZE 48
#define AUDIT_FIRST     "0000000000000000000000000000000000000000000000000000000000000000"

/* The names of its files, the oldest first; free each and the array. */
struct audit_files {
    char (*names)[AUDIT_NAME_SIZE];
    size_t n;
};
int audit_files_list(int dir, struct audit_files *ret, struct err *err);
void audit_files_done(struct audit_files *files);

/* What a line says of its place. False when it is none. */
struct audit_place {
    uint64_t n;
    char prev[DIGEST_HEX], hash[DIGEST_HEX];
};
bool audit_line_place(const char *line, size_t len, struct audit_place *ret);
/* What its hash must be. */
bool audit_line_digest(const char *line, size_t len, char ret[DIGEST_HEX]);

/* Where the files end. */
struct audit_last {
    bool found;
    struct audit_place place; /* of the newest line */
    bool unended;             /* that line is whole but for its end of line */
    size_t torn;              /* bytes behind it, without an end of line, that are none */
};
int audit_files_last(int dir, const struct audit_files *files, struct audit_last *ret,
                     struct err *err);

/* Where the writer is: all lines up to n are in the files, and files after `file` or bytes after
 * `size` in it are none of its own. */
struct audit_end {
    int dir;
    struct audit_files files;
    uint64_t n;
    char hash[DIGEST_HEX];
    char file[AUDIT_NAME_SIZE];
    uint64_t size;
    uint64_t there;      /* bytes in it, with those that somebody else has appended */
    const char *foreign; /* what somebody else has done at the end; NULL = nothing */
};
/* No file goes until audit_read_end(). */
int audit_read_begin(struct audit *a, struct audit_end *ret, struct err *err);
void audit_read_end(struct audit *a, struct audit_end *end);
