/* Steps whose layer the image worker makes. */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/images.h"
#include "service/build/build_internal.h"

/* Folders that WORKDIR named, then the item itself. */
static json_t *with_dirs(const struct stage *s, json_t *item)
{
    json_t *items = json_array(), *dir;
    size_t i;

    json_array_foreach(s->dirs, i, dir)
    {
        (void)json_array_append_new(items, json_pack("{s:O}", "dir", dir));
    }
    if (item)
        (void)json_array_append_new(items, json_incref(item));
    return items;
}

/* Makes the layer, or finds it. key depends on the image below and on the items. */
static int make_layer(struct build *b, struct stage *s, char *const *from, json_t *items,
                      json_t *config, const char *digest, bool *cached, struct err *err)
{
    struct build_layer layer = {
        .base_id = s->image_id, .from = from, .items = items, .config = config};
    char key[BUILD_DIGEST_SIZE];
    json_t *image = NULL;
    char *id;

    build_key(json_pack("{s:s, s:s*, s:O, s:O*, s:s}", "op", "layer", "base", s->image_id, "items",
                        items, "config", config, "digest", digest),
              key);
    id = build_cached(b, key);
    *cached = id != NULL;
    if (!id) {
        if (engine_build_layer(b->engine, &layer, b->watch, &image, err) < 0)
            return -1;
        id = xstrdup(json_string_value(json_object_get(image, "id")));
        json_decref(image);
        engine_build_keep(b->engine, key, id);
    }
    stage_move(b->engine, s, id);
    (void)json_array_clear(s->dirs);
    return 0;
}

/* ---- COPY and ADD ---- */

/* Folders that WORKDIR named, where nothing came after it that made them. */
static int make_dirs(struct build *b, struct stage *s, struct err *err)
{
    json_t *items = with_dirs(s, NULL);
    bool cached;
    int r = 0;

    if (json_array_size(items) > 0)
        r = make_layer(b, s, NULL, items, NULL, "", &cached, err);
    json_decref(items);
    return r;
}

/* The id of the image that it copies from, which is held. */
static int find_source(struct build *b, const struct stage *s, const struct build_step *step,
                       const char **ret, struct err *err)
{
    struct stage *stage =
        step->from ? build_stage_of(b, (size_t)(s - b->stages), step->from) : NULL;
    json_t *image;

    if (!step->from && !b->req->context)
        return err_code(err, ERR_INVALID, "no_context",
                        "there are no files to copy from: none came with the build");
    if (!step->from) {
        *ret = b->req->context->image_id;
        return 0;
    }
    if (stage && make_dirs(b, stage, err) < 0)
        return -1;
    if (stage && !stage->image_id)
        return err_code(err, ERR_INVALID, "no_source", "stage %.60s has no files", step->from);
    if (stage) {
        *ret = stage->image_id;
        return 0;
    }
    if (engine_build_base(b->engine, step->from, NULL, b->watch, &image, err) < 0)
        return -1;
    b->held = strv_add(b->held, json_string_value(json_object_get(image, "id")));
    json_decref(image);
    *ret = b->held[strv_len(b->held) - 1];
    return 0;
}

static bool means_folder(const char *to)
{
    return str_ends(to, "/") || str_ends(to, "/.") || strcmp(to, ".") == 0 || str_ends(to, "/..") ||
           strcmp(to, "..") == 0;
}

static json_t *copy_item(const struct stage *s, const struct build_step *step, char *const *words,
                         size_t n)
{
    auto_free char *to = stage_path(s, words[n - 1]);
    json_t *patterns = json_array();

    for (size_t i = 0; i + 1 < n; i++)
        (void)json_array_append_new(patterns, json_string(words[i]));
    return json_pack("{s:o, s:i, s:s, s:b, s:b, s:b}", "copy", patterns, "stack", 0, "to", to,
                     "into", (int)means_folder(words[n - 1]), "keep_owners",
                     (int)(step->from != NULL), "add", (int)(step->op == BUILD_ADD));
}

/* chown and chmod, which are the last two words. */
static void add_rights(json_t *item, const char *chown, const char *chmod)
{
    if (*chown)
        (void)json_object_set_new(item, "chown", json_string(chown));
    if (*chmod)
        (void)json_object_set_new(item, "chmod", json_string(chmod));
}

int build_copy(struct build *b, struct stage *s, const struct build_step *step, char *const *words,
               bool *cached, struct err *err)
{
    size_t n = strv_len(words) - 2;
    json_t *item = copy_item(s, step, words, n), *items = json_pack("[O]", item), *all;
    char digest[BUILD_DIGEST_SIZE];
    const char *source = NULL;
    struct build_layer what = {.items = items};
    int r = find_source(b, s, step, &source, err);

    if (r == 0) {
        char *from[] = {(char *)(uintptr_t)source, NULL};

        what.from = from;
        r = engine_build_digest(b->engine, &what, b->watch, digest, err);
        if (r == 0) {
            add_rights(item, words[n], words[n + 1]);
            all = with_dirs(s, item);
            r = make_layer(b, s, from, all, NULL, digest, cached, err);
            json_decref(all);
        }
    }
    json_decref(items);
    json_decref(item);
    return r;
}

int build_write(struct build *b, struct stage *s, const struct build_step *step, char *const *words,
                bool *cached, struct err *err)
{
    auto_free char *path = stage_path(s, words[0]);
    json_t *item = json_pack("{s:s, s:s}", "write", path, "text", words[1]), *all;
    int r;

    (void)step;
    add_rights(item, words[2], words[3]);
    all = with_dirs(s, item);
    r = make_layer(b, s, NULL, all, NULL, "", cached, err);
    json_decref(all);
    json_decref(item);
    return r;
}

int build_settle(struct build *b, struct stage *s, struct err *err)
{
    json_t *items, *config;
    bool cached;
    int r;

    if (!s->changed && json_array_size(s->dirs) == 0 && s->image_id)
        return 0;
    items = with_dirs(s, NULL);
    config = stage_config(s);
    r = make_layer(b, s, NULL, items, config, "", &cached, err);
    b->all_cached &= cached || r < 0;
    json_decref(items);
    json_decref(config);
    return r;
}
