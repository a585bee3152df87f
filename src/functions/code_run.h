#pragma once

#include <stdint.h>

#include "base/id.h"

struct call;
struct driver;
struct err;
struct language;
struct task;

/* Runs of code by a driver (service/interpreter/driver.h): in a process of its own, */
int code_run_once(struct call *call, const struct language *l, uint64_t timeout_ms,
                  struct err *err);
/* or in the context that the input names. Each leaves a task. */
int code_run_in_context(struct call *call, uint64_t timeout_ms, struct err *err);

/* The exec of the context that the input names. */
void context_exec(const struct call *call, char ret_exec[ID_SIZE]);
int context_not_found(const char *context_id, struct err *err);
/* -1; when it says that there is no such exec, it says that there is no such context. */
int context_explain(const char *context_id, struct err *err);

/* What the task waits for: its driver, and at most until then; 0 = without end. */
void driver_task_wait(struct task *task, const struct driver *d, int64_t until_ns);
