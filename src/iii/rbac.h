#pragma once

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "iii/iii_internal.h"

/* Who may do what at a listener that has a guard (`rbac` of config.yaml). A client without a token
 * of the daemon gets a session, with the rules that the auth function has given for it: they count
 * for every call in its name (iii_ask()), by whatever way it comes, and for all that it registers.
 * A session changes no more once it is there. */

struct iii_peer;

/* ---- rbac_guard.c: what a listener says, and what it lets everybody call ---- */

/* Functions that may be called: by their ids, or by what their metadata says. */
struct iii_rule {
    char *namespace;
    char *pattern;    /* NULL = by metadata */
    json_t *metadata; /* {key: {is: value}} or {key: {match: pattern}}, all of which must hold */
};

struct iii_guard {
    char *auth, *middleware; /* ids of functions, of all of these NULL = there is none */
    char *on_function, *on_trigger, *on_type;
    struct iii_rule *rules;
    size_t n_rules;
    bool by_metadata; /* one of the rules looks at that */
    bool all;         /* it has no rules: all may be called, through the middleware */
};

/* '*' stands for any text, and nothing else has a meaning. */
bool iii_pattern_matches(const char *pattern, const char *text);
bool iii_guard_exposes(const struct iii_guard *g, const char *namespace, const char *id,
                       const json_t *metadata);

/* ---- rbac.c: a session ---- */

struct iii_grant {
    char *namespace, *pattern;
};

struct iii_session {
    atomic_uint refs;
    const struct iii_guard *guard;
    char **forbidden; /* patterns; NULL = none, as of the next */
    char **allowed;   /* ids, in the namespace `default` */
    char **types;     /* of triggers; NULL = any that tells nothing of others */
    struct iii_grant *grants;
    size_t n_grants;
    bool registers_functions, registers_types;
    char *prefix;  /* of functions that it registers, without "::"; NULL = none */
    char *context; /* JSON, for middleware and hooks */
};

/* rules: what the auth function has said; NULL = there is none. ERR_INVALID when that makes no
 * sense: then nobody comes in. */
struct iii_session *iii_session_new(const struct iii_guard *guard, const json_t *rules,
                                    struct err *err);
struct iii_session *iii_session_ref(struct iii_session *s);
void iii_session_unref(struct iii_session *s);
json_t *iii_session_context(const struct iii_session *s);

/* May it call that function? With metadata where it is known, or as the registry has it. */
bool iii_session_lets(const struct iii_session *s, const char *namespace, const char *id,
                      const json_t *metadata);
bool iii_session_lets_call(struct iii_hub *hub, const struct iii_session *s, const char *namespace,
                           const char *id);
/* May it bind triggers of that type? */
bool iii_session_lets_type(const struct iii_session *s, const char *type);
/* May it be told of that function? Its own it may, too. */
bool iii_session_sees(struct iii_hub *hub, const struct iii_session *s, const char *namespace,
                      const char *id);
/* FORBIDDEN, or NULL. */
json_t *iii_session_why_not(struct iii_hub *hub, const struct iii_session *s, const char *namespace,
                            const char *id);
/* Of a question of one who has a session: true when it is not for the hub to answer, because it is
 * refused, or another is asked in its place or he himself. */
bool iii_session_takes(struct iii_hub *hub, const struct iii_question *q, iii_answered answered,
                       void *arg);

/* ---- rbac_entry.c: who comes in ---- */

struct http_req;

/* Of one without a token, before anything is answered; ERR_UNAUTHORIZED, ERR_UNAVAILABLE. It has a
 * place among those who wait then, until iii_entry_leave(): that of the call of the auth function,
 * however long its client waits for it. */
int iii_entry_check(struct iii_hub *hub, const struct iii_guard *guard, const char *address,
                    struct err *err);
void iii_entry_leave(struct iii_hub *hub, const char *address);
/* After that: asks who it is. The head of the request is still there. The place is given back when
 * that has an answer. */
void iii_entry_begin(struct iii_peer *peer, const struct iii_guard *guard,
                     const struct http_req *req);

enum iii_entry { ENTRY_WAITS, ENTRY_REFUSED, ENTRY_IN };

/* In a step: what has come of it. With ENTRY_REFUSED *err says why. */
enum iii_entry iii_entry_look(struct iii_peer *peer, struct err *err);

/* ---- rbac_register.c: what it registers ---- */

/* One of registerfunction, registertriggertype, registertrigger: false when it is none of them. It
 * is registered, refused, or a hook is asked and it waits (peer->inquiry.open). */
bool iii_session_registers(struct iii_peer *peer, const char *type, json_t *m);
/* An unregistertriggertype, by what the client calls it; false when that is its id. */
bool iii_session_withdraws_type(struct iii_peer *peer, const json_t *m);
/* A registertrigger without its hook, for who has asked for that. */
int iii_session_binds(struct iii_peer *peer, json_t *m, struct err *err);
/* In a step: the hook has answered, or not in time; false while it is waited for. */
bool iii_session_registered(struct iii_peer *peer);
