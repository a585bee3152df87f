#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "worker/worker.h"

#define REQUEST_MAX (32u << 20)

static const struct {
    const char *op;
    int (*run)(const struct worker_request *q, json_t **ret, struct err *err);
} operations[] = {
    {"pull", worker_pull},
    {"import", worker_import},
    {"export", worker_export},
    {"commit", worker_commit},
};

const char *request_string(const struct worker_request *q, const char *key)
{
    return json_string_value(json_object_get(q->json, key));
}

static int read_request(json_t **ret, struct err *err)
{
    auto_buf struct buf b = {0};

    buf_init(&b, REQUEST_MAX);
    while (b.len == 0 || b.data[b.len - 1] != '\n') {
        char *room = buf_room(&b, 65536);
        ssize_t n = room ? read_some(STDIN_FILENO, room, 65536) : -EMSGSIZE;

        if (n == 0)
            _exit(0); /* the daemon changed its mind */
        if (n < 0)
            return err_sys(err, (int)-n, "read the request");
        b.len += (size_t)n;
    }
    *ret = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
    explicit_bzero(b.data, b.len);
    return *ret ? 0 : err_set(err, ERR_INTERNAL, "the request is not JSON");
}

static int take_request(struct worker_request *q, struct err *err)
{
    json_int_t max_bytes, max_entries;
    const char *tmp;

    if (read_request(&q->json, err) < 0)
        return -1;
    if (json_unpack(q->json, "{s:s, s:I, s:I}", "tmp", &tmp, "max_bytes", &max_bytes, "max_entries",
                    &max_entries) < 0 ||
        !id_valid(tmp, "tmp"))
        return err_set(err, ERR_INTERNAL, "the request lacks tmp, max_bytes or max_entries");
    q->max_bytes = (uint64_t)max_bytes;
    q->max_entries = (uint64_t)max_entries;
    q->tmp = openat(FD_LAYERS, tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return q->tmp < 0 ? err_sys(err, errno, "open the worker's folder") : 0;
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
    const char *op;
    pthread_t thread;
    int r;

    if (harden(err) < 0 || take_request(q, err) < 0)
        return -1;
    r = pthread_create(&thread, NULL, watch, NULL);
    if (r != 0)
        return err_sys(err, r, "start a thread");
    op = request_string(q, "op");
    for (size_t i = 0; op && i < ARRAY_LEN(operations); i++)
        if (strcmp(op, operations[i].op) == 0)
            return operations[i].run(q, ret, err);
    return err_set(err, ERR_INTERNAL, "the image worker cannot do what it was asked");
}

int main(void)
{
    struct worker_request q = {.tmp = -1};
    struct err err = {0};
    json_t *image = NULL;

    (void)prctl(PR_SET_NAME, "cay-image"); /* it runs from a descriptor */
    (void)signal(SIGPIPE, SIG_IGN);
    if (run(&q, &image, &err) < 0)
        event_fail(&err);
    event_send(json_pack("{s:s, s:o*}", "event", "done", "image", image));
    _exit(0); /* the watching thread waits for nothing more */
}
