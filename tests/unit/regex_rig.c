/* Regular expressions for test_regex.py: each line of input is flags (i, l or -), a pattern and a
 * text in hexadecimal digits; each line of output is "bad" and why, "none", or where the groups of
 * the first match are. What is said of the text in one piece must be true of it in many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/regex.h"
#include "base/err.h"
#include "base/mem.h"

static char *unhex(const char *hex)
{
    size_t n = strlen(hex) / 2;
    char *text = xmalloc(n + 1);

    for (size_t i = 0; i < n; i++) {
        char two[3] = {hex[2 * i], hex[2 * i + 1], '\0'};

        text[i] = (char)strtoul(two, NULL, 16);
    }
    text[n] = '\0';
    return text;
}

static enum regex_verdict in_pieces(struct regex *re, const char *text, size_t len, size_t piece)
{
    regex_begin(re);
    for (size_t at = 0; at < len; at += piece)
        regex_feed(re, text + at, len - at < piece ? len - at : piece);
    return regex_end(re);
}

static void find(struct regex *re, const char *text)
{
    size_t len = strlen(text), groups = regex_groups(re);
    auto_free uint32_t *slots = xcalloc(2 * groups, sizeof(*slots));
    int r = regex_find(re, text, len, 0, slots);

    for (size_t piece = 1; piece < 5; piece++)
        if (in_pieces(re, text, len, piece) != (r == 1 ? REGEX_YES : REGEX_NO))
            abort();
    if (r != 1) {
        puts("none");
        return;
    }
    for (size_t i = 0; i < groups; i++)
        printf("%d,%d ", (int)slots[2 * i], (int)slots[2 * i + 1]);
    puts("");
}

int main(void)
{
    static char line[1 << 20], flags[8], pattern[1 << 19], text[1 << 19];

    while (fgets(line, sizeof(line), stdin)) {
        auto_free char *p = NULL, *t = NULL;
        auto_regex struct regex *re = NULL;
        struct err err = {0};
        unsigned bits;

        if (sscanf(line, "%7s x%524287s x%524287s", flags, pattern, text) != 3)
            return 1;
        p = unhex(strcmp(pattern, "-") == 0 ? "" : pattern);
        t = unhex(strcmp(text, "-") == 0 ? "" : text);
        bits =
            (strchr(flags, 'i') ? REGEX_IGNORE_CASE : 0) | (strchr(flags, 'l') ? REGEX_LITERAL : 0);
        if (regex_compile(p, bits, REGEX_MEMORY_MAX, &re, &err) < 0)
            printf("bad %s\n", err.text);
        else
            find(re, t);
    }
    return 0;
}
