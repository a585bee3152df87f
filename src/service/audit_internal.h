#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "oci/digest.h"

struct buf;
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

/* The newest line that is whole, and how many bytes stand behind it that are none. */
int audit_files_last(int dir, const struct audit_files *files, struct audit_place *ret,
                     bool *ret_found, size_t *ret_torn, struct err *err);

struct audit_head {
    int dir;
    uint64_t n;
    char hash[DIGEST_HEX];
};
/* Where the writer is; all lines up to it are in the files. */
void audit_head(struct audit *a, struct audit_head *ret);
