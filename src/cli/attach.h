#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "model/no_network.h"

struct api;
struct args;
struct buf;
struct err;

/* A command in a sandbox with this process's stdin, stdout and stderr. */

struct attach_options {
    json_t *command; /* string = for the shell, array = argv; borrowed */
    const char *cwd, *user;
    json_t *env;      /* object of strings; borrowed; NULL = none */
    json_t *rlimits;  /* as the API takes them; borrowed; NULL = none */
    double timeout_s; /* 0 = the daemon's limit */
    bool tty;
    bool want_stdin;
    bool raw;                /* do not escape control bytes on a terminal */
    bool detach;             /* hanging up does not end it */
    bool share;              /* of one that runs: its input beside others */
    const char *again;       /* the id of one that runs already, instead of command; NULL = none */
    struct buf *out, *error; /* capture instead of writing; what passes their maximum is dropped */
};

struct attach_result {
    int status;         /* exit status as shells give it; 141 when the reader of stdout went away */
    bool timed_out;     /* status is then 124, which a command can also give by itself */
    bool printed;       /* something on stdout, that was not captured */
    bool truncated;     /* output was dropped */
    bool oom;           /* the kernel killed for lack of memory while it ran */
    bool cancelled;     /* somebody ended it by its id */
    bool interrupted;   /* a signal was passed on to it */
    bool left;          /* by Ctrl-P and Ctrl-Q: it goes on */
    int signal;         /* that ended it; 0 = none */
    double duration_ms; /* as the daemon measured it */
    size_t tail_len;
    char tail[NO_NETWORK_TAIL]; /* the end of what it said on stderr, or on a terminal */
};

/* Reads what run and exec have in common. The shared flags are --tty, --interactive, --env,
 * --env-file, --user, --ulimit, --timeout, --raw. -1 for a wrong --env or --ulimit. */
int attach_read_args(struct attach_options *o, const struct args *args, struct err *err);
void attach_done(struct attach_options *o);

/* The command line to run, as an array; NULL when it is not UTF-8. */
json_t *command_line_json(const struct args *args);

#define CAPTURE_MAX (10u << 20)

/* What is asked of the daemon, attached or in the background. */
json_t *exec_request_json(const struct attach_options *o);

/* Runs it to its end. SIGINT, SIGTERM, SIGHUP and SIGQUIT go to the command; a second one ends the
 * connection, which ends the command unless it is one to come back to, whose connection SIGHUP ends
 * at once, and on a terminal Ctrl-P and Ctrl-Q. When the daemon goes, the
 * command goes on: then this comes back to it, or, where input would be lost, says how to.
 * 0 with *ret filled, or -1 when cay failed. */
int attach_exec(struct api *api, const char *id, const struct attach_options *o,
                struct attach_result *ret, struct err *err);

/* Starts it and leaves it with its terminal; ret is its id. */
int attach_leave(struct api *api, const char *id, const struct attach_options *o, char ret[ID_SIZE],
                 struct err *err);

/* Captured into out and error, as JSON: {exitCode, stdout, stderr, truncated}, and how it ended in
 * words. */
json_t *attach_result_json(struct api *api, const char *id, const struct attach_options *o,
                           const struct attach_result *result);

/* The exit status for a failed attach_exec(): 126, 127, 124, 69 or 125. */
int attach_fail_status(const struct err *err);
