#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "iii/peer.h"

/* The clients that are connected, the functions that they have registered, and the calls that one
 * of them carries out for another. All of it ends with its connection. */

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

/* Registers the function of a registerfunction message, whose text has that many bytes. A client
 * that may not register it, or whose id another client has, is sent registrationrejected. */
void iii_registry_offer(struct iii_registry *r, struct iii_peer *peer, const json_t *message,
                        size_t bytes);
void iii_registry_withdraw(struct iii_registry *r, struct iii_peer *peer, const char *id);

/* Sends the call to who offers it. False when nobody does: then answered is not called. */
bool iii_registry_ask(struct iii_registry *r, const struct iii_question *q, iii_answered answered,
                      void *arg);
/* An answer from who was asked. */
void iii_registry_answer(struct iii_registry *r, struct iii_peer *peer, const json_t *message);
/* One that cannot be read. */
void iii_registry_answer_lost(struct iii_registry *r, const struct iii_peer *peer, const char *id,
                              const char *why);

/* ---- for introspection: each gives an array of objects in the contract's shape ---- */

json_t *iii_registry_functions(struct iii_registry *r, bool whole);
/* One of them, whole; NULL when there is none. */
json_t *iii_registry_function(struct iii_registry *r, const char *namespace, const char *id);
json_t *iii_registry_workers(struct iii_registry *r, bool whole);
