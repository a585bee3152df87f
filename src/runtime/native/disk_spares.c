#include "runtime/native/disk_spares.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/remove.h"
#include "base/str.h"
#include "runtime/native/disk.h"
#include "runtime/native/disk_internal.h"

#define SPARES_MAX 16

/* Past these it takes longer to empty a disk than to make another. Each run of blocks that is freed
 * is discarded on its own, some 90 us, and whoever wants to can make every block such a run. The
 * journal is written from its beginning to its end before it is written over. */
#define FILES_MAX  48
#define NAMES_MAX  256        /* in a folder with all below it; a file may have many */
#define BYTES_MAX  (1u << 20) /* in the disk */
#define BACKED_MAX (2u << 20) /* of its file on the host, once it is empty */

/* What a filesystem remembers of its past in ways that nobody thought of does not go on for ever.
 */
#define LIVES_MAX 64

/* What mke2fs gives a filesystem: the reserved ones, and lost+found. */
#define FILES_EMPTY 11

/* The kernel takes down the mounts of a box that has ended by itself, mostly before we look. */
#define LOOKS        10
#define LOOK_WAIT_NS 1000000

const char *const disk_folders[DISK_FOLDERS] = {"upper", "work", "logs"};

struct spare {
    int fd;
    uint32_t mb;
    unsigned lives;
    unsigned number; /* of its file */
};

struct spares {
    char *dir;
    pthread_mutex_t lock;
    struct spare list[SPARES_MAX]; /* the oldest first */
    unsigned n, next_number;
};

static char *path_of(const struct spares *s, unsigned number)
{
    return xasprintf("%s/%u.img", s->dir, number);
}

/* ---- emptying one ---- */

static uint64_t files_in(const struct statvfs *st)
{
    return st->f_files - st->f_ffree;
}

static bool has_little(int fd)
{
    struct statvfs st;

    return fstatvfs(fd, &st) == 0 && !(st.f_flag & ST_RDONLY) &&
           files_in(&st) <= FILES_EMPTY + FILES_MAX &&
           (st.f_blocks - st.f_bfree) * st.f_frsize <= BYTES_MAX;
}

static bool is_empty(int fd)
{
    struct statvfs st;

    for (int looks = 0; looks < LOOKS; looks++) {
        if (looks > 0)
            (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_WAIT_NS}, NULL);
        if (fstatvfs(fd, &st) < 0)
            return false;
        if (files_in(&st) == FILES_EMPTY)
            return true;
    }
    return false;
}

/* Writes out that it is empty. An overlay that goes does that itself, before it lets go of the
 * folders. One that no box had is so on disk already, but for what we made. */
static bool put_on_disk(struct disk_left *left)
{
    auto_close int fd = -1;

    if (left->root >= 0 || !left->used) {
        close_fd(&left->root);
        return true;
    }
    fd = openat(left->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && syncfs(fd) == 0;
}

/* The folders go too: so do their owners, modes, flags, times and attributes. */
static bool empty(struct disk_left *left)
{
    for (size_t i = 0; i < DISK_FOLDERS; i++)
        if (remove_small_tree(left->fd, disk_folders[i], NAMES_MAX) < 0)
            return false;
    return put_on_disk(left) && is_empty(left->fd);
}

/* Not before it is taken: how old they are would tell when the last box went. */
static bool make_folders(int fd)
{
    for (size_t i = 0; i < DISK_FOLDERS; i++)
        if (mkdirat(fd, disk_folders[i], 0700) < 0)
            return false;
    return true;
}

/* What the kernel has found wrong with it stays with it. */
static bool is_sound(int fd)
{
    char name[64], path[128], text[24];

    if (disk_device(fd, name, sizeof(name)) < 0)
        return false;
    (void)snprintf(path, sizeof(path), "/sys/fs/ext4/%s/errors_count", name);
    return read_file_at(AT_FDCWD, path, text, sizeof(text)) > 0 && str_starts(text, "0\n");
}

static bool is_small(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && (uint64_t)st.st_blocks * 512 <= BACKED_MAX;
}

/* ---- keeping them ---- */

static void throw_away(const struct spares *s, const struct spare *spare)
{
    auto_free char *path = path_of(s, spare->number);
    int fd = spare->fd;

    disk_shut_down(fd);
    close_fd(&fd);
    (void)unlink(path);
}

/* With the lock held. */
static struct spare take_out(struct spares *s, unsigned at)
{
    struct spare spare = s->list[at];

    memmove(s->list + at, s->list + at + 1, (--s->n - at) * sizeof(*s->list));
    return spare;
}

bool spares_put(struct spares *s, const char *path, struct disk_left *left)
{
    struct spare oldest = {.fd = -1};
    struct spare spare = {.fd = left->fd, .mb = left->mb, .lives = left->lives + 1};
    auto_free char *to = NULL;

    if (left->lives >= LIVES_MAX - 1 || !has_little(left->fd) || !empty(left) || !is_small(path) ||
        !is_sound(left->fd))
        return false;
    (void)pthread_mutex_lock(&s->lock);
    spare.number = s->next_number++;
    (void)pthread_mutex_unlock(&s->lock);
    to = path_of(s, spare.number);
    if (rename(path, to) < 0)
        return false;
    (void)pthread_mutex_lock(&s->lock);
    if (s->n == SPARES_MAX)
        oldest = take_out(s, 0);
    s->list[s->n++] = spare;
    (void)pthread_mutex_unlock(&s->lock);
    if (oldest.fd >= 0)
        throw_away(s, &oldest);
    return true;
}

int spares_take(struct spares *s, const char *path, uint32_t mb, unsigned *ret_lives)
{
    struct spare spare = {.fd = -1};
    auto_free char *from = NULL;

    (void)pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < s->n && spare.fd < 0; i++)
        if (s->list[i].mb == mb)
            spare = take_out(s, i);
    (void)pthread_mutex_unlock(&s->lock);
    if (spare.fd < 0)
        return -1;
    from = path_of(s, spare.number);
    if (make_folders(spare.fd) && rename(from, path) == 0) {
        *ret_lives = spare.lives;
        return spare.fd;
    }
    throw_away(s, &spare);
    return -1;
}

/* ---- start and end ---- */

/* What a daemon that was killed left there. */
static void remove_old(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;

    while (d && (e = readdir(d)))
        if (str_ends(e->d_name, ".img"))
            (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        (void)closedir(d);
}

/* Without the folder no disk is kept, since none can be moved there. The disk may be full, and that
 * must not keep the daemon away, which can make room. */
struct spares *spares_open(const char *dir)
{
    struct spares *s = xcalloc(1, sizeof(*s));

    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        log_warn("disks cannot be used again, going on", "folder", dir, "error", strerror(errno));
    remove_old(dir);
    s->dir = xstrdup(dir);
    (void)pthread_mutex_init(&s->lock, NULL);
    return s;
}

void spares_free(struct spares *s)
{
    if (!s)
        return;
    while (s->n > 0)
        throw_away(s, &s->list[--s->n]);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->dir);
    free(s);
}
