#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "iii/link_internal.h"
#include "iii/wire.h"

#define TEXT_OVERHEAD 32 /* bytes that malloc adds to a short text, at most */

/* ---- the outbox ---- */

static void wake(struct iii_link *l)
{
    (void)eventfd_write(l->wake_fd, 1);
}

/* Bytes that a text holds in the outbox. */
static size_t cost(size_t len)
{
    return len + sizeof(struct link_text) + TEXT_OVERHEAD;
}

bool link_say(struct iii_link *l, uint64_t connection, char *text)
{
    size_t len = strlen(text);
    struct link_text *t = xmalloc(sizeof(*t) + len);
    bool taken;

    *t = (struct link_text){.len = len};
    memcpy(t->text, text, len);
    free(text);
    (void)pthread_mutex_lock(&l->lock);
    taken =
        connection != 0 && l->connection == connection && l->outbox + cost(len) <= LINK_OUTBOX_MAX;
    if (taken) {
        *l->last = t;
        l->last = &t->next;
        l->outbox += cost(len);
    }
    (void)pthread_mutex_unlock(&l->lock);
    if (taken)
        wake(l);
    else
        free(t);
    return taken;
}

struct link_text *link_take_text(struct iii_link *l)
{
    struct link_text *t;

    (void)pthread_mutex_lock(&l->lock);
    t = l->first;
    if (t) {
        l->first = t->next;
        l->outbox -= cost(t->len);
        l->sending = true;
    }
    if (!l->first)
        l->last = &l->first;
    (void)pthread_mutex_unlock(&l->lock);
    return t;
}

/* ---- questions ---- */

/* Under the lock. */
static void settle(struct iii_link *l, struct link_ask *a, json_t *result, json_t *error)
{
    a->done = true;
    a->result = json_deep_copy(result); /* it goes to another thread */
    a->error = json_deep_copy(error);
    (void)pthread_cond_broadcast(&l->told);
}

void link_take_answer(struct iii_link *l, uint64_t connection, json_t *m)
{
    const char *id = wire_name(m, "invocation_id", UUID_SIZE - 1);

    (void)pthread_mutex_lock(&l->lock);
    for (struct link_ask *a = l->asks; id && a; a = a->next)
        if (!a->done && a->connection == connection && strcmp(a->id, id) == 0)
            settle(l, a, json_object_get(m, "result"), wire_value(m, "error"));
    (void)pthread_mutex_unlock(&l->lock);
}

/* Under the lock, which it lets go meanwhile. */
static void await(struct iii_link *l, const struct link_ask *a)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LINK_ASK_MS / 1000;
    while (!a->done && !l->stops && l->connection == a->connection)
        if (pthread_cond_timedwait(&l->told, &l->lock, &until) == ETIMEDOUT)
            break;
}

static json_t *outcome(struct link_ask *a, const char *function_id, struct err *err)
{
    json_t *result = a->result ? a->result : json_null(); /* which some leave out */

    if (!a->done)
        (void)err_set(err, ERR_UNAVAILABLE, "%s: the engine is gone, or does not answer",
                      function_id);
    if (a->error)
        (void)err_set(err, ERR_UNAVAILABLE, "%s: the engine says %.40s: %.120s", function_id,
                      json_text(a->error, "code"), json_text(a->error, "message"));
    if (a->done && !a->error)
        return result;
    json_decref(a->error);
    json_decref(result);
    return NULL;
}

json_t *link_ask(struct iii_link *l, const char *function_id, json_t *data, struct err *err)
{
    struct link_ask a = {0};
    bool said;

    iii_uuid_new(a.id);
    (void)pthread_mutex_lock(&l->lock);
    a.connection = l->connection;
    a.next = l->asks;
    l->asks = &a;
    (void)pthread_mutex_unlock(&l->lock);
    said = link_say(l, a.connection, wire_invoke(a.id, function_id, data, NULL, NULL, NULL));
    json_decref(data);
    (void)pthread_mutex_lock(&l->lock);
    if (said)
        await(l, &a);
    for (struct link_ask **at = &l->asks; *at; at = &(*at)->next)
        if (*at == &a) {
            *at = a.next;
            break;
        }
    (void)pthread_mutex_unlock(&l->lock);
    return outcome(&a, function_id, err);
}
