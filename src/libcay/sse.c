#include "libcay/sse.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "libcay/api.h"

#define LINE_MAX_BYTES (4u << 20)
#define CHUNK          (16u << 10)
#define PREFIX         (sizeof("data: ") - 1)

void sse_attach(struct sse_reader *s, struct api *api)
{
    *s = (struct sse_reader){.api = api};
    buf_init(&s->in, LINE_MAX_BYTES);
}

int sse_open(struct sse_reader *s, struct api *api, const char *path, struct err *err)
{
    auto_free char *full = xasprintf("/sandbox%s", path);
    struct http_response response;

    sse_attach(s, api);
    if (http_client_send(api->http, "GET", full, NULL, NULL, 0, &response, err) < 0)
        return api_explain(api, err);
    return api_check(api, &response, err);
}

void sse_close(struct sse_reader *s)
{
    buf_done(&s->in);
}

/* Takes lines out of what has come until one is the data of an event: its length, or -1. It stays
 * in front. */
static ssize_t find_data(struct sse_reader *s)
{
    char *newline;

    while (s->in.len > 0 && (newline = memchr(s->in.data, '\n', s->in.len))) {
        size_t len = (size_t)(newline - s->in.data);

        if (len > PREFIX && memcmp(s->in.data, "data: ", PREFIX) == 0)
            return (ssize_t)(len - PREFIX);
        buf_shift(&s->in, len + 1);
    }
    return -1;
}

/* 1 when there may be more now, 0 at the end, -1. */
static int receive(struct sse_reader *s, struct err *err)
{
    char *room = buf_room(&s->in, CHUNK);
    ssize_t n;

    if (!room)
        return err_set(err, ERR_TOO_LARGE, "the daemon sent an event of more than %u MiB",
                       LINE_MAX_BYTES >> 20);
    n = http_client_read(s->api->http, room, CHUNK, err);
    if (n > 0)
        s->in.len += (size_t)n;
    return n > 0 ? 1 : (int)n;
}

int sse_text(struct sse_reader *s, int timeout_ms, const char **ret, size_t *ret_len,
             struct err *err)
{
    ssize_t len;
    int r;

    *ret = NULL;
    if (s->used > 0)
        buf_shift(&s->in, s->used);
    s->used = 0;
    len = find_data(s);
    if (len < 0) {
        if (!http_client_wait(s->api->http, timeout_ms))
            return 1;
        r = receive(s, err);
        if (r <= 0)
            return r;
        len = find_data(s);
    }
    if (len < 0)
        return 1;
    *ret = s->in.data + PREFIX;
    *ret_len = (size_t)len;
    s->used = PREFIX + (size_t)len + 1;
    return 1;
}

int sse_poll(struct sse_reader *s, int timeout_ms, json_t **ret, struct err *err)
{
    const char *text;
    size_t len;
    int r = sse_text(s, timeout_ms, &text, &len, err);

    *ret = text ? json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    return r;
}

int sse_next(struct sse_reader *s, json_t **ret, struct err *err)
{
    int r;

    do
        r = sse_poll(s, -1, ret, err);
    while (r == 1 && !*ret);
    return r;
}
