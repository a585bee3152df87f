#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "http/server.h"
#include "iii/peer.h"
#include "iii/rbac.h"

/* What the hub asks a function about a client: who it is, or whether it may register something. The
 * answer comes on any thread, and is looked at in the client's own step. */

#define ANSWER_MAX (64u << 10) /* bytes of it */

struct inquiry {
    struct iii_peer *peer; /* a reference of its asker */
    unsigned number;
    bool entry; /* it asks who comes in */
};

static char *why_of(const json_t *error)
{
    const char *text = json_text(error, "message");

    return xstrdup(*text ? text : "it failed");
}

static void on_answer(void *arg, json_t *result, json_t *error)
{
    struct inquiry *i = arg;
    struct iii_peer *peer = i->peer;
    struct iii_inquiry *in = &peer->inquiry;
    json_t *copy = NULL;
    char *why = NULL;

    if (error)
        why = why_of(error);
    else if (json_dumpb(result, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) > ANSWER_MAX)
        why = xstrdup("its answer is too long");
    else
        copy = json_deep_copy(result);
    if (i->entry)
        iii_entry_leave(peer->hub, peer->asker.caller.from);
    (void)pthread_mutex_lock(&peer->lock);
    if (in->number == i->number && !in->answered && peer->req) {
        in->answered = true;
        in->result = steal_ptr(copy);
        in->why = steal_ptr(why);
        http_wake(peer->req);
    }
    (void)pthread_mutex_unlock(&peer->lock);
    json_decref(copy);
    free(why);
    iii_asker_unref(&peer->asker);
    free(i);
}

/* In nobody's name but that of the rules, and never of one who is under them; but a call of the
 * client's, which has made it necessary. */
static struct iii_asker *asker_new(const struct iii_peer *peer)
{
    struct caller caller = {
        .face = "iii", .name = "rbac", .scopes = 1u << SCOPE_NONE | 1u << SCOPE_EXEC};

    return iii_asker_beside(&caller, &peer->asker);
}

void iii_inquire(struct iii_peer *peer, const char *function_id, json_t *input)
{
    struct iii_asker *asker = asker_new(peer);
    struct iii_question q = {
        .asker = asker, .function_id = function_id, .data = input, .trusted = true};
    struct inquiry *i = xcalloc(1, sizeof(*i));

    (void)iii_asker_ref(&peer->asker);
    i->peer = peer;
    i->entry = peer->entry;
    (void)pthread_mutex_lock(&peer->lock);
    i->number = ++peer->inquiry.number;
    (void)pthread_mutex_unlock(&peer->lock);
    peer->inquiry.open = true;
    peer->inquiry.asker = asker;
    peer->inquiry.until_ns = mono_ns() + peer->hub->answer_ns;
    iii_ask(peer->hub, &q, on_answer, i);
    json_decref(input);
}

void iii_inquiry_stop(struct iii_peer *peer)
{
    struct iii_asker *asker = steal_ptr(peer->inquiry.asker);

    if (asker)
        iii_asker_leave(peer->hub, asker);
    iii_asker_unref(asker);
}

bool iii_inquiry_take(struct iii_peer *peer, json_t **ret_result, char **ret_why)
{
    struct iii_inquiry *in = &peer->inquiry;
    bool late = mono_ns() >= in->until_ns;

    (void)pthread_mutex_lock(&peer->lock);
    if (in->answered || late) {
        *ret_result = steal_ptr(in->result);
        *ret_why = in->answered ? steal_ptr(in->why) : xstrdup("it did not answer in time");
        in->open = in->answered = false;
        in->number++; /* what comes later is nobody's */
    }
    (void)pthread_mutex_unlock(&peer->lock);
    if (!in->open)
        iii_inquiry_stop(peer);
    return !in->open;
}

void iii_inquiry_done(struct iii_inquiry *in)
{
    json_decref(in->result);
    free(in->why);
    json_decref(in->message);
    free(in->given);
    *in = (struct iii_inquiry){0};
}
