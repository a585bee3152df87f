#include "gateway/peek.h"

#include <ctype.h>
#include <string.h>

#define TLS_HANDSHAKE 22

/* Does the line have "HTTP/", in letters of any case? */
static bool has_version(const uint8_t *line, size_t len)
{
    static const char mark[] = "http/";

    for (size_t i = 0; i + 5 <= len; i++) {
        size_t k = 0;

        while (k < 5 && tolower(line[i + k]) == mark[k])
            k++;
        if (k == 5)
            return true;
    }
    return false;
}

/* A word, a space, more, and HTTP/ in the first line. Servers forgive much before and in that line,
 * so everything that looks like it is held against the rules of HTTP, where it may well fail; what
 * could not be a request line whatever comes (a zero byte, a first word without a space) is another
 * protocol. The word may be long: there are servers that answer any method, and then hear the next
 * request. */
static enum peek_kind classify_text(const uint8_t *data, size_t len)
{
    size_t word = 0;
    const uint8_t *end;

    while (word < len && data[word] > ' ' && data[word] < 0x7f)
        word++;
    if (word == len)
        return PEEK_MORE;
    if (word == 0 || (data[word] != ' ' && data[word] != '\t'))
        return PEEK_OTHER;
    end = memchr(data, '\n', len);
    if (memchr(data, '\0', end ? (size_t)(end - data) : len))
        return PEEK_OTHER;
    if (!end)
        return PEEK_MORE;
    return has_version(data, (size_t)(end - data)) ? PEEK_HTTP : PEEK_OTHER;
}

enum peek_kind peek_classify(const uint8_t *data, size_t len)
{
    size_t skip = 0;

    if (len > 0 && data[0] == TLS_HANDSHAKE)
        return len < 2 ? PEEK_MORE : data[1] == 3 ? PEEK_TLS : PEEK_OTHER;
    while (skip < len && strchr(" \t\r\n", data[skip]) && data[skip])
        skip++;
    return classify_text(data + skip, len - skip);
}

bool peek_name(const char *text, size_t len, char ret[PEEK_NAME_MAX + 1])
{
    bool literal = len > 2 && text[0] == '[' && text[len - 1] == ']';

    if (literal) {
        text++;
        len -= 2;
    } else if (len > 1 && text[len - 1] == '.') {
        len--;
    }
    if (len == 0 || len > PEEK_NAME_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (!isalnum(c) && c != '.' && (literal ? c != ':' : c != '-' && c != '_'))
            return false;
        ret[i] = (char)tolower(c);
    }
    ret[len] = '\0';
    return ret[0] != '.' && (literal || !strstr(ret, ".."));
}
