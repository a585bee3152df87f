#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"
#include "engine/agent_client_internal.h"
#include "proto/call.h"
#include "proto/frame.h"

struct engine;
struct err;
struct exec_request;
struct sandbox;

struct exec {
    struct engine *engine;
    struct sandbox *sandbox; /* held until close */
    struct agent_reader reader;
    uint64_t timeout_ms; /* 0 = none */
    bool capped;         /* that is the operator's maximum, and not what was asked for */
    int64_t opened_ns, started_ns;
    int64_t quiet_ns; /* since when an agent that has not answered could have */
    int64_t look_ns;  /* when to ask why the agent is silent, until it has started */
    bool started, ended, collected;
    char id[ID_SIZE];
    bool kept; /* the agent keeps it by its id: only a word ends it */
    bool detached, again;
    bool record, recorded; /* asked for; done */
    bool once;             /* asked for */
    bool modern;           /* input or limits are given, which an older agent refuses */
    uint64_t cursor;
    struct call_exit end;  /* once it has ended */
    bool told;             /* that it began, and not yet that it has ended */
    struct buf input;      /* frames that the agent has not taken yet */
    size_t input_reserved; /* of the memory budget, for them */

    /* of one that is collected */
    struct buf streams[2];
    uint64_t lost;
    size_t reserved;         /* of the memory budget */
    int64_t wants_memory_ns; /* since when it waits for more of it; 0 = it does not */
    int64_t waited_ns;       /* for memory, in all */
    bool cut;                /* it has waited too long: no more is kept */
};

#define INPUT_MAX (FRAME_MAX + (64u << 10)) /* the longest frame, and some small ones */

#define EXEC_LOG_MAX (64u << 20) /* of each stream of a background exec; more is counted */

/* engine_exec_open() in a sandbox that need not be in the roster. */
int exec_open_in(struct sandbox *sb, const struct exec_request *req, struct exec **ret,
                 struct err *err);
/* ERR_INVALID or ERR_TOO_LARGE when it makes no sense. */
int exec_check_request(const struct exec_request *req, struct err *err);
/* Does it ask for what an older agent refuses? And what that one's refusal means. */
bool exec_is_modern(const struct exec_request *req);
void exec_explain_modern(struct err *why);
/* In the background: connects, sends CALL_EXEC with that log id, reads STARTED. */
int exec_start(struct engine *e, struct sandbox *sb, const struct exec_request *req,
               const char *log_id, uint64_t output_max, int *ret_fd, uint32_t *ret_pid,
               struct err *err);
/* What was asked for, as one line of at most max bytes. */
char *exec_command_text(const struct exec_request *req, size_t max);
/* Events: that it was given to the agent; that it has ended, or that nobody waits for it and it is
 * ended. Of what goes on without anybody who waits only the first. */
void exec_tell_started(struct engine *e, const char *sandbox_id, const char *exec_id,
                       const char *command, bool background);
void exec_tell_ended(struct exec *x, double duration_ms);
void exec_tell_failed(struct exec *x, const struct err *why); /* it could not be started, or seen */
/* What an API answer says of an end; NULL when the agent made it up. */
const char *exit_reason_of(const struct call_exit *x);
/* Appends the arguments of CALL_AGAIN. */
void exec_put_again(struct buf *args, const char *exec_id, uint64_t cursor, uint64_t most,
                    uint32_t flags);
/* What a FRAME_LOST says, added to the cursor. */
int exec_read_lost(const char *data, size_t len, uint64_t *cursor, uint64_t *ret, struct err *err);
/* Is that the form of the id of an exec? "exec_not_found" otherwise. */
int exec_check_id(const char *exec_id, struct err *err);
/* An agent that is older than CALL_AGAIN does not know the call. */
void exec_explain_old(struct err *err, const char *exec_id);
/* The number that a shell would give: 128 + signal, 124 after a timeout. */
int exit_code_of(const struct call_exit *x);
/* exitCode, reason, and if there is something to say oom and message. */
void exit_put(json_t *o, const struct sandbox *sb, const struct call_exit *x);
