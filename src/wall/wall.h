#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;

/* What a process that reads what strangers wrote gives up before it does: those of cay-image, and
 * cay-courier. In this order; each step needs what the next ones take away. Of one thread. */

/* Modes are the image's, limits are ours, and nothing that was started with us stays open: from
 * descriptor `from` on. No program that we start can have more than we have. */
int wall_limits(unsigned from, struct err *err);

/* An empty root for the process's own mount namespace: its descriptor. */
int wall_root_new(int *ret_root, struct err *err);
/* Shows a folder of the host there, read-only, under the same path; nothing if there is none. */
int wall_root_show(int root, const char *path, struct err *err);
/* A copy of a file, which everyone may read; nothing if there is none. */
int wall_root_copy(int root, const char *path, struct err *err);
/* From here on the process sees nothing else. */
int wall_root_enter(int root, struct err *err);
/* All of that for one that connects to others by name: it sees what names and certificates need.
 * ca_file (NULL = none) is one more of those. */
int wall_root_names(const char *ca_file, struct err *err);

/* Keeps these capabilities and no others, now and for whatever it starts. */
int wall_capabilities(uint64_t kept, struct err *err); /* bits of base/caps.h */
/* Becomes this user and group, who has no capability and never gets one. */
int wall_id(unsigned id, struct err *err);
/* No more threads than these, of all processes with this id in this user namespace. */
int wall_tasks(unsigned most, struct err *err);
/* The memory of what was passed to us by others is wiped: proxies may have passwords. */
void wall_environment(void);

/* ---- filter.c: the last step ---- */

enum filter {
    FILTER_NETWORK, /* connects to others; opens what there is to see, to read */
    FILTER_UNPACK,  /* writes files; no network */
};

int wall_filter(enum filter which, struct err *err);
