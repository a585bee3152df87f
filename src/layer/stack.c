#include "layer/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "layer/layer_internal.h"
#include "layer/stack_internal.h"
#include "layer/tree.h"

#define LINKS_MAX 40

/* ---- paths ---- */

static int bad_path(const char *path, const char *why, struct err *err)
{
    char shown[96];

    return err_code(err, ERR_INVALID, "bad_path", "%s %s", printable(path, shown), why);
}

static void cut_last(char *path)
{
    char *slash = strrchr(path, '/');

    *(slash ? slash : path) = '\0';
}

static int add_part(char path[LAYER_MAX_PATH + 1], const char *part, size_t len, struct err *err)
{
    size_t have = strlen(path);

    if (have + len + 1 > LAYER_MAX_PATH || len > NAME_MAX)
        return bad_path(part, "is too long", err);
    if (have > 0)
        path[have++] = '/';
    memcpy(path + have, part, len);
    path[have + len] = '\0';
    return 0;
}

/* What the link at path says, then the rest: the new rest. */
static int follow(const struct lower *found, char *path, const char *rest, char **ret,
                  struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(found->dir, found->name, target, sizeof(target) - 1);

    if (n < 0)
        return err_sys(err, errno, "read a link of the image");
    target[n] = '\0';
    if (strlen(target) + strlen(rest) > LAYER_MAX_PATH)
        return bad_path(target, "is too long", err);
    *ret = xasprintf("%s/%s", target, rest);
    if (target[0] == '/')
        path[0] = '\0';
    else
        cut_last(path);
    return 0;
}

/* One part more; *rest becomes what is left to be walked. */
static int walk_part(const struct stack *s, char *path, const char *part, size_t len, bool last,
                     char **rest, unsigned *links, struct err *err)
{
    const char *more = part + len + strspn(part + len, "/");
    struct lower found = {.dir = -1};
    auto_free char *next = NULL;
    int r = 0;

    if (len == 2 && part[0] == '.' && part[1] == '.') {
        cut_last(path);
    } else if (len != 1 || part[0] != '.') {
        if (add_part(path, part, len, err) < 0)
            return -1;
        r = lower_find(s->layers, s->n, path, &found, err);
        if (r == LOWER_FOUND && S_ISLNK(found.st.st_mode) && (last || *more)) {
            r = ++*links > LINKS_MAX ? bad_path(path, "leads through too many links", err)
                                     : follow(&found, path, more, &next, err);
        }
        close_fd(&found.dir);
    }
    if (r < 0)
        return -1;
    if (!next)
        next = xstrdup(more);
    free(*rest);
    *rest = steal_ptr(next);
    return 0;
}

/* 1 if there is something at a path that was resolved. */
static int look(const struct stack *s, const char *path, struct stat *st, struct err *err)
{
    struct lower found = {.dir = -1};
    int r;

    if (!*path) {
        *st = (struct stat){.st_mode = S_IFDIR | 0755};
        return 1;
    }
    r = lower_find(s->layers, s->n, path, &found, err);
    close_fd(&found.dir);
    if (r == LOWER_FOUND)
        *st = found.st;
    return r < 0 ? -1 : r == LOWER_FOUND;
}

int stack_resolve(const struct stack *s, const char *path, bool last, char ret[LAYER_MAX_PATH + 1],
                  struct stat *st, struct err *err)
{
    auto_free char *rest = xstrdup(path + strspn(path, "/"));
    unsigned links = 0;

    ret[0] = '\0';
    if (strlen(path) > LAYER_MAX_PATH)
        return bad_path(path, "is too long", err);
    while (*rest) {
        size_t lead = strspn(rest, "/");

        if (lead > 0) { /* of a link that is absolute */
            memmove(rest, rest + lead, strlen(rest + lead) + 1);
            continue;
        }
        if (walk_part(s, ret, rest, strcspn(rest, "/"), last, &rest, &links, err) < 0)
            return -1;
    }
    return look(s, ret, st, err);
}

/* ---- folders ---- */

void view_done(struct view *v)
{
    for (size_t i = 0; i < v->n; i++)
        (void)close(v->fds[i]);
    free(v->fds);
    *v = (struct view){0};
}

void view_add(struct view *v, int fd)
{
    v->fds = xrealloc(v->fds, (v->n + 1) * sizeof(*v->fds));
    v->fds[v->n++] = fd;
}

static int open_failed(const char *name, struct err *err)
{
    char shown[96];

    return err_sys(err, errno, "open %s of the image", printable(name, shown));
}

int view_root(const struct stack *s, struct view *ret, struct err *err)
{
    struct view v = {0};

    for (size_t i = 0; i < s->n; i++) {
        int fd = fcntl(s->layers[i], F_DUPFD_CLOEXEC, 0);

        if (fd < 0) {
            view_done(&v);
            return open_failed("the root", err);
        }
        view_add(&v, fd);
    }
    *ret = v;
    return 0;
}

int view_enter(const struct view *above, const char *name, struct view *ret, struct err *err)
{
    struct view v = {0};

    for (size_t i = 0; i < above->n; i++) {
        int fd = openat(above->fds[i], name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0 && errno == ENOENT)
            continue;
        if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) /* a whiteout, too */
            break;
        if (fd < 0) {
            view_done(&v);
            return open_failed(name, err);
        }
        view_add(&v, fd);
        if (is_opaque(fd))
            break;
    }
    *ret = v;
    return 0;
}

int view_open(const struct stack *s, const char *path, struct view *ret, struct err *err)
{
    struct view v;

    if (view_root(s, &v, err) < 0)
        return -1;
    while (*path) {
        size_t len = strcspn(path, "/");
        auto_free char *name = xstrndup(path, len);
        struct view next;
        int r = view_enter(&v, name, &next, err);

        view_done(&v);
        if (r < 0)
            return -1;
        v = next;
        path += len + (path[len] == '/');
    }
    *ret = v;
    return 0;
}

int view_find(const struct view *v, const char *name, struct stat *st)
{
    for (size_t i = 0; i < v->n; i++) {
        if (fstatat(v->fds[i], name, st, AT_SYMLINK_NOFOLLOW) == 0)
            return is_whiteout(st) ? -1 : v->fds[i];
        if (errno != ENOENT)
            return -1;
    }
    return -1;
}

static char **merged(char **names, size_t n)
{
    char **once = xcalloc(n + 1, sizeof(*once));
    size_t k = 0;

    strings_sort(names, n);
    for (size_t i = 0; i < n; i++) {
        if (k > 0 && strcmp(once[k - 1], names[i]) == 0)
            free(names[i]);
        else
            once[k++] = names[i];
    }
    return once;
}

int view_names(const struct view *v, char ***ret, struct err *err)
{
    auto_free char **all = NULL;
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++) {
        auto_free char **some = NULL;
        size_t len;

        if (tree_names(v->fds[i], LAYER_MAX_ENTRIES, &some, err) < 0) {
            while (n > 0)
                free(all[--n]);
            return -1;
        }
        len = strv_len(some);
        all = xrealloc(all, (n + len + 1) * sizeof(*all));
        memcpy(all + n, some, len * sizeof(*all));
        n += len;
    }
    *ret = merged(all, n);
    return 0;
}

int stack_names(const struct stack *s, const char *dir, char ***ret, struct err *err)
{
    auto_view struct view v = {0};
    auto_strv char **names = NULL, **shown = xcalloc(1, sizeof(*shown));
    struct stat st;

    if (view_open(s, dir, &v, err) < 0 || view_names(&v, &names, err) < 0)
        return -1;
    for (char **name = names; *name; name++)
        if (view_find(&v, *name, &st) >= 0)
            shown = strv_add(shown, *name);
    *ret = steal_ptr(shown);
    return 0;
}

int stack_read(const struct stack *s, const char *path, size_t max, char **ret, size_t *ret_len,
               struct err *err)
{
    struct lower found = {.dir = -1};
    auto_free char *text = NULL;
    auto_close int dir = -1, fd = -1;
    size_t size;
    int r = *path ? lower_find(s->layers, s->n, path, &found, err) : LOWER_ABSENT;

    dir = found.dir;
    if (r < 0)
        return -1;
    if (r != LOWER_FOUND || !S_ISREG(found.st.st_mode))
        return err_code(err, ERR_NOT_FOUND, "file_not_found", "there is no file %.100s", path);
    size = (size_t)found.st.st_size;
    if (size > max)
        return err_code(err, ERR_TOO_LARGE, "too_large", "%.100s is longer than %zu bytes", path,
                        max);
    fd = openat(dir, found.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return open_failed(path, err);
    text = xmalloc(size + 1);
    r = read_exact(fd, text, size);
    if (r < 0)
        return err_sys(err, -r, "read %.100s", path);
    text[size] = '\0';
    *ret = steal_ptr(text);
    *ret_len = size;
    return 0;
}
