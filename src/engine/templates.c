#include "engine/templates.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/image_policy.h"
#include "engine/images.h"
#include "engine/images_internal.h"
#include "engine/images_used_internal.h"
#include "engine/news_internal.h"
#include "engine/template_turns_internal.h"
#include "engine/templates_internal.h"
#include "engine/warm_internal.h"
#include "image/image.h"
#include "model/templates.h"
#include "store/documents.h"

/* The document of a template is the Template itself. In memory there is also its light form,
 * without the contents of files, which is replaced and never changed: a create takes it along as it
 * is. */
struct template
{
    struct template *next;
    char *id, *name;
    json_t *light;
    size_t bytes; /* of its document */
};

struct templates {
    struct documents *documents;
    struct template_turns *turns;
    pthread_mutex_t changing; /* documents and memory change together; the disk is waited for */
    pthread_mutex_t lock;     /* the list; short */
    struct template *first;   /* built-in ones, then by age */
    size_t n_own, bytes;      /* of those that have documents */
};

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static const char *image_of(const json_t *template)
{
    return text_of(json_object_get(template, "build"), "imageId");
}

static size_t bytes_of(const json_t *o)
{
    return json_dumpb(o, NULL, 0, JSON_COMPACT);
}

/* ---- the list; all of it under the lock ---- */

static json_t *light_of(const json_t *whole)
{
    json_t *light = json_deep_copy(whole);
    json_t *files = json_object_get(json_object_get(light, "config"), "files");
    size_t i;
    json_t *file;

    json_array_foreach(files, i, file)
    {
        size_t size = json_string_length(json_object_get(file, "content"));

        if (json_object_get(file, "content"))
            (void)json_object_set_new(file, "size", json_integer((json_int_t)size));
        (void)json_object_del(file, "content");
    }
    return light;
}

static struct template *find(struct templates *t, const char *word)
{
    struct template *at = t->first;

    while (at && strcmp(at->id, word) != 0 && strcmp(at->name, word) != 0)
        at = at->next;
    return at;
}

static void template_free(struct template *at)
{
    free(at->id);
    free(at->name);
    json_decref(at->light);
    free(at);
}

/* In place of the one with that id, else behind all others. */
static void keep(struct templates *t, const json_t *whole, bool own)
{
    const char *id = text_of(whole, "id");
    struct template **at = &t->first;

    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    if (!*at) {
        *at = xcalloc(1, sizeof(**at));
        (*at)->id = xstrdup(id);
        (*at)->name = xstrdup(text_of(whole, "name"));
        t->n_own += own;
    }
    json_decref((*at)->light);
    (*at)->light = light_of(whole);
    t->bytes -= (*at)->bytes;
    (*at)->bytes = own ? bytes_of(whole) : 0;
    t->bytes += (*at)->bytes;
}

static void forget(struct templates *t, const char *id)
{
    struct template **at = &t->first, *gone;

    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    gone = *at;
    if (!gone)
        return;
    *at = gone->next;
    t->n_own--;
    t->bytes -= gone->bytes;
    template_free(gone);
}

/* ---- open ---- */

static void load_builtin(struct templates *t)
{
    size_t i;
    json_t *all = templates_builtin(), *one;

    json_array_foreach(all, i, one) keep(t, one, false);
    json_decref(all);
}

/* Its image may be gone with a store that somebody emptied: then it is built again when it is used,
 * unless it is of a directory, which is not here. */
static void load_own(struct engine *e, struct templates *t, json_t *one)
{
    struct image *image = NULL;
    struct err err = {0};

    if (*image_of(one) && image_get_id(e->images, image_of(one), &image, &err) < 0) {
        log_warn("the image of a template is gone", "template", text_of(one, "name"), "error",
                 err.text);
        if (err.kind == ERR_NOT_FOUND &&
            strcmp(text_of(json_object_get(one, "build"), "source"), "directory") != 0)
            (void)json_object_del(one, "build");
    }
    image_free(image);
    if (*image_of(one))
        engine_image_hold(e, image_of(one)); /* whether or not it is there: it is let go some day */
    keep(t, one, true);
}

static bool is_template(json_t *o)
{
    return json_unpack_ex(o, NULL, JSON_VALIDATE_ONLY, "{s:s, s:I, s:{}}", "name", "createdAt",
                          "config") == 0;
}

int templates_open(struct engine *e, struct err *err)
{
    struct templates *t = xcalloc(1, sizeof(*t));
    json_t *all, *one;
    size_t i;

    e->templates = t;
    (void)pthread_mutex_init(&t->changing, NULL);
    (void)pthread_mutex_init(&t->lock, NULL);
    t->turns = template_turns_new();
    if (documents_open(e->config.data_dir, "templates", is_template, &t->documents, err) < 0)
        return -1;
    if (documents_some_aside(t->documents))
        images_doubt(e, "templates");
    load_builtin(t);
    all = documents_all(t->documents);
    json_array_foreach(all, i, one) load_own(e, t, one);
    json_decref(all);
    return 0;
}

void templates_close(struct templates *t)
{
    if (!t)
        return;
    while (t->first) {
        struct template *at = t->first;

        t->first = at->next;
        template_free(at);
    }
    documents_close(t->documents);
    template_turns_free(t->turns);
    (void)pthread_mutex_destroy(&t->changing);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

/* ---- look ---- */

static int not_found(const char *word, struct err *err)
{
    return err_code(err, ERR_NOT_FOUND, "template_not_found", "Template not found: %.80s", word);
}

static int take(struct engine *e, const char *word, json_t **ret, struct err *err)
{
    struct templates *t = e->templates;
    struct template *at;

    (void)pthread_mutex_lock(&t->lock);
    at = find(t, word);
    if (at)
        *ret = json_incref(at->light);
    (void)pthread_mutex_unlock(&t->lock);
    return at ? 0 : not_found(word, err);
}

/* The image's name may mean another one by now: then a build of today would be another. */
static void tell_stale(struct engine *e, json_t *template)
{
    const char *name = text_of(json_object_get(template, "config"), "image");
    json_t *build = json_object_get(template, "build");
    auto_free char *reference = NULL;
    struct image *image = NULL;

    if (!build || !*text_of(build, "baseId"))
        return;
    reference = image_policy_reference(e->policy, name);
    if (image_get(e->images, reference, &image, NULL) == 0)
        (void)json_object_set_new(build, "stale",
                                  json_boolean(strcmp(image->id, text_of(build, "baseId")) != 0));
    image_free(image);
}

void engine_template_list(struct engine *e, json_t **ret)
{
    struct templates *t = e->templates;
    json_t *list = json_array(), *one;
    size_t i;

    (void)pthread_mutex_lock(&t->lock);
    for (struct template *at = t->first; at; at = at->next)
        (void)json_array_append_new(list, json_deep_copy(at->light));
    (void)pthread_mutex_unlock(&t->lock);
    json_array_foreach(list, i, one) tell_stale(e, one);
    *ret = json_pack("{s:o}", "templates", list);
}

int engine_template_get(struct engine *e, const char *word, json_t **ret, struct err *err)
{
    json_t *light = NULL, *whole;

    if (take(e, word, &light, err) < 0)
        return -1;
    whole = documents_get(e->templates->documents, text_of(light, "id"));
    if (!whole) /* a built-in one, or one that went this moment */
        whole = json_deep_copy(light);
    else if (!json_object_get(light, "build"))
        (void)json_object_del(whole, "build");
    json_decref(light);
    tell_stale(e, whole);
    *ret = whole;
    return 0;
}

int engine_template_use(struct engine *e, const char *word, json_t **ret, struct err *err)
{
    json_t *light = NULL;

    if (take(e, word, &light, err) < 0)
        return -1;
    if (image_check_allowed(e, text_of(json_object_get(light, "config"), "image"), err) < 0) {
        json_decref(light);
        return -1;
    }
    *ret = light;
    return 0;
}

/* ---- change; with `changing` ---- */

static int check_name(const char *name, struct err *err)
{
    if (!name || !*name)
        return err_set(err, ERR_INVALID, "name is required and must not be empty");
    if (strlen(name) > TEMPLATE_NAME_MAX)
        return err_set(err, ERR_INVALID, "name must have at most %d bytes", TEMPLATE_NAME_MAX);
    if (str_starts(name, TEMPLATE_ID_START))
        return err_set(err, ERR_INVALID,
                       "the name of a template must not begin with \"%s\": that is taken for an id",
                       TEMPLATE_ID_START);
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return err_set(err, ERR_INVALID, "name must have no control characters");
    return 0;
}

static int check_room(const struct engine *e, const struct template *old, size_t bytes,
                      struct err *err)
{
    const struct templates *t = e->templates;

    if (bytes > TEMPLATE_BYTES_MAX)
        return err_code(err, ERR_TOO_LARGE, "too_large",
                        "a template must have at most %u KiB; more files come with `cay template "
                        "build DIRECTORY`",
                        TEMPLATE_BYTES_MAX >> 10);
    if (!old && t->n_own >= e->config.max_templates)
        return err_code(err, ERR_LIMIT, "template_limit",
                        "there are %zu templates, as many as there may be (CAY_MAX_TEMPLATES): "
                        "remove one",
                        t->n_own);
    if (t->bytes - (old ? old->bytes : 0) + bytes > TEMPLATES_BYTES_MAX)
        return err_code(err, ERR_LIMIT, "template_limit",
                        "all templates together have %u MiB, which is the most: remove one",
                        TEMPLATES_BYTES_MAX >> 20);
    return 0;
}

static int check_new(struct engine *e, const struct template_new *n, size_t bytes, json_t **ret_old,
                     struct err *err)
{
    struct templates *t = e->templates;
    const struct template *old;
    int r = 0;

    if (check_name(n->name, err) < 0 ||
        image_check_allowed(e, text_of(n->config, "image"), err) < 0)
        return -1;
    (void)pthread_mutex_lock(&t->lock);
    old = find(t, n->name);
    if (old && (!n->replace || json_is_true(json_object_get(old->light, "builtin"))))
        r = err_code(err, ERR_CONFLICT, "template_exists", "there is a template %.80s already: %s",
                     n->name, old->id);
    else
        r = check_room(e, old, bytes, err);
    if (r == 0 && ret_old)
        *ret_old = old ? json_incref(old->light) : NULL;
    (void)pthread_mutex_unlock(&t->lock);
    return r;
}

int engine_template_check(struct engine *e, const struct template_new *n, struct err *err)
{
    return check_new(e, n, bytes_of(n->config), NULL, err);
}

/* Its new image is held before anybody can read of it, the old one until nobody can. */
static int store_template(struct engine *e, const json_t *old, json_t *whole, struct err *err)
{
    struct templates *t = e->templates;

    if (*image_of(whole))
        engine_image_hold(e, image_of(whole));
    if (documents_put(t->documents, text_of(whole, "id"), json_incref(whole), err) < 0) {
        if (*image_of(whole))
            engine_image_let_go(e, image_of(whole));
        return -1;
    }
    (void)pthread_mutex_lock(&t->lock);
    keep(t, whole, true);
    (void)pthread_mutex_unlock(&t->lock);
    if (old && *image_of(old))
        engine_image_let_go(e, image_of(old));
    return 0;
}

static json_t *template_json(const struct template_new *n, const json_t *old)
{
    int64_t now = now_ms();
    char id[ID_SIZE];
    json_t *o;

    id_new(id, "tpl");
    o = json_pack("{s:s, s:s, s:s, s:O, s:b, s:O?, s:O?}", "id", old ? text_of(old, "id") : id,
                  "name", n->name, "description", n->description ? n->description : "", "config",
                  n->config, "builtin", 0, "createdAt",
                  old ? json_object_get(old, "createdAt") : NULL, "build", n->build);
    if (!old)
        (void)json_object_set_new(o, "createdAt", json_integer(now));
    if (!n->build)
        (void)json_object_del(o, "build");
    return o;
}

int engine_template_put(struct engine *e, const struct template_new *n, json_t **ret,
                        struct err *err)
{
    struct templates *t = e->templates;
    json_t *old = NULL, *whole = NULL;
    int r;

    (void)pthread_mutex_lock(&t->changing);
    r = check_new(e, n, bytes_of(n->config), &old, err);
    if (r == 0) {
        whole = template_json(n, old);
        r = store_template(e, old, whole, err);
    }
    (void)pthread_mutex_unlock(&t->changing);
    if (r == 0) {
        warm_sources_changed(e);
        *ret = json_deep_copy(whole);
    }
    json_decref(whole);
    json_decref(old);
    return r;
}

static int set_build(struct engine *e, const char *id, const json_t *build, json_t **ret,
                     struct err *err)
{
    json_t *whole = documents_get(e->templates->documents, id), *old = NULL;
    int r = -1;

    if (!whole)
        return not_found(id, err);
    (void)json_object_set_new(whole, "build", json_deep_copy(build));
    if (take(e, id, &old, err) == 0)
        r = store_template(e, old, whole, err);
    if (r == 0)
        *ret = json_deep_copy(whole);
    json_decref(old);
    json_decref(whole);
    return r;
}

int engine_template_set_build(struct engine *e, const char *id, const json_t *build, json_t **ret,
                              struct err *err)
{
    int r;

    (void)pthread_mutex_lock(&e->templates->changing);
    r = set_build(e, id, build, ret, err);
    (void)pthread_mutex_unlock(&e->templates->changing);
    if (r == 0) {
        warm_sources_changed(e);
        engine_tell(e, "template.built", "",
                    json_pack("{s:s, s:s}", "templateId", id, "name", text_of(*ret, "name")));
    }
    return r;
}

static int remove_template(struct engine *e, const json_t *light, struct err *err)
{
    struct templates *t = e->templates;

    if (json_is_true(json_object_get(light, "builtin")))
        return err_code(err, ERR_FORBIDDEN, "template_builtin",
                        "%s is built in and cannot be removed", text_of(light, "name"));
    if (documents_delete(t->documents, text_of(light, "id"), err) < 0)
        return -1;
    (void)pthread_mutex_lock(&t->lock);
    forget(t, text_of(light, "id"));
    (void)pthread_mutex_unlock(&t->lock);
    if (*image_of(light))
        engine_image_let_go(e, image_of(light));
    return 0;
}

int engine_template_remove(struct engine *e, const char *word, struct err *err)
{
    json_t *light = NULL;
    int r;

    (void)pthread_mutex_lock(&e->templates->changing);
    r = take(e, word, &light, err);
    if (r == 0)
        r = remove_template(e, light, err);
    (void)pthread_mutex_unlock(&e->templates->changing);
    if (r == 0)
        warm_sources_changed(e);
    json_decref(light);
    return r;
}

int engine_template_begin(struct engine *e, const char *name, const struct engine_watch *watch,
                          struct err *err)
{
    return template_turn_begin(e, e->templates->turns, name, watch, err);
}

void engine_template_end(struct engine *e, const char *name)
{
    template_turn_end(e->templates->turns, name);
}
