#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;
struct sandbox;

/* Who has which name: a part of the roster, under its lock. Names are chosen by strangers, so they
 * are kept in a tree, which no choice of names makes slow, and those that share one in a list. */
struct named;

struct namesakes {
    void *tree; /* of struct named, by name */
};

/* A sandbox of that name is being made; it counts as one that has it. With unique ERR_CONFLICT
 * "name_taken" when there is one, unless it yields (NULL = none does). NULL = it has no name, which
 * takes nothing. */
int namesakes_reserve(struct namesakes *names, const char *name, bool unique,
                      bool (*yields)(struct sandbox *sb, const void *arg), const void *arg,
                      struct err *err);
void namesakes_unreserve(struct namesakes *names, const char *name);

/* In the list of its name the newest is first. */
void namesakes_add(struct namesakes *names, struct sandbox *sb);
void namesakes_remove(struct namesakes *names, struct sandbox *sb);

/* Those that have it and match, the newest first; without references. The array is the caller's. */
struct sandbox **namesakes_select(const struct namesakes *names, const char *name,
                                  bool (*match)(struct sandbox *sb, const void *arg),
                                  const void *arg, size_t *ret_n);
/* The one sandbox that has it and matches (NULL = each does). ERR_NOT_FOUND when there is none;
 * ERR_CONFLICT "name_ambiguous" with ids when there are several. */
int namesakes_find(const struct namesakes *names, const char *name,
                   bool (*match)(struct sandbox *sb, const void *arg), const void *arg,
                   struct sandbox **ret, struct err *err);
