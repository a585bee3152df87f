#include "service/build/tail.h"

#include <string.h>

#include "base/mem.h"

#define TAIL_MAX 4096 /* bytes of a failed command's output that are told */

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void tail_add(struct build_tail *t, const char *data)
{
    char *all = xasprintf("%s%s", t->text ? t->text : "", data);
    size_t len = strlen(all), skip = len > TAIL_MAX ? len - TAIL_MAX : 0;

    while (skip > 0 && ((unsigned char)all[skip] & 0xc0) == 0x80)
        skip++; /* a character is not cut */
    free(t->text);
    t->text = xstrdup(all + skip);
    free(all);
}

static int on_event(const json_t *event, void *arg)
{
    struct build_tail *t = arg;
    const char *what = text_of(event, "event");

    if (what && strcmp(what, "step") == 0) {
        free(t->command);
        free(steal_ptr(t->text));
        t->command = text_of(event, "text") ? xstrdup(text_of(event, "text")) : NULL;
    } else if (what && strcmp(what, "output") == 0 && text_of(event, "data")) {
        tail_add(t, text_of(event, "data"));
    }
    return t->watch && t->watch->progress ? t->watch->progress(event, t->watch->arg) : 0;
}

static bool on_cancelled(void *arg)
{
    const struct build_tail *t = arg;

    return !t->watch || !t->watch->cancelled || t->watch->cancelled(t->watch->arg);
}

struct engine_watch build_tail_watch(struct build_tail *t)
{
    return (struct engine_watch){
        .progress = on_event,
        .cancelled = on_cancelled,
        .arg = t,
        .cancel_fd = t->watch ? t->watch->cancel_fd : -1,
        .until_ns = t->watch ? t->watch->until_ns : 0,
    };
}

json_t *build_tail_json(const struct build_tail *t)
{
    json_t *o = t->command ? json_pack("{s:s}", "command", t->command) : NULL;

    if (o && t->text)
        (void)json_object_set_new(o, "output", json_string(t->text));
    return o;
}

void build_tail_done(struct build_tail *t)
{
    free(t->command);
    free(t->text);
}
