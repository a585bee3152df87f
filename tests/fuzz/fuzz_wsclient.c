/* What a server sends to us as its client: the head of its answer to the handshake, then frames.
 * The first byte says how long the pieces are. All of it is also tried as an address. */
#include "base/err.h"
#include "base/mem.h"
#include "frames_rig.h"
#include "http/answer.h"
#include "http/websocket_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

static void try_url(const uint8_t *data, size_t size)
{
    auto_free char *text = xstrndup((const char *)data, size);
    struct websocket_url url = {0};

    if (websocket_url_parse(text, &url, NULL) == 0)
        require(*url.host && *url.target == '/' && !strpbrk(url.target, "\r\n ") &&
                !strpbrk(url.host, "\r\n /@"));
    websocket_url_done(&url);
}

/* How long the head is, if it is one of an upgrade that we take. */
static size_t try_head(const uint8_t *data, size_t size)
{
    auto_free char *text = NULL;
    static struct http_answer answer;
    struct err err = {0};
    ssize_t end = http_answer_end((const char *)data, size, 0);

    if (end <= 0)
        return 0;
    text = xmalloc((size_t)end);
    memcpy(text, data, (size_t)end);
    if (http_answer_parse(&answer, text, (size_t)end) || answer.status != 101)
        return 0;
    if (websocket_answer_check(&answer, ACCEPT, &err) < 0) {
        require(err.kind == ERR_UNAVAILABLE && err.text[0]);
        return 0;
    }
    require(http_answer_find(&answer, "Sec-WebSocket-Accept") != NULL);
    return (size_t)end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t head, piece;

    if (size < 1)
        return 0;
    piece = 1 + data[0] % 16;
    data++;
    size--;
    try_url(data, size);
    head = try_head(data, size);
    frames_try(websocket_new_client, data + head, size - head, piece);
    return 0;
}
