#include "engine/news.h"

#include "engine/engine_internal.h"
#include "engine/json_text_internal.h"
#include "engine/news_internal.h"
#include "engine/sandbox_internal.h"
#include "model/sandbox.h"

void engine_listen(struct engine *e, engine_listener listener, void *arg)
{
    e->listener = listener;
    e->listener_arg = arg;
}

void engine_tell(struct engine *e, const char *topic, const char *id, json_t *data)
{
    if (e->listener)
        e->listener(topic, id, data ? data : json_object(), e->listener_arg);
    else
        json_decref(data);
}

void sandbox_tell(struct engine *e, struct sandbox *sb, const char *topic, json_t *more)
{
    json_t *data;

    if (!e->listener) {
        json_decref(more);
        return;
    }
    pthread_mutex_lock(&sb->lock);
    data = json_pack("{s:s, s:o, s:o, s:s}", "sandboxId", sb->box.id, "name",
                     json_cstr(sb->spec.name ? sb->spec.name : sb->box.id), "image",
                     json_cstr(sb->spec.image), "status", sandbox_state_name(sb->state));
    pthread_mutex_unlock(&sb->lock);
    if (more)
        (void)json_object_update(data, more);
    json_decref(more);
    engine_tell(e, topic, sb->box.id, data);
}
