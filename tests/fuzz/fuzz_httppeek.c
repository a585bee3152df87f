/* Requests of a connection: heads and bodies must end at the same bytes however they come. */
#include <stdlib.h>
#include <string.h>

#include "gateway/peek.h"

#define HEADS_MAX 64

struct seen {
    unsigned heads;
    size_t ends[HEADS_MAX];
    char hosts[HEADS_MAX][PEEK_NAME_MAX + 1];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* The bytes come `piece` at a time, and what is not passed stays. */
static void walk(const uint8_t *data, size_t size, size_t piece, struct seen *ret)
{
    struct http_peek h = {0};
    size_t at = 0, have = 0;

    *ret = (struct seen){0};
    while (have < size && ret->heads < HEADS_MAX) {
        enum http_step step = HTTP_PASS;

        have = size - have < piece ? size : have + piece;
        while (at < have && step != HTTP_MORE && ret->heads < HEADS_MAX) {
            size_t n = 0;

            step = http_peek_step(&h, data + at, have - at, &n);
            if (step == HTTP_BAD)
                return;
            require(step == HTTP_MORE ? n == 0 : n > 0 && n <= have - at);
            at += n;
            if (step != HTTP_HEAD)
                continue;
            ret->ends[ret->heads] = at;
            memcpy(ret->hosts[ret->heads++], h.host, sizeof(h.host));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct seen whole, bytes;

    (void)peek_classify(data, size);
    walk(data, size, size ? size : 1, &whole);
    walk(data, size, size > 4096 ? 97 : 1, &bytes);
    require(whole.heads == bytes.heads);
    for (unsigned i = 0; i < whole.heads; i++)
        require(whole.ends[i] == bytes.ends[i] && strcmp(whole.hosts[i], bytes.hosts[i]) == 0);
    return 0;
}
