#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/image_json_internal.h"
#include "engine/image_policy.h"
#include "engine/images_used_internal.h"
#include "engine/json_text_internal.h"
#include "image/image.h"
#include "oci/reference.h"

/* What an image looks like to callers. */

char *image_plain_name(const struct engine *e, const struct image *image)
{
    auto_free char *tagged = NULL, *same = NULL, *full = NULL;
    struct reference ref;

    if (!image_policy_is_short_name(e->policy, image->name))
        return xstrdup(image->name);
    tagged = xasprintf("%s:latest", image->name);
    same = reference_shorten(tagged);
    if (same && strcmp(same, image->name) == 0 && !image_policy_is_short_name(e->policy, tagged))
        return steal_ptr(tagged);
    if (reference_parse(image->name, &ref, NULL) == 0) {
        full = reference_full(&ref);
        reference_done(&ref);
    }
    return full && !image_policy_is_short_name(e->policy, full) ? steal_ptr(full)
                                                                : xstrdup(image->id);
}

static const char *or_empty(const char *s)
{
    return s ? s : "";
}

/* The lowest is cay's own: the mount points of every box, or what the host image stands on. */
static int own_layers(const struct image *image)
{
    size_t n = image->layers ? strv_len(image->layers) : 0;

    return n > 0 ? (int)n - 1 : 0;
}

static json_t *texts_json(const struct engine *e, const struct image *image)
{
    auto_free char *name = image_plain_name(e, image);

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "name", name, "id", image->id,
                     "digest", or_empty(image->digest), "origin", or_empty(image->origin),
                     "platform", or_empty(image->platform), "workdir", or_empty(image->workdir),
                     "user", or_empty(image->user), "stopSignal", or_empty(image->stop_signal));
}

static json_t *lists_json(const struct image *image)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "env", json_of_texts(image->env), "entrypoint",
                     json_of_texts(image->entrypoint), "cmd", json_of_texts(image->cmd), "ports",
                     json_of_texts(image->ports), "labels",
                     image->labels ? json_deep_copy(image->labels) : json_object());
}

static json_t *numbers_json(struct engine *e, const struct image *image)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:i, s:b}", "size", (json_int_t)image->size, "createdAt",
                     (json_int_t)image->created_ms, "pulledAt", (json_int_t)image->pulled_ms,
                     "usedAt", (json_int_t)image->used_ms, "layers", own_layers(image), "inUse",
                     image_in_use(e, image->id));
}

json_t *image_json(struct engine *e, struct image *image)
{
    json_t *o = texts_json(e, image), *numbers = numbers_json(e, image), *lists = lists_json(image);

    (void)json_object_update(o, numbers);
    (void)json_object_update(o, lists);
    json_decref(numbers);
    json_decref(lists);
    image_free(image);
    return o;
}

json_t *images_json(struct engine *e, struct image **all, unsigned n)
{
    json_t *images = json_array();

    for (unsigned i = 0; i < n; i++)
        (void)json_array_append_new(images, image_json(e, all[i]));
    free(all);
    return images;
}
