#pragma once

#include <stddef.h>
#include <sys/stat.h>

#include "layer/stack.h"

/* One folder of a stack: its parts in the layers that have it, topmost first, down to one that
 * hides the rest. */
struct view {
    int *fds;
    size_t n;
};

void view_done(struct view *v);
#define auto_view __attribute__((cleanup(view_done)))

/* Takes the descriptor. */
void view_add(struct view *v, int fd);
int view_root(const struct stack *s, struct view *ret, struct err *err);
/* Without parts when it is no folder. */
int view_enter(const struct view *above, const char *name, struct view *ret, struct err *err);
/* By a path that was resolved. */
int view_open(const struct stack *s, const char *path, struct view *ret, struct err *err);
/* The part that shows the name, which is v's; -1 = there is none. */
int view_find(const struct view *v, const char *name, struct stat *st);
/* Sorted; also those that are hidden. */
int view_names(const struct view *v, char ***ret, struct err *err);
