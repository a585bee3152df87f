/* The end of a connection that is inspected, and what its client is told. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/mem.h"
#include "gateway/inspect_internal.h"
#include "gateway/refusal.h"

#define LINGER_MS    2000
#define THROWN_BYTES (32 * 1024) /* at a time */

void conn_free(struct conn *c)
{
    struct worker *w = c->guest->worker;

    ask_forget(w, &c->ask);
    timer_stop(w, &c->peek_timer);
    timer_stop(w, &c->dial_timer);
    source_close(w, &c->client);
    source_close(w, &c->up);
    lane_done(&c->out);
    lane_done(&c->back);
    free(c->in);
    for (unsigned i = 0; i < c->name_count; i++)
        free(c->names[i]);
    if (c->next)
        c->next->at = c->at;
    *c->at = c->next;
    c->guest->conn_count--;
    w->conn_count--;
    bury(w, &c->grave);
}

void conn_reset(struct conn *c)
{
    struct worker *w = c->guest->worker;

    (void)source_set(w, &c->client, 0);
    (void)source_set(w, &c->up, 0);
    refusal_reset(steal_fd(c->client.fd));
    refusal_reset(steal_fd(c->up.fd));
    conn_free(c);
}

static void left(struct timer *t)
{
    conn_reset(MEMBER_OF(t, struct conn, peek_timer));
}

/* Says a last word. The client may be sending still: who closed now would have the kernel answer
 * with RST, which can overtake the word. So what it sends is read and thrown away for a while. */
static void conn_leave(struct conn *c, const void *word, size_t len)
{
    struct worker *w = c->guest->worker;

    (void)source_set(w, &c->up, 0);
    refusal_reset(steal_fd(c->up.fd));
    ask_forget(w, &c->ask);
    timer_stop(w, &c->dial_timer);
    if (send(c->client.fd, word, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)len) {
        conn_reset(c);
        return;
    }
    (void)shutdown(c->client.fd, SHUT_WR);
    c->phase = LEAVING;
    c->peek_timer.fire = left;
    timer_set(w, &c->peek_timer, LINGER_MS);
    (void)source_set(w, &c->client, EPOLLIN);
}

void conn_leaving(struct conn *c)
{
    static uint8_t nothing[THROWN_BYTES];
    ssize_t n = recv(c->client.fd, nothing, sizeof(nothing), MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN))
        conn_free(c);
}

/* A word can be said only where the client expects the server's first. */
static bool can_speak(const struct conn *c)
{
    return !c->sent && c->back.moved == 0 && c->back.held == 0;
}

void conn_refuse(struct conn *c, const char *name, const struct policy_verdict *why)
{
    char page[REFUSAL_PAGE_MAX];

    guest_denied(c->guest, c->kind, &c->flow.to, c->flow.port, name, why);
    if (!can_speak(c))
        conn_reset(c);
    else if (strcmp(c->kind, "tls") == 0)
        conn_leave(c, refusal_alert, sizeof(refusal_alert));
    else if (strcmp(c->kind, "http") == 0)
        conn_leave(c, page, refusal_page(c->guest->id, name, why->why, page));
    else
        conn_reset(c);
}

/* What cannot be read safely. */
void conn_refuse_bad(struct conn *c, const char *why)
{
    struct policy_verdict verdict = {.rule = POLICY_BUILT_IN};
    char page[REFUSAL_PAGE_MAX];

    (void)snprintf(verdict.why, sizeof(verdict.why), "%s", why);
    if (strcmp(c->kind, "http") != 0 || !can_speak(c)) {
        conn_refuse(c, "", &verdict);
        return;
    }
    guest_denied(c->guest, c->kind, &c->flow.to, c->flow.port, "", &verdict);
    conn_leave(c, page, refusal_bad_request(page));
}

void conn_unreachable(struct conn *c, int error)
{
    char page[REFUSAL_PAGE_MAX];

    if (c->phase == HTTP && can_speak(c))
        conn_leave(c, page, refusal_unreachable(c->name, error, page));
    else
        conn_reset(c);
}
