/* A sandbox becomes an image: what it changed is one more layer. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/layer.h"
#include "oci/manifest.h"

#define WARNING_BYTES_MAX 400

static int too_many_layers(struct err *err)
{
    return err_code(err, ERR_LIMIT, "too_many_layers",
                    "the image below has %d layers already, which is the most there can be",
                    MANIFEST_MAX_LAYERS);
}

/* What the worker needs of the image below, which stays meanwhile; on the host that is nothing.
 * Under the lock. */
int work_add_base(struct work *w, const char *base_id, json_t *request, struct err *err)
{
    struct image_store *s = w->store;
    auto_record struct record r = {0};
    auto_name struct name n = {0};
    auto_free char *document = NULL;
    json_t *layers = json_array();

    (void)json_object_set_new(request, "layers", layers);
    (void)json_object_set_new(request, "host", json_boolean(strcmp(base_id, "host") == 0));
    if (strcmp(base_id, "host") == 0)
        return 0;
    if (store_find(s, base_id, &n, &r, err) < 0 ||
        records_document(s->records, r.id, &document, err) < 0)
        return -1;
    memcpy(w->held, r.id, DIGEST_HEX);
    if (r.n_layers >= MANIFEST_MAX_LAYERS)
        return too_many_layers(err);
    for (size_t i = 0; i < r.n_layers; i++)
        (void)json_array_append_new(layers, json_pack("{s:s, s:I}", "dir", r.layers[i].dir, "bytes",
                                                      (json_int_t)r.layers[i].bytes));
    (void)json_object_set_new(request, "host", json_boolean(r.host));
    (void)json_object_set_new(request, "document", json_string(document));
    return 0;
}

void work_tell_made(const json_t *made, void (*tell)(const char *image_id, void *arg), void *arg)
{
    const char *id = json_string_value(json_object_get(made, "id"));
    auto_free char *image_id = id ? xasprintf(DIGEST_PREFIX "%s", id) : NULL;

    if (tell && image_id)
        tell(image_id, arg);
}

/* The worker has read what a sandbox wrote, so its word is bounded. */
static char *warning_of(const json_t *made)
{
    const char *text = json_string_value(json_object_get(made, "warning"));

    return text ? xstrndup(text, utf8_cut(text, strnlen(text, WARNING_BYTES_MAX))) : NULL;
}

int image_commit(struct image_store *s, const struct image_commit *commit, struct image **ret,
                 char **ret_warning, struct err *err)
{
    const char *called = commit->name ? commit->name : "a sandbox";
    auto_free char *name = NULL;
    json_t *request, *made = NULL;
    struct work w;
    int r;

    if ((commit->name && name_check_new(commit->name, false, &name, err) < 0) ||
        room_ask(s, name, err) < 0 || work_begin(s, &w, err) < 0)
        return -1;
    request = json_pack("{s:s, s:I, s:o}", "op", "commit", "ids_base", (json_int_t)commit->ids_base,
                        "config", commit->config ? json_deep_copy(commit->config) : json_object());
    (void)pthread_mutex_lock(&s->lock);
    r = work_add_base(&w, commit->base_id, request, err);
    (void)pthread_mutex_unlock(&s->lock);
    if (r == 0)
        r = work_run(&w, request, commit->scratch_fd, commit->progress, commit->arg, &made, err);
    if (r == 0)
        work_tell_made(made, commit->made, commit->arg);
    if (r == 0)
        r = work_publish(&w, made, commit->base_id, (char *[]){name, NULL}, ret, err);
    work_end(&w);
    if (r < 0)
        (void)err_no_space(err, NO_SPACE_ADVICE);
    else if (ret_warning)
        *ret_warning = warning_of(made);
    json_decref(request);
    json_decref(made);
    return r < 0 ? err_wrap(err, "commit %.100s", called) : 0;
}
