/* What `docker save` writes: manifest.json lists the images, each with the names of its files. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"
#include "oci/reference.h"
#include "worker/worker.h"

void bundle_image_done(struct bundle_image *image)
{
    strv_free(image->names);
    free(image->config);
    for (size_t i = 0; i < image->n_layers; i++)
        free(image->layers[i].name);
    free(image->layers);
    *image = (struct bundle_image){0};
}

bool same_name(const char *a, const char *b)
{
    auto_free char *x = reference_shorten(a), *y = reference_shorten(b);

    return x && y && strcmp(x, y) == 0;
}

int several_images(char *const *names, struct err *err)
{
    auto_buf struct buf list = {0};
    char shown[96];

    buf_init(&list, sizeof(shown)); /* what does not fit is left out */
    for (char *const *name = names; *name; name++)
        (void)buf_addf(&list, "%s%s", list.len > 0 ? ", " : "", *name);
    return err_code(err, ERR_INVALID, "several_images",
                    "it holds several images (%s); give the name of one of them",
                    printable(list.data ? list.data : "without names", shown));
}

static int bad(const char *why, struct err *err)
{
    return err_code(err, ERR_INVALID, "bad_image", "manifest.json %s", why);
}

static bool is_called(const json_t *image, const char *name)
{
    const json_t *tags = json_object_get(image, "RepoTags");

    for (size_t i = 0; i < json_array_size(tags); i++) {
        const char *tag = json_string_value(json_array_get(tags, i));

        if (tag && same_name(tag, name))
            return true;
    }
    return false;
}

/* Of several, the one of that name. */
static int choose(const json_t *list, const char *name, const json_t **ret, struct err *err)
{
    auto_strv char **names = xcalloc(1, sizeof(*names));
    size_t n = json_array_size(list);

    if (n == 0)
        return bad("lists no image", err);
    *ret = json_array_get(list, 0);
    if (n == 1)
        return 0;
    for (size_t i = 0; name && i < n; i++) {
        *ret = json_array_get(list, i);
        if (is_called(*ret, name))
            return 0;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *tags = json_object_get(json_array_get(list, i), "RepoTags");
        const char *tag = json_string_value(json_array_get(tags, 0));

        if (tag)
            names = strv_add(names, tag);
    }
    return several_images(names, err);
}

/* Where the name of the file is a digest, the file has it. */
static int check_config(const char *file, const struct bundle_image *image, struct err *err)
{
    const char *slash = strrchr(file, '/');
    auto_free char *base = xstrdup(slash ? slash + 1 : file);
    char digest[DIGEST_HEX];

    if (str_ends(base, ".json"))
        base[strlen(base) - 5] = '\0';
    if (!digest_valid(base))
        return 0;
    text_digest(image->config, image->config_len, digest);
    if (strcmp(digest, base) != 0)
        return err_code(err, ERR_INVALID, "digest_mismatch",
                        "the configuration's digest is not what its name says");
    return 0;
}

static int take_layers(const json_t *list, struct bundle_image *ret, struct err *err)
{
    size_t n = json_array_size(list);

    if (!json_is_array(list) || n > MANIFEST_MAX_LAYERS)
        return bad("has no list of layers, or too long a one", err);
    ret->layers = xcalloc(n + 1, sizeof(*ret->layers));
    for (; ret->n_layers < n; ret->n_layers++) {
        const char *file = json_string_value(json_array_get(list, ret->n_layers));

        if (!file)
            return bad("has a layer that is no file name", err);
        ret->layers[ret->n_layers].name = xstrdup(file);
    }
    return 0;
}

static int take_image(const struct bundle *b, const json_t *image, struct bundle_image *ret,
                      struct err *err)
{
    const char *config = json_string_value(json_object_get(image, "Config"));
    const json_t *tags = json_object_get(image, "RepoTags");

    if (!config)
        return bad("does not say where the configuration is", err);
    if (bundle_read(b, config, CONFIG_MAX_BYTES, &ret->config, &ret->config_len, err) < 0 ||
        check_config(config, ret, err) < 0)
        return -1;
    ret->names = xcalloc(1, sizeof(*ret->names));
    for (size_t i = 0; i < json_array_size(tags); i++) {
        const char *tag = json_string_value(json_array_get(tags, i));

        if (tag)
            ret->names = strv_add(ret->names, tag);
    }
    return take_layers(json_object_get(image, "Layers"), ret, err);
}

int saved_choose(const struct bundle *b, const char *name, struct bundle_image *ret,
                 struct err *err)
{
    auto_free char *text = NULL;
    const json_t *image = NULL;
    json_t *list;
    size_t len;
    int r;

    if (bundle_read(b, "manifest.json", MANIFEST_MAX_BYTES, &text, &len, err) < 0)
        return -1;
    list = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_array(list)) {
        json_decref(list);
        return bad("is not a list of images", err);
    }
    *ret = (struct bundle_image){0};
    r = choose(list, name, &image, err);
    if (r == 0)
        r = take_image(b, image, ret, err);
    json_decref(list);
    if (r < 0)
        bundle_image_done(ret);
    return r;
}
