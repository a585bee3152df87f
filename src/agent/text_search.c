#include "agent/text_search.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/path_glob.h"
#include "agent/regex.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

#define TELL_NS      (1000ll * 1000 * 1000)
#define LIGHT_MEMORY (HEAVY_FROM / 2)

bool is_binary(const char *data, size_t len)
{
    return memchr(data, '\0', len < TEXT_LOOK_BYTES ? len : TEXT_LOOK_BYTES) != NULL;
}

void text_search_done(struct text_search *t)
{
    regex_free(t->re);
    buf_done(&t->alive);
}

int text_search_compile(struct text_search *t, const char *pattern, unsigned flags, struct err *err)
{
    struct err why = {0};
    int r = regex_compile(pattern, flags, LIGHT_MEMORY, &t->re, &why);

    if (r < 0 && why.kind == ERR_TOO_LARGE) {
        if (heavy_turn(t->walk.call, err) < 0)
            return -1;
        r = regex_compile(pattern, flags, REGEX_MEMORY_MAX, &t->re, &why);
    }
    if (r < 0) {
        why.kind = ERR_INVALID;
        if (err)
            *err = why;
        return -1;
    }
    t->told_ns = mono_ns();
    regex_watch(t->re, text_search_goes_on, t);
    return 0;
}

static bool globs_fit(char **globs)
{
    for (; *globs; globs++)
        if (!**globs || strlen(*globs) > GLOB_BYTES_MAX)
            return false;
    return true;
}

int text_search_check_globs(const struct text_search *t, struct err *err)
{
    if (globs_fit(t->include) && globs_fit(t->exclude))
        return 0;
    return err_code(err, ERR_INVALID, "bad_fs_request", "a glob has 1 to %d bytes", GLOB_BYTES_MAX);
}

bool text_search_goes_on(void *text_search)
{
    struct text_search *t = text_search;

    if (t->gone || mono_ns() - t->told_ns < TELL_NS)
        return !t->gone;
    t->told_ns = mono_ns();
    t->gone = call_gone(t->walk.call) ||
              call_send_try(t->walk.call, FRAME_ITEM, t->alive.data, t->alive.len) < 0;
    return !t->gone;
}

/* What follows root. A file that is root itself goes by its name. */
static const char *below_root(const struct text_search *t, const char *path)
{
    size_t len = strlen(t->root);
    const char *slash = strrchr(path, '/');

    if (strncmp(path, t->root, len) != 0 || !path[len])
        return slash ? slash + 1 : path;
    path += len;
    return *path == '/' ? path + 1 : path;
}

static bool any_matches(char **globs, const char *path)
{
    for (; *globs; globs++)
        if (path_glob(*globs, path))
            return true;
    return false;
}

bool text_search_takes(const struct text_search *t, const char *path)
{
    const char *below = below_root(t, path);

    return (!*t->include || any_matches(t->include, below)) && !any_matches(t->exclude, below);
}

/* True if the glob is about all that is in a directory, and path is such a directory. */
static bool glob_takes_all(const char *glob, const char *path)
{
    char dir[GLOB_BYTES_MAX + 1];
    size_t len = strlen(glob);

    if (!str_ends(glob, "/**") || len > GLOB_BYTES_MAX)
        return false;
    memcpy(dir, glob, len - 3);
    dir[len - 3] = '\0';
    /* Without a slash it would be about a name at any depth. */
    return strchr(dir, '/') ? path_glob(dir, path) : !strchr(path, '/') && path_glob(dir, path);
}

bool text_search_skips(struct walk *w, const char *path)
{
    struct text_search *t = (struct text_search *)w;
    const char *below = below_root(t, path);

    if (!text_search_goes_on(t))
        _exit(0);
    for (char **glob = t->exclude; *glob; glob++)
        if (glob_takes_all(*glob, below))
            return true;
    return false;
}

int text_search_look(const struct text_search *t, bool recursive, struct err *err)
{
    struct stat st;

    if (stat(t->root, &st) < 0)
        return file_error(err, errno, t->root);
    if (S_ISDIR(st.st_mode) && !recursive)
        return err_code(err, ERR_INVALID, "bad_fs_request",
                        "%.150s is a directory; say recursive to look into it", t->root);
    return S_ISDIR(st.st_mode);
}
