#include <string.h>
#include <strings.h>

#include "http/http_internal.h"

/* llhttp, in its strict mode, finds the parts of a head and refuses bytes that do not belong where
 * they are. It still takes a bare LF for a line end, joins folded lines, skips spaces in the
 * request line and knows versions and forms of targets that are not served here. Two programs that
 * read one stream differently is how requests are smuggled, so those are refused before it sees
 * them: only what has exactly one reading gets to a handler. */

static const bool token_bytes[256] = {
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['!'] = true,  ['#'] = true,
    ['$'] = true,         ['%'] = true,         ['&'] = true,         ['\''] = true, ['*'] = true,
    ['+'] = true,         ['-'] = true,         ['.'] = true,         ['^'] = true,  ['_'] = true,
    ['`'] = true,         ['|'] = true,         ['~'] = true,
};

static const struct refusal bad_bytes = {
    400, "bad_request", "the head of the request has a byte or line end that HTTP does not allow"};
static const struct refusal bad_line = {
    400, "bad_request", "the request line must be METHOD /path HTTP/1.1 with single spaces"};
static const struct refusal bad_target = {400, "bad_request",
                                          "the request target must be a path that starts with /"};
static const struct refusal bad_version = {505, "http_version",
                                           "only HTTP/1.0 and HTTP/1.1 are spoken here"};
static const struct refusal bad_method = {501, "unsupported", "this method is not known here"};
static const struct refusal bad_header = {
    400, "bad_request",
    "a header must be Name: value, the name of letters, digits and the marks of a token"};
static const struct refusal many_headers = {431, "headers_too_large",
                                            "the request has too many headers; send fewer"};
static const struct refusal doubled = {400, "bad_request",
                                       "a header that may be there once is there twice"};
static const struct refusal bad_length = {400, "bad_request",
                                          "Content-Length must be one decimal number"};
static const struct refusal bad_coding = {
    400, "bad_request",
    "Transfer-Encoding must be exactly chunked, on HTTP/1.1 and without Content-Length"};
static const struct refusal bad_host = {400, "bad_request",
                                        "HTTP/1.1 needs exactly one valid Host header"};
static const struct refusal bad_expect = {417, "bad_expectation",
                                          "the only expectation met here is 100-continue"};

ssize_t head_end(const char *data, size_t len, size_t from)
{
    const char *p = data + from, *end = data + len;

    /* Also ends a TLS hello on the plain port at once instead of at its deadline. */
    if (len > 0 && !token_bytes[(unsigned char)data[0]])
        return -1;
    while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
        if (p[-1] != '\r') /* not the first byte: that is a token's */
            return -1;
        if (p - data >= 3 && p[-2] == '\n')
            return p - data + 1;
        p++;
    }
    return 0;
}

static bool has_folded_line(const char *data, size_t len)
{
    const char *p = data, *end = data + len;

    while ((p = memchr(p, '\n', (size_t)(end - p)))) {
        p++;
        if (p < end && (*p == ' ' || *p == '\t'))
            return true;
    }
    return false;
}

static const struct refusal *check_line(const char *line, size_t len)
{
    const char *target = memchr(line, ' ', len), *version;

    if (!target || target == line)
        return &bad_line;
    for (const char *p = line; p < target; p++)
        if (!token_bytes[(unsigned char)*p])
            return &bad_line;
    target++;
    version = memchr(target, ' ', (size_t)(line + len - target));
    if (!version || version == target)
        return &bad_line;
    version++;
    if (line + len - version != 8 || memcmp(version, "HTTP/", 5) != 0 || version[6] != '.' ||
        version[5] < '0' || version[5] > '9' || version[7] < '0' || version[7] > '9')
        return &bad_line;
    if (version[5] != '1' || version[7] > '1')
        return &bad_version;
    if (*target != '/' || memchr(target, '#', (size_t)(version - target)))
        return &bad_target;
    return NULL;
}

static int on_url(llhttp_t *p, const char *at, size_t len)
{
    struct head *h = p->data;

    h->target = at;
    h->target_len = len;
    return 0;
}

static int on_status(llhttp_t *p, const char *at, size_t len)
{
    struct head *h = p->data;

    h->reason = at;
    h->reason_len = len;
    return 0;
}

static int on_field(llhttp_t *p, const char *at, size_t len)
{
    struct head *h = p->data;

    if (h->count == h->max) {
        h->overflow = true;
        return -1;
    }
    if (len == 0)
        return -1;
    h->headers[h->count++] = (struct http_field){.name = at, .name_len = len, .value = ""};
    return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
    struct head *h = p->data;
    struct http_field *last = &h->headers[h->count - 1];

    while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t'))
        len--;
    /* For an empty value the parser points past the line. */
    if (len > 0) {
        last->value = at;
        last->value_len = len;
    }
    return 0;
}

static int on_headers_complete(llhttp_t *p)
{
    struct head *h = p->data;

    h->method = (llhttp_method_t)llhttp_get_method(p);
    h->upgrade = llhttp_get_upgrade(p) != 0;
    h->keep_alive = llhttp_should_keep_alive(p) != 0;
    h->whole = true;
    return 0;
}

static const llhttp_settings_t head_settings = {
    .on_url = on_url,
    .on_status = on_status,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_headers_complete,
};

/* Only now, when the parser needs the separators no more. */
static void end_target(struct head *h, char *data)
{
    char *target = data + (h->target - data), *mark = memchr(target, '?', h->target_len);

    target[h->target_len] = '\0';
    if (mark)
        *mark = '\0';
    h->path = target;
    h->query = mark ? mark + 1 : "";
}

static void end_fields(struct head *h, char *data)
{
    for (unsigned i = 0; i < h->count; i++) {
        struct http_field *f = &h->headers[i];

        data[f->name - data + (ssize_t)f->name_len] = '\0';
        if (f->value_len > 0)
            data[f->value - data + (ssize_t)f->value_len] = '\0';
    }
}

const char *head_find(const struct head *h, const char *name)
{
    for (unsigned i = 0; i < h->count; i++)
        if (strcasecmp(h->headers[i].name, name) == 0)
            return h->headers[i].value;
    return NULL;
}

enum single { HOST, LENGTH, CODING, EXPECT, AUTHORIZATION, ORIGIN, TYPE, SINGLES };

/* Which of two would count is a matter of opinion, so there may be one of each. */
static const char *const single_names[SINGLES] = {
    [HOST] = "host",         [LENGTH] = "content-length",       [CODING] = "transfer-encoding",
    [EXPECT] = "expect",     [AUTHORIZATION] = "authorization", [ORIGIN] = "origin",
    [TYPE] = "content-type",
};

static int find_singles(const struct head *h, const char *found[SINGLES])
{
    for (unsigned i = 0; i < h->count; i++) {
        for (int k = 0; k < SINGLES; k++) {
            if (strcasecmp(h->headers[i].name, single_names[k]) != 0)
                continue;
            if (found[k])
                return -1;
            found[k] = h->headers[i].value;
            break;
        }
    }
    return 0;
}

static int read_length(const char *s, int64_t *ret)
{
    size_t digits = strspn(s, "0123456789");
    int64_t v = 0;

    if (digits == 0 || s[digits] || digits > 18)
        return -1;
    for (; *s; s++)
        v = v * 10 + (*s - '0');
    *ret = v;
    return 0;
}

static const struct refusal *check_meaning(struct head *h)
{
    const char *found[SINGLES] = {0};

    if (find_singles(h, found) < 0)
        return &doubled;
    if (found[HOST] ? strpbrk(found[HOST], " \t,/\\@?#") != NULL : !h->http10)
        return &bad_host;
    if (found[LENGTH] && read_length(found[LENGTH], &h->length) < 0)
        return &bad_length;
    if (found[CODING]) {
        if (found[LENGTH] || h->http10 || strcasecmp(found[CODING], "chunked") != 0)
            return &bad_coding;
        h->chunked = true;
    }
    if (found[EXPECT] && !h->http10) {
        if (strcasecmp(found[EXPECT], "100-continue") != 0)
            return &bad_expect;
        h->expects_continue = h->chunked || h->length > 0;
    }
    return NULL;
}

/* NULL when the parser has taken the whole head. It judges codings only after the last line, so it
 * must not be stopped there: what it does not take for chunked, though a trimmed value says so, has
 * two readings. */
static const struct refusal *run_parser(struct head *h, llhttp_type_t type, const char *data,
                                        size_t len)
{
    llhttp_t parser;

    llhttp_init(&parser, type, &head_settings);
    parser.data = h;
    switch ((unsigned)llhttp_execute(&parser, data, len)) {
    case HPE_OK:
    case HPE_PAUSED_UPGRADE: /* http_upgrade() goes on from here, or nobody */
        return h->whole ? NULL : &bad_bytes;
    case HPE_INVALID_METHOD:
    case HPE_INVALID_CONSTANT: /* a method of RTSP */
    case HPE_INVALID_VERSION:  /* PRI, which is HTTP/2's: the version has been checked */
        return &bad_method;
    case HPE_INVALID_URL:
        return &bad_target;
    case HPE_INVALID_CONTENT_LENGTH:
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        return &bad_length;
    case HPE_INVALID_TRANSFER_ENCODING:
        return &bad_coding;
    case HPE_INVALID_HEADER_TOKEN:
        return &bad_header;
    case HPE_USER: /* by on_field() */
        return h->overflow ? &many_headers : &bad_header;
    default:
        return &bad_bytes;
    }
}

const struct refusal *head_parse(struct head *h, char *data, size_t len)
{
    const char *line_end = memchr(data, '\r', len);
    const struct refusal *why;

    if (!line_end || line_end[1] != '\n' || has_folded_line(data, len))
        return &bad_bytes;
    why = check_line(data, (size_t)(line_end - data));
    if (why)
        return why;
    *h = (struct head){.headers = h->headers, .max = h->max, .http10 = line_end[-1] == '0'};
    why = run_parser(h, HTTP_REQUEST, data, len);
    if (why)
        return why;
    if (h->method == HTTP_CONNECT) /* its target is a host, and this one is a path */
        return &bad_target;
    end_target(h, data);
    end_fields(h, data);
    return check_meaning(h);
}

/* ---- of an answer ---- */

ssize_t http_answer_end(const char *data, size_t len, size_t from)
{
    return head_end(data, len, from);
}

/* "HTTP/1.1 200 OK"; the words may be missing, and the space before them. */
static int check_status_line(const char *line, size_t len)
{
    if (len < 12 || memcmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') ||
        line[8] != ' ' || line[9] < '1' || line[9] > '5' || (len > 12 && line[12] != ' '))
        return -1;
    for (int i = 10; i < 12; i++)
        if (line[i] < '0' || line[i] > '9')
            return -1;
    return 0;
}

static const char *check_framing(const struct head *h, struct http_answer *a)
{
    const char *length = NULL, *coding = NULL;

    for (unsigned i = 0; i < h->count; i++) {
        const struct http_field *f = &h->headers[i];
        const char **kind = strcasecmp(f->name, "content-length") == 0      ? &length
                            : strcasecmp(f->name, "transfer-encoding") == 0 ? &coding
                                                                            : NULL;

        if (kind && *kind)
            return "it has two lengths or codings";
        if (kind)
            *kind = f->value;
    }
    a->length = -1;
    if (length && read_length(length, &a->length) < 0)
        return "its Content-Length is no number";
    if (coding && (length || a->http10 || strcasecmp(coding, "chunked") != 0))
        return "its Transfer-Encoding is not chunked, or has a length beside it";
    a->chunked = coding;
    return NULL;
}

static bool stays(const struct http_answer *a)
{
    bool keep = !a->http10;

    for (unsigned i = 0; i < a->count; i++) {
        if (strcasecmp(a->fields[i].name, "connection") != 0)
            continue;
        if (http_list_has(a->fields[i].value, "close"))
            return false;
        keep |= http_list_has(a->fields[i].value, "keep-alive");
    }
    return keep;
}

const char *http_answer_parse(struct http_answer *a, char *data, size_t len)
{
    static const char bad[] = "its head is not HTTP/1.1 as the standard writes it";
    const char *line_end = memchr(data, '\r', len);
    struct head h = {.headers = a->fields, .max = HTTP_ANSWER_FIELDS_MAX};

    if (!line_end || line_end[1] != '\n' || has_folded_line(data, len) ||
        check_status_line(data, (size_t)(line_end - data)) < 0)
        return bad;
    a->http10 = data[7] == '0';
    a->status = (data[9] - '0') * 100 + (data[10] - '0') * 10 + (data[11] - '0');
    if (run_parser(&h, HTTP_RESPONSE, data, len))
        return h.overflow ? "it has too many headers" : bad;
    if (h.reason)
        data[h.reason - data + (ssize_t)h.reason_len] = '\0';
    end_fields(&h, data);
    a->reason = h.reason ? h.reason : "";
    a->count = h.count;
    a->keep_alive = stays(a);
    return check_framing(&h, a);
}
