#include "agent/agent.h"

#include <unistd.h>

#include "base/err.h"

struct agents *agents;
sigset_t agent_wait_mask;

struct slot *slot_free(struct slot *slots, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (slots[i].pid == 0)
            return &slots[i];
    return NULL;
}

size_t slot_count(const struct slot *slots, size_t n, enum slot_mark mark)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += slots[i].pid != 0 && slots[i].mark == (unsigned)mark;
    return count;
}

size_t slot_count_used(const struct slot *slots, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += slots[i].pid != 0;
    return count;
}

size_t slot_count_waiting(const struct slot *slots, size_t n, pid_t parent)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += slots[i].mark == SLOT_WAITS && slots[i].pid != 0 && slots[i].parent == parent;
    return count;
}

bool slots_take_lost(struct slot *slots, size_t n)
{
    bool any = false;

    for (size_t i = 0; i < n; i++) {
        unsigned lost = SLOT_LOST;

        any |= slots[i].mark == SLOT_LOST &&
               atomic_compare_exchange_strong(&slots[i].mark, &lost, SLOT_PLAIN);
    }
    return any;
}

static struct slot *slot_of(pid_t pid)
{
    for (size_t i = 0; i < HANDLERS_MAX; i++)
        if (agents->handlers[i].pid == pid)
            return &agents->handlers[i];
    for (size_t i = 0; i < EXECS_MAX; i++)
        if (agents->execs[i].pid == pid)
            return &agents->execs[i];
    return NULL;
}

bool agents_has(pid_t pid)
{
    return pid > 0 &&
           (pid == agents->main || pid == agents->spawner || pid == agents->syncer || slot_of(pid));
}

bool agents_has_handler(pid_t pid)
{
    for (size_t i = 0; pid > 0 && i < HANDLERS_MAX; i++)
        if (agents->handlers[i].pid == pid)
            return true;
    return false;
}

pid_t agents_forget(pid_t pid, uint64_t *ret_since)
{
    struct slot *slot = slot_of(pid);
    pid_t command = 0;
    bool waited;

    if (slot) {
        command = slot->mark == SLOT_PLAIN ? slot->command : 0;
        *ret_since = slot->since;
        waited = slot->mark == SLOT_WAITS;
        slot->mark = waited ? SLOT_LOST : SLOT_PLAIN;
        slot->command = 0;
        slot->watched = 0;
        slot->pid = 0;
        if (waited && agents->spawner > 0)
            (void)kill(agents->spawner, SIGCHLD); /* it may be its to make up for */
    }
    if (pid == agents->syncer)
        agents->syncer = 0;
    heavy_forget(pid);
    return command;
}

struct slot *agent_own_slot(void)
{
    return slot_of(getpid());
}

void agent_mark_self(enum slot_mark mark)
{
    struct slot *slot = slot_of(getpid());

    if (slot)
        slot->mark = mark;
}

_Atomic pid_t *agent_command(uint64_t since)
{
    static _Atomic pid_t nowhere;
    struct slot *slot = slot_of(getpid());

    if (!slot)
        return &nowhere;
    slot->command = 0;
    slot->since = since;
    return &slot->command;
}

int agent_become_stream(struct err *err)
{
    /* Counted after it is marked: of two that come together both may be refused, but never are
     * there too many. */
    agent_mark_self(SLOT_STREAM);
    if (slot_count(agents->handlers, HANDLERS_MAX, SLOT_STREAM) <= STREAMS_MAX)
        return 0;
    agent_mark_self(SLOT_PLAIN);
    return err_code(err, ERR_LIMIT, "too_many_streams",
                    "the sandbox has %d open streams (logs followed, ports dialled) already; close "
                    "some",
                    STREAMS_MAX);
}
