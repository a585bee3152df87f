#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "iii/peer.h"

/* What clients have registered: functions, types of triggers, bindings; who is connected; and the
 * calls that one of them carries out for another. All of it goes with the connection that it came
 * by. */

struct iii_registry *iii_registry_new(struct iii_hub *hub);
void iii_registry_free(struct iii_registry *r);

/* ---- who is connected ---- */

void iii_registry_join(struct iii_registry *r, struct iii_peer *peer);
/* All that it has registered goes, those who wait for it are told, and what it waits for is
 * forgotten. Fine if it was. */
void iii_registry_forget(struct iii_registry *r, struct iii_peer *peer);
/* The one with this id, if the token is its own; a reference of its asker. NULL when there is none.
 */
struct iii_peer *iii_registry_reattach(struct iii_registry *r, const char *worker_id,
                                       const char *token);
/* What it says of itself: data of engine::workers::register. -1 when another has that name; then it
 * is told so, and is to be closed. */
int iii_registry_describe(struct iii_registry *r, struct iii_peer *peer, const json_t *data);

/* May it keep registrations of so many bytes until its namespace is known? Then they count. One
 * that may register nothing has nothing to wait for. */
bool iii_registry_keep(struct iii_registry *r, struct iii_peer *peer, size_t bytes);
void iii_registry_unkeep(struct iii_registry *r, struct iii_peer *peer, size_t bytes);

/* ---- functions ---- */

/* A message, of so many bytes; given: what its owner calls it, NULL = as the message says. Who may
 * not, or comes too late, is told. What one with a session has gives way to one without. */
void iii_registry_offer(struct iii_registry *r, struct iii_peer *peer, const json_t *message,
                        const char *given, size_t bytes);
/* Tells it that the function is not registered. */
void iii_registry_reject(struct iii_peer *peer, const char *function_id, const char *owner);
/* By what its owner calls it. */
void iii_registry_withdraw(struct iii_registry *r, struct iii_peer *peer, const char *id);

/* The id of a function that it has registered itself, by that or by what it calls it; to be freed,
 * or NULL. */
char *iii_registry_own_id(struct iii_registry *r, const struct iii_peer *peer,
                          const char *namespace, const char *id);
/* Has a connection of that session registered it? namespace NULL = III_NAMESPACE. */
bool iii_registry_is_own(struct iii_registry *r, const struct iii_session *session,
                         const char *namespace, const char *id);

/* Sends the call to who offers it. False when nobody does: then answered is not called. */
bool iii_registry_ask(struct iii_registry *r, const struct iii_question *q, iii_answered answered,
                      void *arg);
/* The same of one who has a session, if he has registered it himself. */
bool iii_registry_ask_own(struct iii_registry *r, const struct iii_question *q,
                          iii_answered answered, void *arg);
/* An answer from who was asked. */
void iii_registry_answer(struct iii_registry *r, struct iii_peer *peer, const json_t *message);
/* One that cannot be read. */
void iii_registry_answer_lost(struct iii_registry *r, const struct iii_peer *peer, const char *id,
                              const char *why);

/* Those of one who waits no more end; what comes as an answer is dropped. */
void iii_registry_drop_calls(struct iii_registry *r, const struct iii_asker *asker);

/* ---- triggers ---- */

void iii_registry_offer_type(struct iii_registry *r, struct iii_peer *peer, const json_t *message,
                             size_t bytes);
void iii_registry_withdraw_type(struct iii_registry *r, struct iii_peer *peer,
                                const json_t *message);
/* With peer NULL one that outlives connections, for asker; ret_id is then given. */
int iii_registry_bind(struct iii_registry *r, struct iii_peer *peer, struct iii_asker *asker,
                      const json_t *message, size_t bytes, char ret_id[UUID_SIZE], struct err *err);
/* The same for a message of a connection, which is told if it fails. */
void iii_registry_bind_told(struct iii_registry *r, struct iii_peer *peer, const json_t *message,
                            size_t bytes);
/* Tells it that the trigger is not bound. */
void iii_registry_refuse(struct iii_peer *peer, const json_t *message, const char *code,
                         const char *why);
/* False when there is none of that id. */
bool iii_registry_unbind(struct iii_registry *r, const struct iii_peer *peer, const char *id);
/* The same of those that outlive connections: he ends his own, and who may do all ends any. */
bool iii_registry_unbind_lasting(struct iii_registry *r, const struct caller *caller,
                                 const char *id);
/* Sends the bindings that it had no room for. In a step of its own. */
void iii_registry_catch_up(struct iii_registry *r, struct iii_peer *peer);
/* A provider's word on a binding that it was sent. */
void iii_registry_bound(struct iii_registry *r, struct iii_peer *peer, const json_t *message);

/* ---- for introspection: each gives an array of objects in the contract's shape ---- */

json_t *iii_registry_functions(struct iii_registry *r, bool whole);
/* One of them, whole; NULL when there is none. */
json_t *iii_registry_function(struct iii_registry *r, const char *namespace, const char *id);
/* What it says of itself, and no more; NULL when it says nothing, or there is none. */
json_t *iii_registry_metadata(struct iii_registry *r, const char *namespace, const char *id);
json_t *iii_registry_workers(struct iii_registry *r, bool whole);
json_t *iii_registry_types(struct iii_registry *r);
json_t *iii_registry_bindings(struct iii_registry *r);
