#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct err;
struct sandbox;
struct sandbox_maker;

/* Which sandboxes exist: by id, by name, and in the order in which they were made. */
struct roster;

struct roster *roster_new(void);
/* Gives back the references to all that are in it. */
void roster_free(struct engine *e);
/* From here on none can be reserved. */
void roster_close(struct engine *e);
/* Counts one against the limit, and its name (NULL = none) as taken, before anything is made for
 * it: ERR_LIMIT; with unique ERR_CONFLICT when another has the name, or is being made with it. One
 * that the maker replaces does not count. */
int roster_reserve(struct engine *e, const char *name, bool unique,
                   const struct sandbox_maker *maker, struct err *err);
/* How many more there may be. */
unsigned roster_room(struct engine *e);
/* A place for a stopped one that is to start, in its turn: ERR_LIMIT. Fine if it has one. */
int roster_place(struct engine *e, struct sandbox *sb, struct err *err);
/* In its turn, when it may have stopped or may not have started: if it is stopped its place is free
 * again, and the limits of stopped ones are checked. */
void roster_settle(struct engine *e, struct sandbox *sb);
/* How many have no place, since they are stopped. */
unsigned roster_stopped(struct engine *e);
void roster_unreserve(struct engine *e, const char *name);
/* Keeps a reference of its own. reserved: it takes the place that roster_reserve() has kept. */
void roster_add(struct engine *e, struct sandbox *sb, bool reserved);
/* Gives the roster's reference back. */
void roster_remove(struct engine *e, struct sandbox *sb);
/* A new reference, or NULL. */
struct sandbox *roster_find(struct engine *e, const char *id);
/* A new reference to the one that has that name, as namesakes_find() says. */
int roster_find_named(struct engine *e, const char *name,
                      bool (*match)(struct sandbox *sb, const void *arg), const void *arg,
                      struct sandbox **ret, struct err *err);
/* Those that have that name and match, with references; as roster_select(). */
struct sandbox **roster_select_named(struct engine *e, const char *name,
                                     bool (*match)(struct sandbox *sb, const void *arg),
                                     const void *arg, size_t *ret_n);
struct sandbox *roster_find_serial(struct engine *e, uint64_t serial);
/* Those that match, newest first: at most max of them, after the first skip. The caller gives back
 * the reference to each and frees the array. *ret_total (may be NULL) counts all that match. */
struct sandbox **roster_select(struct engine *e, bool (*match)(struct sandbox *sb, const void *arg),
                               const void *arg, size_t skip, size_t max, size_t *ret_n,
                               size_t *ret_total);
