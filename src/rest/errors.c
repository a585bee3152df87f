#include "rest/errors.h"

#include <string.h>

#include "base/buf.h"
#include "base/str.h"

int error_status(enum err_kind kind)
{
    static const int statuses[ERR_KINDS] = {
        [ERR_NONE] = 500,        [ERR_INVALID] = 400,     [ERR_UNAUTHORIZED] = 401,
        [ERR_FORBIDDEN] = 403,   [ERR_NOT_FOUND] = 404,   [ERR_TIMEOUT] = 408,
        [ERR_CONFLICT] = 409,    [ERR_TOO_LARGE] = 413,   [ERR_LIMIT] = 429,
        [ERR_UNSUPPORTED] = 501, [ERR_UNAVAILABLE] = 503, [ERR_INTERNAL] = 500,
    };

    return kind < ERR_KINDS ? statuses[kind] : 500;
}

static const char *code_of(const struct err *err)
{
    if (err->code)
        return err->code;
    return err->kind == ERR_NONE ? "internal" : err_kind_code(err->kind);
}

json_t *error_body(const struct err *err, const char *request_id)
{
    auto_buf struct buf text = {0};
    /* What is unavailable for a reason that has a word of its own says it to the caller. */
    bool ours = err->kind == ERR_NONE || err->kind == ERR_INTERNAL ||
                (err->kind == ERR_UNAVAILABLE && !err->code);

    /* A text that was cut in the middle of a character would not be JSON: each bad byte can grow to
     * three. */
    buf_init(&text, 3 * sizeof(err->text) + 200);
    if (ours)
        (void)buf_addf(&text, "%s, see the daemon's log (request %s)",
                       err->kind == ERR_UNAVAILABLE ? "not available now" : "internal error",
                       request_id);
    if (!ours || (err->text[0] && !strchr(err->text, '/'))) {
        if (ours)
            (void)buf_add_str(&text, ": ");
        (void)utf8_clean(&text, err->text, strlen(err->text));
    }
    return json_pack("{s:s#, s:s}", "error", text.data ? text.data : "", (int)text.len, "code",
                     code_of(err));
}
