/* What a snapshot has beyond its image, as an archive of one layer. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/layer.h"

/* Under the lock; from here on nothing takes its layers away. */
static int export_request(struct work *w, const char *id, json_t **ret, struct err *err)
{
    auto_free char *document = NULL;
    auto_record struct record r = {0};

    if (snapshot_base(w, id, &r, &document, err) < 0)
        return -1;
    if (record_own_layers(&r) != 1)
        return err_set(err, ERR_INTERNAL, "an image of %u layers is no single one",
                       record_own_layers(&r));
    *ret = json_pack("{s:s, s:s}", "op", "layer_export", "layer", r.layers[r.n_layers - 1].dir);
    return 0;
}

int image_layer_export(struct image_store *s, const char *id, int out_fd, struct err *err)
{
    json_t *request = NULL, *done = NULL;
    struct work w;
    int r;

    if (work_begin(s, &w, err) < 0)
        return -1;
    (void)pthread_mutex_lock(&s->lock);
    r = export_request(&w, id, &request, err);
    (void)pthread_mutex_unlock(&s->lock);
    if (r == 0)
        r = work_run(&w, request, out_fd, NULL, NULL, &done, err);
    work_end(&w);
    json_decref(request);
    json_decref(done);
    return r;
}

static int check_file(int fd, const char *path, struct err *err)
{
    struct stat st;
    char shown[96];

    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return 0;
    return err_code(err, ERR_INVALID, "bad_path", "%s is no archive of a layer",
                    printable(path, shown));
}

static void tell_made(const json_t *made, void (*told)(const char *image_id, void *arg), void *arg)
{
    auto_free char *id =
        xasprintf(DIGEST_PREFIX "%s", json_string_value(json_object_get(made, "id")));

    told(id, arg);
}

int image_layer_import(struct image_store *s, const char *base_id, const char *path,
                       void (*made)(const char *image_id, void *arg), void *arg, struct image **ret,
                       struct err *err)
{
    json_t *request, *image = NULL;
    auto_close int fd = -1;
    struct work w;
    int r;

    if (source_open(path, &fd, err) < 0 || check_file(fd, path, err) < 0 ||
        room_ask(s, NULL, err) < 0 || work_begin(s, &w, err) < 0)
        return -1;
    request = json_pack("{s:s, s:{}}", "op", "layer_import", "config");
    (void)pthread_mutex_lock(&s->lock);
    r = work_add_base(&w, base_id, request, err);
    (void)pthread_mutex_unlock(&s->lock);
    if (r == 0)
        r = work_run(&w, request, fd, NULL, NULL, &image, err);
    if (r == 0 && json_is_string(json_object_get(image, "id"))) {
        tell_made(image, made, arg);
        r = work_publish(&w, image, base_id, (char *[]){NULL}, ret, err);
    }
    work_end(&w);
    if (r < 0)
        (void)err_no_space(err, NO_SPACE_ADVICE);
    json_decref(request);
    json_decref(image);
    return r;
}
