#include <string.h>
#include <strings.h>

#include "http/server.h"

/* The Accept header, a list such as "text/html;level=1;q=0.5, text/plain": ranges of media types,
 * each with parameters, of which q is its weight. A range whose weight is malformed does not count.
 */

#define WEIGHT_MAX 1000 /* in thousandths: the standard allows three digits after the point */

struct media_range {
    const char *at;
    size_t len;
};

enum match { MATCH_NONE, MATCH_ANY, MATCH_FAMILY, MATCH_NAMED };

/* How much one type is wanted, by the most specific range that covers it. */
struct wish {
    enum match match;
    int weight;
    const char *place; /* of that range in the header */
};

static struct media_range trim(const char *at, size_t len)
{
    while (len > 0 && strchr(" \t", at[len - 1]))
        len--;
    while (len > 0 && strchr(" \t", *at)) {
        at++;
        len--;
    }
    return (struct media_range){at, len};
}

/* Takes what comes before the separator, outside of quotes, off the rest. */
static struct media_range cut(struct media_range *rest, char separator)
{
    const char *start = rest->at;
    bool quoted = false;
    size_t n = 0;

    for (; n < rest->len && (quoted || start[n] != separator); n++) {
        if (start[n] == '"')
            quoted = !quoted;
        else if (quoted && start[n] == '\\' && n + 1 < rest->len)
            n++;
    }
    *rest = n < rest->len ? (struct media_range){start + n + 1, rest->len - n - 1}
                          : (struct media_range){0};
    return trim(start, n);
}

/* From "0" and "0.125" up to "1.000", or -1. */
static int read_weight(const char *s, size_t len)
{
    int weight, unit = WEIGHT_MAX / 10;

    if (len < 1 || len > 5 || (s[0] != '0' && s[0] != '1') || (len > 1 && s[1] != '.'))
        return -1;
    weight = s[0] == '1' ? WEIGHT_MAX : 0;
    for (size_t i = 2; i < len; i++, unit /= 10) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        weight += (s[i] - '0') * unit;
    }
    return weight <= WEIGHT_MAX ? weight : -1;
}

static int weight_of(struct media_range parameters)
{
    while (parameters.len > 0) {
        struct media_range p = cut(&parameters, ';');

        if (p.len >= 2 && strncasecmp(p.at, "q=", 2) == 0)
            return read_weight(p.at + 2, p.len - 2);
    }
    return WEIGHT_MAX;
}

static enum match match(struct media_range range, const char *type)
{
    size_t family = strcspn(type, "/") + 1;

    if (range.len == 3 && memcmp(range.at, "*/*", 3) == 0)
        return MATCH_ANY;
    if (range.len == family + 1 && range.at[family] == '*' &&
        strncasecmp(range.at, type, family) == 0)
        return MATCH_FAMILY;
    if (range.len == strlen(type) && strncasecmp(range.at, type, range.len) == 0)
        return MATCH_NAMED;
    return MATCH_NONE;
}

static struct wish wish_for(const char *accept, const char *type)
{
    struct media_range rest = {accept, strlen(accept)};
    struct wish wish = {.match = MATCH_NONE};

    while (rest.len > 0) {
        struct media_range parameters = cut(&rest, ',');
        struct media_range range = cut(&parameters, ';');
        enum match m = match(range, type);
        int weight = weight_of(parameters);

        if (m > wish.match && weight >= 0)
            wish = (struct wish){m, weight, range.at};
    }
    return wish;
}

bool http_prefers(const char *accept, const char *type, const char *over)
{
    struct wish a, b;

    if (!accept)
        return false;
    a = wish_for(accept, type);
    b = wish_for(accept, over);
    if (a.match != MATCH_NAMED || a.weight == 0)
        return false;
    if (a.weight != b.weight)
        return a.weight > b.weight;
    return b.match != MATCH_NAMED || a.place < b.place;
}
