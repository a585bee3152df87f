#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct engine;
struct err;
struct sandbox;

/* Two threads, and those of the destroyer: one looks for sandboxes that have expired or are idle,
 * one waits for boxes
 * that end by themselves. Neither waits for a sandbox that is busy. */
struct reaper;

struct reaper *reaper_new(void);
void reaper_free(struct reaper *r);
int reaper_start(struct engine *e, struct err *err);
bool reaper_runs(const struct engine *e);
void reaper_stop(struct engine *e); /* after the queue is empty */
/* Destroys the box and deletes the row, later. Takes a reference. */
void reaper_doom(struct engine *e, struct sandbox *sb);
/* Some sandbox may be idle then (mono_ns), or has stopped: the limits of stopped ones are checked.
 */
void reaper_look_at(struct engine *e, int64_t when_ns);
/* From here on the watcher sees when the box ends, until reaper_unwatch(). */
void reaper_watch(struct engine *e, struct sandbox *sb);
void reaper_unwatch(struct engine *e, struct sandbox *sb);
