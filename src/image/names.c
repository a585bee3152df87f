/* What a name means, one small JSON file each. A name's '/' is '+' in its file name; '+' itself is
 * not allowed in names, so that two names never share a file. When the image was last used is the
 * file's own time: noting it is one system call and rewrites nothing. */
#include "image/image_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json_file.h"
#include "base/mem.h"
#include "base/str.h"
#include "layer/layer.h"
#include "layer/tree.h"
#include "oci/reference.h"

#define TOUCH_EVERY_S 60

char *image_name_short(const char *name)
{
    char *s = reference_shorten(name);

    if (!s || strlen(s) <= NAME_MAX_LEN)
        return s;
    free(s);
    return NULL;
}

int name_check_new(const char *name, bool digest_ok, char **ret, struct err *err)
{
    auto_free char *s = NULL;
    struct reference ref;
    bool digest;

    if (reference_parse(name, &ref, err) < 0)
        return -1;
    digest = ref.digest;
    s = reference_short(&ref);
    reference_done(&ref);
    if (strcmp(s, "host") == 0)
        return err_code(err, ERR_FORBIDDEN, "image_reserved",
                        "\"host\" is this machine's own image; choose another name");
    if (digest && !digest_ok)
        return err_code(err, ERR_INVALID, "bad_image_name",
                        "a name that is given may not have a digest in it; leave out @sha256:…");
    if (strlen(s) > NAME_MAX_LEN)
        return err_code(err, ERR_INVALID, "bad_image_name", "the name is longer than %d characters",
                        NAME_MAX_LEN);
    *ret = steal_ptr(s);
    return 0;
}

void name_done(struct name *n)
{
    free(n->name);
    free(n->digest);
    free(n->origin);
    *n = (struct name){0};
}

static char *file_of(const char *name)
{
    char *file = xasprintf("%s.json", name);

    for (char *p = file; *p; p++)
        if (*p == '/')
            *p = '+';
    return file;
}

static int load(const json_t *o, const char *name, struct name *ret)
{
    const char *id, *digest, *origin;
    json_int_t pulled;

    if (json_unpack((json_t *)o, "{s:s, s:s, s:s, s:I}", "id", &id, "digest", &digest, "origin",
                    &origin, "pulled_ms", &pulled) < 0 ||
        !digest_valid(id))
        return -1;
    *ret = (struct name){
        .name = xstrdup(name),
        .digest = xstrdup(digest),
        .origin = xstrdup(origin),
        .pulled_ms = pulled,
    };
    memcpy(ret->id, id, DIGEST_HEX);
    return 0;
}

static int64_t used_ms(int namesfd, const char *file, int64_t pulled_ms)
{
    struct stat st;
    int64_t ms;

    if (fstatat(namesfd, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return pulled_ms;
    ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    return ms > pulled_ms ? ms : pulled_ms;
}

int names_read(int namesfd, const char *name, struct name *ret, struct err *err)
{
    auto_free char *file = file_of(name);
    struct err why = {0};
    json_t *o;
    int r;

    if (json_file_read(namesfd, file, &o, &why) < 0) {
        if (why.kind == ERR_NOT_FOUND)
            return err_code(err, ERR_NOT_FOUND, "image_not_found",
                            "Image not found: %s. `cay image ls` shows what is here, `cay image "
                            "pull` and `cay image import` add one; \"host\" always works",
                            name);
        return err_set(err, ERR_INTERNAL, "images/names/%s; pull or import it again", why.text);
    }
    r = load(o, name, ret);
    json_decref(o);
    if (r < 0)
        return err_set(err, ERR_INTERNAL,
                       "images/names/%s is damaged; pull or import the image again", file);
    ret->used_ms = used_ms(namesfd, file, ret->pulled_ms);
    return 0;
}

int names_write(int namesfd, const struct name *n, struct err *err)
{
    auto_free char *file = file_of(n->name);

    return json_file_write(namesfd, file,
                           json_pack("{s:i, s:s, s:s, s:s, s:s, s:I}", "version", 2, "name",
                                     n->name, "id", n->id, "digest", n->digest, "origin", n->origin,
                                     "pulled_ms", (json_int_t)n->pulled_ms),
                           err);
}

int names_remove(int namesfd, const char *name, struct err *err)
{
    auto_free char *file = file_of(name);

    if (unlinkat(namesfd, file, 0) < 0)
        return err_sys(err, errno, "remove the image name %s", name);
    if (fsync(namesfd) < 0)
        return err_sys(err, errno, "sync the image names");
    return 0;
}

void names_touch(int namesfd, const char *name)
{
    auto_free char *file = file_of(name);
    struct stat st;

    if (fstatat(namesfd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        now_ms() / 1000 - st.st_mtim.tv_sec >= TOUCH_EVERY_S)
        (void)utimensat(namesfd, file, NULL, AT_SYMLINK_NOFOLLOW);
}

bool names_has(int namesfd, const char *name)
{
    auto_free char *file = file_of(name);

    return faccessat(namesfd, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int names_list(int namesfd, char ***ret, struct err *err)
{
    auto_strv char **files = NULL;
    auto_strv char **names = NULL;
    size_t n = 0;

    if (tree_names(namesfd, LAYER_MAX_ENTRIES, &files, err) < 0)
        return -1;
    names = xcalloc(strv_len(files) + 1, sizeof(*names));
    for (char **f = files; *f; f++) {
        auto_free char *name = NULL, *as_kept = NULL;

        if (!str_ends(*f, ".json"))
            continue;
        name = xstrndup(*f, strlen(*f) - 5);
        for (char *p = name; *p; p++)
            if (*p == '+')
                *p = '/';
        as_kept = image_name_short(name);
        if (as_kept && strcmp(as_kept, name) == 0)
            names[n++] = steal_ptr(name);
    }
    *ret = steal_ptr(names);
    return 0;
}

int names_of(int namesfd, const char *id, char ***ret, struct err *err)
{
    auto_strv char **all = NULL;
    auto_strv char **names = xcalloc(1, sizeof(*names));

    if (names_list(namesfd, &all, err) < 0)
        return -1;
    for (char **name = all; *name; name++) {
        auto_name struct name n = {0};

        if (names_read(namesfd, *name, &n, NULL) == 0 && strcmp(n.id, id) == 0)
            names = strv_add(names, *name);
    }
    *ret = steal_ptr(names);
    return 0;
}
