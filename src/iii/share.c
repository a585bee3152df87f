#include "iii/share.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "iii/iii_internal.h"

static struct iii_share *share_named(const char *who)
{
    struct iii_share *s = xcalloc(1, sizeof(*s));

    atomic_init(&s->refs, 1);
    s->threads = runner_share_new();
    (void)snprintf(s->who, sizeof(s->who), "%s", who);
    return s;
}

struct iii_share *iii_share_new(const struct caller *caller)
{
    char alone[UUID_SIZE];

    if (caller && caller->token_id[0])
        return share_named(caller->name);
    iii_uuid_new(alone); /* who has no token of his own has a name that others have too */
    return share_named(alone);
}

struct iii_share *iii_share_ref(struct iii_share *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void iii_share_unref(struct iii_share *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    runner_share_unref(s->threads);
    free(s);
}

bool iii_share_take_call(struct iii_share *s, atomic_uint *all, unsigned max)
{
    unsigned others = atomic_fetch_add(all, 1);
    unsigned mine = atomic_fetch_add(&s->calls, 1);

    if (others < max && mine < max - others)
        return true;
    iii_share_give_call(s, all);
    return false;
}

void iii_share_give_call(struct iii_share *s, atomic_uint *all)
{
    atomic_fetch_sub(&s->calls, 1);
    atomic_fetch_sub(all, 1);
}
