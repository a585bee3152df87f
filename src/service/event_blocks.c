#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/event.h"
#include "service/events_internal.h"

#define TEXT_MAX  (BLOCK_BYTES + 8u * EVENT_DATA) /* what one event more can add fits well */
#define WORD_SAFE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/ "

void block_begin(struct block_maker *m)
{
    *m = (struct block_maker){.block = xcalloc(1, sizeof(*m->block))};
    atomic_init(&m->block->refs, 1);
    buf_init(&m->text, TEXT_MAX);
    buf_init(&m->words, TEXT_MAX);
}

static struct event *next_event(struct block_maker *m)
{
    struct events_block *b = m->block;

    if (b->n == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 4;
        b->events = xrealloc(b->events, m->cap * sizeof(*b->events));
    }
    b->events[b->n] = (struct event){.lines_at = m->text.len};
    return &b->events[b->n++];
}

/* Until the block is whole, buffers may move: what points into them is kept as an offset. */
static const char *as_offset(size_t at)
{
    return (const char *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr)
}

static const char *add_word(struct block_maker *m, const char *word)
{
    size_t at = m->words.len;

    (void)buf_add(&m->words, word, strlen(word) + 1);
    return as_offset(at);
}

static void add_string(struct buf *out, const char *word)
{
    json_t *value;
    char *text;

    if (word[strspn(word, WORD_SAFE)] == '\0') {
        (void)buf_addf(out, "\"%s\"", word);
        return;
    }
    value = json_string(word);
    text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    (void)buf_add_str(out, text ? text : "\"\"");
    free(text);
    json_decref(value);
}

void block_add(struct block_maker *m, const struct event_row *row)
{
    struct event *e = next_event(m);
    size_t json_at;

    e->seq = row->seq;
    event_id(e->id, row->seq, row->salt);
    e->topic = add_word(m, row->topic);
    e->sandbox_id = add_word(m, row->sandbox_id);
    (void)buf_addf(&m->text, "id: %s\ndata: ", e->id);
    json_at = m->text.len;
    (void)buf_addf(&m->text, "{\"id\":\"%s\",\"topic\":", e->id);
    add_string(&m->text, row->topic);
    (void)buf_add_str(&m->text, ",\"sandboxId\":");
    add_string(&m->text, row->sandbox_id);
    (void)buf_add_str(&m->text, ",\"data\":");
    (void)buf_add(&m->text, row->data, row->data_len);
    (void)buf_addf(&m->text, ",\"timestamp\":%lld%s}", (long long)row->time_ms,
                   row->published ? ",\"published\":true" : "");
    e->json = as_offset(json_at);
    e->json_len = m->text.len - json_at;
    (void)buf_add_str(&m->text, "\n\n");
    e->lines_len = m->text.len - e->lines_at;
}

void block_copy(struct block_maker *m, const struct events_block *from, const struct event *e)
{
    struct event *copy = next_event(m);
    size_t at = copy->lines_at;

    *copy = *e;
    copy->topic = add_word(m, e->topic);
    copy->sandbox_id = add_word(m, e->sandbox_id);
    copy->lines_at = at;
    copy->json = as_offset(at + (size_t)(e->json - from->text) - e->lines_at);
    (void)buf_add(&m->text, from->text + e->lines_at, e->lines_len);
}

struct events_block *block_end(struct block_maker *m, int64_t first, int64_t last)
{
    struct events_block *b = steal_ptr(m->block);

    b->first = first;
    b->last = last;
    b->len = m->text.len;
    b->text = buf_steal(&m->text);
    b->words = buf_steal(&m->words);
    for (size_t i = 0; i < b->n; i++) {
        struct event *e = &b->events[i];

        e->topic = b->words + (uintptr_t)e->topic;
        e->sandbox_id = b->words + (uintptr_t)e->sandbox_id;
        e->json = b->text + (uintptr_t)e->json;
    }
    *m = (struct block_maker){0};
    return b;
}

void events_block_unref(struct events_block *b)
{
    if (!b || atomic_fetch_sub(&b->refs, 1) > 1)
        return;
    free(b->events);
    free(b->text);
    free(b->words);
    free(b);
}

json_t *event_row_json(const struct event_row *row)
{
    char id[ID_SIZE];
    json_t *data = json_loadb(row->data, row->data_len, 0, NULL);

    event_id(id, row->seq, row->salt);
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:o*}", "id", id, "topic", row->topic, "sandboxId",
                     row->sandbox_id, "data", data ? data : json_object(), "timestamp",
                     (json_int_t)row->time_ms, "published", row->published ? json_true() : NULL);
}
