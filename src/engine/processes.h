#pragma once

#include <jansson.h>
#include <stdint.h>

struct engine;
struct err;

int engine_processes(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_processes_top(struct engine *e, const char *id, json_t **ret, struct err *err);
/* signal is one of TERM KILL INT HUP USR1 USR2 STOP CONT. */
int engine_process_kill(struct engine *e, const char *id, uint32_t pid, const char *signal,
                        struct err *err);
