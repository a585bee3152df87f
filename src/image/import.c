/* Folders and archives on this machine. The source is opened here, so that the worker needs no
 * path. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/layer.h"

int source_open(const char *path, int *ret_fd, struct err *err)
{
    auto_close int fd = -1;
    struct stat st;
    char shown[96];

    if (path[0] != '/')
        return err_code(err, ERR_INVALID, "bad_path",
                        "%s is not an absolute path on the machine where cay runs",
                        printable(path, shown));
    /* O_NONBLOCK: a fifo must not hold us. */
    fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return err_code(err, ERR_INVALID, "bad_path",
                        "%s does not exist on the machine where cay runs", printable(path, shown));
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(err, errno, "open %s", printable(path, shown));
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return err_code(err, ERR_INVALID, "bad_path", "%s is neither a folder nor an archive",
                        printable(path, shown));
    *ret_fd = steal_fd(fd);
    return 0;
}

/* What the archive calls its image, each in its short form. Who made it chose that, not who imports
 * it: a name that has a meaning already is not given to it. */
static int names_in(const struct image_store *s, const json_t *made, char ***ret, struct err *err)
{
    auto_strv char **said = strings_load(json_object_get(made, "names"));
    auto_strv char **names = xcalloc(1, sizeof(*names));

    for (char **name = said; name && *name; name++) {
        auto_free char *kept = NULL;

        if (name_check_new(*name, false, &kept, err) < 0 ||
            (s->check_name && s->check_name(kept, s->check_arg, err) < 0))
            return err_wrap(err, "what the archive calls its image; give a name");
        names = strv_add(names, kept);
    }
    if (!names[0])
        return err_code(err, ERR_INVALID, "name_missing",
                        "it does not say what its image is called (a tag alone is no name): give "
                        "a name behind the path");
    *ret = steal_ptr(names);
    return 0;
}

static int import_as(struct image_store *s, int source, const char *path, char *name,
                     image_progress progress, void *arg, struct image **ret, struct err *err)
{
    json_t *request = json_pack("{s:s, s:s*}", "op", "import", "name", name), *made = NULL;
    auto_strv char **names = name ? strv_add(NULL, name) : NULL;
    struct work w;
    int r;

    if ((name && room_ask(s, name, err) < 0) || work_begin(s, &w, err) < 0) {
        json_decref(request);
        return -1;
    }
    w.keep_names = !name;
    do {
        json_decref(made);
        made = NULL;
        (void)lseek(source, 0, SEEK_SET);
        r = work_run(&w, request, source, progress, arg, &made, err);
        if (r == 0 && !names)
            r = names_in(s, made, &names, err);
        if (r == 0)
            r = work_publish(&w, made, path, names, ret, err);
    } while (r < 0 && work_lost(&w));
    work_end(&w);
    if (r < 0)
        (void)err_no_space(err, NO_SPACE_ADVICE);
    json_decref(made);
    json_decref(request);
    return r;
}

void image_set_name_check(struct image_store *s, image_name_check check, void *arg)
{
    s->check_name = check;
    s->check_arg = arg;
}

int image_import(struct image_store *s, const char *path, const char *name, image_progress progress,
                 void *arg, struct image **ret, struct err *err)
{
    auto_free char *kept = NULL;
    auto_close int source = -1;
    char shown[96];

    if ((name && name_check_new(name, false, &kept, err) < 0) ||
        source_open(path, &source, err) < 0)
        return -1;
    if (import_as(s, source, path, kept, progress, arg, ret, err) < 0)
        return err_wrap(err, "import %s", printable(path, shown));
    return 0;
}
