/* What a sandbox changed becomes a layer on top of its image. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "worker/worker.h"

#define NEW_LAYER "0"

static int copy_changes(const struct worker_request *q, struct layer *l,
                        char ret_diff_id[DIGEST_HEX], struct err *err)
{
    /* The sandbox wrote all that is below, but not this folder itself. */
    auto_close int upper =
        openat(FD_OTHER, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    json_int_t ids_base = json_integer_value(json_object_get(q->json, "ids_base"));
    EVP_MD_CTX *sha;
    int r;

    if (upper < 0)
        return err_sys(err, errno, "open what the sandbox changed");
    sha = digest_new();
    r = copy_upper(upper, (uint32_t)ids_base, l, sha, err);
    digest_end(sha, ret_diff_id);
    return r;
}

int commit_document(const struct worker_request *q, bool host, const char *diff_id, char **ret,
                    struct err *err)
{
    const char *below = request_string(q, "document");
    json_t *document = below ? json_loads(below, 0, NULL) : document_new(NULL);
    int r;

    if (!document)
        return err_set(err, ERR_INTERNAL, "the configuration of the image below is damaged");
    /* Not the same image as one that has the same layers and nothing below. */
    if (host)
        (void)json_object_set_new(document, "cay_host", json_true());
    r = document_commit(document, diff_id, json_object_get(q->json, "config"), err);
    if (r == 0)
        *ret = document_text(document);
    json_decref(document);
    return r;
}

int worker_commit(const struct worker_request *q, json_t **ret, struct err *err)
{
    bool host = json_is_true(json_object_get(q->json, "host"));
    json_t *layers = json_deep_copy(json_object_get(q->json, "layers")), *layer, *image;
    auto_free char *text = NULL;
    auto_free char *warning = NULL;
    auto_close int root = -1;
    char diff_id[DIGEST_HEX];
    struct layer l;

    if (!json_is_array(layers))
        return err_set(err, ERR_INTERNAL, "the request lacks the layers below");
    if (layer_begin(q, NEW_LAYER, &l, &root, err) < 0 || copy_changes(q, &l, diff_id, err) < 0 ||
        layer_check_points(&root, 1, err) < 0 ||
        layer_made(q, &l, NEW_LAYER, diff_id, &layer, err) < 0)
        return -1;
    (void)json_array_append_new(layers, layer);
    if (commit_document(q, host, diff_id, &text, err) < 0 ||
        document_image(text, strlen(text), &image, err) < 0)
        return -1;
    (void)json_object_set_new(image, "layers", layers);
    (void)json_object_set_new(image, "host", json_boolean(host));
    warning = layer_warning(&l);
    if (warning)
        (void)json_object_set_new(image, "warning", json_string(warning));
    *ret = image;
    return 0;
}
