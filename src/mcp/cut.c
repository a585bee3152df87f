#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "mcp/face_internal.h"

/* What a model reads costs it room for everything else, so answers have a size. */

#define ROUNDS     32
#define ITEMS_MIN  4  /* an array of fewer is looked into, not cut */
#define NAMES_MIN  64 /* an object of fewer has a shape; one of more is a list with names */
#define TEXT_MIN   256
#define NAME_BYTES 80

static size_t size_of(const json_t *value)
{
    return json_dumpb(value, NULL, 0, JSON_INDENT(2) | JSON_ENCODE_ANY);
}

/* The longest thing that can be cut, and where it is. */
struct cut_found {
    json_t *value, *parent;
    const char *key; /* of its parent, if that is an object */
    size_t index;    /* else */
    size_t size;
    const char *name; /* the nearest key above it */
};

static void look(json_t *value, struct cut_found at, struct cut_found *best)
{
    const char *key;
    json_t *one;
    size_t i;

    at.value = value;
    if (json_is_string(value))
        at.size = json_string_length(value) > TEXT_MIN ? json_string_length(value) : 0;
    else if (json_is_array(value))
        at.size = json_array_size(value) >= ITEMS_MIN ? size_of(value) : 0;
    else if (json_is_object(value))
        at.size = json_object_size(value) >= NAMES_MIN ? size_of(value) : 0;
    if (at.size > best->size)
        *best = at;
    json_object_foreach(value, key, one)
    {
        look(one, (struct cut_found){.parent = value, .key = key, .name = key}, best);
    }
    json_array_foreach(value, i, one)
    {
        look(one, (struct cut_found){.parent = value, .index = i, .name = at.name}, best);
    }
}

static void replace(const struct cut_found *f, json_t *by)
{
    if (f->key)
        (void)json_object_set_new(f->parent, f->key, by);
    else
        (void)json_array_set_new(f->parent, f->index, by);
}

static const char *separator(const struct cut *c)
{
    return c->words.len ? "; " : "";
}

static void cut_text(const struct cut_found *f, size_t excess, struct cut *c)
{
    const char *text = json_string_value(f->value);
    size_t len = json_string_length(f->value), shown = size_of(f->value);
    /* Escapes make it longer than it is; what says that it was cut takes room too. */
    size_t less = (size_t)((double)excess * (double)len / (double)shown) + 64;
    size_t keep = len > less + TEXT_MIN ? len - less : TEXT_MIN;
    size_t head = utf8_cut(text, c->head_only ? keep : keep * 2 / 3);
    size_t tail = c->head_only ? len : len - keep / 3;
    auto_buf struct buf cut = {0};

    while (tail < len && ((unsigned char)text[tail] & 0xc0) == 0x80)
        tail++; /* not in the middle of a character */
    buf_init(&cut, len + 128);
    (void)buf_add(&cut, text, head);
    (void)buf_addf(&cut, "\n[… %zu bytes cut …]\n", tail - head);
    (void)buf_add(&cut, text + tail, len - tail);
    (void)buf_addf(&c->words, "%s%.*s: of %zu bytes the first %zu are shown", separator(c),
                   NAME_BYTES, f->name ? f->name : "text", len, head);
    if (tail < len)
        (void)buf_addf(&c->words, " and the last %zu", len - tail);
    c->head = head;
    c->n++;
    replace(f, json_stringn_nocheck(cut.data, cut.len));
}

static void cut_array(const struct cut_found *f, size_t excess, struct cut *c)
{
    size_t n = json_array_size(f->value), keep = n, gone = 0;

    while (keep > 1 && gone < excess)
        gone += size_of(json_array_get(f->value, --keep));
    (void)buf_addf(&c->words, "%s%.*s: of %zu the first %zu are shown", separator(c), NAME_BYTES,
                   f->name ? f->name : "items", n, keep);
    c->n++;
    while (json_array_size(f->value) > keep)
        (void)json_array_remove(f->value, json_array_size(f->value) - 1);
}

/* Variables, labels: the last ones go. */
static void cut_object(const struct cut_found *f, size_t excess, struct cut *c)
{
    size_t n = json_object_size(f->value), keep = n, gone = 0, i = 0;
    auto_free char **names = xcalloc(n, sizeof(*names));
    const char *name;
    json_t *one;

    json_object_foreach(f->value, name, one)
    {
        names[i++] = xstrdup(name);
    }
    while (keep > 1 && gone < excess) {
        keep--;
        gone += strlen(names[keep]) + size_of(json_object_get(f->value, names[keep]));
        (void)json_object_del(f->value, names[keep]);
    }
    (void)buf_addf(&c->words, "%s%.*s: of %zu the first %zu are shown", separator(c), NAME_BYTES,
                   f->name ? f->name : "members", n, keep);
    c->n++;
    while (i > 0)
        free(names[--i]);
}

void cut_value(json_t *value, size_t max, struct cut *c)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = size_of(value);
        struct cut_found best = {0};

        if (size <= max || (c->n > 0 && size <= max + max / 8)) /* near enough */
            return;
        look(value, (struct cut_found){0}, &best);
        if (!best.value || (!best.parent && json_is_string(best.value)))
            return;
        if (json_is_string(best.value))
            cut_text(&best, size - max, c);
        else if (json_is_object(best.value))
            cut_object(&best, size - max, c);
        else
            cut_array(&best, size - max, c);
    }
}
