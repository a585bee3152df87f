#pragma once

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct call_log;
struct engine;
struct err;
struct sandbox;

/* The state of a log into ret, and at most `most` of its bytes, from offset on, into out (NULL =
 * they are not wanted). log_id is that of a background exec, or "main". */
int log_read(struct engine *e, struct sandbox *sb, const char *log_id, uint64_t offset,
             uint64_t most, struct buf *out, struct call_log *ret, struct err *err);

/* Of a sandbox that goes on and is not told to be running yet, in its turn: returns when an
 * interrupt of the execs before has been taken, so that it does not hit what begins later; or after
 * a second. */
void interrupt_await(struct sandbox *sb);

/* As log_read(), of a sandbox that is paused; 1 = it is not. */
int paused_log_read(struct engine *e, struct sandbox *sb, const char *log_id, uint64_t offset,
                    uint64_t most, struct buf *out, struct call_log *ret, struct err *err);

/* How that exec is, of a sandbox that is paused; 1 = it is not. -1 also when it is not its turn at
 * once. */
int paused_log_look(struct engine *e, struct sandbox *sb, const char *log_id, struct call_log *ret);

/* What follows offset, of a sandbox that is paused, as the frames that CALL_OUTPUT is answered
 * with: END only with the last of it; 1 = it is not paused. */
int paused_log_frames(struct engine *e, struct sandbox *sb, const char *log_id, uint64_t offset,
                      struct buf *frames, struct err *err);

struct log_request {
    const char *id; /* of a background exec, or "main" */
    uint64_t offset;
    uint64_t most; /* bytes, unless it is followed */
    bool follow;
};

void log_put_output(struct buf *args, const struct log_request *req); /* those of CALL_OUTPUT */

/* A stream of the log from offset on, up to `most` bytes or as it grows, and one END (struct
 * call_log) at its end. *ret_timed: of STDOUT and STDERR frames as CALL_OUTPUT has them, else of
 * DATA frames, by an agent that an older cay made; the oldest of them cannot follow: then END comes
 * with what there is now, and says that the exec is still running; ask again later. Nothing has
 * been read of it but OK, and the caller waits for it with poll(); a thread that does is not
 * counted. ERR_LIMIT "too_many_streams" when the sandbox has too many. */
int log_stream_start(struct engine *e, struct sandbox *sb, const struct log_request *req,
                     int *ret_fd, bool *ret_timed, struct err *err);
