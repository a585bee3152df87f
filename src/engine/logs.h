#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct err;

/* The output of a sandbox's main process (its entrypoint), read as it comes. Only opening waits for
 * the sandbox. */
struct log_stream;

#define LOG_PIECE_MAX (256u << 10)

/* From the last `lines` lines on, or from 8 MiB before the end when they are longer; with follow
 * until the process has ended, else to where the log ends now. *ret is NULL when there is no main
 * process, and so no log. Of a sandbox that is paused it gives what there is; with follow the rest
 * when that goes on. */
int engine_log_open(struct engine *e, const char *id, uint64_t lines, bool follow,
                    struct log_stream **ret, struct err *err);
void log_stream_close(struct log_stream *r);

/* When there may be more: the descriptor is readable, or, without one (-1), the time has come. */
void log_stream_wait(const struct log_stream *r, int *ret_fd, int64_t *ret_until_ns);

struct log_piece {
    const char *data; /* valid until the next call */
    size_t len;
    bool is_stderr;
    int64_t time_ms; /* when it was written; 0 = not known */
};

enum log_state { LOG_ENDED, LOG_PIECE, LOG_WAITS };
/* A piece; that there is none now; that it has ended; or -1. */
int log_stream_next(struct log_stream *r, struct log_piece *ret, struct err *err);
