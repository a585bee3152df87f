#include "cli/sse.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"

#define LINE_MAX_BYTES (4u << 20)
#define CHUNK          (16u << 10)

void sse_attach(struct sse_reader *s, struct api *api)
{
    s->api = api;
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

/* Takes one line out of what has come: true if it was an event. */
static bool take_line(struct sse_reader *s, json_t **ret)
{
    char *newline;

    while (s->in.len > 0 && (newline = memchr(s->in.data, '\n', s->in.len))) {
        size_t len = (size_t)(newline - s->in.data);
        json_t *event = NULL;

        if (len > 6 && memcmp(s->in.data, "data: ", 6) == 0)
            event = json_loadb(s->in.data + 6, len - 6, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        buf_shift(&s->in, len + 1);
        if (event) {
            *ret = event;
            return true;
        }
    }
    return false;
}

int sse_poll(struct sse_reader *s, int timeout_ms, json_t **ret, struct err *err)
{
    char *room;
    ssize_t n;

    *ret = NULL;
    if (take_line(s, ret) || !http_client_wait(s->api->http, timeout_ms))
        return 1;
    room = buf_room(&s->in, CHUNK);
    if (!room)
        return err_set(err, ERR_TOO_LARGE, "the daemon sent an event of more than %u MiB",
                       LINE_MAX_BYTES >> 20);
    n = http_client_read(s->api->http, room, CHUNK, err);
    if (n <= 0)
        return (int)n;
    s->in.len += (size_t)n;
    (void)take_line(s, ret);
    return 1;
}

int sse_next(struct sse_reader *s, json_t **ret, struct err *err)
{
    int r;

    do
        r = sse_poll(s, -1, ret, err);
    while (r == 1 && !*ret);
    return r;
}
