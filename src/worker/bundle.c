/* Files by name, as `docker save` and OCI layouts have them. In an archive they come in any order
 * and may be links to one another, so a first pass makes an index: where each begins and how long
 * it is. A plain archive is then read where it is; of a compressed one the files are first
 * unpacked, one behind the other, into a single file without a name. Links are looked up in the
 * index, never on disk. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "worker/worker.h"

#define ENTRIES_MAX 20000
#define LINKS_MAX   8
#define RATIO_MAX   1000
#define RATIO_FROM  (100ull << 20)

struct entry {
    char *name;
    char *target; /* of a link, as a name here; NULL = a file */
    uint64_t at, size;
};

struct bundle {
    int fd;       /* the folder, the archive, or what was unpacked of it; not owned */
    int unpacked; /* the last of these; owned */
    bool is_dir;
    struct entry *entries;
    size_t n;
};

void bundle_file_done(struct bundle_file *p)
{
    close_fd(&p->fd);
}

struct bundle *bundle_of_dir(int dirfd)
{
    struct bundle *b = xcalloc(1, sizeof(*b));

    b->fd = dirfd;
    b->unpacked = -1;
    b->is_dir = true;
    return b;
}

void bundle_free(struct bundle *b)
{
    if (!b)
        return;
    close_fd(&b->unpacked);
    for (size_t i = 0; i < b->n; i++) {
        free(b->entries[i].name);
        free(b->entries[i].target);
    }
    free(b->entries);
    free(b);
}

/* ---- the index of an archive ---- */

/* Names without "./", ".." and double slashes; NULL if it leads out. dir is where a relative name
 * starts ("" = the top). */
static char *clean_name(const char *dir, const char *name)
{
    auto_free char *path = name[0] == '/' ? xstrdup(name) : xasprintf("%s/%s", dir, name);
    char *out = xcalloc(1, strlen(path) + 1);
    size_t n = 0;

    for (const char *p = path; *p;) {
        size_t part = strcspn(p, "/");

        if (part == 2 && p[0] == '.' && p[1] == '.') {
            if (n == 0) {
                free(out);
                return NULL;
            }
            while (n > 0 && out[--n] != '/')
                ;
        } else if (part > 0 && !(part == 1 && p[0] == '.')) {
            if (n > 0)
                out[n++] = '/';
            memcpy(out + n, p, part);
            n += part;
        }
        p += part + (p[part] == '/');
    }
    out[n] = '\0';
    return out;
}

/* Does a bundle have entries of that name? Roots have folders at their top, which bundles do not
 * have under other names; files there are called anything. */
static bool is_part_name(const char *name, bool is_file)
{
    static const char *const known[] = {"manifest.json", "repositories", "oci-layout",
                                        "index.json",    "VERSION",      "blobs"};
    char first[DIGEST_HEX] = "";

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(name, known[i]) == 0)
            return true;
    if (str_starts(name, "blobs/") || (is_file && !strchr(name, '/')))
        return true;
    (void)snprintf(first, sizeof(first), "%s", name);
    return digest_valid(first);
}

static int damaged(struct archive *a, struct err *err)
{
    const char *text = archive_error_string(a);
    char shown[96];

    return err_code(err, ERR_INVALID, "bad_image", "the archive is damaged: %s",
                    printable(text ? text : "unknown error", shown));
}

static bool is_bomb(struct archive *a, uint64_t written, uint64_t max_bytes)
{
    uint64_t in = (uint64_t)archive_filter_bytes(a, -1), out = (uint64_t)archive_filter_bytes(a, 0);

    return written > max_bytes || (out > RATIO_FROM && out / RATIO_MAX > in);
}

/* What is behind the entry goes to the end of fd. */
static int unpack_entry(const struct worker_request *q, struct archive *a, int fd, uint64_t *end,
                        struct err *err)
{
    const void *data;
    la_int64_t at;
    size_t len;
    int r;

    while ((r = archive_read_data_block(a, &data, &len, &at)) == ARCHIVE_OK) {
        int failed;

        *end += len;
        if (is_bomb(a, *end, q->max_bytes))
            return err_code(err, ERR_TOO_LARGE, "image_too_large",
                            "the archive unpacks to more than an image may have");
        failed = write_all(fd, data, len);
        if (failed < 0)
            return err_sys(err, -failed, "unpack the archive");
    }
    return r == ARCHIVE_EOF ? 0 : damaged(a, err);
}

/* 1 when the entry is not one of a bundle. */
static int index_entry(const struct worker_request *q, struct archive *a, struct archive_entry *e,
                       struct bundle *b, uint64_t *end, struct err *err)
{
    const char *path = archive_entry_pathname(e), *hard = archive_entry_hardlink(e);
    const char *soft = archive_entry_symlink(e);
    auto_free char *name = path ? clean_name("", path) : NULL, *dir = NULL;
    struct entry *entry;

    if (name && name[0] == '\0')
        return 0; /* the top itself */
    if (!name || !is_part_name(name, archive_entry_filetype(e) == AE_IFREG))
        return 1;
    if (!hard && !soft && archive_entry_filetype(e) != AE_IFREG)
        return 0;
    if (b->n >= ENTRIES_MAX)
        return err_code(err, ERR_TOO_LARGE, "image_too_large", "the archive has too many entries");
    if (archive_entry_sparse_count(e) > 0)
        return err_code(err, ERR_INVALID, "bad_image", "the archive has a sparse file");
    b->entries = xrealloc(b->entries, (b->n + 1) * sizeof(*b->entries));
    entry = &b->entries[b->n++];
    *entry = (struct entry){.at = b->unpacked >= 0 ? *end : (uint64_t)archive_filter_bytes(a, 0)};
    if (hard)
        entry->target = clean_name("", hard);
    if (soft) {
        dir = xstrndup(name, strrchr(name, '/') ? (size_t)(strrchr(name, '/') - name) : 0);
        entry->target = clean_name(dir, soft);
    }
    entry->name = steal_ptr(name);
    entry->size = hard || soft ? 0 : (uint64_t)archive_entry_size(e);
    if ((hard || soft) && !entry->target)
        return err_code(err, ERR_INVALID, "bad_image", "a link in the archive leads out of it");
    if (b->unpacked < 0 || entry->target)
        return 0;
    if (unpack_entry(q, a, b->unpacked, end, err) < 0)
        return -1;
    entry->size = *end - entry->at;
    return 0;
}

static int index_entries(const struct worker_request *q, struct archive *a, struct bundle *b,
                         struct err *err)
{
    struct archive_entry *e;
    uint64_t end = 0;
    int r, kind;

    while ((r = archive_read_next_header(a, &e)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
        /* The compression is known only now: 1 is the file itself. */
        if (archive_filter_count(a) > 2)
            return 1; /* who reads it as a root says what is wrong */
        if (archive_filter_count(a) == 2 && b->unpacked < 0) {
            b->unpacked = openat(q->tmp, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
            if (b->unpacked < 0)
                return err_sys(err, errno, "make a file for what is in the archive");
        }
        kind = index_entry(q, a, e, b, &end, err);
        if (kind != 0)
            return kind;
    }
    if (r != ARCHIVE_EOF)
        return b->n == 0 ? 1 : damaged(a, err);
    return 0;
}

static struct archive *open_tar(int fd)
{
    struct archive *a = archive_read_new();

    if (!a)
        abort();
    /* Only what libarchive decodes by itself: it must never run a program. */
    if (archive_read_support_format_tar(a) == ARCHIVE_OK &&
        archive_read_support_filter_gzip(a) == ARCHIVE_OK &&
        archive_read_support_filter_bzip2(a) == ARCHIVE_OK &&
        archive_read_support_filter_xz(a) == ARCHIVE_OK &&
        archive_read_support_filter_zstd(a) == ARCHIVE_OK &&
        archive_read_open_fd(a, fd, 1 << 16) == ARCHIVE_OK)
        return a;
    (void)archive_read_free(a);
    return NULL;
}

int bundle_of_archive(const struct worker_request *q, int fd, struct bundle **ret, struct err *err)
{
    struct bundle *b = xcalloc(1, sizeof(*b));
    struct archive *a = open_tar(fd);
    int r = 1;

    b->unpacked = -1;
    if (a)
        r = index_entries(q, a, b, err);
    (void)archive_read_free(a);
    b->fd = b->unpacked >= 0 ? b->unpacked : fd;
    if (r == 0 && !bundle_has(b, "manifest.json") && !bundle_has(b, "index.json"))
        r = 1;
    if (r != 0) {
        bundle_free(b);
        b = NULL;
    }
    if (r < 0)
        return -1;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(err, errno, "go to the start of the archive");
    *ret = b;
    return 0;
}

/* ---- files ---- */

/* The last one of that name counts, as it would when unpacked. */
static const struct entry *find(const struct bundle *b, const char *name)
{
    for (int links = 0; links < LINKS_MAX; links++) {
        const struct entry *found = NULL;

        for (size_t i = 0; i < b->n; i++)
            if (strcmp(b->entries[i].name, name) == 0)
                found = &b->entries[i];
        if (!found || !found->target)
            return found;
        name = found->target;
    }
    return NULL;
}

static int open_file(int dirfd, const char *name)
{
    struct open_how how = {
        .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };

    return (int)syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
}

bool bundle_has(const struct bundle *b, const char *name)
{
    struct stat st;

    if (!b->is_dir)
        return find(b, name);
    return fstatat(b->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

int bundle_open(const struct bundle *b, const char *name, struct bundle_file *ret, struct err *err)
{
    const struct entry *entry = b->is_dir ? NULL : find(b, name);
    auto_close int fd = -1;
    struct stat st;
    char shown[96];

    if (b->is_dir)
        fd = open_file(b->fd, name);
    else if (entry)
        fd = fcntl(b->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_code(err, ERR_INVALID, "bad_image", "it names the file %s, which is not there",
                        printable(name, shown));
    *ret = (struct bundle_file){
        .at = entry ? entry->at : 0,
        .size = entry ? entry->size : (uint64_t)st.st_size,
        .fd = steal_fd(fd),
    };
    return 0;
}

int bundle_read(const struct bundle *b, const char *name, size_t max, char **ret, size_t *ret_len,
                struct err *err)
{
    auto_bundle_file struct bundle_file p = {.fd = -1};
    auto_free char *text = NULL;
    char shown[96];

    if (bundle_open(b, name, &p, err) < 0)
        return -1;
    if (p.size > max)
        return err_code(err, ERR_TOO_LARGE, "bad_image", "the file %s is larger than %zu MiB",
                        printable(name, shown), max >> 20);
    text = xcalloc(1, (size_t)p.size + 1);
    for (size_t done = 0; done < p.size;) {
        ssize_t n = pread(p.fd, text + done, (size_t)p.size - done, (off_t)(p.at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_code(err, ERR_INVALID, "bad_image", "the file %s is cut short",
                            printable(name, shown));
        done += (size_t)n;
    }
    *ret_len = (size_t)p.size;
    *ret = steal_ptr(text);
    return 0;
}
