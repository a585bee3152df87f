#include <errno.h>

#include "base/mem.h"
#include "gateway/worker_internal.h"

/* A number is a slot and how often slots were taken, so that an answer that comes when nobody waits
 * any more cannot be taken for another's. */
static uint32_t number_new(struct worker *w, uint32_t slot)
{
    uint32_t number;

    do {
        number = ++w->ask_generation * ASKS_MAX + slot;
    } while (number == 0);
    return number;
}

uint32_t ask_send(struct worker *w, struct wire_ask *ask, ask_done done, void *owner)
{
    for (uint32_t i = 0; i < ASKS_MAX; i++) {
        uint32_t slot = (w->ask_hint + i) % ASKS_MAX;

        if (w->asks[slot].number != 0)
            continue;
        ask->number = number_new(w, slot);
        if (wire_send(w->warden.fd, wire_ask_json(ask), -1) < 0)
            return 0;
        w->asks[slot] = (struct ask_slot){.number = ask->number, .done = done, .owner = owner};
        w->ask_hint = slot + 1;
        return ask->number;
    }
    return 0;
}

void ask_forget(struct worker *w, uint32_t *number)
{
    if (*number != 0)
        w->asks[*number % ASKS_MAX] = (struct ask_slot){0};
    *number = 0;
}

void ask_answered(struct worker *w, uint32_t number, int error, int fd)
{
    struct ask_slot *slot = &w->asks[number % ASKS_MAX], was = *slot;

    if (number == 0 || was.number != number) {
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    *slot = (struct ask_slot){0};
    was.done(was.owner, error, fd);
}
