#pragma once

#include <stdint.h>

struct engine;
struct err;

/* How many commands of callers who speak iii run in each sandbox now, of which there is a most; and
 * how many sandboxes are being made for them. Any thread may call anything here. */

/* ERR_LIMIT "exec_slots_full", which names the source of the limit. A slot that was
 * taken is given back exactly once. */
int iii_slot_take(const char *sandbox_id, uint32_t max, const char *source, struct err *err);
void iii_slot_give(const char *sandbox_id);
uint32_t iii_slots_used(const char *sandbox_id);

/* A place for one more sandbox beside those that live (max 0 = any number): ERR_LIMIT
 * "sandbox_limit", which names the source of the limit. It is given back when that one is among
 * them, or has failed. */
int iii_place_take(struct engine *e, uint32_t max, const char *source, struct err *err);
void iii_place_give(void);
