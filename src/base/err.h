#pragma once

/* One error convention. base/ returns 0 or -errno and has no text; everything above returns 0 or -1
 * and fills a struct err that lives on the caller's stack. */

/* What the API can say about a failure. The HTTP status is derived from this and from nothing
 * else, so an ENOENT from some file in /proc never turns into a 404. */
enum err_kind {
    ERR_NONE,
    ERR_INVALID,      /* 400 the caller sent something we cannot accept */
    ERR_UNAUTHORIZED, /* 401 no token */
    ERR_FORBIDDEN,    /* 403 wrong token, wrong host, image not allowed */
    ERR_NOT_FOUND,    /* 404 */
    ERR_TIMEOUT,      /* 408 the work took longer than it was allowed to */
    ERR_CONFLICT,     /* 409 valid request, wrong state */
    ERR_TOO_LARGE,    /* 413 */
    ERR_LIMIT,        /* 429 quota or rate */
    ERR_UNSUPPORTED,  /* 501 this backend cannot do that */
    ERR_UNAVAILABLE,  /* 503 a dependency is down; a retry may help */
    ERR_INTERNAL,     /* 500 our fault, or the kernel's */
    ERR_KINDS,
};

struct err {
    enum err_kind kind;
    int sys;          /* errno of the failed call, or 0 */
    const char *code; /* stable word for programs, a string literal; NULL = err_kind_code(kind) */
    unsigned retry_s; /* when to try again; 0 = not, or of ERR_LIMIT and ERR_UNAVAILABLE soon */
    char text[240];
};

/* Each fills *e and returns -1. NULL is fine: the caller wants only pass or fail. */
int err_set(struct err *e, enum err_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int err_sys(struct err *e, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As err_set, with a stable word of its own: err_code(e, ERR_INVALID, "bad_cwd", "…"). */
int err_code(struct err *e, enum err_kind kind, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts "fmt: " before the text already there; kind, sys and code stay. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A failed call that found a disk full becomes ERR_UNAVAILABLE "no_space", and what to do is added
 * to its text; any other failure stays as it is. Returns -1. */
int err_no_space(struct err *e, const char *what_to_do);

/* The stable word of a kind: "invalid", "not_found", … */
const char *err_kind_code(enum err_kind kind);

/* The status of HTTP that tells of it; 200 of ERR_NONE. */
int err_kind_status(enum err_kind kind);
