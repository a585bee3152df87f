#include "service/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/regular.h"
#include "engine/health.h"
#include "service/audit_internal.h"

#define TROUBLE      "audit_not_written"
#define COMMON_BURST 200
#define COMMON_PER_S 20
#define SYNC_S       1

struct audit {
    struct engine *engine;
    uint64_t file_max;
    uint32_t files;
    int dir;

    pthread_mutex_t lock; /* all below */
    pthread_cond_t end;
    int fd;
    char file[AUDIT_NAME_SIZE]; /* its name */
    uint64_t size;    /* of the file: bytes that were there at the start or were written */
    size_t torn;      /* bytes of half a line at its end, of which nothing is said yet */
    unsigned readers; /* that read the files: none is retired meanwhile */
    bool overdue;     /* one would have been */
    uint64_t n;       /* of the last line */
    char hash[DIGEST_HEX];
    bool dirty, ending, in_trouble;
    bool stuck;          /* there is no next file */
    uint64_t lost;       /* that could not be written */
    uint64_t suppressed; /* that were too many */
    double common;       /* how many more of those there may be now */
    int64_t common_ns;
    pthread_t syncer;
    bool syncs;
};

/* ---- lines ---- */

/* Most values are words. */
static bool is_plain(const char *s)
{
    while (*s >= 0x20 && *s < 0x7f && *s != '"' && *s != '\\')
        s++;
    return !*s;
}

static void add_text(struct buf *b, const char *key, const char *value)
{
    json_t *text;
    char *quoted;

    if (is_plain(value)) {
        (void)buf_addf(b, ",\"%s\":\"%s\"", key, value);
        return;
    }
    text = json_string(value);
    quoted = text ? json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    (void)buf_addf(b, ",\"%s\":%s", key, quoted ? quoted : "\"?\"");
    free(quoted);
    json_decref(text);
}

static void add_known(struct buf *b, const char *key, const char *value)
{
    if (value && *value)
        add_text(b, key, value);
}

static int build_line(const struct audit *a, const struct audit_entry *e, struct buf *b,
                      char hash[DIGEST_HEX])
{
    EVP_MD_CTX *sha = digest_new();
    size_t begin = b->len;

    (void)buf_addf(b, "{\"n\":%llu,\"time\":%lld", (unsigned long long)a->n + 1,
                   (long long)now_ms());
    add_known(b, "who", e->who);
    add_known(b, "face", e->face);
    add_known(b, "from", e->from);
    add_text(b, "function", e->function);
    add_known(b, "sandboxId", e->sandbox_id);
    add_text(b, "result", e->result);
    add_known(b, "code", e->code);
    if (e->ms > 0)
        (void)buf_addf(b, ",\"ms\":%.3f", e->ms);
    if (e->detail)
        (void)buf_addf(b, ",\"detail\":%s", e->detail);
    (void)buf_addf(b, ",\"prev\":\"%s\"", a->hash);
    digest_add(sha, b->data + begin, b->len - begin);
    digest_end(sha, hash);
    return buf_addf(b, ",\"hash\":\"%s\"}\n", hash);
}

/* ---- files ---- */

/* Under the number of its first line. When it fails the file that was open still is. */
static int open_file(struct audit *a, bool is_new, const char *name, struct err *err)
{
    char own[AUDIT_NAME_SIZE];
    auto_close int fd = -1;
    struct stat st;

    (void)snprintf(own, sizeof(own), "audit-%016llu.jsonl", (unsigned long long)a->n + 1);
    if (is_new)
        name = own;
    fd = regular_open(a->dir, name, O_WRONLY | O_APPEND | (is_new ? O_CREAT : 0), 0600, err);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_wrap(err, "the audit log in CAY_DATA/audit");
    if (a->fd >= 0)
        (void)fdatasync(a->fd);
    close_fd(&a->fd);
    a->fd = steal_fd(fd);
    a->size = (uint64_t)st.st_size;
    (void)snprintf(a->file, sizeof(a->file), "%s", name);
    if (is_new)
        (void)fsync(a->dir);
    return 0;
}

/* All or nothing: half a line at the end would be one that somebody has cut. */
static int put_line(struct audit *a, const struct buf *b)
{
    off_t end = lseek(a->fd, 0, SEEK_END); /* past a->size when somebody else has appended */
    int r = write_all(a->fd, b->data, b->len);

    if (r < 0) {
        if (end >= 0)
            (void)ftruncate(a->fd, end);
        return r;
    }
    a->size += b->len;
    a->dirty = true;
    return 0;
}

static int put(struct audit *a, const struct audit_entry *e)
{
    auto_buf struct buf b = {0};
    char hash[DIGEST_HEX];
    int r;

    buf_init(&b, AUDIT_LINE_MAX);
    if (a->torn > 0)
        (void)buf_add_str(&b, "\n");
    r = build_line(a, e, &b, hash);
    if (r == 0)
        r = put_line(a, &b);
    if (r < 0)
        return r;
    a->n++;
    memcpy(a->hash, hash, sizeof(a->hash));
    return 0;
}

/* What the daemon itself has to say. */
static int put_own(struct audit *a, const char *word, json_t *detail)
{
    char *text = json_dumps(detail, JSON_COMPACT);
    struct audit_entry e = {.function = word, .result = "ok", .detail = text};
    int r = put(a, &e);

    json_decref(detail);
    free(text);
    return r;
}

/* The chain goes on in a new file; of those that go it is said which. */
static void retire_old(struct audit *a)
{
    struct audit_files files = {0};

    a->overdue = a->readers > 0;
    if (a->overdue || audit_files_list(a->dir, &files, NULL) < 0)
        return; /* the last reader does it, or the next rotation */
    for (size_t i = 0; i + a->files < files.n; i++) {
        unsigned long long next = strtoull(files.names[i + 1] + strlen("audit-"), NULL, 10);

        if (put_own(
                a, "audit.retired",
                json_pack("{s:s, s:I}", "file", files.names[i], "last", (json_int_t)next - 1)) == 0)
            (void)unlinkat(a->dir, files.names[i], 0);
    }
    audit_files_done(&files);
}

/* While that is not possible the file grows: each line tries again. */
static void rotate(struct audit *a)
{
    struct err err = {0};
    bool was = a->stuck;

    if (a->size < a->file_max)
        return;
    a->stuck = open_file(a, true, NULL, &err) < 0;
    if (!a->stuck)
        retire_old(a);
    else if (!was)
        log_error("the audit log cannot go on in another file", "error", err.text);
}

/* ---- write ---- */

static bool is_too_common(struct audit *a)
{
    int64_t now = mono_ns();

    a->common += (double)(now - a->common_ns) * COMMON_PER_S / 1e9;
    a->common_ns = now;
    if (a->common > COMMON_BURST)
        a->common = COMMON_BURST;
    if (a->common < 1) {
        a->suppressed++;
        return true;
    }
    a->common--;
    return false;
}

/* What is to be said before the next line. */
static int catch_up(struct audit *a)
{
    if (a->fd < 0)
        return -EBADF;
    if (a->torn > 0) { /* with the end of the half line in one write: it explains that one */
        if (put_own(a, "audit.recovered", json_pack("{s:I}", "bytes", (json_int_t)a->torn)) < 0)
            return -EIO;
        a->torn = 0;
    }
    if (a->lost > 0) {
        if (put_own(a, "audit.lost", json_pack("{s:I}", "lines", (json_int_t)a->lost)) < 0)
            return -EIO;
        a->lost = 0;
    }
    if (a->suppressed > 0 && a->common >= 1) {
        if (put_own(a, "audit.suppressed", json_pack("{s:I}", "lines", (json_int_t)a->suppressed)) <
            0)
            return -EIO;
        a->suppressed = 0;
    }
    return 0;
}

void audit_write(struct audit *a, const struct audit_entry *entry)
{
    bool ok, was;

    (void)pthread_mutex_lock(&a->lock);
    if (entry->is_common && is_too_common(a)) {
        (void)pthread_mutex_unlock(&a->lock);
        return;
    }
    ok = catch_up(a) == 0 && put(a, entry) == 0;
    if (!ok)
        a->lost++;
    was = a->in_trouble;
    a->in_trouble = !ok;
    if (ok)
        rotate(a);
    (void)pthread_mutex_unlock(&a->lock);
    if (!ok && engine_trouble(a->engine, TROUBLE, "", "the audit log cannot be written"))
        log_error("the audit log cannot be written; calls go on", "function", entry->function);
    if (ok && was)
        engine_trouble_over(a->engine, TROUBLE, "");
}

/* The lines are in the file already: a daemon that is killed loses none. */
static void *sync_thread(void *arg)
{
    struct audit *a = arg;

    (void)pthread_mutex_lock(&a->lock);
    while (!a->ending) {
        struct timespec until;
        int fd;

        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += SYNC_S;
        (void)pthread_cond_timedwait(&a->end, &a->lock, &until);
        if (!a->dirty || a->fd < 0)
            continue;
        a->dirty = false;
        fd = fcntl(a->fd, F_DUPFD_CLOEXEC, 3);
        (void)pthread_mutex_unlock(&a->lock);
        if (fd >= 0)
            (void)fdatasync(fd);
        close_fd(&fd);
        (void)pthread_mutex_lock(&a->lock);
    }
    (void)pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* What is in the folder beside what was written; end->there is set. */
static const char *foreign_change(const struct audit *a, struct audit_end *end)
{
    const struct audit_files *files = &end->files;
    struct stat ours, named;

    if (a->fd < 0 || fstat(a->fd, &ours) < 0)
        return NULL;
    end->there = (uint64_t)ours.st_size;
    if (fstatat(a->dir, a->file, &named, AT_SYMLINK_NOFOLLOW) < 0)
        return "the file that the daemon writes to was removed";
    if (named.st_dev != ours.st_dev || named.st_ino != ours.st_ino)
        return "the file that the daemon writes to was replaced";
    if (files->n > 0 && strcmp(files->names[files->n - 1], a->file) > 0)
        return "there is a later file, which the daemon did not write";
    return end->there > a->size ? "something was appended that the daemon did not write" : NULL;
}

int audit_read_begin(struct audit *a, struct audit_end *ret, struct err *err)
{
    int r;

    (void)pthread_mutex_lock(&a->lock);
    *ret = (struct audit_end){.dir = a->dir, .n = a->n, .size = a->size, .there = a->size};
    memcpy(ret->hash, a->hash, sizeof(ret->hash));
    memcpy(ret->file, a->file, sizeof(ret->file));
    r = audit_files_list(a->dir, &ret->files, err);
    if (r == 0) {
        ret->foreign = foreign_change(a, ret);
        a->readers++;
    }
    (void)pthread_mutex_unlock(&a->lock);
    return r;
}

void audit_read_end(struct audit *a, struct audit_end *end)
{
    (void)pthread_mutex_lock(&a->lock);
    a->readers--;
    if (a->overdue)
        retire_old(a);
    (void)pthread_mutex_unlock(&a->lock);
    audit_files_done(&end->files);
}

/* ---- open ---- */

static int go_on(struct audit *a, struct err *err)
{
    struct audit_files files = {0};
    struct audit_last last;
    int r;

    if (audit_files_list(a->dir, &files, err) < 0)
        return -1;
    r = audit_files_last(a->dir, &files, &last, err);
    if (last.found) {
        a->n = last.place.n;
        memcpy(a->hash, last.place.hash, sizeof(a->hash));
    }
    if (r == 0)
        r = open_file(a, files.n == 0, files.n ? files.names[files.n - 1] : NULL, err);
    audit_files_done(&files);
    if (r < 0)
        return -1;
    if (last.unended && write_all(a->fd, "\n", 1) == 0)
        a->size++;
    a->torn = last.torn;
    (void)catch_up(a); /* while the disk is full, before the next line */
    return 0;
}

int audit_open(const struct audit_config *config, struct engine *e, struct audit **ret,
               struct err *err)
{
    auto_free char *path = xasprintf("%s/audit", config->data_dir);
    struct audit *a = xcalloc(1, sizeof(*a));

    *a = (struct audit){.engine = e,
                        .file_max = (uint64_t)config->file_mb << 20,
                        .files = config->files,
                        .dir = -1,
                        .fd = -1,
                        .hash = AUDIT_FIRST,
                        .common = COMMON_BURST,
                        .common_ns = mono_ns()};
    (void)pthread_mutex_init(&a->lock, NULL);
    (void)pthread_cond_init(&a->end, NULL);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        (void)err_sys(err, errno, "make %s", path);
    a->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (a->dir < 0 ? err_sys(err, errno, "open %s", path) < 0 : go_on(a, err) < 0) {
        audit_close(a);
        return -1;
    }
    a->syncs = pthread_create(&a->syncer, NULL, sync_thread, a) == 0;
    *ret = a;
    return 0;
}

void audit_close(struct audit *a)
{
    if (!a)
        return;
    (void)pthread_mutex_lock(&a->lock);
    a->ending = true;
    (void)pthread_cond_signal(&a->end);
    (void)pthread_mutex_unlock(&a->lock);
    if (a->syncs)
        (void)pthread_join(a->syncer, NULL);
    if (a->fd >= 0)
        (void)fdatasync(a->fd);
    close_fd(&a->fd);
    close_fd(&a->dir);
    (void)pthread_cond_destroy(&a->end);
    (void)pthread_mutex_destroy(&a->lock);
    free(a);
}
