#pragma once

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct err;
struct sandbox;

/* The files of a sandbox that is stopped are reached through a quiet box: one with its disk and its
 * image, in which nothing of its own runs. It comes up with the first call, and a thread takes it
 * away when none has come for some seconds; the sandbox stays stopped all the while, and a start
 * makes it the sandbox's box. The same thread makes ready ahead what a start needs. A daemon that
 * is killed leaves one that the next ends. */
struct quiet;

struct quiet *quiet_new(void);
void quiet_free(struct quiet *q);
int quiet_start(struct engine *e, struct err *err);
void quiet_stop(struct engine *e); /* and ends those that there are */

/* A new reference to a sandbox whose files can be reached: one that runs, or has a quiet box now.
 * Its box stays up for files_done(), which gives the reference back. */
int files_begin(struct engine *e, const char *id, struct sandbox **ret, struct err *err);
void files_done(struct sandbox *sb);

static inline void cleanup_filesp(struct sandbox **sb)
{
    files_done(*sb);
}
#define auto_files __attribute__((cleanup(cleanup_filesp)))

/* In its turn: what there is of a box now, as sandbox.quiet has it. */
void quiet_set(struct sandbox *sb, int what);
/* In its turn: has it a quiet box that can be used? */
bool quiet_has_box(struct engine *e, struct sandbox *sb);
/* In its turn: one that was just stopped is likely to be started again, so what that needs is made
 * ahead, for a few and for a while. */
void quiet_make_ready(struct engine *e, struct sandbox *sb);
/* In its turn: what a stopped one still has beside its disk is taken away later. */
void quiet_leave_rest(struct engine *e, struct sandbox *sb);
/* In its turn: a quiet box goes now. ERR_UNAVAILABLE "sandbox_busy" while calls use it. */
int quiet_end(struct engine *e, struct sandbox *sb, struct err *err);
