#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/call.h"

/* The log of a background exec, in the logs folder of its box: what its supervisor writes
 * (agent/log.c), and what is read by the agent, or by the daemon while the agent stands still.
 *
 *   <id>.state   a packed struct call_log and the pid of the supervisor, which holds a lock on it
 *                while the exec runs: one that says "running" and can be locked is a lie
 *   <id>.log     the bytes of both streams, as they came
 *   <id>.marks   of which stream they are and since when: records of LOG_MARK_SIZE, in order. Older
 *                agents write none
 *
 * A mark is written before the bytes that it is of. Readers take all three for hostile input. */

#define LOG_STATE_MAX 256
#define LOG_NAME_SIZE 64
#define LOG_MARK_SIZE 16 /* u64 offset, top bit: stderr; u64 wall clock in ms */

struct log_mark {
    uint64_t offset; /* of the first byte */
    bool is_stderr;
    uint64_t time_ms; /* 0 = not known */
};

void log_mark_pack(const struct log_mark *m, unsigned char ret[LOG_MARK_SIZE]);
void log_mark_unpack(const unsigned char record[LOG_MARK_SIZE], struct log_mark *ret);

void log_file_name(char ret[LOG_NAME_SIZE], const char *id, const char *suffix);

/* A log that somebody reads. */
struct log_file {
    int dir; /* the logs folder, the caller's */
    const char *id;
    int fd, marks;   /* -1 until log_file_look() was called; of marks also when there are none */
    bool plain;      /* marks are not asked for: pieces are as long as can be */
    uint64_t offset; /* of the next byte to read */
    uint64_t mark;   /* where the last one was found */
    struct call_log now; /* how it was when last looked at; now.size is what there is to read */
    pid_t supervisor;    /* who writes it, while it runs */
};

#define LOG_FILE(folder, name)                                                                     \
    ((struct log_file){.dir = (folder), .id = (name), .fd = -1, .marks = -1})

/* Fills now and supervisor: 0 or -errno; -ENOENT when there is no such exec. */
int log_file_look(struct log_file *l);
/* The next bytes of what there was at the last look, which are all of one mark: their count, 0 when
 * that was all, or -errno. */
ssize_t log_file_next(struct log_file *l, void *data, size_t size, struct log_mark *ret);
void log_file_close(struct log_file *l);
