#pragma once

#include <jansson.h>

struct err;

/* -1 with kind ERR_NOT_FOUND when there is none, ERR_INTERNAL when it is not JSON. */
int json_file_read(int dirfd, const char *file, json_t **ret, struct err *err);
/* Takes o. As replace_file(). */
int json_file_write(int dirfd, const char *file, json_t *o, struct err *err);
