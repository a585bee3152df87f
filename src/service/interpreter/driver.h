#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct err;
struct exec_wait;

/* A driver is a program of ours that a sandbox's own interpreter runs (driver.py, driver.js): it
 * gets code, runs it, and tells what comes of it. Both ways lines of JSON:
 *
 *   {"op":"part"|"run","id":I,"code":C}   code, in pieces; the last one is "run"
 *   {"op":"once","id":I,"code":C,"env":E,"cwd":D}   as "run", in a process of its own
 *   {"op":"cancel","id":I}                that run, if it has not begun; read between runs
 *   {"op":"over","id":I,"interrupted":B}  its "done" was seen: no SIGINT comes that is meant for
 * it, but one may have been sent
 *
 *   {"t":"ready","pid":N,"version":V,"options":O}   once; O is what it was started with
 *   {"t":"start","id":I,"mark":B}
 *   {"t":"out","id":I,"s":1|2,"d":TEXT}
 *   {"t":"result","id":I,"r":{type,mime,data,…}}
 *   {"t":"error","id":I,"e":{name,value,line,text,traceback}}
 *   {"t":"done","id":I,"exit":N,"ms":N,"truncated":B,"mark":B}
 *
 *   {"t":"exit","id":I,"exit":N}          of "once": how its process ended
 *   {"t":"cancelled","id":I}              it will not begin, or is done
 *
 * What is printed past the driver comes on the command's stderr; with "mark" the id of the run
 * between two RS characters is the start or the end of that, and comes before or after "start" or
 * "done". Runs are taken one after the other: in a context the next one begins when "over" has come
 * of the last, or five seconds after that. The code shares its process with the driver and can
 * write whatever it likes: a line that is none of these, or too long, ends the run with
 * ERR_CONFLICT "context_broken". */

#define DRIVER_LINE_MAX   (4u << 20)
#define DRIVER_VALUES_MAX 65536 /* in one line */
#define DRIVER_DEPTH_MAX  64

struct language;

struct driver_options {
    const char *cwd, *user; /* NULL = the sandbox's */
    const json_t *env;      /* NULL = none more */
    const json_t *imports;  /* strings; NULL = none */
    uint32_t idle_s;        /* it ends itself after so long without a run; 0 = never */
    const char *text;       /* told again in "ready" */
};

struct driver;

/* One that outlives us, by the id that its exec shall have. Nothing here blocks, as in exec.h. */
int driver_start(struct engine *e, const char *sandbox, const struct language *l,
                 const char *exec_id, const struct driver_options *o, struct driver **ret,
                 struct err *err);
/* One for a single run; its process ends with that, and with driver_close(). */
int driver_start_once(struct engine *e, const char *sandbox, const struct language *l,
                      const struct driver_options *o, uint64_t timeout_ms, struct driver **ret,
                      struct err *err);
/* One that was started before. */
int driver_again(struct engine *e, const char *sandbox, const char *exec_id, struct driver **ret,
                 struct err *err);
void driver_close(struct driver *d);

/* Gives it code to run, once; takes code, a string. */
void driver_run(struct driver *d, json_t *code);
/* The same for one that waits in boxes of the pool: in a child with that environment and folder.
 * Takes env; -1 when that is too long, and then nothing was sent. */
int driver_run_apart(struct driver *d, json_t *code, json_t *env, const char *cwd);
/* Nobody wants the run any more: when it has begun, or begins before the driver reads of it, it is
 * interrupted. How that went is still told: DONE or CANCELLED. Only who reads on until then knows
 * that it does not run (cancelled.h does for who cannot). */
void driver_cancel(struct driver *d);
/* Was that told, or was the run never sent? */
bool driver_is_over(const struct driver *d);
/* Is the run no longer one of those that wait for others? */
bool driver_has_begun(const struct driver *d);
/* Whatever it runs, for whomever. */
void driver_interrupt(struct driver *d);
/* Ends it with all that it started, when it was not ready in time. */
void driver_kill(struct driver *d);

void driver_wait(const struct driver *d, struct exec_wait *ret);

struct driver_news {
    enum {
        DRIVER_STARTED, /* its process */
        DRIVER_READY,
        DRIVER_TEXT,
        DRIVER_RESULT,
        DRIVER_EXCEPTION,
        DRIVER_DONE,      /* the run */
        DRIVER_CANCELLED, /* the run: it never began */
        DRIVER_LEFT,      /* the child that the run was in */
        DRIVER_ENDED,     /* its process */
        DRIVER_NOISE,     /* what came is not for this run; there may be more */
    } what;
    bool is_error;    /* of TEXT: on stderr */
    const char *text; /* of TEXT; valid until the next call */
    size_t len;       /* of TEXT and, as JSON, of RESULT */
    json_t *value;    /* of READY (its version), RESULT and EXCEPTION: the caller's */
    int exit_code;    /* of DONE and ENDED */
    double ms;
    bool truncated;
    const char *reason;       /* of ENDED, as in exec.h */
    bool had_begun, was_done; /* of ENDED: the run */
};

/* What has come, of this run only: 1, 0 = nothing now, -1. */
int driver_next(struct driver *d, struct driver_news *ret, struct err *err);
/* Of one that has ended: adds "oom" and "message" (engine_exec_put_words). */
void driver_put_words(const struct driver *d, json_t *o);

/* The command of a driver that waits in boxes of the pool and makes a child for each run, for
 * engine_pool_helper(); interpreter = {language, imports}. */
char **driver_waiting_argv(const json_t *interpreter);

/* The language of the context whose exec was started by a command that begins so; NULL = it is no
 * context. */
const struct language *driver_language(const char *command);
/* As whom that context runs; NULL = as the sandbox's user. */
char *driver_user(const char *command);
/* Can a context run as that user? Its name is a word of a command. */
bool driver_user_valid(const char *user);
