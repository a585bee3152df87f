#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "engine/exec.h"
#include "engine/files.h"
#include "functions/functions_internal.h"
#include "functions/iii.h"

/* Shared by the files that hold rows of iii. What iii_input() has left is what they get: the id of
 * the sandbox is in `sandboxId`. */

extern const struct function iii_sandbox_functions[], iii_exec_functions[], iii_file_functions[],
    iii_run_functions[];

#define III_ID_FIELD                                                                               \
    {                                                                                              \
        "sandbox_id", FIELD_STRING, .max = 64, .example = EXAMPLE_SANDBOX_UUID, .help = "a UUID"   \
    }

const struct iii_settings *iii_settings_of(const struct call *call);

/* Where the operator has set a limit, for the text of an error. */
const char *iii_limit_source(const struct iii_settings *settings, enum iii_limit limit);
/* Puts that into the text of an error, in place of the name of the limit's variable or behind it.
 * Returns -1. */
int iii_name_limit(const struct iii_settings *settings, enum iii_limit limit, struct err *err);

/* The code of iii for it: "S002". */
const char *iii_code(const struct err *err);
/* Leaves what is told beside the failure; returns -1. Takes fix. */
int iii_fix(struct call *call, json_t *fix, const char *note);

/* ---- what is asked for ---- */

/* `env` as a list of K=V or as an object, as an object; an entry that has no '=' is dropped. -1:
 * "bad_payload", or ERR_INVALID of a name that is none. *ret is the caller's, NULL when absent. */
int iii_env(const json_t *env, json_t **ret, struct err *err);

/* Where a path of the caller leads. *ret_path is what it refers to: free it after. */
struct file_path iii_path(const char *path, const char *base, char **ret_path);

/* Is it one of a file's, and no other's? ERR_INVALID and what the agent says of its files in the
 * codes that have one of iii. Returns -1. */
int iii_file_error(struct err *err);

/* What an answer has of texts and lists whose length nobody knows before, as JSON. The clients of
 * iii for Python leave when a message has more than 1 MiB; the rest is for what is around them. */
#define III_ANSWER_MAX ((1u << 20) - (64u << 10))

/* ---- sandboxes ---- */

/* With the members of the input that a create has; env is what iii_env() gave, and passing is of
 * struct sandbox_request. */
int iii_create(struct call *call, const json_t *env, bool passing, char ret_id[ID_SIZE],
               struct err *err);

/* ---- commands ---- */

#define III_TIMEOUT_HELP                                                                           \
    "30000 when absent, unless the operator has set another default; clamped to the operator's "   \
    "limit"

#define III_STDIN_TEXT_MAX (4u << 20) /* more than the engine takes, which says so */

/* What to run. Its words are the input's or its own. */
struct iii_command {
    char **argv;
    json_t *env;
    struct buf input;
    const char *limit; /* where the limit is set that its time was clamped to; NULL = it was not */
    struct exec_request req;
};

void iii_command_done(struct iii_command *c);
#define auto_iii_command __attribute__((cleanup(iii_command_done)))
/* argv NULL = as the input says. */
int iii_command_read(struct call *call, char *const *argv, struct iii_command *ret,
                     struct err *err);

/* One that runs: takes a slot of the sandbox until it is freed, which ends it unless it is to go
 * on. */
struct iii_exec;

int iii_exec_open(struct call *call, const char *id, const struct iii_command *c,
                  struct iii_exec **ret, struct err *err);
/* As the step of a task; at its end the answer is set, of which the texts are the exec's. */
int iii_exec_step(struct iii_exec *x, struct call *call, struct err *err);
void iii_exec_wait(struct iii_exec *x, struct task *t);
void iii_exec_free(struct iii_exec *x);
