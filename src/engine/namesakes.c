#include "engine/namesakes_internal.h"

#include <search.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/sandbox_internal.h"

#define IDS_TOLD 4 /* of those who share a name; a message has room for no more */

struct named {
    char *name;
    struct sandbox *first; /* the newest */
    unsigned count;        /* of that list */
    unsigned reserved;     /* being made */
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static struct named *find(const struct namesakes *names, const char *name)
{
    struct named key = {.name = (char *)(uintptr_t)name};
    struct named **at = tfind(&key, &names->tree, compare);

    return at ? *at : NULL;
}

static struct named *find_or_add(struct namesakes *names, const char *name)
{
    struct named *named = find(names, name);

    if (named)
        return named;
    named = xcalloc(1, sizeof(*named));
    named->name = xstrdup(name);
    if (!tsearch(named, &names->tree, compare))
        abort(); /* out of memory */
    return named;
}

/* Forgets it when nobody has it any more. */
static void settle(struct namesakes *names, struct named *named)
{
    if (named->count > 0 || named->reserved > 0)
        return;
    (void)tdelete(named, &names->tree, compare);
    free(named->name);
    free(named);
}

static int refuse(const struct named *named, const struct sandbox *holder, struct err *err)
{
    if (!holder)
        return err_code(err, ERR_CONFLICT, "name_taken",
                        "the name \"%.80s\" is that of a sandbox that is just being made: choose "
                        "another",
                        named->name);
    return err_code(err, ERR_CONFLICT, "name_taken",
                    "the name \"%.80s\" is that of %s: choose another, or remove that sandbox "
                    "first",
                    named->name, holder->box.id);
}

int namesakes_reserve(struct namesakes *names, const char *name, bool unique,
                      bool (*yields)(struct sandbox *sb, const void *arg), const void *arg,
                      struct err *err)
{
    struct sandbox *holder;
    struct named *named;

    if (!name)
        return 0;
    named = find_or_add(names, name);
    holder = named->first;
    while (holder && yields && yields(holder, arg))
        holder = holder->name_next;
    if (unique && (holder || named->reserved > 0))
        return refuse(named, holder, err);
    named->reserved++;
    return 0;
}

void namesakes_unreserve(struct namesakes *names, const char *name)
{
    struct named *named = name ? find(names, name) : NULL;

    if (!named)
        return;
    named->reserved--;
    settle(names, named);
}

void namesakes_add(struct namesakes *names, struct sandbox *sb)
{
    struct named *named;

    if (!sb->spec.name)
        return;
    named = find_or_add(names, sb->spec.name);
    sb->named = named;
    sb->name_next = named->first;
    if (named->first)
        named->first->name_prev = sb;
    named->first = sb;
    named->count++;
}

void namesakes_remove(struct namesakes *names, struct sandbox *sb)
{
    struct named *named = sb->named;

    if (!named)
        return;
    if (sb->name_prev)
        sb->name_prev->name_next = sb->name_next;
    else
        named->first = sb->name_next;
    if (sb->name_next)
        sb->name_next->name_prev = sb->name_prev;
    sb->name_prev = sb->name_next = NULL;
    sb->named = NULL;
    named->count--;
    settle(names, named);
}

/* Those that match, the newest first: at most IDS_TOLD of them; how many there are in all. */
static unsigned select_some(const struct named *named,
                            bool (*match)(struct sandbox *sb, const void *arg), const void *arg,
                            struct sandbox *ret[IDS_TOLD])
{
    unsigned n = 0;

    for (struct sandbox *sb = named->first; sb && (match || n < IDS_TOLD); sb = sb->name_next) {
        if (match && !match(sb, arg))
            continue;
        if (n < IDS_TOLD)
            ret[n] = sb;
        n++;
    }
    return match ? n : named->count;
}

struct sandbox **namesakes_select(const struct namesakes *names, const char *name,
                                  bool (*match)(struct sandbox *sb, const void *arg),
                                  const void *arg, size_t *ret_n)
{
    const struct named *named = find(names, name);
    struct sandbox **found = xcalloc((named ? named->count : 0) + 1, sizeof(*found));

    *ret_n = 0;
    for (struct sandbox *sb = named ? named->first : NULL; sb; sb = sb->name_next)
        if (match(sb, arg))
            found[(*ret_n)++] = sb;
    return found;
}

static int tell_several(const char *name, struct sandbox *const some[IDS_TOLD], unsigned n,
                        struct err *err)
{
    char ids[IDS_TOLD * (ID_SIZE + 2)] = "", more[32] = "";

    for (unsigned i = 0; i < n && i < IDS_TOLD; i++) {
        size_t len = strlen(ids);

        (void)snprintf(ids + len, sizeof(ids) - len, "%s%s", i ? ", " : "", some[i]->box.id);
    }
    if (n > IDS_TOLD)
        (void)snprintf(more, sizeof(more), " and %u more", n - IDS_TOLD);
    return err_code(err, ERR_CONFLICT, "name_ambiguous",
                    "%u sandboxes are named \"%.32s\": %s%s; use an id or NAME@KEY=VALUE", n, name,
                    ids, more);
}

int namesakes_find(const struct namesakes *names, const char *name,
                   bool (*match)(struct sandbox *sb, const void *arg), const void *arg,
                   struct sandbox **ret, struct err *err)
{
    const struct named *named = find(names, name);
    struct sandbox *some[IDS_TOLD];
    unsigned n = named ? select_some(named, match, arg, some) : 0;

    if (n == 0)
        return err_code(err, ERR_NOT_FOUND, "sandbox_not_found", "Sandbox not found: %s", name);
    if (n > 1)
        return tell_several(name, some, n, err);
    *ret = some[0];
    return 0;
}
