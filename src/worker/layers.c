/* The layers of an image, a few at a time: each thread takes the next one and unpacks it while it
 * comes. The main thread tells how far they are. What fails on a thread ends the process.
 *
 * A layer is named after its diff id, unless what it holds depends on those below (folders that its
 * archive leaves out, hard links into them): then after its chain, which stands for all of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "layer/tree.h"
#include "layer/trusted.h"
#include "worker/worker.h"

#define AT_ONCE 3

struct make {
    const struct worker_request *request;
    struct layer_job *jobs;
    size_t n;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    size_t next, running;
};

struct layer_job *layer_jobs_new(size_t n)
{
    struct layer_job *jobs = xcalloc(n + 1, sizeof(*jobs));

    for (size_t i = 0; i < n; i++) {
        jobs[i].root = -1;
        jobs[i].told_state = -1;
    }
    return jobs;
}

/* ---- what is here already ---- */

void bound_name(const char *below, const char *diff_id, char ret[DIGEST_HEX])
{
    auto_free char *text = xasprintf("%s " DIGEST_PREFIX "%s", below, diff_id);

    text_digest(text, strlen(text), ret);
}

static bool open_present(struct layer_job *job, const char *dir)
{
    struct layer_note note = {0};

    job->root = openat(FD_LAYERS, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (job->root < 0)
        return false;
    (void)trusted_get_note(job->root, &note);
    job->bytes = note.bytes;
    job->entries = note.entries;
    memcpy(job->dir, dir, DIGEST_HEX);
    job->state = LAYER_PRESENT;
    return true;
}

void layers_look(struct layer_job *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bound_name(i > 0 ? jobs[i - 1].chain : "lowest", jobs[i].diff_id, jobs[i].chain);
        if (!open_present(&jobs[i], jobs[i].diff_id))
            (void)open_present(&jobs[i], jobs[i].chain);
    }
}

/* ---- one layer ---- */

int layer_begin(const struct worker_request *q, const char *made, struct layer *l, int *ret_root,
                struct err *err)
{
    if (tree_open_dir(q->tmp, made, 0755, ret_root, err) < 0)
        return -1;
    layer_init(l, *ret_root);
    l->max_bytes = q->max_bytes;
    l->max_entries = q->max_entries;
    l->budget = q->budget;
    return 0;
}

static int note_size(const struct layer *l, struct err *err)
{
    int r = trusted_set_note(l->root, &(struct layer_note){l->bytes, l->entries});

    return r < 0 ? err_sys(err, -r, "note the size of a layer") : 0;
}

static int make_one(struct make *m, struct layer_job *job, struct err *err)
{
    size_t index = (size_t)(job - m->jobs);
    struct unpack_source source;
    char diff_id[DIGEST_HEX];

    job->state = LAYER_DOWNLOADING;
    if (job->open(job, &source, err) < 0)
        return -1;
    if (unpack_tar(&source, &job->layer, diff_id, err) < 0) {
        if (job->blame)
            job->blame(job);
        if (job->source_failed)
            *err = *job->source_error;
        return err_wrap(err, "layer %zu", index + 1);
    }
    if (job->close(job, err) < 0)
        return err_wrap(err, "layer %zu", index + 1);
    if (strcmp(diff_id, job->diff_id) != 0)
        return err_code(
            err, ERR_INVALID, "bad_image",
            "layer %zu is not what the configuration says: its diff id is sha256:%.12s, "
            "not sha256:%.12s",
            index + 1, diff_id, job->diff_id);
    job->state = LAYER_DONE;
    return 0;
}

static void *make_some(void *arg)
{
    struct make *m = arg;
    struct err err = {0};

    (void)pthread_mutex_lock(&m->lock);
    while (m->next < m->n) {
        struct layer_job *job = &m->jobs[m->next++];

        if (job->state == LAYER_PRESENT)
            continue;
        (void)pthread_mutex_unlock(&m->lock);
        if (make_one(m, job, &err) < 0)
            event_fail(&err);
        (void)pthread_mutex_lock(&m->lock);
    }
    m->running--;
    (void)pthread_cond_signal(&m->ended);
    (void)pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ---- all of them ---- */

static void tell(struct make *m)
{
    static const char *const words[] = {[LAYER_WAITING] = "waiting",
                                        [LAYER_DOWNLOADING] = "downloading",
                                        [LAYER_UNPACKING] = "unpacking",
                                        [LAYER_DONE] = "done",
                                        [LAYER_PRESENT] = "present"};

    for (size_t i = 0; i < m->n; i++) {
        struct layer_job *job = &m->jobs[i];
        int state = job->state;
        uint64_t got = job->read;

        /* It all came; what is left is in memory. */
        if (state == LAYER_DOWNLOADING && job->blob.size > 0 && got >= (uint64_t)job->blob.size)
            state = LAYER_UNPACKING;
        if (state == job->told_state && got == job->told_read)
            continue;
        job->told_state = state;
        job->told_read = got;
        event_send(json_pack(
            "{s:s, s:I, s:s+, s:s, s:I, s:I, s:I}", "event", "layer", "index", (json_int_t)i,
            "digest", DIGEST_PREFIX, job->blob.digest[0] ? job->blob.digest : job->diff_id, "state",
            words[state], "downloaded", (json_int_t)got, "total", (json_int_t)job->blob.size,
            "unpacked", (json_int_t)(job->made[0] ? job->layer.bytes : job->bytes)));
    }
}

/* The layers that are to be made, each empty; those that are here count as if they were. There must
 * be room for what will come at least, though it is smaller than what comes out of it. */
static int begin_all(const struct make *m, struct err *err)
{
    uint64_t coming = 0;

    for (size_t i = 0; i < m->n; i++) {
        struct layer_job *job = &m->jobs[i];

        if (job->state == LAYER_PRESENT) {
            if (layer_budget_grow(m->request->budget, job->bytes, err) < 0 ||
                layer_budget_count(m->request->budget, job->entries, err) < 0)
                return -1;
            continue;
        }
        coming += (uint64_t)job->blob.size;
        (void)snprintf(job->made, sizeof(job->made), "%zu", i);
        if (layer_begin(m->request, job->made, &job->layer, &job->root, err) < 0)
            return -1;
        job->layer.oci = true;
    }
    return coming > 0 ? layer_budget_room(m->request->budget, coming, err) : 0;
}

static int run_threads(struct make *m, struct err *err)
{
    (void)pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < AT_ONCE && i < m->n; i++) {
        pthread_t thread;
        int r = pthread_create(&thread, NULL, make_some, m);

        if (r != 0)
            return err_sys(err, r, "start a thread"); /* and the process ends */
        (void)pthread_detach(thread);
        m->running++;
    }
    while (m->running > 0) {
        event_pause(&m->ended, &m->lock);
        (void)pthread_mutex_unlock(&m->lock);
        tell(m);
        (void)pthread_mutex_lock(&m->lock);
    }
    (void)pthread_mutex_unlock(&m->lock);
    tell(m); /* the last thread may have ended after the loop's last look */
    return 0;
}

/* In order from the lowest, when those below are whole. */
static int resolve(struct layer_job *jobs, size_t n, struct err *err)
{
    auto_free int *roots = xcalloc(n + 1, sizeof(*roots));

    for (size_t i = 0; i < n; i++) {
        struct layer_job *job = &jobs[i];
        int *lowers = roots + n - i; /* topmost first: filled from the end */

        if (job->state != LAYER_PRESENT) {
            if (layer_resolve(&job->layer, lowers, i, err) < 0)
                return err_wrap(err, "layer %zu", i + 1);
            job->bytes = job->layer.bytes;
            memcpy(job->dir, job->layer.bound ? job->chain : job->diff_id, DIGEST_HEX);
            if (note_size(&job->layer, err) < 0)
                return -1;
        }
        lowers[-1] = job->root;
    }
    return layer_check_points(roots, n, err);
}

int layers_make(const struct worker_request *q, struct layer_job *jobs, size_t n, struct err *err)
{
    struct make m = {.request = q,
                     .jobs = jobs,
                     .n = n,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .ended = PTHREAD_COND_INITIALIZER};

    if (n == 0)
        return err_code(err, ERR_INVALID, "bad_image", "the image has no layers");
    tell(&m);
    if (begin_all(&m, err) < 0 || run_threads(&m, err) < 0)
        return -1;
    event_send(json_pack("{s:s}", "event", "storing"));
    if (resolve(jobs, n, err) < 0)
        return -1;
    return layer_sync(q->tmp, err);
}

static json_t *layer_json(const char *dir, uint64_t bytes, const char *made)
{
    return json_pack("{s:s, s:I, s:s*}", "dir", dir, "bytes", (json_int_t)bytes, "made",
                     made[0] ? made : NULL);
}

json_t *layers_json(const struct layer_job *jobs, size_t n)
{
    json_t *a = json_array();

    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(a, layer_json(jobs[i].dir, jobs[i].bytes, jobs[i].made));
    return a;
}

int layer_made(const struct worker_request *q, struct layer *l, const char *made,
               const char *diff_id, json_t **ret, struct err *err)
{
    event_send(json_pack("{s:s}", "event", "storing"));
    if (note_size(l, err) < 0 || layer_sync(q->tmp, err) < 0)
        return -1;
    *ret = layer_json(diff_id, l->bytes, made);
    return 0;
}
