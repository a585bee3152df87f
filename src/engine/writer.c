#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/json_text_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/threads_internal.h"
#include "engine/writer_internal.h"
#include "model/sandbox.h"
#include "store/store.h"

/* How long a note may be older than its row. Writing one keeps the next row waiting for the disk,
 * and most sandboxes change again, or are gone, before it matters. */
#define NOTE_DELAY_NS (1000 * 1000000ll)

/* A note that is to be written; of each sandbox the latest. */
struct late_note {
    struct late_note *next;
    struct sandbox_row row;
    uint64_t serial; /* of the job it is from */
    int64_t due_ns;
};

/* A box that is gone, with its disk and its note, and whose row is to go. */
struct gone_box {
    struct gone_box *next;
    char id[ID_SIZE];
};

struct jobs {
    struct write_job *head, *tail;
};

/* A row is first written, which outlives the daemon, then synced if it must outlive a power cut.
 * Whoever waits for a row does both with its own hands, for all that are queued, unless another
 * does so already: handing over to the thread would take longer than the writing. The thread does
 * what nobody waits for. */
struct writer {
    pthread_mutex_t files; /* before lock: held while notes are written, so that none comes late */
    pthread_mutex_t lock;  /* all below */
    pthread_cond_t more, done;
    struct jobs queued, written; /* written: to be synced */
    bool writing, syncing;       /* somebody does; one at a time */
    unsigned owed;               /* jobs not done that the thread is to see to */
    uint64_t serial;
    struct late_note *notes; /* the oldest first */
    struct gone_box *gone;
    int64_t gone_due_ns; /* if there is any */
    bool stop, running;
    pthread_t thread;
};

struct write_job {
    enum { WRITE_PUT, WRITE_DELETE, WRITE_COUNT } what;
    struct sandbox_row row;
    const char *counter;
    uint64_t serial;
    bool note;          /* of WRITE_PUT: the note beside the disk changes too */
    bool claim;         /* and ceases to say that the disk is nobody's */
    bool sync;          /* it is to outlive a power cut */
    bool written, done; /* done: there is a result */
    bool owed;          /* the thread sees to it */
    bool left;          /* nobody waits, who ends it frees it */
    int result;
    struct err err;
    struct write_job *next;
};

static void job_free(struct write_job *job)
{
    sandbox_row_done(&job->row);
    free(job);
}

static void append(struct jobs *jobs, struct write_job *job)
{
    job->next = NULL;
    if (jobs->tail)
        jobs->tail->next = job;
    else
        jobs->head = job;
    jobs->tail = job;
}

static struct write_job *take_all(struct jobs *jobs)
{
    struct write_job *first = jobs->head;

    *jobs = (struct jobs){0};
    return first;
}

static struct write_job *push(struct engine *e, struct write_job *job)
{
    struct writer *w = e->writer;

    pthread_mutex_lock(&w->lock);
    job->serial = ++w->serial;
    append(&w->queued, job);
    pthread_mutex_unlock(&w->lock);
    return job;
}

static void run_job(struct store *store, struct write_job *job)
{
    switch (job->what) {
    case WRITE_PUT:
        job->result = store_put_sandbox(store, &job->row, &job->err);
        break;
    case WRITE_DELETE:
        job->result = store_delete_sandbox(store, job->row.id, &job->err);
        break;
    case WRITE_COUNT:
        job->result = store_count(store, job->counter, 1, &job->err);
        break;
    }
}

static void write_note(struct store *store, const struct sandbox_row *row)
{
    struct err err = {0};

    /* A sandbox goes on without: it is for the day when the database is lost. */
    if (store_note(store, row, &err) < 0)
        log_warn("what a sandbox is could not be noted beside its disk", "id", row->id, "error",
                 err.text);
}

static struct late_note **find_note(struct writer *w, const char *id)
{
    struct late_note **at = &w->notes;

    while (*at && strcmp((*at)->row.id, id) != 0)
        at = &(*at)->next;
    return at;
}

static void drop_note(struct late_note **at)
{
    struct late_note *note = *at;

    if (!note)
        return;
    *at = note->next;
    sandbox_row_done(&note->row);
    free(note);
}

/* Takes the row out of the job; its id stays there. With the lock held. */
static void note_later(struct writer *w, struct write_job *job)
{
    struct late_note **at = find_note(w, job->row.id);

    if (*at && (*at)->serial > job->serial)
        return; /* that one had not to wait for a sync */
    if (!*at) {
        *at = xcalloc(1, sizeof(**at));
        (*at)->due_ns = mono_ns() + NOTE_DELAY_NS;
        pthread_cond_signal(&w->more);
    }
    sandbox_row_done(&(*at)->row);
    (*at)->row = job->row;
    (*at)->serial = job->serial;
    job->row = (struct sandbox_row){0};
    memcpy(job->row.id, (*at)->row.id, ID_SIZE);
}

static void forget_note(struct writer *w, const char *id)
{
    pthread_mutex_lock(&w->lock);
    drop_note(find_note(w, id));
    pthread_mutex_unlock(&w->lock);
}

static void mark_disk(struct engine *e, struct write_job *job)
{
    struct writer *w = e->writer;

    if (!job->note)
        return;
    if (job->row.state == SANDBOX_REMOVING)
        forget_note(w, job->row.id);
    if (job->row.state == SANDBOX_PREPARED || job->row.state == SANDBOX_REMOVING) {
        write_note(e->store, &job->row);
        return;
    }
    if (job->claim)
        store_note_claim(e->store, job->row.id);
    pthread_mutex_lock(&w->lock);
    note_later(w, job);
    pthread_mutex_unlock(&w->lock);
}

/* Whoever waits for a row finds that the disk is marked as spare, or no longer is, or as removed;
 * what else there is to note is written later. Of those that are synced, afterwards. */
static void mark_disks(struct engine *e, struct write_job *first, bool synced)
{
    pthread_mutex_lock(&e->writer->files);
    for (struct write_job *job = first; job; job = job->next)
        if (job->result == 0 && job->sync == synced)
            mark_disk(e, job);
    pthread_mutex_unlock(&e->writer->files);
}

static bool is_due(const struct writer *w)
{
    return w->notes && (w->stop || w->notes->due_ns <= mono_ns());
}

/* One of them, so that rows do not wait for all. */
static void write_late_note(struct engine *e)
{
    struct writer *w = e->writer;
    struct late_note *note = NULL;

    pthread_mutex_lock(&w->files);
    pthread_mutex_lock(&w->lock);
    if (is_due(w)) {
        note = w->notes;
        w->notes = note->next;
        note->next = NULL;
    }
    pthread_mutex_unlock(&w->lock);
    if (note)
        write_note(e->store, &note->row);
    drop_note(&note);
    pthread_mutex_unlock(&w->files);
}

/* What came together is written together. When a batch fails, each job is tried alone: one bad row
 * must not fail its neighbours. */
static void run_batch(struct store *store, struct write_job *first)
{
    bool failed = false;

    if (!first->next) {
        run_job(store, first);
        return;
    }
    store_begin(store);
    for (struct write_job *job = first; job; job = job->next)
        run_job(store, job);
    failed = store_commit(store, NULL) < 0;
    for (struct write_job *job = failed ? first : NULL; job; job = job->next)
        run_job(store, job);
}

static void log_failure(const struct write_job *job)
{
    if (job->result < 0)
        log_error("state could not be stored", "id", job->row.id, "error", job->err.text);
}

/* With the lock held. */
static void finish(struct writer *w, struct write_job *job)
{
    job->done = true;
    if (job->owed)
        w->owed--;
    if (!job->left)
        return;
    log_failure(job);
    job_free(job);
}

/* With the lock held: others who wait go on, or do the next step. */
static void pass_on(struct writer *w)
{
    pthread_cond_broadcast(&w->done);
    if (w->owed > 0 || w->stop)
        pthread_cond_signal(&w->more);
}

/* With the lock held, which is given up meanwhile. */
static void write_queued(struct engine *e)
{
    struct writer *w = e->writer;
    struct write_job *first = take_all(&w->queued);

    w->writing = true;
    pthread_mutex_unlock(&w->lock);
    run_batch(e->store, first);
    mark_disks(e, first, false);
    pthread_mutex_lock(&w->lock);
    w->writing = false;
    for (struct write_job *job = first, *next; job; job = next) {
        next = job->next;
        job->written = true;
        if (job->sync && job->result == 0)
            append(&w->written, job);
        else
            finish(w, job);
    }
    pass_on(w);
}

/* As write_queued(). Rows that come together share one sync. */
static void sync_written(struct engine *e)
{
    struct writer *w = e->writer;
    struct write_job *first = take_all(&w->written);
    struct err err = {0};
    int r;

    w->syncing = true;
    pthread_mutex_unlock(&w->lock);
    r = store_sync(e->store, &err);
    for (struct write_job *job = first; job && r < 0; job = job->next) {
        job->result = r;
        job->err = err;
    }
    mark_disks(e, first, true);
    pthread_mutex_lock(&w->lock);
    w->syncing = false;
    for (struct write_job *job = first, *next; job; job = next) {
        next = job->next;
        finish(w, job);
    }
    pass_on(w);
}

/* With the lock held. One step of the two; false when others are at it, or there is nothing. */
static bool step(struct engine *e)
{
    struct writer *w = e->writer;

    if (w->queued.head && !w->writing)
        write_queued(e);
    else if (w->written.head && !w->syncing)
        sync_written(e);
    else
        return false;
    return true;
}

static bool rows_are_due(const struct writer *w)
{
    return w->gone && (w->stop || w->gone_due_ns <= mono_ns());
}

static void delete_row(struct engine *e, const char *id)
{
    struct write_job *job = xcalloc(1, sizeof(*job));

    job->what = WRITE_DELETE;
    (void)snprintf(job->row.id, sizeof(job->row.id), "%s", id);
    writer_leave(e, push(e, job));
}

/* By a note without a row a sandbox comes back: after a power cut too the row has to be there for
 * as long as the note. If that cannot be known, it is left to the next start. */
static void delete_rows(struct engine *e)
{
    struct writer *w = e->writer;
    struct gone_box *first, *next;
    struct err err = {0};
    bool synced;

    pthread_mutex_lock(&w->lock);
    first = w->gone;
    w->gone = NULL;
    pthread_mutex_unlock(&w->lock);
    synced = store_sync_notes(e->store, &err) == 0;
    if (!synced)
        log_error("the rows of removed sandboxes stay until the next start", "error", err.text);
    for (; first; first = next) {
        next = first->next;
        if (synced)
            delete_row(e, first->id);
        free(first);
    }
}

/* With the lock held. */
static void sleep_on(struct writer *w)
{
    int64_t next = w->gone ? w->gone_due_ns : INT64_MAX;
    struct timespec due;

    if (w->notes && w->notes->due_ns < next)
        next = w->notes->due_ns;
    due = (struct timespec){.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};
    if (next == INT64_MAX)
        pthread_cond_wait(&w->more, &w->lock);
    else
        (void)pthread_cond_timedwait(&w->more, &w->lock, &due);
}

static void *writer_main(void *arg)
{
    struct engine *e = arg;
    struct writer *w = e->writer;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        if ((w->owed > 0 || w->stop) && step(e))
            continue;
        if (is_due(w) || rows_are_due(w)) {
            void (*late)(struct engine * e) = is_due(w) ? write_late_note : delete_rows;

            pthread_mutex_unlock(&w->lock);
            late(e);
            pthread_mutex_lock(&w->lock);
        } else if (w->stop && !w->writing && !w->syncing) {
            break;
        } else {
            sleep_on(w);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct writer *writer_new(void)
{
    struct writer *w = xcalloc(1, sizeof(*w));

    pthread_mutex_init(&w->files, NULL);
    pthread_mutex_init(&w->lock, NULL);
    cond_init_monotonic(&w->more);
    pthread_cond_init(&w->done, NULL);
    return w;
}

void writer_free(struct writer *w)
{
    if (!w)
        return;
    pthread_mutex_destroy(&w->files);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->more);
    pthread_cond_destroy(&w->done);
    free(w);
}

int writer_start(struct engine *e, struct err *err)
{
    int r = pthread_create(&e->writer->thread, NULL, writer_main, e);

    if (r != 0)
        return err_sys(err, r, "start the thread that writes to the database");
    e->writer->running = true;
    return 0;
}

void writer_stop(struct engine *e)
{
    struct writer *w = e->writer;

    if (!w->running)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    w->running = false;
}

static char *image_config(const struct sandbox *sb)
{
    json_t *o = json_object();
    char *text;

    (void)json_object_set_new(o, "env", json_of_texts(sb->image_env));
    (void)json_object_set_new(o, "user", json_cstr(sb->image_user ? sb->image_user : ""));
    (void)json_object_set_new(o, "stopSignal", json_sprintf("%d", sb->stop_signal));
    text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    return text;
}

/* With the state that it has, or that of one that runs. */
static struct write_job *put(struct engine *e, struct sandbox *sb, bool sync, bool runs)
{
    struct write_job *job = xcalloc(1, sizeof(*job));
    struct sandbox_row *row = &job->row;
    json_t *config, *drain;

    job->what = WRITE_PUT;
    job->sync = sync;
    row->image_config = image_config(sb);
    pthread_mutex_lock(&sb->lock);
    (void)snprintf(row->id, sizeof(row->id), "%s", sb->box.id);
    row->state = runs ? SANDBOX_RUNNING : sb->state;
    job->claim = row->state == SANDBOX_CREATING || runs;
    /* A note that it is being made is as good as one that it runs. */
    job->note = !(row->state == SANDBOX_RUNNING && sb->noted == SANDBOX_CREATING);
    sb->noted = row->state;
    row->reason = sb->reason ? xstrdup(sb->reason) : NULL;
    row->created_ms = sb->created_ms;
    row->expires_ms = sb->expires_ms;
    row->deadline_ns = sb->deadline_ns;
    row->boot_id = xstrdup(sb->boot_id);
    row->pid = sb->box.pid;
    row->pid_start = sb->box.pid_start;
    row->slot = sb->box.slot;
    row->image_id = sb->image_id ? xstrdup(sb->image_id) : NULL;
    config = sandbox_spec_json(&sb->spec);
    if (atomic_load(&sb->unfinished))
        (void)json_object_set_new(config, SANDBOX_UNFINISHED, json_true());
    if (sb->passing)
        (void)json_object_set_new(config, SANDBOX_PASSING, json_true());
    if (row->state == SANDBOX_STOPPED)
        (void)json_object_set_new(config, SANDBOX_STOPPED_AT, json_integer(sb->stopped_ms));
    json_put_text(config, SANDBOX_TENANT, sb->tenant);
    drain = drain_json(sb);
    if (drain)
        (void)json_object_set_new(config, SANDBOX_DRAINING, drain);
    row->config = json_dumps(config, JSON_COMPACT);
    json_decref(config);
    /* Inside the lock, so that rows of one sandbox queue in the order of its states. After the row
     * that says removing there is none: it could come after the deletion. */
    if (sb->sealed)
        job->done = true;
    else
        (void)push(e, job);
    sb->sealed = sb->state == SANDBOX_REMOVING;
    pthread_mutex_unlock(&sb->lock);
    return job;
}

struct write_job *writer_put(struct engine *e, struct sandbox *sb)
{
    return put(e, sb, true, false);
}

struct write_job *writer_put_state(struct engine *e, struct sandbox *sb)
{
    return put(e, sb, false, false);
}

struct write_job *writer_put_up(struct engine *e, struct sandbox *sb)
{
    return put(e, sb, true, true);
}

/* With the lock held: the thread sees to it. */
static void owe(struct writer *w, struct write_job *job)
{
    if (job->done || job->owed)
        return;
    job->owed = true;
    w->owed++;
    pthread_cond_signal(&w->more);
}

void writer_begin(struct engine *e, struct write_job *job)
{
    pthread_mutex_lock(&e->writer->lock);
    owe(e->writer, job);
    pthread_mutex_unlock(&e->writer->lock);
}

void writer_write(struct engine *e, struct write_job *job)
{
    struct writer *w = e->writer;

    pthread_mutex_lock(&w->lock);
    while (!job->written && !job->done) {
        if (!w->writing)
            write_queued(e);
        else
            pthread_cond_wait(&w->done, &w->lock);
    }
    owe(w, job);
    pthread_mutex_unlock(&w->lock);
}

int writer_wait(struct engine *e, struct write_job *job, struct err *err)
{
    struct writer *w = e->writer;
    int r;

    pthread_mutex_lock(&w->lock);
    while (!job->done) {
        if (!job->written && !w->writing)
            write_queued(e);
        else if (job->written && !w->syncing)
            sync_written(e);
        else
            pthread_cond_wait(&w->done, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    r = job->result;
    if (r < 0 && err)
        *err = job->err;
    job_free(job);
    return r;
}

void writer_leave(struct engine *e, struct write_job *job)
{
    struct writer *w = e->writer;

    pthread_mutex_lock(&w->lock);
    job->left = true;
    owe(w, job);
    if (job->done) {
        log_failure(job);
        job_free(job);
    }
    pthread_mutex_unlock(&w->lock);
}

int writer_put_box(struct engine *e, const struct box *box, struct err *err)
{
    struct write_job *job = xcalloc(1, sizeof(*job));

    job->what = WRITE_PUT;
    job->sync = true;
    job->row.state = SANDBOX_PREPARED;
    job->note = true;
    (void)snprintf(job->row.id, sizeof(job->row.id), "%s", box->id);
    job->row.slot = box->slot;
    job->row.boot_id = xstrdup(e->boot_id);
    return writer_wait(e, push(e, job), err);
}

void writer_delete(struct engine *e, const char *id)
{
    struct gone_box *gone = xcalloc(1, sizeof(*gone));
    struct writer *w = e->writer;

    (void)snprintf(gone->id, sizeof(gone->id), "%s", id);
    pthread_mutex_lock(&w->files);
    forget_note(w, id);
    store_note_remove(e->store, id);
    pthread_mutex_unlock(&w->files);
    /* The row is deleted waits.gone after the box. The folder that held the box is synced before
     * that, once for all boxes that were removed meanwhile. */
    pthread_mutex_lock(&w->lock);
    if (!w->gone) {
        w->gone_due_ns = mono_ns() + e->config.waits.gone * 1000000ll;
        pthread_cond_signal(&w->more);
    }
    gone->next = w->gone;
    w->gone = gone;
    pthread_mutex_unlock(&w->lock);
}

void writer_count(struct engine *e, const char *name)
{
    struct write_job *job = xcalloc(1, sizeof(*job));

    job->what = WRITE_COUNT;
    job->counter = name;
    job->left = true;
    (void)push(e, job);
}
