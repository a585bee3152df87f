#include "functions/output.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "functions/call.h"

json_t *output_event(const char *type, const char *data, size_t len)
{
    return output_event_of(type, data, len, 0);
}

json_t *output_event_of(const char *type, const char *data, size_t len, int64_t time_ms)
{
    return json_pack("{s:s, s:o, s:I}", "type", type, "data",
                     json_stringn_nocheck(data ? data : "", len), "timestamp",
                     (json_int_t)(time_ms > 0 ? time_ms : now_ms()));
}

void output_text_add(struct output_text *t, const char *data, size_t len, bool last,
                     struct buf *out)
{
    auto_buf struct buf joined = {0};
    size_t cut;

    buf_init(&joined, len + sizeof(t->rest));
    (void)buf_add(&joined, t->rest, t->len);
    (void)buf_add(&joined, data, len);
    cut = last ? joined.len : utf8_cut(joined.data, joined.len);
    t->len = joined.len - cut;
    memcpy(t->rest, joined.data + cut, t->len);
    (void)utf8_clean(out, joined.data, cut);
}

int output_send(struct call *call, const char *type, struct output_text *text, const char *data,
                size_t len, bool last, struct err *err)
{
    auto_buf struct buf clean = {0};

    buf_init(&clean, 3 * (len + sizeof(text->rest))); /* U+FFFD is three bytes */
    output_text_add(text, data, len, last, &clean);
    if (clean.len == 0)
        return 0;
    return sink_event(call, output_event(type, clean.data, clean.len), err);
}
