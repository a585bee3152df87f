#pragma once

/* A connection that is inspected: what the files that do it share. inspect.c says in which order.
 */

#include "gateway/peek.h"
#include "gateway/relay.h"
#include "gateway/worker_internal.h"

enum phase {
    PEEKING, /* who is meant is not known */
    HTTP,    /* requests are looked at, one by one */
    RELAY,   /* nothing is */
    LEAVING, /* refused with a word: the rest of what it sends is thrown away */
};

struct conn {
    struct grave grave;
    struct guest *guest;
    struct conn *next, **at; /* of the box */
    struct source client, up;
    struct timer peek_timer, dial_timer;
    uint32_t ask;
    struct policy_flow flow;
    enum phase phase;
    bool connected;
    bool client_eof;              /* seen while peeking or in HTTP */
    bool upgrading;               /* HTTP: the server is asked to go on as a WebSocket */
    bool sent;                    /* something has reached the server */
    const char *kind;             /* what `denied` calls it: tcp, tls, http */
    char name[PEEK_NAME_MAX + 1]; /* that it said and that was allowed; "" = none */
    char *names[VIEW_NAMES_MAX];  /* pinned to its address when it came */
    unsigned name_count;

    uint8_t *in; /* what the client said and the server has not got: in_pass bytes may go */
    size_t in_len, in_pass;
    struct http_peek http;
    struct lane out, back; /* to the server, to the client */
    enum lane_state out_state, back_state;
};

/* ---- inspect_end.c. After each of these c is gone or leaving ---- */

void conn_free(struct conn *c);  /* it has ended, or nobody is told */
void conn_reset(struct conn *c); /* both ends see it broken */
/* Says why, where the client can be told: an alert of TLS, a page of HTTP, else RST; and the
 * warden.
 */
void conn_refuse(struct conn *c, const char *name, const struct policy_verdict *why);
void conn_refuse_bad(struct conn *c, const char *why); /* what it says cannot be read safely */
void conn_unreachable(struct conn *c, int error);
void conn_leaving(struct conn *c); /* one that is leaving has sent something, or ended */

/* ---- inspect_run.c ---- */

/* Does all that can be done now, and says what is waited for next. */
void conn_run(struct conn *c);

/* ---- inspect.c ---- */

/* The name that it said, or NULL, is held against the policy. False: it was refused. */
bool conn_let_named(struct conn *c, const char *name);
