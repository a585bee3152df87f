#include "engine/health.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/health_internal.h"
#include "engine/json_text_internal.h"

#define TEXT_MAX 300

struct trouble {
    struct trouble *next;
    const char *what;
    char id[ID_SIZE];
    char text[TEXT_MAX];
    int64_t since_ms;
    unsigned attempts;
};

/* There are no more than sandboxes that are not gone yet, and a few of the daemon's own. */
struct troubles {
    pthread_mutex_t lock;
    struct trouble *first;
};

struct troubles *troubles_new(void)
{
    struct troubles *t = xcalloc(1, sizeof(*t));

    pthread_mutex_init(&t->lock, NULL);
    return t;
}

void troubles_free(struct troubles *t)
{
    if (!t)
        return;
    for (struct trouble *one = t->first, *next; one; one = next) {
        next = one->next;
        free(one);
    }
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* With the lock held: where it is, or the end of the list. */
static struct trouble **find(struct troubles *t, const char *what, const char *id)
{
    struct trouble **at = &t->first;

    while (*at && (strcmp((*at)->what, what) != 0 || strcmp((*at)->id, id) != 0))
        at = &(*at)->next;
    return at;
}

bool engine_trouble(struct engine *e, const char *what, const char *id, const char *text)
{
    struct troubles *t = e->troubles;
    struct trouble **at;
    unsigned n;

    pthread_mutex_lock(&t->lock);
    at = find(t, what, id);
    if (!*at) {
        *at = xcalloc(1, sizeof(**at));
        (*at)->what = what;
        (*at)->since_ms = now_ms();
        (void)snprintf((*at)->id, sizeof((*at)->id), "%s", id);
    }
    (void)snprintf((*at)->text, sizeof((*at)->text), "%s", text);
    n = ++(*at)->attempts;
    pthread_mutex_unlock(&t->lock);
    return (n & (n - 1)) == 0;
}

void engine_trouble_over(struct engine *e, const char *what, const char *id)
{
    struct trouble **at, *over;

    pthread_mutex_lock(&e->troubles->lock);
    at = find(e->troubles, what, id);
    over = *at;
    if (over)
        *at = over->next;
    pthread_mutex_unlock(&e->troubles->lock);
    free(over);
}

static json_t *problem_json(const struct trouble *one, bool details)
{
    json_t *o = json_object();

    (void)json_object_set_new(o, "what", json_string(one->what));
    (void)json_object_set_new(o, "since", json_integer(one->since_ms));
    (void)json_object_set_new(o, "attempts", json_integer(one->attempts));
    if (details && one->id[0])
        (void)json_object_set_new(o, "sandboxId", json_string(one->id));
    if (details)
        (void)json_object_set_new(o, "text", json_cstr(one->text));
    return o;
}

json_t *engine_problems(struct engine *e, bool details)
{
    struct troubles *t = e->troubles;
    json_t *list = NULL;

    pthread_mutex_lock(&t->lock);
    for (const struct trouble *one = t->first; one && json_array_size(list) < HEALTH_MAX;
         one = one->next) {
        if (!list)
            list = json_array();
        (void)json_array_append_new(list, problem_json(one, details));
    }
    pthread_mutex_unlock(&t->lock);
    return list;
}
