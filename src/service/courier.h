#pragma once

#include <stdbool.h>
#include <stddef.h>

struct courier;
struct err;

/* Brings messages to others: a POST over HTTP or HTTPS, made by a process of its own (src/courier),
 * which reads the answers. That is started when there is something to bring, ends when there has
 * been nothing for a while, and is started again when it dies. */

struct courier_config {
    const void *program; /* cay-courier; NULL = there is none, and nothing is brought */
    size_t program_bytes;
    char *const *allow;  /* targets beyond the public internet (policy/targets.h); NULL = none */
    const char *ca_file; /* of certificates beside the system's; NULL = none */
};

/* Copies what is in config, but for the program. Fails when `allow` makes no sense. */
int courier_new(const struct courier_config *config, struct courier **ret, struct err *err);
int courier_start(struct courier *c, struct err *err);
/* Nothing is brought afterwards: who waits is told so (`died`). Fine if it was not started. */
void courier_stop(struct courier *c);
void courier_free(struct courier *c);

struct courier_request {
    const char *url;
    char *const *headers; /* "Name: value", NULL at the end; NULL = none */
    const void *body;
    size_t body_len;     /* at most 4 MiB */
    unsigned timeout_ms; /* 0 = 10 s; at most 60 s */
    bool trusted;        /* the operator's own target: it may be any address */
};

/* status: 200 to 599 of an answer, whatever it was; 0 = there was none, and word says why, for
 * programs ("refused": an address that may not be called; "no_name", "no_connection", "no_trust",
 * "timeout", "broken", "bad_url", "died"), text for people. Redirects are not followed. */
struct courier_answer {
    int status;
    const char *word; /* a literal; NULL with a status */
    const char *text; /* "" with a status */
    const char *address;
    unsigned retry_after_s; /* 0 = it did not ask for that */
    unsigned took_ms;
};

/* Called once for each request that was taken, on the courier's thread, without a lock: it must not
 * wait, and may post again. */
typedef void (*courier_done)(const struct courier_answer *answer, void *arg);

/* Copies the request. Never waits. Fails, and `done` is not called, with ERR_LIMIT "courier_busy"
 * when too much waits, ERR_TOO_LARGE, ERR_UNAVAILABLE when it has stopped, ERR_UNSUPPORTED when
 * there is no program. From any thread. */
int courier_post(struct courier *c, const struct courier_request *request, courier_done done,
                 void *arg, struct err *err);

/* Of the process that runs now; 0 = none. For tests and people who look. */
int courier_pid(struct courier *c);
