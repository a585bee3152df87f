/* The loop: what the daemon asks for is begun, what ends is told of. One thread, and those that
 * libcurl has for names. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "courier/courier_internal.h"

#define ASK_MAX                                                                                    \
    (sizeof(struct courier_ask) + COURIER_URL_MAX + COURIER_HEADERS_MAX + COURIER_BODY_MAX)
#define READ_BYTES 65536
#define KEPT_OPEN  64L /* connections that may be used again */

void courier_tell(const struct courier_told *told)
{
    if (write_all(COURIER_FD, told, sizeof(*told)) < 0)
        _exit(0);
}

static bool is_sane(const struct courier_ask *ask)
{
    return ask->url_bytes <= COURIER_URL_MAX && ask->header_bytes <= COURIER_HEADERS_MAX &&
           ask->body_bytes <= COURIER_BODY_MAX && ask->timeout_ms > 0 &&
           ask->timeout_ms <= COURIER_TIMEOUT_MAX;
}

static void begin(struct courier *c, const struct courier_ask *ask, const char *data)
{
    auto_free char *url = xstrndup(data, ask->url_bytes);
    auto_free char *headers = xstrndup(data + ask->url_bytes, ask->header_bytes);

    if (c->busy >= COURIER_AT_ONCE)
        _exit(1); /* the daemon counts */
    job_start(c, ask, url, headers, data + ask->url_bytes + ask->header_bytes);
}

/* Whole ones; what is left waits for its end. */
static void take_asks(struct courier *c, struct buf *in)
{
    size_t start = 0;
    struct courier_ask ask;

    while (in->len - start >= sizeof(ask)) {
        size_t bytes;

        memcpy(&ask, in->data + start, sizeof(ask));
        if (!is_sane(&ask))
            _exit(1);
        bytes = sizeof(ask) + ask.url_bytes + ask.header_bytes + ask.body_bytes;
        if (in->len - start < bytes)
            break;
        begin(c, &ask, in->data + start + sizeof(ask));
        start += bytes;
    }
    buf_shift(in, start);
}

static void read_asks(struct courier *c, struct buf *in)
{
    char *room = buf_room(in, READ_BYTES);
    ssize_t n = room ? recv(COURIER_FD, room, READ_BYTES, MSG_DONTWAIT) : -1;

    if (n < 0 && room && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        _exit(0); /* the daemon is gone, and what is under way with it */
    in->len += (size_t)n;
    take_asks(c, in);
}

static void take_ends(struct courier *c)
{
    const CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(c->multi, &left)))
        if (m->msg == CURLMSG_DONE)
            job_end(c, m->easy_handle, m->data.result);
}

void courier_serve(struct courier *c)
{
    struct buf in;
    int running;

    buf_init(&in, ASK_MAX + READ_BYTES);
    c->multi = curl_multi_init();
    if (!c->multi || curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, KEPT_OPEN) != CURLM_OK)
        abort();
    for (;;) {
        struct curl_waitfd daemon = {.fd = COURIER_FD, .events = CURL_WAIT_POLLIN};

        if (curl_multi_perform(c->multi, &running) != CURLM_OK)
            abort();
        take_ends(c);
        if (curl_multi_poll(c->multi, &daemon, 1, 60000, NULL) != CURLM_OK)
            abort();
        if (daemon.revents)
            read_asks(c, &in);
    }
}
