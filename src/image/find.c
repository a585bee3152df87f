/* Images by name and by id. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "oci/manifest.h"
#include "oci/reference.h"

struct image *store_host_image(const struct image_store *s)
{
    auto_free char *layer = xasprintf("%s/host/%s", s->path, s->host_layer);
    struct image *image = xcalloc(1, sizeof(*image));

    image->name = xstrdup("host");
    image->id = xstrdup("host");
    image->digest = xstrdup("");
    image->origin = xstrdup("");
    image->layers = strv_add(NULL, layer);
    image->binds = strv_copy(s->host_binds);
    image->env = strv_add(strv_add(NULL, IMAGE_PATH), "LANG=C.UTF-8");
    image->workdir = xstrdup("");
    image->user = xstrdup("");
    image->entrypoint = xcalloc(1, sizeof(*image->entrypoint));
    image->cmd = xcalloc(1, sizeof(*image->cmd));
    image->ports = xcalloc(1, sizeof(*image->ports));
    image->stop_signal = xstrdup("");
    image->platform = xstrdup(platform_here());
    image->labels = json_object();
    image->created_ms = image->pulled_ms = s->opened_ms;
    image->used_ms = atomic_load(&s->host_used_ms);
    return image;
}

static void add_path(struct image *image)
{
    for (char **e = image->env; *e; e++)
        if (str_starts(*e, "PATH="))
            return;
    image->env = strv_add(image->env, IMAGE_PATH);
}

/* An image may have a layer twice, which overlayfs refuses. The upper one hides all that the lower
 * one shows, and hides what it hides. */
static bool is_above(const struct record *r, size_t i)
{
    for (size_t k = i + 1; k < r->n_layers; k++)
        if (strcmp(r->layers[k].dir, r->layers[i].dir) == 0)
            return true;
    return false;
}

/* Topmost first, and below them all what has the mount points: the host's own layer or the base. */
static char **layer_paths(const struct image_store *s, const struct record *r)
{
    auto_free char *lowest = r->host ? xasprintf("%s/host/%s", s->path, s->host_layer)
                                     : xasprintf("%s/base/" BASE_LAYER, s->path);
    char **paths = xcalloc(1, sizeof(*paths));

    for (size_t i = r->n_layers; i > 0; i--) {
        auto_free char *path = xasprintf("%s/layers/%s", s->path, r->layers[i - 1].dir);

        if (!is_above(r, i - 1))
            paths = strv_add(paths, path);
    }
    return strv_add(paths, lowest);
}

int store_image(const struct image_store *s, const struct name *n, struct record *r,
                struct image **ret, struct err *err)
{
    struct image *image;
    struct stat st;

    for (size_t i = 0; i < r->n_layers; i++)
        if (fstatat(s->layers, r->layers[i].dir, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISDIR(st.st_mode))
            return err_set(err, ERR_INTERNAL,
                           "a layer of the image %s is gone; pull or import it again", n->name);
    image = steal_ptr(r->image);
    image->name = xstrdup(n->name);
    image->digest = xstrdup(n->digest);
    image->origin = xstrdup(n->origin);
    image->layers = layer_paths(s, r);
    image->binds = r->host ? strv_copy(s->host_binds) : xcalloc(1, sizeof(*image->binds));
    image->pulled_ms = n->pulled_ms;
    image->used_ms = n->used_ms;
    if (image->created_ms == 0)
        image->created_ms = n->pulled_ms;
    add_path(image);
    *ret = image;
    return 0;
}

static int not_found(const char *name, struct err *err)
{
    return err_code(err, ERR_NOT_FOUND, "image_not_found",
                    "Image not found: no image's id begins with %s. `cay image ls` shows what is "
                    "here",
                    name);
}

/* The one id that begins so. */
static int whole_id(const struct image_store *s, const char *digits, char ret[DIGEST_HEX],
                    struct err *err)
{
    auto_strv char **ids = NULL;
    size_t n = strlen(digits);
    const char *found = NULL;

    if (records_list(s->records, &ids, err) < 0)
        return -1;
    for (char **id = ids; *id; id++) {
        if (strncmp(*id, digits, n) != 0)
            continue;
        if (found)
            return err_code(err, ERR_INVALID, "ambiguous_image",
                            "the ids of several images begin with %s; give more digits", digits);
        found = *id;
    }
    if (!found)
        return not_found(digits, err);
    memcpy(ret, found, DIGEST_HEX);
    return 0;
}

/* An image that only sandboxes hold has its id as its name. */
static int find_id(struct image_store *s, const char *digits, struct name *ret_name,
                   struct record *ret_record, struct err *err)
{
    auto_strv char **names = NULL;
    char id[DIGEST_HEX];

    if (whole_id(s, digits, id, err) < 0 || names_of(s->names, id, &names, err) < 0 ||
        records_read(s->records, id, ret_record, err) < 0)
        return -1;
    if (names[0] && names_read(s->names, names[0], ret_name, NULL) == 0)
        return 0;
    *ret_name = (struct name){
        .name = xasprintf(DIGEST_PREFIX "%s", id), .digest = xstrdup(""), .origin = xstrdup("")};
    memcpy(ret_name->id, id, DIGEST_HEX);
    return 0;
}

int store_find(struct image_store *s, const char *name, struct name *ret_name,
               struct record *ret_record, struct err *err)
{
    const char *digits = digest_digits(name);
    auto_free char *kept = NULL;
    auto_name struct name n = {0};
    struct err why = {0};

    if (digits && digits != name)
        return find_id(s, digits, ret_name, ret_record, err);
    kept = image_name_short(name);
    if (!kept || names_read(s->names, kept, &n, &why) < 0) {
        if (digits)
            return find_id(s, digits, ret_name, ret_record, err);
        if (kept)
            return err_code(err, why.kind, why.code, "%s", why.text);
        return name_check_new(name, true, &kept, err) < 0
                   ? -1
                   : err_set(err, ERR_INTERNAL, "the name %s cannot be kept", name);
    }
    if (records_read(s->records, n.id, ret_record, &why) < 0)
        return err_set(err, ERR_INTERNAL,
                       "what images/records has of the image %s is damaged (%s); pull or import it "
                       "again",
                       kept, why.text);
    *ret_name = n;
    n = (struct name){0};
    return 0;
}

static bool is_host(const char *name)
{
    auto_free char *kept = image_name_short(name);

    return kept && strcmp(kept, "host") == 0;
}

static int get(struct image_store *s, const char *name, struct image **ret, struct err *err)
{
    auto_record struct record r = {0};
    auto_name struct name n = {0};

    if (store_find(s, name, &n, &r, err) < 0)
        return -1;
    return store_image(s, &n, &r, ret, err);
}

/* Without the lock, which is held while others put things on disk: files are replaced whole, so
 * that what is found is right. Only something that goes away meanwhile can look damaged. */
int image_get(struct image_store *s, const char *name, struct image **ret, struct err *err)
{
    struct err why = {0};
    int r;

    if (is_host(name)) {
        *ret = store_host_image(s);
        return 0;
    }
    r = get(s, name, ret, &why);
    if (r < 0 && why.kind == ERR_INTERNAL) {
        (void)pthread_mutex_lock(&s->lock);
        r = get(s, name, ret, &why);
        (void)pthread_mutex_unlock(&s->lock);
    }
    if (r < 0 && err)
        *err = why;
    return r;
}

static int get_id(struct image_store *s, const char *id, struct image **ret, struct err *err)
{
    const char *digits = digest_digits(id);
    auto_record struct record r = {0};
    auto_name struct name n = {.name = xstrdup(id), .digest = xstrdup(""), .origin = xstrdup("")};

    if (!digits || !digest_valid(digits) || !records_has(s->records, digits))
        return not_found(id, err);
    if (records_read(s->records, digits, &r, err) < 0)
        return -1;
    return store_image(s, &n, &r, ret, err);
}

int image_get_id(struct image_store *s, const char *id, struct image **ret, struct err *err)
{
    if (strcmp(id, "host") != 0)
        return get_id(s, id, ret, err);
    *ret = store_host_image(s);
    return 0;
}

int image_list(struct image_store *s, struct image ***ret, unsigned *ret_n, struct err *err)
{
    auto_strv char **names = NULL;
    struct image **images;
    unsigned n = 0;

    if (names_list(s->names, &names, err) < 0)
        return -1;
    images = xcalloc(strv_len(names) + 1, sizeof(struct image *));
    images[n++] = store_host_image(s);
    for (char **name = names; *name; name++) {
        struct err e = {0};

        if (image_get(s, *name, &images[n], &e) == 0)
            n++;
        else if (e.kind != ERR_NOT_FOUND) /* removed meanwhile */
            log_warn("image left out of the list", "image", *name, "error", e.text);
    }
    *ret = images;
    *ret_n = n;
    return 0;
}
