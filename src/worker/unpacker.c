/* The unpacker: all work on images, behind its walls (main.c). */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "layer/trusted.h"
#include "wall/wall.h"
#include "worker/worker.h"

#define TASKS_MAX 64

static const struct {
    const char *op;
    int (*run)(const struct worker_request *q, json_t **ret, struct err *err);
} operations[] = {
    {"pull", worker_pull},
    {"import", worker_import},
    {"export", worker_export},
    {"commit", worker_commit},
    {"layer_export", worker_layer_export},
    {"layer_import", worker_layer_import},
    {"build", worker_build},
    {"context", worker_context},
    {"show", worker_show},
};

/* In its user namespace, over what it was handed: owners (CHOWN), modes and times of what is not
 * ours any more (FOWNER), setgid bits, which a change of owner or of content would clear (FSETID),
 * folders of others and without any rights (DAC_OVERRIDE). Not CAP_MKNOD: the kernel lets everyone
 * make whiteouts. */
#define KEPT                                                                                       \
    (CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_DAC_OVERRIDE))

/* Each to its number; nothing else stays. */
static int place_descriptors(int work, int trusted, int ask)
{
    if (dup2(work, STDIN_FILENO) < 0 || dup2(trusted, FD_TRUSTED) < 0 || dup2(ask, FD_FETCH) < 0)
        return -errno;
    if (close_range(FD_LAYERS, FD_TMP, 0) < 0 || close_range(FD_FETCH + 1, ~0u, 0) < 0)
        return -errno;
    return 0;
}

/* The layers and the folder, and with some work another descriptor. */
static int take_descriptors(uint64_t *ret_len, struct err *err)
{
    static const int numbers[] = {FD_LAYERS, FD_TMP, FD_OTHER};
    int fds[ARRAY_LEN(numbers)];
    size_t n = ARRAY_LEN(fds);
    ssize_t got = recv_fds(STDIN_FILENO, ret_len, sizeof(*ret_len), fds, &n);

    if (got == 0)
        _exit(1); /* the keeper has said why */
    if (got != (ssize_t)sizeof(*ret_len) || *ret_len > REQUEST_MAX)
        return err_sys(err, got < 0 ? (int)-got : EPROTO, "take the request");
    for (size_t i = 0; i < n; i++) /* out of each other's way first */
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FD_KEPT);
    for (size_t i = 0; i < n; i++)
        if (fds[i] < 0 || dup2(fds[i], numbers[i]) < 0)
            return err_sys(err, errno, "take the descriptors");
    if (n < ARRAY_LEN(numbers))
        (void)close(FD_OTHER); /* a number that a received one may have had */
    if (close_range(FD_FETCH + 1, ~0u, 0) < 0)
        return err_sys(err, errno, "take the descriptors");
    return 0;
}

static int wall_up(struct err *err)
{
    auto_close int root = -1;

    if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return err_sys(err, errno, "take the ids of the unpacking process");
    if (wall_root_new(&root, err) < 0 || wall_root_enter(root, err) < 0 ||
        wall_capabilities(KEPT, err) < 0 || wall_tasks(TASKS_MAX, err) < 0)
        return -1;
    /* After the ids: a change of them takes it back. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return err_sys(err, errno, "end with the image worker");
    return wall_filter(FILTER_UNPACK, err);
}

static int read_request(uint64_t len, struct worker_request *q, struct err *err)
{
    auto_free char *text = xmalloc((size_t)len + 1);
    json_int_t max_bytes, max_entries;
    int r = read_exact(STDIN_FILENO, text, (size_t)len);

    if (r < 0)
        return err_sys(err, -r, "read the request");
    q->json = json_loadb(text, (size_t)len, JSON_REJECT_DUPLICATES, NULL);
    if (json_unpack(q->json, "{s:I, s:I}", "max_bytes", &max_bytes, "max_entries", &max_entries) <
        0)
        return err_set(err, ERR_INTERNAL, "the request lacks max_bytes or max_entries");
    q->tmp = FD_TMP;
    q->max_bytes = (uint64_t)max_bytes;
    q->max_entries = (uint64_t)max_entries;
    q->budget = xcalloc(1, sizeof(*q->budget));
    layer_budget_init(q->budget, q->max_bytes, q->max_entries, FD_TMP);
    return 0;
}

/* Nobody waits for us any more, or nobody is left. */
static void *watch(void *arg)
{
    char byte;

    (void)arg;
    while (read_some(STDIN_FILENO, &byte, 1) > 0)
        ;
    _exit(0);
}

static int run(struct worker_request *q, json_t **ret, struct err *err)
{
    pthread_t thread;
    const char *op;
    uint64_t len;
    int r;

    if (take_descriptors(&len, err) < 0 || wall_up(err) < 0 || read_request(len, q, err) < 0)
        return -1;
    trusted_ask(FD_TRUSTED);
    r = pthread_create(&thread, NULL, watch, NULL);
    if (r != 0)
        return err_sys(err, r, "start a thread");
    op = request_string(q, "op");
    for (size_t i = 0; op && i < ARRAY_LEN(operations); i++)
        if (strcmp(op, operations[i].op) == 0)
            return operations[i].run(q, ret, err);
    return err_set(err, ERR_INTERNAL, "the image worker cannot do what it was asked");
}

void unpacker_run(int work, int trusted, int ask)
{
    struct worker_request q = {.tmp = -1};
    char warm[DIGEST_HEX];
    struct err err = {0};
    json_t *image = NULL;

    (void)prctl(PR_SET_NAME, "cay-unpack");
    wall_environment();
    if (place_descriptors(work, trusted, ask) < 0)
        _exit(1);
    text_digest("", 0, warm); /* OpenSSL reads its configuration, while it can be seen */
    if (run(&q, &image, &err) < 0)
        event_fail(&err);
    event_send(json_pack("{s:s, s:o*}", "event", "done", "image", image));
    _exit(0); /* the watching thread waits for nothing more */
}
