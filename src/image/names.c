/* What a name means, one small JSON file each. A name's '/' is '+' in its file name; '+' itself is
 * not allowed in names, so that two names never share a file. */
#include "image/image_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/image.h"

#define FILE_SIZE_MAX (64u << 10)
#define LAYERS_MAX    128

bool image_name_valid(const char *name)
{
    static const char alnum[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t len = strlen(name);

    if (len == 0 || len > NAME_MAX_LEN)
        return false;
    /* Begins and ends as a word: no hidden files, no options, no empty parts. */
    if (!strchr(alnum, name[0]) || !strchr(alnum, name[len - 1]))
        return false;
    for (const char *p = name; *p; p++) {
        if (!strchr(alnum, *p) && !strchr("._-/:@", *p))
            return false;
        if (strchr("./:@", *p) && strchr("./:@", p[1])) /* "..", "//", ":/" … */
            return false;
    }
    return true;
}

bool digest_valid(const char *s)
{
    return strlen(s) == DIGEST_HEX - 1 && strspn(s, "0123456789abcdef") == DIGEST_HEX - 1;
}

static char *file_of(const char *name)
{
    char *file = xasprintf("%s.json", name);

    for (char *p = file; *p; p++)
        if (*p == '/')
            *p = '+';
    return file;
}

static json_t *strings_json(char *const *v)
{
    json_t *a = json_array();

    for (; v && *v; v++)
        (void)json_array_append_new(a, json_string(*v));
    return a;
}

/* NULL unless it is an array of strings. */
static char **strings_load(const json_t *a)
{
    auto_strv char **v = xcalloc(1, sizeof(*v));

    if (!json_is_array(a) || json_array_size(a) > LAYERS_MAX)
        return NULL;
    for (size_t i = 0; i < json_array_size(a); i++) {
        const char *s = json_string_value(json_array_get(a, i));

        if (!s)
            return NULL;
        v = strv_add(v, s);
    }
    return steal_ptr(v);
}

static struct image *image_load(const json_t *o, const char *name)
{
    const char *id, *workdir, *user;
    json_int_t created, size;
    json_t *layers, *env;
    struct image *image;

    if (json_unpack((json_t *)o, "{s:s, s:o, s:o, s:s, s:s, s:I, s:I}", "id", &id, "layers",
                    &layers, "env", &env, "workdir", &workdir, "user", &user, "created", &created,
                    "size", &size) < 0)
        return NULL;
    image = xcalloc(1, sizeof(*image));
    image->name = xstrdup(name);
    image->id = xstrdup(id);
    image->layers = strings_load(layers);
    image->binds = xcalloc(1, sizeof(*image->binds));
    image->env = strings_load(env);
    image->workdir = xstrdup(workdir);
    image->user = xstrdup(user);
    image->created_ms = created;
    image->size = size;
    if (image->layers && image->env) {
        char **l = image->layers;

        while (*l && digest_valid(*l))
            l++;
        if (!*l && l > image->layers)
            return image;
    }
    image_free(image);
    return NULL;
}

static int read_json(int fd, json_t **ret)
{
    auto_free char *text = xmalloc(FILE_SIZE_MAX);
    size_t len = 0;
    ssize_t n;

    while (len < FILE_SIZE_MAX && (n = read(fd, text + len, FILE_SIZE_MAX - len)) > 0)
        len += (size_t)n;
    *ret = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    return *ret ? 0 : -1;
}

int names_read(int namesfd, const char *name, struct image **ret, struct err *err)
{
    auto_free char *file = file_of(name);
    auto_close int fd = openat(namesfd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    json_t *o;

    if (fd < 0 && errno == ENOENT)
        return err_code(err, ERR_NOT_FOUND, "image_not_found",
                        "Image not found: %s. `cay image ls` shows what is here, `cay image import "
                        "PATH NAME` adds one; \"host\" always works",
                        name);
    if (fd < 0)
        return err_sys(err, errno, "open what the image name %s stands for", name);
    if (read_json(fd, &o) == 0) {
        *ret = image_load(o, name);
        json_decref(o);
        if (*ret)
            return 0;
    }
    return err_set(err, ERR_INTERNAL, "images/names/%s is damaged; import the image again", file);
}

int names_write(int namesfd, const struct image *image, struct err *err)
{
    auto_free char *file = file_of(image->name);
    auto_free char *text = NULL;
    json_t *o =
        json_pack("{s:i, s:s, s:s, s:o, s:o, s:s, s:s, s:I, s:I}", "version", 1, "name",
                  image->name, "id", image->id, "layers", strings_json(image->layers), "env",
                  strings_json(image->env), "workdir", image->workdir, "user", image->user,
                  "created", (json_int_t)image->created_ms, "size", (json_int_t)image->size);

    if (!o)
        abort(); /* every string in it was checked */
    text = json_dumps(o, JSON_INDENT(2));
    json_decref(o);
    if (!text)
        abort();
    return tree_replace_file(namesfd, file, text, strlen(text), err);
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

int names_list(int namesfd, char ***ret, struct err *err)
{
    auto_strv char **files = NULL;
    auto_strv char **names = xcalloc(1, sizeof(*names));

    if (tree_names(namesfd, NAMES_MAX, &files, err) < 0)
        return -1;
    for (char **f = files; *f; f++) {
        if (!str_ends(*f, ".json"))
            continue;
        (*f)[strlen(*f) - 5] = '\0';
        for (char *p = *f; *p; p++)
            if (*p == '+')
                *p = '/';
        if (image_name_valid(*f))
            names = strv_add(names, *f);
    }
    *ret = steal_ptr(names);
    return 0;
}
