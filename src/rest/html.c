#include "rest/html.h"

#include <string.h>

#include "base/buf.h"

void html_add(struct buf *b, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c[2] = {s[i], '\0'};

        (void)buf_add_str(b, *c == '<'   ? "&lt;"
                             : *c == '>' ? "&gt;"
                             : *c == '&' ? "&amp;"
                             : *c == '"' ? "&quot;"
                                         : c);
    }
}

void html_add_str(struct buf *b, const char *s)
{
    html_add(b, s, strlen(s));
}
