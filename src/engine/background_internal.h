#pragma once

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

/* A stream of DATA frames with the log from offset on, as it grows, and one END (struct call_log)
 * when its exec has ended. Nothing has been read of it, and the caller waits for it with poll(); a
 * thread that does is not counted. The agent of a sandbox that an older cay made cannot follow:
 * then END comes with what there is now, and says that the exec is still running; ask again later.
 * ERR_LIMIT "too_many_streams" when the sandbox has too many. */
int log_follow(struct engine *e, struct sandbox *sb, const char *log_id, uint64_t offset,
               int *ret_fd, struct err *err);
