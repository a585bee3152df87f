/* An image as an archive that other programs take. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/layer.h"
#include "oci/reference.h"

static int not_portable(const char *name, struct err *err)
{
    return err_code(err, ERR_UNSUPPORTED, "host_image",
                    "%s stands on this machine's own files and cannot leave it", name);
}

/* Archives say names in full, so that no reader guesses. An image without one goes unnamed. */
static char *full_name(const char *name)
{
    struct reference ref;
    char *full;

    if (digest_digits(name) || reference_parse(name, &ref, NULL) < 0)
        return NULL;
    full = reference_full(&ref);
    reference_done(&ref);
    return full;
}

static json_t *layers_of(const struct record *r)
{
    json_t *a = json_array();

    for (size_t i = 0; i < r->n_layers; i++)
        (void)json_array_append_new(a, json_string(r->layers[i].dir));
    return a;
}

/* Under the lock; from here on nothing takes its layers away. */
static int export_request(struct work *w, const char *name, json_t **ret, struct err *err)
{
    struct image_store *s = w->store;
    auto_free char *document = NULL, *full = NULL;
    auto_record struct record r = {0};
    auto_name struct name n = {0};

    if (store_find(s, name, &n, &r, err) < 0)
        return -1;
    if (r.host)
        return not_portable(name, err);
    memcpy(w->held, r.id, DIGEST_HEX);
    if (records_document(s->records, r.id, &document, err) < 0)
        return -1;
    full = full_name(n.name);
    *ret = json_pack("{s:s, s:s, s:o, s:s*}", "op", "export", "document", document, "layers",
                     layers_of(&r), "name", full);
    return *ret ? 0 : err_set(err, ERR_INTERNAL, "the configuration of %s is damaged", name);
}

int image_export(struct image_store *s, const char *name, int out_fd, struct err *err)
{
    auto_free char *kept = image_name_short(name);
    json_t *request = NULL, *done = NULL;
    struct work w;
    int r;

    if (kept && strcmp(kept, "host") == 0)
        return not_portable(name, err);
    if (work_begin(s, &w, err) < 0)
        return -1;
    (void)pthread_mutex_lock(&s->lock);
    r = export_request(&w, name, &request, err);
    (void)pthread_mutex_unlock(&s->lock);
    if (r == 0)
        r = work_run(&w, request, out_fd, NULL, NULL, &done, err);
    work_end(&w);
    if (r < 0)
        (void)err_no_space(err, NO_SPACE_ADVICE);
    json_decref(request);
    json_decref(done);
    return r;
}
