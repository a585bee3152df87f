#include "rest/answer.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "functions/call.h"
#include "http/server.h"

#define PIECE_BYTES (64u << 10)
#define REAL_DIGITS JSON_REAL_PRECISION(15) /* more would show how 0.1 is stored */
#define STEP_BYTES  (8u << 10)              /* encoded at a time: one byte can become six */

void answer_init(struct answer *a, struct http_req *req, const char *type)
{
    *a = (struct answer){
        .req = req, .type = type ? type : "application/json", .status = 200, .length = -1};
    buf_init(&a->out, SIZE_MAX / 2);
}

void answer_done(struct answer *a)
{
    buf_done(&a->out);
}

static int flush(struct answer *a)
{
    if (!a->begun && !a->gone) {
        a->begun = true;
        a->gone = http_stream_begin(a->req, a->status, a->type, a->length) < 0;
    }
    if (!a->gone)
        a->gone = http_stream_write(a->req, a->out.data, a->out.len) < 0;
    buf_clear(&a->out);
    return a->gone ? -1 : 0;
}

int answer_raw(struct answer *a, const void *data, size_t len)
{
    if (a->gone)
        return -1;
    (void)buf_add(&a->out, data, len);
    return a->out.len >= PIECE_BYTES ? flush(a) : 0;
}

/* ---- strings ---- */

static void put_escaped(struct buf *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    static const char *const marks = "\b\f\n\r\t\"\\", *const letters = "bfnrt\"\\";
    const char *mark = strchr(marks, c);

    if (c && mark) {
        text[1] = letters[mark - marks];
        (void)buf_add(out, text, 2);
    } else {
        (void)buf_add(out, text, sizeof(text));
    }
}

/* As the inside of a JSON string; text is UTF-8. */
static void put_string(struct buf *out, const char *text, size_t len)
{
    size_t start = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        (void)buf_add(out, text + start, i - start);
        put_escaped(out, c);
        start = i + 1;
    }
    (void)buf_add(out, text + start, len - start);
}

static int put_text(struct answer *a, const char *data, size_t len)
{
    auto_buf struct buf clean = {0};

    if (utf8_valid(data, len)) {
        put_string(&a->out, data, len);
    } else {
        buf_init(&clean, 3 * len + 3);
        (void)utf8_clean(&clean, data, len);
        put_string(&a->out, clean.data, clean.len);
    }
    return a->out.len >= PIECE_BYTES ? flush(a) : 0;
}

static int open_string(struct answer *a)
{
    if (a->gone)
        return -1;
    if (!a->inside)
        (void)buf_add(&a->out, "\"", 1);
    a->inside = true;
    return 0;
}

static int close_string(struct answer *a)
{
    a->inside = false;
    return answer_raw(a, "\"", 1);
}

int answer_text(struct answer *a, const void *data, size_t len)
{
    const char *p = data;
    char step[STEP_BYTES];

    if (open_string(a) < 0)
        return -1;
    while (len > 0) {
        size_t room = sizeof(step) - a->rest_len, n = len < room ? len : room, cut;

        memcpy(step, a->rest, a->rest_len);
        memcpy(step + a->rest_len, p, n);
        p += n;
        len -= n;
        n += a->rest_len;
        cut = utf8_cut(step, n);
        a->rest_len = n - cut;
        memcpy(a->rest, step + cut, a->rest_len);
        if (put_text(a, step, cut) < 0)
            return -1;
    }
    return 0;
}

int answer_end_text(struct answer *a)
{
    if (open_string(a) < 0 || put_text(a, (const char *)a->rest, a->rest_len) < 0)
        return -1;
    a->rest_len = 0;
    return close_string(a);
}

int answer_base64(struct answer *a, const void *data, size_t len)
{
    const unsigned char *p = data;

    if (open_string(a) < 0)
        return -1;
    while (len > 0) {
        if (a->rest_len > 0 || len < 3) {
            a->rest[a->rest_len++] = *p++;
            len--;
            if (a->rest_len == 3) {
                (void)base64_encode(&a->out, a->rest, 3);
                a->rest_len = 0;
            }
        } else {
            size_t n = len < PIECE_BYTES ? len - len % 3 : PIECE_BYTES - PIECE_BYTES % 3;

            (void)base64_encode(&a->out, p, n);
            p += n;
            len -= n;
        }
        if (a->out.len >= PIECE_BYTES && flush(a) < 0)
            return -1;
    }
    return 0;
}

int answer_end_base64(struct answer *a)
{
    if (open_string(a) < 0)
        return -1;
    (void)base64_encode(&a->out, a->rest, a->rest_len);
    a->rest_len = 0;
    return close_string(a);
}

/* ---- values ---- */

static int put_dump(const char *text, size_t len, void *arg)
{
    return answer_raw(arg, text, len);
}

static int put_value(struct answer *a, const json_t *value)
{
    return json_dump_callback(value, put_dump, a, JSON_COMPACT | JSON_ENCODE_ANY | REAL_DIGITS);
}

int answer_item(struct answer *a, const json_t *item)
{
    if (answer_raw(a, a->inside ? "," : "[", 1) < 0)
        return -1;
    a->inside = true;
    return put_value(a, item);
}

int answer_end_list(struct answer *a)
{
    bool any = a->inside;

    a->inside = false;
    return any ? answer_raw(a, "]", 1) : answer_raw(a, "[]", 2);
}

static int put_texts(struct answer *a, const struct text *texts)
{
    for (size_t i = 0; i < CALL_TEXTS && texts[i].name; i++) {
        (void)buf_addf(&a->out, ",\"%s\":", texts[i].name);
        if (answer_text(a, texts[i].bytes->data, texts[i].bytes->len) < 0 || answer_end_text(a) < 0)
            return -1;
    }
    return answer_raw(a, "}", 1);
}

int answer_json(struct answer *a, const json_t *value, const struct text *texts)
{
    auto_free char *members = NULL;

    if (!texts || !texts[0].name)
        return put_value(a, value);
    members = json_dumps(value, JSON_COMPACT |
                                    REAL_DIGITS); /* few and short; the end of the object moves */
    if (!members)
        abort();
    if (answer_raw(a, members, strlen(members) - 1) < 0)
        return -1;
    return put_texts(a, texts);
}

void answer_end(struct answer *a)
{
    if (!a->begun) {
        http_reply(a->req, a->status, a->type, a->out.data ? a->out.data : "", a->out.len);
        return;
    }
    if (a->out.len > 0 && flush(a) < 0)
        return;
    http_stream_end(a->req);
}
