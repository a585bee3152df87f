#pragma once

#include <stdbool.h>
#include <stdint.h>

struct err;

/* Ranges of 65,536 host ids, one a sandbox, never shared, never with 0 in it. A range in use is a
 * link in a folder that all daemons of this host share, to the data directory of its owner; a
 * reboot empties the folder, and with it all ranges are free. */

#define ID_RANGES_DIR "/run/cay.ids"

#define ID_RANGES       4094
#define ID_RANGES_FIRST 0x70000000u
#define ID_OWNERS_FIRST 0x7fff8000u

/* Host id of the box's root. The pool is what systemd's table of ids lists as unused. */
static inline uint32_t id_range_base(uint32_t slot)
{
    return ID_RANGES_FIRST + slot * 65536u;
}

/* The range that a host id is in; UINT32_MAX = in none. */
static inline uint32_t id_range_of(uint32_t id)
{
    return id < id_range_base(0) || id >= id_range_base(ID_RANGES) ? UINT32_MAX
                                                                   : (id - id_range_base(0)) >> 16;
}

/* Host id that owns the box itself and runs its agent: outside of all ranges, one a slot. Also
 * unused in that table; what is between them and the ranges is the image worker's
 * (worker/give.c). */
static inline uint32_t id_range_owner(uint32_t slot)
{
    return ID_OWNERS_FIRST + slot;
}

int id_range_take(const char *owner, uint32_t *ret, struct err *err);
/* Takes a certain range: of a sandbox that was there before. True if owner has it then; false if
 * another has it. A reboot frees all ranges, and the daemon that starts first may take any. */
bool id_range_retake(const char *owner, uint32_t slot);
/* Fine if another has it. */
void id_range_release(const char *owner, uint32_t slot);
/* Calls each for every range that owner has; it may release it. */
void id_range_each(const char *owner, void (*each)(uint32_t slot, void *arg), void *arg);
/* Takes away what eased taking them; the ranges stay. */
void id_ranges_done(const char *owner);
