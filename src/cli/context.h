#pragma once

#include <stdint.h>

struct err;

/* The files of a folder for a build, as a tar archive in a file without a name. */

struct context {
    int fd; /* at its start */
    int64_t size;
    unsigned files;
};

/* Without what .dockerignore leaves out (file.dockerignore, where the Dockerfile is `file` and has
 * one of its own). text goes along as an entry called apart, for the daemon alone. */
int context_pack(const char *dir, const char *file, const char *apart, const char *text,
                 size_t text_len, struct context *ret, struct err *err);
