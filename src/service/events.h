#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

struct err;
struct events;
struct events_reader;

/* What happens, kept and told. Many publish; one thread writes what they have queued to the store
 * (store/events.h), renders each event once, and wakes those who read. A reader is a place in the
 * order of all events and a descriptor: it holds no thread, and one that is slow reads from the
 * store at its own pace, so that it misses only what retention has removed meanwhile, which it is
 * told. */

struct events_config {
    const char *data_dir;
    uint32_t max;  /* events that are kept */
    uint32_t days; /* that they are kept */
};

int events_open(const struct events_config *config, struct events **ret, struct err *err);
/* All that was published is written first. No reader may be open any more. */
void events_close(struct events *ev);

/* ---- publish ---- */

#define EVENTS_QUEUE_MAX (64u << 10)   /* events that are not written yet; */
#define EVENTS_LOST      "events.lost" /* tells how many more there were, or which a reader missed */

/* Takes data (an object that nobody else has; NULL = {}). Never waits and never fails: past the
 * bound it is counted, and told as one EVENTS_LOST. sandbox_id "" = of none. Any thread, under any
 * lock. */
void events_publish(struct events *ev, const char *topic, const char *sandbox_id, json_t *data);
/* The same for a caller's own: waits until it is in the store. *ret: {id, topic, sandboxId, data,
 * timestamp, published}. */
int events_publish_kept(struct events *ev, const char *topic, const char *sandbox_id, json_t *data,
                        json_t **ret, struct err *err);

/* ---- what was ---- */

struct event_query;

/* {events: the newest first, total}. */
int events_history(struct events *ev, const struct event_query *q, json_t **ret, struct err *err);

/* ---- what comes ---- */

struct event {
    int64_t seq;
    char id[ID_SIZE];
    const char *topic, *sandbox_id;
    const char *json; /* {"id": …}: one line, ASCII */
    size_t json_len;
    size_t lines_at, lines_len; /* of the text of its block */
};

/* Some events behind one another, the same for all who read them. */
struct events_block {
    _Atomic unsigned refs;
    int64_t first, last; /* places: what is in none of its events was not asked for */
    size_t n;
    struct event *events;
    char *text; /* "id: …", "data: {…}" and an empty line each, as event streams of HTTP have it */
    size_t len;
    char *words; /* that topic and sandbox_id point into */
};

void events_block_unref(struct events_block *b); /* NULL is fine */

/* Whose events, and from where on. Places are those of ids (model/event.h). */
struct events_from {
    const char *topics;     /* as topics_match() says; NULL = all */
    const char *sandbox_id; /* NULL = of any and of none */
    int64_t after;          /* behind this place; 0 = what happens from now on */
    int64_t since_ms;       /* instead: from this time on; 0 = not so */
    /* How one who waits for fd can be told without being woken; NULL = it is woken. Between the two
     * it does not call events_take(). Begin is false when that cannot be had now; end is given the
     * text (NULL = none), and is false when the reader is to be woken all the same. */
    bool (*tell_begin)(void *arg);
    bool (*tell_end)(const char *text, size_t len, void *arg);
    void *arg;
};

#define EVENTS_READERS_MAX 8192

/* ERR_LIMIT "too_many_streams" past EVENTS_READERS_MAX. */
int events_subscribe(struct events *ev, const struct events_from *from, struct events_reader **ret,
                     struct err *err);
void events_unsubscribe(struct events_reader *r); /* NULL is fine */
/* Readable when events_take() may give something. */
int events_reader_fd(const struct events_reader *r);
/* The next, of which the caller frees one reference; NULL when there is nothing now, or when what
 * was looked at is not for this reader. *ret_more: call it again; else wait for fd. What was
 * removed before this reader came to it is one event EVENTS_LOST with {from, to}. */
int events_take(struct events_reader *r, struct events_block **ret, bool *ret_more,
                struct err *err);
/* Behind which place it reads on: for who keeps it to go on after a restart. */
int64_t events_reader_place(const struct events_reader *r);

/* ---- figures ---- */

struct events_figures {
    uint64_t published, lost; /* since the start */
    uint64_t kept;
    unsigned queued, readers;
};
void events_figures(struct events *ev, struct events_figures *ret);
