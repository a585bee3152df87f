#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"

struct api;
struct err;

/* A command in a sandbox over an upgraded connection: its bytes both ways, and coming back to it
 * when the daemon was away. Nothing here waits but session_open() and session_come_back(): who has
 * one polls its descriptor. */

struct session_request {
    json_t *body;      /* {command, cwd, …} as exec takes it; borrowed */
    const char *again; /* the id of one that runs already, instead of body; NULL = none */
    const char *maybe; /* the id under which body was sent when the connection was lost, so that
                        * opening fails and session_reopen() is due; NULL = it was not sent yet */
    uint64_t cursor;   /* of it: the bytes of output that are known already */
    bool share;        /* of it: its input beside others */
    bool tty, want_stdin;
    bool detach;         /* hanging up does not end it */
    uint32_t rows, cols; /* of the terminal */
};

struct session {
    struct api *api;
    char *id; /* of the sandbox */
    char exec_id[ID_SIZE];
    uint64_t cursor; /* of the output that has come */
    bool tty, want_stdin, share, detach;
    uint32_t rows, cols;
    int fd;             /* the stream, non-blocking */
    bool input_ended;   /* nothing more is sent */
    bool has_sent;      /* some input has been */
    bool again;         /* this connection came to one that ran: closing it ends nothing */
    bool heard;         /* something has come on this connection */
    bool lost;          /* the connection ended, and the command may go on */
    bool ended;         /* its end has been seen */
    struct buf in, out; /* bytes from and for the stream */
    size_t at;          /* so much of in is used up */
};

/* How it ended. */
struct session_end {
    int status;     /* exit status as shells give it: 128 and the signal's number, 124 */
    int signal;     /* that ended it; 0 = none */
    bool timed_out; /* status is then 124, which a command can also give by itself */
    bool cancelled; /* somebody ended it by its id */
    bool oom;       /* the kernel killed for lack of memory while it ran */
    uint64_t lost;  /* bytes of output that were dropped */
    double duration_ms;
};

enum session_what { SESSION_STARTED, SESSION_STDOUT, SESSION_STDERR, SESSION_LOST, SESSION_EXIT };

struct session_event {
    enum session_what what;
    uint32_t pid;     /* STARTED: in the sandbox */
    const char *data; /* STDOUT, STDERR: valid until more is received */
    size_t len;
    uint64_t lost;          /* LOST: so many bytes are not kept any more */
    struct session_end end; /* EXIT: it is the last */
};

/* Starts the command under an id of our own, so that we know it whatever becomes of the answer, or
 * comes to one that runs. session_close() is due also after a failure. */
int session_open(struct session *s, struct api *api, const char *id,
                 const struct session_request *request, struct err *err);
/* After session_open() lost its connection: comes to the command if it was started, else starts it.
 * 1, 0 when the daemon is still away, -1. */
int session_reopen(struct session *s, const struct session_request *request, struct err *err);
/* Ends the command if it still runs, is not detached and was started here. */
void session_close(struct session *s);
/* Without ending it, if this connection came to one that ran. */
void session_leave(struct session *s);

/* Takes the next event out of what has come: 1, 0 if there is none, -1. */
int session_take(struct session *s, struct session_event *ret, struct err *err);
/* Reads what is there: 1, 0 when the connection has ended. */
int session_receive(struct session *s);
/* Sends what is queued, as much as goes without waiting. */
int session_flush(struct session *s, struct err *err);

/* Queued for session_flush(). Input only while session_room() says that there is room. */
size_t session_room(const struct session *s);
void session_input(struct session *s, const void *data, size_t len); /* len 0 = its end */
void session_resize(struct session *s, uint32_t rows, uint32_t cols);
void session_signal(struct session *s, int sig);

#define SESSION_BACK_MS 10000 /* so long a daemon that is away is waited for */

/* After session_receive() gave 0: tries for so long to get back to the command, or until wake_fd
 * (-1 = none) can be read. -1 when that cannot be, with how to do it later. */
int session_come_back(struct session *s, int wake_fd, int patience_ms, struct err *err);
