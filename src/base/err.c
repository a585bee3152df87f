#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_codes[ERR_KINDS] = {
    [ERR_NONE] = "ok",
    [ERR_INVALID] = "invalid",
    [ERR_UNAUTHORIZED] = "unauthorized",
    [ERR_FORBIDDEN] = "forbidden",
    [ERR_NOT_FOUND] = "not_found",
    [ERR_TIMEOUT] = "timeout",
    [ERR_CONFLICT] = "conflict",
    [ERR_TOO_LARGE] = "too_large",
    [ERR_LIMIT] = "limit",
    [ERR_UNSUPPORTED] = "unsupported",
    [ERR_UNAVAILABLE] = "unavailable",
    [ERR_INTERNAL] = "internal",
};

const char *err_kind_code(enum err_kind kind)
{
    return kind < ERR_KINDS ? kind_codes[kind] : "internal";
}

int err_kind_status(enum err_kind kind)
{
    static const int statuses[ERR_KINDS] = {
        [ERR_NONE] = 200,        [ERR_INVALID] = 400,     [ERR_UNAUTHORIZED] = 401,
        [ERR_FORBIDDEN] = 403,   [ERR_NOT_FOUND] = 404,   [ERR_TIMEOUT] = 408,
        [ERR_CONFLICT] = 409,    [ERR_TOO_LARGE] = 413,   [ERR_LIMIT] = 429,
        [ERR_UNSUPPORTED] = 501, [ERR_UNAVAILABLE] = 503, [ERR_INTERNAL] = 500,
    };

    return kind < ERR_KINDS ? statuses[kind] : 500;
}

static void fill(struct err *e, enum err_kind kind, int sys, const char *code, const char *fmt,
                 va_list ap)
{
    e->kind = kind;
    e->sys = sys;
    e->code = code;
    e->retry_s = 0;
    (void)vsnprintf(e->text, sizeof(e->text), fmt, ap);
}

int err_set(struct err *e, enum err_kind kind, const char *fmt, ...)
{
    va_list ap;

    if (!e)
        return -1;
    va_start(ap, fmt);
    fill(e, kind, 0, NULL, fmt, ap);
    va_end(ap);
    return -1;
}

int err_code(struct err *e, enum err_kind kind, const char *code, const char *fmt, ...)
{
    va_list ap;

    if (!e)
        return -1;
    va_start(ap, fmt);
    fill(e, kind, 0, code, fmt, ap);
    va_end(ap);
    return -1;
}

int err_sys(struct err *e, int errnum, const char *fmt, ...)
{
    va_list ap;
    size_t len;

    if (!e)
        return -1;
    va_start(ap, fmt);
    fill(e, ERR_INTERNAL, errnum, NULL, fmt, ap);
    va_end(ap);
    len = strlen(e->text);
    (void)snprintf(e->text + len, sizeof(e->text) - len, ": %s", strerror(errnum));
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    char inner[sizeof(e->text)];
    va_list ap;
    size_t len;

    if (!e)
        return -1;
    memcpy(inner, e->text, sizeof(inner));
    va_start(ap, fmt);
    (void)vsnprintf(e->text, sizeof(e->text), fmt, ap);
    va_end(ap);
    len = strlen(e->text);
    (void)snprintf(e->text + len, sizeof(e->text) - len, ": %.*s", (int)(sizeof(inner) - 1), inner);
    return -1;
}

int err_no_space(struct err *e, const char *what_to_do)
{
    size_t len;

    if (!e || e->code || (e->sys != ENOSPC && e->sys != EDQUOT))
        return -1;
    e->kind = ERR_UNAVAILABLE;
    e->code = "no_space";
    len = strlen(e->text);
    (void)snprintf(e->text + len, sizeof(e->text) - len, ": %s", what_to_do);
    return -1;
}
