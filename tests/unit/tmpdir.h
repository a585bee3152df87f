#pragma once

/* A directory of its own for a test, removed with all that is in it when the variable goes, or when
 * the test fails before. It is in memory where that is possible: most of the time of a test that
 * stores something was spent waiting for the machine's disk. */

#include <ftw.h>
#include <glob.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
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

/* Of a tmpfs that takes what a test writes and runs its programs. */
static inline bool dir_is_memory(const char *path)
{
    struct statvfs room;
    struct statfs fs;

    return statfs(path, &fs) == 0 && fs.f_type == TMPFS_MAGIC && access(path, W_OK) == 0 &&
           statvfs(path, &room) == 0 && !(room.f_flag & ST_NOEXEC) &&
           (unsigned long long)room.f_bavail * room.f_frsize >= 1ull << 30;
}

/* Where directories of tests are made. TMPDIR decides when it is set. */
static inline const char *dir_parent(bool in_memory)
{
    const char *told = getenv("TMPDIR");

    return told ? told : in_memory && dir_is_memory("/dev/shm") ? "/dev/shm" : "/tmp";
}

static inline char *dir_new_below(const char *parent)
{
    char *dir = NULL;

    if (asprintf(&dir, "%s/cay-test-XXXXXX", parent) < 0 || !mkdtemp(dir))
        abort();
    dir_note(dir);
    return dir;
}

static inline char *dir_new(void)
{
    return dir_new_below(dir_parent(true));
}

/* For a test of which a real filesystem is the subject. */
static inline char *dir_new_on_disk(void)
{
    return dir_new_below(dir_parent(false));
}

static inline int files_like(const char *pattern)
{
    glob_t g;
    int n = glob(pattern, 0, NULL, &g) == 0 ? (int)g.gl_pathc : 0;

    globfree(&g);
    return n;
}
