#include "http/answer.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "http/http_internal.h"

const char *http_answer_find(const struct http_answer *a, const char *name)
{
    for (unsigned i = 0; i < a->count; i++)
        if (strcasecmp(a->fields[i].name, name) == 0)
            return a->fields[i].value;
    return NULL;
}

bool http_list_has(const char *list, const char *word)
{
    size_t len = strlen(word);

    while (*list) {
        size_t n;

        list += strspn(list, " \t,");
        n = strcspn(list, " \t,");
        if (n == len && strncasecmp(list, word, len) == 0)
            return true;
        list += n;
    }
    return false;
}

void http_body_init(struct http_body *b, const struct http_answer *a, bool is_head)
{
    *b = (struct http_body){.kind = HTTP_BODY_UNTIL_CLOSE};
    buf_init(&b->trailers, TRAILERS_MAX);
    if (is_head || a->status < 200 || a->status == 204 || a->status == 304) {
        b->kind = HTTP_BODY_NONE;
        b->done = true;
    } else if (a->chunked) {
        b->kind = HTTP_BODY_CHUNKED;
        b->chunked = xcalloc(1, sizeof(*b->chunked));
        chunked_init(b->chunked);
        b->chunked->trailers = &b->trailers;
    } else if (a->length >= 0) {
        b->kind = HTTP_BODY_LENGTH;
        b->left = a->length;
        b->done = a->length == 0;
    }
}

void http_body_done(struct http_body *b)
{
    free(b->chunked);
    b->chunked = NULL;
    buf_done(&b->trailers);
}

int http_body_decode(struct http_body *b, char *data, size_t len, size_t *ret_used, size_t *ret_len)
{
    ssize_t n = 0;

    *ret_used = *ret_len = 0;
    if (b->done)
        return 0;
    switch (b->kind) {
    case HTTP_BODY_CHUNKED:
        n = chunked_decode(b->chunked, data, len, data, ret_used);
        if (n < 0)
            return -1;
        b->done = b->chunked->done;
        break;
    case HTTP_BODY_LENGTH:
        n = (ssize_t)((int64_t)len < b->left ? (int64_t)len : b->left);
        b->left -= n;
        b->done = b->left == 0;
        *ret_used = (size_t)n;
        break;
    case HTTP_BODY_UNTIL_CLOSE:
        n = (ssize_t)len;
        *ret_used = len;
        break;
    case HTTP_BODY_NONE:
        break;
    }
    *ret_len = (size_t)n;
    return 0;
}
