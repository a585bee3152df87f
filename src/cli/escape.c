#include "cli/escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/hidden.h"

#define ESC 0x1b

static void show(struct buf *out, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool printable = bytes[i] >= 0x20 && bytes[i] < 0x7f;

        if (printable)
            (void)buf_add(out, &bytes[i], 1);
        else
            (void)buf_addf(out, "\\x%02x", bytes[i]);
    }
}

static bool passes(enum escape_mode mode, unsigned char c)
{
    if (c >= 0x20 && c < 0x7f)
        return true;
    if (mode == ESCAPE_CELL)
        return false;
    if (c == '\n' || c == '\t')
        return true;
    return mode == ESCAPE_OUTPUT && (c == '\r' || c == '\b');
}

static size_t utf8_length(unsigned char first)
{
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef)
        return 3;
    if (first >= 0xf0 && first <= 0xf4)
        return 4;
    return 0;
}

/* May second follow first? Beyond these bounds are control characters (U+0080…U+009F), surrogates,
 * values above U+10FFFF and overlong encodings. */
static bool is_utf8_second(unsigned char first, unsigned char second)
{
    unsigned char lowest = 0x80, highest = 0xbf;

    if (first == 0xc2 || first == 0xe0)
        lowest = 0xa0;
    else if (first == 0xf0)
        lowest = 0x90;
    else if (first == 0xed)
        highest = 0x9f;
    else if (first == 0xf4)
        highest = 0x8f;
    return second >= lowest && second <= highest;
}

enum verdict { MORE, GOOD, HIDDEN, BAD };

/* Is what is held a whole harmless sequence, the beginning of one, a whole character that is not
 * shown as it is, or neither? */
static enum verdict judge(const struct escape *s, enum escape_mode mode)
{
    unsigned char first = s->held[0], last = s->held[s->n_held - 1];
    uint32_t code;

    if (first == ESC) {
        if (mode != ESCAPE_OUTPUT)
            return BAD;
        if (s->n_held == 1)
            return MORE;
        if (s->n_held == 2)
            return last == '[' ? MORE : BAD;
        if (last == 'm' || last == 'K')
            return GOOD;
        /* Digits and separators only: private forms (CSI > … m) ask the terminal for things. */
        if ((last < '0' || last > ';') || s->n_held == sizeof(s->held))
            return BAD;
        return MORE;
    }
    if (s->n_held > 1 && (last < 0x80 || last > 0xbf))
        return BAD;
    if (s->n_held == 2 && !is_utf8_second(first, last))
        return BAD;
    if (s->n_held < utf8_length(first))
        return MORE;
    return mode == ESCAPE_OUTPUT || hidden_char((const char *)s->held, s->n_held, &code) == 0
               ? GOOD
               : HIDDEN;
}

static void add_byte(struct escape *s, enum escape_mode mode, unsigned char c, struct buf *out)
{
    if (s->n_held == 0 && passes(mode, c)) {
        (void)buf_add(out, &c, 1);
        return;
    }
    if (s->n_held == 0 && c != ESC && utf8_length(c) == 0) {
        show(out, &c, 1);
        return;
    }
    s->held[s->n_held++] = c;
    switch (judge(s, mode)) {
    case MORE:
        return;
    case GOOD:
        (void)buf_add(out, s->held, s->n_held);
        s->n_held = 0;
        return;
    case HIDDEN:
        show(out, s->held, s->n_held);
        s->n_held = 0;
        return;
    case BAD:
        break;
    }
    if (s->n_held > 1) {
        /* The byte that did not fit may begin something of its own. */
        show(out, s->held, s->n_held - 1);
        s->n_held = 0;
        add_byte(s, mode, c, out);
        return;
    }
    show(out, s->held, s->n_held);
    s->n_held = 0;
}

void escape_add(struct escape *state, enum escape_mode mode, const char *text, size_t len,
                struct buf *out)
{
    for (size_t i = 0; i < len; i++)
        add_byte(state, mode, (unsigned char)text[i], out);
}

void escape_end(struct escape *state, struct buf *out)
{
    show(out, state->held, state->n_held);
    state->n_held = 0;
}

/* Bytes of the sequence or character at text, of which all bytes are there. */
static size_t unit_length(const char *text, size_t len)
{
    size_t n = utf8_length((unsigned char)text[0]);

    if (text[0] != ESC)
        return n > 0 ? n : 1;
    while (n < len && text[n] != 'm' && text[n] != 'K')
        n++;
    return n + 1;
}

size_t escape_cut(const char *text, size_t len, size_t max)
{
    size_t end = 0, n;

    if (len <= max)
        return len;
    while ((n = unit_length(text + end, len - end)) <= max - end)
        end += n;
    return end;
}

char *escape_text(enum escape_mode mode, const char *text)
{
    size_t len = strlen(text);
    struct escape state = {0};
    struct buf out;

    buf_init(&out, 4 * len + 16);
    escape_add(&state, mode, text, len, &out);
    escape_end(&state, &out);
    return buf_steal(&out);
}
