#include "daemon/yaml_json.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

struct reader {
    yaml_parser_t parser;
    unsigned depth, nodes;
    struct err *err;
};

/* A value and its lines; both are owned. */
struct node {
    json_t *value, *lines;
};

static void node_done(struct node *n)
{
    json_decref(n->value);
    json_decref(n->lines);
    *n = (struct node){0};
}

static int line_of(const yaml_event_t *e)
{
    return (int)e->start_mark.line + 1;
}

static int refuse(struct reader *r, const yaml_event_t *e, const char *why)
{
    return err_set(r->err, ERR_INVALID, "line %d: %s", line_of(e), why);
}

static int next_event(struct reader *r, yaml_event_t *ret)
{
    const yaml_parser_t *p = &r->parser;

    if (yaml_parser_parse(&r->parser, ret))
        return 0;
    return err_set(r->err, ERR_INVALID, "line %zu: %s%s%s",
                   (p->problem_mark.line ? p->problem_mark.line : p->context_mark.line) + 1,
                   p->problem ? p->problem : "is no YAML", p->context ? " " : "",
                   p->context ? p->context : "");
}

/* ---- scalars ---- */

static bool is_one_of(const char *text, const char *a, const char *b, const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

static json_t *whole_number(const char *text)
{
    const char *digits = text + (*text == '-' || *text == '+');
    int base = strncmp(digits, "0x", 2) == 0 ? 16 : strncmp(digits, "0o", 2) == 0 ? 8 : 10;
    const char *allowed = base == 16  ? "0123456789abcdefABCDEF"
                          : base == 8 ? "01234567"
                                      : "0123456789";
    long long n;

    digits += base == 10 ? 0 : 2;
    if (!*digits || digits[strspn(digits, allowed)])
        return NULL;
    errno = 0;
    n = strtoll(digits, NULL, base);
    if (errno)
        return NULL;
    return json_integer(*text == '-' ? -n : n);
}

static json_t *decimal_number(const char *text)
{
    char *end;
    double n;

    /* strtod also takes "inf", "nan" and hexadecimal digits, which are texts here. */
    if (!strpbrk(text, "0123456789") || text[strspn(text, "+-.0123456789eE")])
        return NULL;
    n = strtod(text, &end);
    return *end || !isfinite(n) ? NULL : json_real(n);
}

static json_t *plain(const char *text)
{
    json_t *number;

    if (!*text || strcmp(text, "~") == 0 || is_one_of(text, "null", "Null", "NULL"))
        return json_null();
    if (is_one_of(text, "true", "True", "TRUE"))
        return json_true();
    if (is_one_of(text, "false", "False", "FALSE"))
        return json_false();
    number = whole_number(text);
    if (!number)
        number = decimal_number(text);
    return number ? number : json_string(text);
}

/* A local tag (!Name) says which variant of an enum a value is; the value itself is all that is
 * read here. */
static bool is_local_tag(const char *tag)
{
    return tag[0] == '!' && tag[1];
}

static int refuse_tag(struct reader *r, const yaml_event_t *e, const char *tag)
{
    return err_set(r->err, ERR_INVALID,
                   "line %d: the tag %.60s does not fit this value: only !Name and !!str, !!int, "
                   "!!float, !!bool, !!null, !!seq, !!map are read",
                   line_of(e), tag);
}

/* The value of a scalar with a tag of the core schema; NULL when the text is no such value. */
static json_t *with_core_tag(const char *tag, const char *text)
{
    json_t *value = plain(text);

    if ((strcmp(tag, YAML_INT_TAG) == 0 && json_is_integer(value)) ||
        (strcmp(tag, YAML_FLOAT_TAG) == 0 && json_is_number(value)) ||
        (strcmp(tag, YAML_BOOL_TAG) == 0 && json_is_boolean(value)) ||
        (strcmp(tag, YAML_NULL_TAG) == 0 && json_is_null(value)))
        return value;
    json_decref(value);
    return NULL;
}

static int read_scalar(struct reader *r, const yaml_event_t *e, json_t **ret)
{
    const char *text = (const char *)e->data.scalar.value;
    const char *tag = (const char *)e->data.scalar.tag;
    bool is_plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

    if (strlen(text) != e->data.scalar.length)
        return refuse(r, e, "a text has a NUL in it");
    if (!tag || is_local_tag(tag))
        *ret = is_plain ? plain(text) : json_string(text);
    else if (strcmp(tag, YAML_STR_TAG) == 0 || strcmp(tag, "!") == 0)
        *ret = json_string(text);
    else if (!(*ret = with_core_tag(tag, text)))
        return refuse_tag(r, e, tag);
    return *ret ? 0 : refuse(r, e, "a text is not UTF-8");
}

/* ---- collections ---- */

static int read_node(struct reader *r, const yaml_event_t *e, struct node *ret);

/* [the line, what is in it] */
static json_t *with_line(const yaml_event_t *e, json_t *in)
{
    json_t *pair = json_array();

    (void)json_array_append_new(pair, json_integer(line_of(e)));
    (void)json_array_append_new(pair, in);
    return pair;
}

static int read_list(struct reader *r, struct node *list)
{
    for (;;) {
        struct node item = {0};
        yaml_event_t e;
        int status;

        if (next_event(r, &e) < 0)
            return -1;
        if (e.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&e);
            return 0;
        }
        status = read_node(r, &e, &item);
        yaml_event_delete(&e);
        if (status < 0)
            return -1;
        (void)json_array_append_new(list->value, item.value);
        (void)json_array_append_new(list->lines, item.lines);
    }
}

/* The value behind a key, which e is. */
static int read_member(struct reader *r, const yaml_event_t *e, struct node *mapping)
{
    const char *key = (const char *)e->data.scalar.value;
    struct node value = {0};
    yaml_event_t next;
    int status;

    if (e->type != YAML_SCALAR_EVENT || strlen(key) != e->data.scalar.length)
        return refuse(r, e, "a key must be a word");
    if (json_object_get(mapping->value, key))
        return err_set(r->err, ERR_INVALID, "line %d: %.80s stands here for the second time",
                       line_of(e), key);
    if (next_event(r, &next) < 0)
        return -1;
    status = read_node(r, &next, &value);
    yaml_event_delete(&next);
    if (status < 0)
        return -1;
    /* Takes the value also when it fails: a key that is not UTF-8. */
    status = json_object_set_new(mapping->value, key, value.value);
    if (json_object_set_new(mapping->lines, key, value.lines) < 0 || status < 0)
        return refuse(r, e, "a key is not UTF-8");
    return 0;
}

static int read_mapping(struct reader *r, struct node *mapping)
{
    for (;;) {
        yaml_event_t e;
        int status;

        if (next_event(r, &e) < 0)
            return -1;
        if (e.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&e);
            return 0;
        }
        status = read_member(r, &e, mapping);
        yaml_event_delete(&e);
        if (status < 0)
            return -1;
    }
}

static int read_collection(struct reader *r, const yaml_event_t *e, struct node *ret)
{
    bool is_list = e->type == YAML_SEQUENCE_START_EVENT;
    const char *tag =
        (const char *)(is_list ? e->data.sequence_start.tag : e->data.mapping_start.tag);
    struct node n = {is_list ? json_array() : json_object(),
                     is_list ? json_array() : json_object()};
    int status;

    if (tag && tag[0] != '!' && strcmp(tag, is_list ? YAML_SEQ_TAG : YAML_MAP_TAG) != 0)
        status = refuse_tag(r, e, tag);
    else if (++r->depth > YAML_DEPTH_MAX)
        status = refuse(r, e, "is nested too deeply");
    else
        status = is_list ? read_list(r, &n) : read_mapping(r, &n);
    r->depth--;
    if (status < 0) {
        node_done(&n);
        return -1;
    }
    *ret = (struct node){n.value, with_line(e, n.lines)};
    return 0;
}

static int read_node(struct reader *r, const yaml_event_t *e, struct node *ret)
{
    if (++r->nodes > YAML_NODES_MAX)
        return refuse(r, e, "holds too much");
    if (e->type == YAML_ALIAS_EVENT)
        return refuse(r, e, "aliases are not read here: write it out");
    if (e->type == YAML_SEQUENCE_START_EVENT || e->type == YAML_MAPPING_START_EVENT)
        return read_collection(r, e, ret);
    if (e->type != YAML_SCALAR_EVENT)
        return refuse(r, e, "a value is missing");
    if (read_scalar(r, e, &ret->value) < 0)
        return -1;
    ret->lines = json_integer(line_of(e));
    return 0;
}

/* ---- documents ---- */

/* The next event must be of that type. */
static int expect(struct reader *r, yaml_event_type_t type, const char *otherwise)
{
    yaml_event_t e;
    int status = 0;

    if (next_event(r, &e) < 0)
        return -1;
    if (e.type != type)
        status = refuse(r, &e, otherwise);
    yaml_event_delete(&e);
    return status;
}

static int read_document(struct reader *r, struct node *ret)
{
    yaml_event_t e;
    int status;

    if (expect(r, YAML_STREAM_START_EVENT, "is no YAML") < 0 ||
        expect(r, YAML_DOCUMENT_START_EVENT, "is empty") < 0 || next_event(r, &e) < 0)
        return -1;
    status = read_node(r, &e, ret);
    yaml_event_delete(&e);
    if (status < 0)
        return -1;
    return expect(r, YAML_DOCUMENT_END_EVENT, "is no YAML") < 0
               ? -1
               : expect(r, YAML_STREAM_END_EVENT, "a second document begins here");
}

int yaml_read(const char *text, size_t len, json_t **ret, json_t **ret_lines, struct err *err)
{
    struct reader r = {.err = err};
    struct node n = {0};
    int status;

    if (len > YAML_BYTES_MAX)
        return err_set(err, ERR_INVALID, "line 1: is larger than %u KiB", YAML_BYTES_MAX >> 10);
    if (!yaml_parser_initialize(&r.parser))
        abort(); /* it needs memory and nothing else */
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    status = read_document(&r, &n);
    yaml_parser_delete(&r.parser);
    if (status < 0) {
        node_done(&n);
        return -1;
    }
    *ret = n.value;
    *ret_lines = n.lines;
    return 0;
}

int yaml_line(const json_t *lines)
{
    return (int)json_integer_value(json_is_array(lines) ? json_array_get(lines, 0) : lines);
}

const json_t *yaml_lines_of(const json_t *lines, const char *key)
{
    return json_object_get(json_array_get(lines, 1), key);
}

const json_t *yaml_lines_at(const json_t *lines, size_t index)
{
    return json_array_get(json_array_get(lines, 1), index);
}

/* ---- variables ---- */

struct expansion {
    struct buf out;
    const char *(*lookup)(const char *name, void *arg);
    void *arg;
    int line;
    struct err *err;
};

static int add(struct expansion *x, const char *text, size_t len)
{
    if (buf_add(&x->out, text, len) == 0)
        return 0;
    return err_set(x->err, ERR_INVALID, "line %d: is larger than %u KiB", x->line,
                   YAML_BYTES_MAX >> 10);
}

/* NAME or NAME:default. */
static int expand_one(struct expansion *x, const char *inside, size_t len)
{
    const char *colon = memchr(inside, ':', len);
    auto_free char *name = xstrndup(inside, colon ? (size_t)(colon - inside) : len);
    const char *value = x->lookup(name, x->arg);

    if (value)
        return add(x, value, strlen(value));
    if (colon)
        return add(x, colon + 1, len - (size_t)(colon + 1 - inside));
    return err_set(x->err, ERR_INVALID,
                   "line %d: the variable %.80s is not set; ${%.80s:VALUE} would give it a default",
                   x->line, name, name);
}

static int expand_line(struct expansion *x, const char *at, size_t len)
{
    const char *end = at + len, *from, *to;

    if (at[strspn(at, " \t")] == '#')
        return add(x, at, len);
    while ((from = memmem(at, (size_t)(end - at), "${", 2))) {
        to = memchr(from, '}', (size_t)(end - from));
        if (!to)
            return err_set(x->err, ERR_INVALID, "line %d: ${ has no } behind it", x->line);
        if (add(x, at, (size_t)(from - at)) < 0 ||
            expand_one(x, from + 2, (size_t)(to - from - 2)) < 0)
            return -1;
        at = to + 1;
    }
    return add(x, at, (size_t)(end - at));
}

char *yaml_expand(const char *text, const char *(*lookup)(const char *name, void *arg), void *arg,
                  struct err *err)
{
    struct expansion x = {.lookup = lookup, .arg = arg, .err = err};

    buf_init(&x.out, YAML_BYTES_MAX);
    for (x.line = 1; *text; x.line++) {
        size_t len = strcspn(text, "\n");

        len += text[len] == '\n';
        if (expand_line(&x, text, len) < 0) {
            buf_done(&x.out);
            return NULL;
        }
        text += len;
    }
    return buf_steal(&x.out);
}
