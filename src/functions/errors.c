#include "functions/errors.h"

#include <string.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"

/* A failure that nobody gave a kind is ours. */
int error_status(enum err_kind kind)
{
    return kind == ERR_NONE ? 500 : err_kind_status(kind);
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

json_t *error_told(const struct err *err, const char *method, const char *path)
{
    int status = error_status(err->kind);
    char id[ID_SIZE] = "";

    if (status >= 500) {
        id_new(id, "req");
        log_event(status == 500 ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN, "request failed", "request", id,
                  "method", method, "path", path, "error", err->text, (char *)0);
    }
    return error_body(err, id);
}
