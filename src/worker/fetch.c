/* The fetcher: the network and the passwords of one registry, and nothing else. It has an id that
 * nobody else has, no capability, and of the host's files those that names and certificates need. A
 * thread fetches what the unpacker asks for. */
#include "worker/fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/manifest.h"
#include "oci/reference.h"
#include "registry/registry.h"
#include "wall/wall.h"
#include "worker/secrets.h"
#include "worker/worker.h"

/* Above all ids of sandboxes and of the unpacker. */
#define FETCHER_ID  0x80010000u
#define TASKS_MAX   4096 /* of all pulls together */
#define AT_ONCE     16
#define BUFFER_SIZE (512 << 10)

enum { FD_SECRETS = 0, FD_ASK = 3 };

struct fetcher {
    struct reference ref;
    struct registry *registry; /* NULL = see err */
    struct err err;
    atomic_uint busy;
};

/* One that was asked. */
struct fetch_job {
    struct fetcher *fetcher;
    struct fetch_ask ask;
    int fd;
};

/* ---- what is sent ---- */

/* All of it, however the stream takes it: 0, or -1 when nobody wants it any more. */
static int send_piece(int fd, const void *data, size_t len)
{
    uint32_t head = (uint32_t)len;
    struct iovec parts[2] = {{&head, sizeof(head)}, {(void *)(uintptr_t)data, len}};
    size_t i = 0;

    while (i < ARRAY_LEN(parts)) {
        ssize_t n = writev(fd, parts + i, (int)(ARRAY_LEN(parts) - i));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        while (i < ARRAY_LEN(parts) && (size_t)n >= parts[i].iov_len)
            n -= (ssize_t)parts[i++].iov_len;
        if (i < ARRAY_LEN(parts)) {
            parts[i].iov_base = (char *)parts[i].iov_base + n;
            parts[i].iov_len -= (size_t)n;
        }
    }
    return 0;
}

static int put(const void *data, size_t len, void *arg, struct err *err)
{
    const struct fetch_job *job = arg;

    while (len > 0) {
        size_t n = len < FETCH_PIECE_MAX ? len : FETCH_PIECE_MAX;

        if (send_piece(job->fd, data, n) < 0)
            return err_set(err, ERR_INTERNAL, "it is not wanted any more");
        data = (const char *)data + n;
        len -= n;
    }
    return 0;
}

/* Takes status. */
static void send_status(int fd, json_t *status)
{
    auto_free char *text = json_dumps(status, JSON_COMPACT);

    json_decref(status);
    if (text && send_piece(fd, NULL, 0) == 0)
        (void)write_all(fd, text, strlen(text));
}

/* ---- one piece of work ---- */

static int fetch_manifest(const struct fetch_job *job, json_t **ret, struct err *err)
{
    const struct reference *ref = &job->fetcher->ref;
    const char *own = ref->digest ? ref->digest : ref->tag;
    struct registry_document doc;
    auto_buf struct buf type = {0};
    int r;

    if (registry_manifest(job->fetcher->registry, job->ask.digest[0] ? job->ask.digest : own, &doc,
                          err) < 0)
        return -1;
    r = put(doc.bytes, doc.len, (void *)(uintptr_t)job, err);
    buf_init(&type, FETCH_STATUS_MAX / 8);
    (void)utf8_clean(&type, doc.media_type, strlen(doc.media_type));
    *ret = json_pack("{s:s}", "media_type", type.data ? type.data : "");
    registry_document_done(&doc);
    return r;
}

static int fetch_one(const struct fetch_job *job, json_t **ret, struct err *err)
{
    struct fetcher *f = job->fetcher;
    struct blob blob = {.size = job->ask.size};

    if (!f->registry) {
        *err = f->err;
        return -1;
    }
    if (job->ask.kind == FETCH_MANIFEST)
        return fetch_manifest(job, ret, err);
    memcpy(blob.digest, job->ask.digest, DIGEST_HEX);
    if (registry_blob(f->registry, &blob, put, (void *)(uintptr_t)job, err) < 0)
        return -1;
    *ret = json_object();
    return 0;
}

static void *fetch_thread(void *arg)
{
    struct fetch_job *job = arg;
    int room = BUFFER_SIZE;
    struct err err = {0};
    json_t *status = NULL;

    /* As much as the machine allows: the fewer times that one waits for the other, the better. */
    (void)setsockopt(job->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    if (fetch_one(job, &status, &err) < 0)
        status = error_json(&err);
    send_status(job->fd, status);
    (void)close(job->fd);
    job->fetcher->busy--;
    free(job);
    return NULL;
}

/* ---- what is asked ---- */

static bool is_sane(const struct fetch_ask *ask)
{
    if (memchr(ask->digest, '\0', sizeof(ask->digest)) == NULL)
        return false;
    if (ask->kind == FETCH_MANIFEST)
        return ask->digest[0] == '\0' || digest_valid(ask->digest);
    return ask->kind == FETCH_BLOB && digest_valid(ask->digest) && ask->size >= 0;
}

static void serve(struct fetcher *f)
{
    for (;;) {
        struct fetch_job *job = xcalloc(1, sizeof(*job));
        size_t nfds = 1;
        pthread_t thread;
        ssize_t n;

        *job = (struct fetch_job){.fetcher = f, .fd = -1};
        n = recv_fds(FD_ASK, &job->ask, sizeof(job->ask), &job->fd, &nfds);
        if (n != (ssize_t)sizeof(job->ask) || nfds != 1 || !is_sane(&job->ask) ||
            atomic_fetch_add(&f->busy, 1) >= AT_ONCE ||
            pthread_create(&thread, NULL, fetch_thread, job) != 0)
            return; /* the unpacker has ended, or is not itself any more */
        (void)pthread_detach(thread);
    }
}

/* ---- walls ---- */

/* Passwords are the keeper's; it knows which hosts may be asked. */
static int ask_keeper(void *arg, const char *host, struct credentials *ret, struct err *err)
{
    (void)arg;
    return secrets_ask(FD_SECRETS, host, ret, err);
}

static void open_registry(struct fetcher *f, const json_t *request)
{
    auto_strv char **insecure = strings_of_json(json_object_get(request, "insecure"));
    auto_strv char **mirrors = strings_of_json(json_object_get(request, "mirrors"));
    auto_strv char **realms = strings_of_json(json_object_get(request, "realms"));
    const char *text = json_string_value(json_object_get(request, "reference"));
    struct registry_options options = {
        .insecure = insecure,
        .mirrors = mirrors,
        .realms = realms,
        .ca_file = json_string_value(json_object_get(request, "ca_file")),
        .username = json_string_value(json_object_get(request, "username")),
        .password = json_string_value(json_object_get(request, "password")),
        .credentials = ask_keeper,
    };

    if (!text)
        (void)err_set(&f->err, ERR_INTERNAL, "the request lacks a reference");
    else if (reference_parse(text, &f->ref, &f->err) == 0)
        (void)registry_open(&f->ref, &options, &f->registry, &f->err);
}

static int wall_up(const json_t *request, struct err *err)
{
    if (wall_root_names(json_string_value(json_object_get(request, "ca_file")), err) < 0 ||
        wall_id(FETCHER_ID, err) < 0 || wall_tasks(TASKS_MAX, err) < 0)
        return -1;
    /* After the ids: a change of them takes it back. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return err_sys(err, errno, "end with the image worker");
    return wall_filter(FILTER_NETWORK, err);
}

void fetcher_run(const json_t *request, int ask, int secrets)
{
    static struct fetcher f;
    struct err err = {0};

    (void)prctl(PR_SET_NAME, "cay-fetch");
    /* Nothing of what it says goes to the daemon: its events are the unpacker's. */
    if (dup2(secrets, FD_SECRETS) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ||
        dup2(ask, FD_ASK) < 0 || close_range(FD_ASK + 1, ~0u, 0) < 0)
        _exit(1);
    /* Reads its configuration and loads what it needs, while that can be seen. */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        _exit(1);
    if (wall_up(request, &err) < 0)
        f.err = err; /* whoever asks gets to know */
    else
        open_registry(&f, request);
    serve(&f);
    _exit(0);
}
