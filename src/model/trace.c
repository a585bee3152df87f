#include "model/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void hex_text(const uint8_t *bytes, unsigned n, char *ret)
{
    static const char digits[] = "0123456789abcdef";

    for (unsigned i = 0; i < n; i++) {
        ret[2 * i] = digits[bytes[i] >> 4];
        ret[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret[2 * n] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_bytes(const char *text, unsigned n, uint8_t *ret)
{
    for (unsigned i = 0; i < n; i++) {
        int high = hex_digit(text[2 * i]), low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);

        if (low < 0)
            return false;
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* A call of the kernel for each id would cost more than all else that a trace does, so a thread
 * asks for many bytes at once. */
static void random_bytes(void *ret, size_t n)
{
    static _Thread_local uint8_t pool[240];
    static _Thread_local size_t left;

    if (left < n) {
        if (getrandom(pool, sizeof(pool), 0) != sizeof(pool))
            abort();
        left = sizeof(pool);
    }
    left -= n;
    memcpy(ret, pool + left, n);
}

void trace_context_new(struct trace_context *ret)
{
    *ret = (struct trace_context){.flags = TRACE_SAMPLED};
    random_bytes(ret->trace_id, sizeof(ret->trace_id));
    random_bytes(ret->span_id, sizeof(ret->span_id));
    ret->trace_id[0] |= 1; /* all zeros are no id */
    ret->span_id[0] |= 1;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
    while (n > 0 && bytes[n - 1] == 0)
        n--;
    return n == 0;
}

/* "00-<32 digits>-<16 digits>-<2 digits>"; later versions may have more behind a dash. */
void trace_context_join(struct trace_context *c, const char *traceparent)
{
    uint8_t version, flags, trace[16], parent[8];
    size_t len = traceparent ? strnlen(traceparent, 512) : 0;

    if (len < TRACE_PARENT_SIZE - 1 || !hex_bytes(traceparent, 1, &version) || version == 0xff ||
        traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-' ||
        !hex_bytes(traceparent + 3, 16, trace) || !hex_bytes(traceparent + 36, 8, parent) ||
        !hex_bytes(traceparent + 53, 1, &flags))
        return;
    if (len > TRACE_PARENT_SIZE - 1 && (version == 0 || traceparent[55] != '-'))
        return;
    if (is_zero(trace, sizeof(trace)) || is_zero(parent, sizeof(parent)))
        return;
    memcpy(c->trace_id, trace, sizeof(trace));
    memcpy(c->parent_id, parent, sizeof(parent));
    c->flags = flags & (TRACE_SAMPLED | TRACE_RANDOM);
    c->remote = true;
}

void trace_context_text(const struct trace_context *c, char ret[TRACE_PARENT_SIZE])
{
    char trace[33], span[17];

    hex_text(c->trace_id, sizeof(c->trace_id), trace);
    hex_text(c->span_id, sizeof(c->span_id), span);
    (void)snprintf(ret, TRACE_PARENT_SIZE, "00-%s-%s-%02x", trace, span, c->flags);
}

bool trace_state_valid(const char *text)
{
    size_t len = strnlen(text, TRACE_STATE_MAX + 1);

    if (len == 0 || len > TRACE_STATE_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return true;
}

void trace_id(const struct trace_context *c, char ret[ID_SIZE])
{
    char span[17], part[9];

    hex_text(c->span_id, sizeof(c->span_id), span);
    hex_text(c->trace_id, 4, part);
    (void)snprintf(ret, ID_SIZE, "trc_%s%s", span, part);
}
