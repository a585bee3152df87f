#pragma once

#include <stddef.h>

struct buf;

/* What a sandbox prints is hostile to a terminal: escape sequences can set the clipboard, ask the
 * terminal to type answers, or rewrite what was shown before; invisible characters can turn the
 * direction of what stands beside them, or end a line. */
enum escape_mode {
    /* One cell of a list: every byte of a control character, and of those of hidden_char(), becomes
     * \xNN, also tab and newline. */
    ESCAPE_CELL,
    ESCAPE_LINES, /* logs: tab and newline pass */
    /* Output of a command: also CR, backspace, colours (CSI … m) and CSI … K pass, and characters
     * that turn directions, which are text in some languages. */
    ESCAPE_OUTPUT,
};

/* State between pieces of one stream; start with {0}. */
struct escape {
    unsigned char held[40]; /* a sequence that may yet turn out to be harmless */
    size_t n_held;
};

/* Appends text with control bytes made visible. Bytes 0x80…0x9f outside a UTF-8 character, and
 * U+0080…U+009F, are control bytes too. */
void escape_add(struct escape *state, enum escape_mode mode, const char *text, size_t len,
                struct buf *out);
/* What is still held, made visible. */
void escape_end(struct escape *state, struct buf *out);

/* Returns the length of the longest beginning of text with at most max bytes that ends neither in a
 * sequence nor in a character. text is what escape_add() has appended, from such an end on; max is
 * at least sizeof(escape.held), or the result may be 0. */
size_t escape_cut(const char *text, size_t len, size_t max);

/* One whole string; the caller frees it. */
char *escape_text(enum escape_mode mode, const char *text);
