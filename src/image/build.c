/* Images that a build makes, a step at a time. They have no names: who asks holds what he gets, and
 * what he builds on. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/layer.h"

/* The layers of an image that files are copied from. Under the lock. */
static int add_stack(struct image_store *s, const char *id, json_t *stacks, bool *host,
                     struct err *err)
{
    json_t *layers = json_array();
    bool on_host = strcmp(id, "host") == 0;

    if (!on_host) {
        auto_record struct record r = {0};
        auto_name struct name n = {0};

        if (store_find(s, id, &n, &r, err) < 0) {
            json_decref(layers);
            return -1;
        }
        for (size_t i = 0; i < r.n_layers; i++)
            (void)json_array_append_new(layers, json_pack("{s:s}", "dir", r.layers[i].dir));
        on_host = r.host;
    }
    *host |= on_host;
    (void)json_array_append_new(stacks,
                                json_pack("{s:o, s:b}", "layers", layers, "host", (int)on_host));
    return 0;
}

/* What the worker needs to know of the images that are read. */
static int add_images(struct work *w, const struct image_build *b, json_t *request, bool *host,
                      struct err *err)
{
    struct image_store *s = w->store;
    json_t *stacks = json_array();
    int r = 0;

    (void)json_object_set_new(request, "stacks", stacks);
    (void)json_object_set_new(request, "covered", json_array());
    (void)json_object_set_new(request, "layers", json_array());
    (void)pthread_mutex_lock(&s->lock);
    if (b->base_id)
        r = work_add_base(w, b->base_id, request, err);
    *host = json_is_true(json_object_get(request, "host"));
    for (char **bind = *host ? s->host_binds : NULL; bind && *bind; bind++)
        (void)json_array_append_new(json_object_get(request, "covered"), json_string(*bind));
    for (char *const *id = b->from; r == 0 && id && *id; id++)
        r = add_stack(s, *id, stacks, host, err);
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}

static int run(struct work *w, const struct image_build *b, bool digest, json_t **ret,
               struct err *err)
{
    json_t *request =
        json_pack("{s:s, s:b, s:O, s:o}", "op", "build", "digest", (int)digest, "items", b->items,
                  "config", b->config ? json_deep_copy(b->config) : json_object());
    auto_close int host_fd = -1;
    bool host = false;
    int r = add_images(w, b, request, &host, err);

    if (r == 0 && host) {
        host_fd = openat(w->store->host, w->store->host_layer,
                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (host_fd < 0)
            r = err_sys(err, errno, "open the layer of the host image");
    }
    if (r == 0)
        r = work_run(w, request, host_fd, b->progress, b->arg, ret, err);
    json_decref(request);
    return r;
}

int image_build(struct image_store *s, const struct image_build *b, struct image **ret,
                struct err *err)
{
    json_t *made = NULL;
    struct work w;
    int r;

    if (room_ask(s, NULL, err) < 0 || work_begin(s, &w, err) < 0)
        return -1;
    r = run(&w, b, false, &made, err);
    if (r == 0) {
        work_tell_made(made, b->made, b->arg);
        r = work_publish(&w, made, b->base_id ? b->base_id : "", (char *[]){NULL}, ret, err);
    }
    work_end(&w);
    json_decref(made);
    return r < 0 ? err_no_space(err, NO_SPACE_ADVICE) : 0;
}

int image_build_digest(struct image_store *s, const struct image_build *b, char ret[DIGEST_HEX],
                       struct err *err)
{
    json_t *made = NULL;
    const char *digest;
    struct work w;
    int r;

    if (work_begin(s, &w, err) < 0)
        return -1;
    r = run(&w, b, true, &made, err);
    work_end(&w);
    digest = json_string_value(json_object_get(made, "digest"));
    if (r == 0 && (!digest || !digest_valid(digest)))
        r = err_set(err, ERR_INTERNAL, "the image worker left out the digest");
    if (r == 0)
        memcpy(ret, digest, DIGEST_HEX);
    json_decref(made);
    return r;
}

/* ---- the context ---- */

int image_context_file(struct image_store *s, int *ret_fd, struct err *err)
{
    int fd = openat(s->layers, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0) {
        (void)err_sys(err, errno, "make a file for the context");
        return err_no_space(err, NO_SPACE_ADVICE);
    }
    *ret_fd = fd;
    return 0;
}

int image_context(struct image_store *s, const struct image_context *c, struct image **ret,
                  char **ret_text, struct err *err)
{
    json_t *request, *image = NULL;
    const char *text;
    struct work w;
    int r;

    if (room_ask(s, NULL, err) < 0 || work_begin(s, &w, err) < 0)
        return -1;
    request =
        json_pack("{s:s, s:I, s:s*, s:I}", "op", "context", "max_bytes", (json_int_t)c->max_bytes,
                  "apart", c->apart, "max", (json_int_t)c->apart_max);
    (void)lseek(c->fd, 0, SEEK_SET);
    r = work_run(&w, request, c->fd, c->progress, c->arg, &image, err);
    if (r == 0) {
        work_tell_made(image, c->made, c->arg);
        r = work_publish(&w, image, "context", (char *[]){NULL}, ret, err);
    }
    work_end(&w);
    text = json_string_value(json_object_get(image, "text"));
    if (r == 0)
        *ret_text = text ? xstrdup(text) : NULL;
    json_decref(image);
    json_decref(request);
    return r < 0 ? err_no_space(err, NO_SPACE_ADVICE) : 0;
}

int image_show(struct image_store *s, const char *id, const char *path, size_t max, char **ret,
               size_t *ret_len, struct err *err)
{
    json_t *request = json_pack("{s:s, s:s, s:I, s:[]}", "op", "show", "path", path, "max",
                                (json_int_t)max, "stacks");
    json_t *shown = NULL, *text;
    bool host = false;
    struct work w;
    int r;

    if (!request || work_begin(s, &w, err) < 0) {
        json_decref(request);
        return request ? -1 : err_set(err, ERR_INVALID, "the path is not a text in UTF-8");
    }
    (void)pthread_mutex_lock(&s->lock);
    r = add_stack(s, id, json_object_get(request, "stacks"), &host, err);
    (void)pthread_mutex_unlock(&s->lock);
    if (r == 0)
        r = work_run(&w, request, -1, NULL, NULL, &shown, err);
    work_end(&w);
    text = json_object_get(shown, "text");
    if (r == 0 && !json_is_string(text))
        r = err_set(err, ERR_INTERNAL, "the image worker left out the text");
    if (r == 0) {
        *ret = xstrndup(json_string_value(text), json_string_length(text));
        *ret_len = json_string_length(text);
    }
    json_decref(shown);
    json_decref(request);
    return r;
}
