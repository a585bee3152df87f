#pragma once

/* A directory of its own for a test, removed with all that is in it when the variable goes, or when
 * the test fails before. */

#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define auto_dir __attribute__((cleanup(dir_remove)))

static inline int dir_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void dir_remove(char **dir)
{
    (void)nftw(*dir, dir_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(*dir);
}

static struct {
    pid_t owner;
    unsigned n;
    char paths[64][64];
} dirs_made;

static inline void dirs_remove(void)
{
    for (unsigned i = 0; getpid() == dirs_made.owner && i < dirs_made.n; i++)
        (void)nftw(dirs_made.paths[i], dir_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Where one was, none is made again: names are random. */
static inline void dir_note(const char *dir)
{
    if (dirs_made.owner != getpid()) {
        dirs_made.owner = getpid();
        dirs_made.n = 0;
        (void)atexit(dirs_remove);
    }
    if (dirs_made.n < sizeof(dirs_made.paths) / sizeof(dirs_made.paths[0]) &&
        strlen(dir) < sizeof(dirs_made.paths[0]))
        (void)snprintf(dirs_made.paths[dirs_made.n++], sizeof(dirs_made.paths[0]), "%s", dir);
}

static inline char *dir_new(void)
{
    char *dir = NULL;

    if (asprintf(&dir, "%s/cay-test-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp") < 0 ||
        !mkdtemp(dir))
        abort();
    dir_note(dir);
    return dir;
}

static inline int files_like(const char *pattern)
{
    glob_t g;
    int n = glob(pattern, 0, NULL, &g) == 0 ? (int)g.gl_pathc : 0;

    globfree(&g);
    return n;
}

/* In memory, where there is such a place: for very many files and folders. */
static inline char *dir_new_in_memory(void)
{
    char path[] = "/dev/shm/cay-test-XXXXXX";

    if (!mkdtemp(path))
        return dir_new();
    dir_note(path);
    return strdup(path);
}
