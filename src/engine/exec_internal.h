#pragma once

#include <stdint.h>

struct call_exit;
struct engine;
struct err;
struct exec_request;
struct sandbox;

#define EXEC_LOG_MAX (64u << 20) /* of each stream of a background exec; more is counted */

/* Connects, sends CALL_EXEC with that log id ("" = not background), reads STARTED. */
int exec_start(struct engine *e, struct sandbox *sb, const struct exec_request *req,
               const char *log_id, uint64_t output_max, int *ret_fd, uint32_t *ret_pid,
               struct err *err);
/* The number that a shell would give: 128 + signal, 124 after a timeout. */
int exit_code_of(const struct call_exit *x);
