#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "iii/lane_internal.h"

/* Groups of a fifo's jobs: within one they are done in the order in which they came, also when one
 * fails and is tried again; other groups go on meanwhile. All under the lock of triggers. */

#define KEY_MAX 256 /* bytes of a text that count */

/* A text or a number. Who names none is in a group with others who do not. */
char *group_key_of(json_t *data, const char *field)
{
    json_t *value = json_object_get(data, field);

    if (json_is_string(value))
        return xasprintf("\"%.*s", KEY_MAX, json_string_value(value));
    return json_is_number(value) ? json_dumps(value, JOB_DUMP) : xstrdup("");
}

static struct group **bucket(struct iii_triggers *t, const char *key)
{
    return &t->groups[str_hash(key) % GROUP_BUCKETS];
}

static struct group *group_of(struct iii_triggers *t, struct lane *l, const char *key)
{
    struct group **at = bucket(t, key), *g = *at;

    while (g && (g->lane != l || strcmp(g->key, key) != 0))
        g = g->next;
    if (g)
        return g;
    g = xcalloc(1, sizeof(*g));
    g->lane = l;
    g->key = xstrdup(key);
    g->next = *at;
    *at = g;
    return g;
}

static void group_free(struct iii_triggers *t, struct group *g)
{
    struct group **at = bucket(t, g->key);

    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    free(g->key);
    free(g);
}

bool group_enter(struct iii_triggers *t, struct job *j)
{
    struct group *g = j->group;

    if (!g) {
        g = j->group = group_of(t, j->lane, j->group_key);
        g->jobs++;
    }
    if (!g->owner)
        g->owner = j;
    if (g->owner == j)
        return true;
    j->held = true;
    j->lane->held++;
    j->next = NULL;
    j->prev = g->last;
    if (g->last)
        g->last->next = j;
    else
        g->first = j;
    g->last = j;
    return false;
}

void group_unlist(struct job *j)
{
    struct group *g = j->group;

    if (j->prev)
        j->prev->next = j->next;
    else
        g->first = j->next;
    if (j->next)
        j->next->prev = j->prev;
    else
        g->last = j->prev;
    j->prev = j->next = NULL;
    j->held = false;
    j->lane->held--;
}

void group_leave(struct iii_triggers *t, struct job *j)
{
    struct group *g = steal_ptr(j->group);
    struct job *next;

    if (!g)
        return;
    if (g->owner == j) {
        g->owner = NULL;
        next = g->first;
        if (next) {
            group_unlist(next);
            job_ready(t, next, false);
        }
    }
    if (--g->jobs == 0)
        group_free(t, g);
}
