#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "engine/idle.h"
#include "engine/sandbox_internal.h"

/* On the way of every call, so it is no more than a time that is put down: who looks for idle ones
 * (the reaper's sweeper) reads it when one may have become so. */
static inline void idle_note(struct sandbox *sb)
{
    atomic_store_explicit(&sb->active_ns, mono_ns(), memory_order_relaxed);
}

/* It runs from now on, or has another idle time: the sweeper is told when to look. */
void idle_begin(struct engine *e, struct sandbox *sb);
/* Is it idle now, as far as that can be told without asking its agent? Who is attached to it, or in
 * the midst of a call on its files, keeps it from being so. */
bool idle_is_due(struct sandbox *sb);
/* Hands those that may be idle over (drain_internal.h). Returns when to look again (mono_ns). */
int64_t idle_sweep(struct engine *e);
