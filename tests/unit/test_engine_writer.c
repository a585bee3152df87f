/* What the row of a sandbox says, and when: as another program reads it from the database. */

#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <sqlite3.h>
#include <string.h>

#include "engine/sandbox_internal.h"
#include "engine/writer_internal.h"
#include "engine_world.h"
#include "store/store_internal.h"

#define HOST "{\"image\":\"host\"}"

static sqlite3 *look_into(const char *dir)
{
    auto_free char *path = xasprintf("%s/cay.db", dir);
    sqlite3 *db;

    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_busy_timeout(db, 5000), SQLITE_OK);
    return db;
}

static void run_sql(const char *dir, const char *sql)
{
    sqlite3 *db = look_into(dir);

    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
}

static int first_text(void *arg, int n, char **values, char **names)
{
    (void)n;
    (void)names;
    *(char **)arg = xstrdup(values[0]);
    return 0;
}

static char *ask(const char *dir, const char *sql)
{
    sqlite3 *db = look_into(dir);
    char *text = NULL;

    CHECK_INT(sqlite3_exec(db, sql, first_text, &text, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    return text ? text : xstrdup("none");
}

static char *row_state(const char *dir, const char *id)
{
    auto_free char *sql = xasprintf("SELECT state FROM sandbox WHERE id = '%s'", id);

    return ask(dir, sql);
}

static void check_row(struct world *w, const char *id, const char *want)
{
    auto_free char *state = row_state(w->dir, id);

    CHECK_STR(state, want);
}

TEST(who_is_told_that_it_is_paused_or_goes_on_finds_it_in_the_row)
{
    auto_free char *id = NULL;
    struct world w;
    json_t *s;

    world_up(&w);
    id = create(&w, HOST);
    CHECK_INT(engine_pause(w.engine, id, &s, NULL), 0);
    json_decref(s);
    check_row(&w, id, "paused");
    CHECK_INT(engine_resume(w.engine, id, &s, NULL), 0);
    json_decref(s);
    check_row(&w, id, "running");
    world_done(&w);
}

TEST(a_pause_whose_row_cannot_be_stored_leaves_it_running)
{
    auto_free char *id = NULL;
    struct err err = {0};
    struct world w;
    json_t *s;

    world_up(&w);
    id = create(&w, HOST);
    run_sql(w.dir, "CREATE TRIGGER no BEFORE UPDATE ON sandbox WHEN NEW.state = 'paused' "
                   "BEGIN SELECT RAISE(FAIL, 'no pause today'); END");
    CHECK_INT(engine_pause(w.engine, id, &s, &err), -1);
    CHECK(strstr(err.text, "no pause today"));
    CHECK_INT(atomic_load(&fake.pauses_begun), 1);
    CHECK(!fake_look(id)->paused);
    check_status(&w, id, "running");
    run_sql(w.dir, "DROP TRIGGER no");
    CHECK_INT(engine_pause(w.engine, id, &s, NULL), 0);
    json_decref(s);
    world_done(&w);
}

static void set_committing(struct world *w, const char *id, bool committing)
{
    struct sandbox *sb;

    CHECK_INT(sandbox_get(w->engine, id, &sb, NULL), 0);
    CHECK_INT(runtime_pause(w->engine->runtime, &sb->box, committing, NULL), 0);
    pthread_mutex_lock(&sb->lock);
    sb->committing = committing;
    pthread_mutex_unlock(&sb->lock);
    sandbox_unref(sb);
}

TEST(a_pause_whose_row_cannot_be_stored_lets_no_committed_sandbox_go_on)
{
    auto_free char *id = NULL;
    struct world w;
    json_t *s;

    world_up(&w);
    id = create(&w, HOST);
    run_sql(w.dir, "CREATE TRIGGER no BEFORE UPDATE ON sandbox WHEN NEW.state = 'paused' "
                   "BEGIN SELECT RAISE(FAIL, 'no pause today'); END");
    set_committing(&w, id, true);
    CHECK_INT(engine_pause(w.engine, id, &s, NULL), -1);
    CHECK(fake_look(id)->paused);
    check_status(&w, id, "running");
    set_committing(&w, id, false);
    world_done(&w);
}

TEST(a_resume_whose_row_cannot_be_stored_says_so)
{
    auto_free char *id = NULL;
    struct err err = {0};
    struct world w;
    json_t *s;

    world_up(&w);
    id = create(&w, HOST);
    CHECK_INT(engine_pause(w.engine, id, &s, NULL), 0);
    json_decref(s);
    run_sql(w.dir, "CREATE TRIGGER no BEFORE UPDATE ON sandbox WHEN NEW.state = 'running' "
                   "BEGIN SELECT RAISE(FAIL, 'no resume today'); END");
    CHECK_INT(engine_resume(w.engine, id, &s, &err), -1);
    CHECK(strstr(err.text, "no resume today"));
    run_sql(w.dir, "DROP TRIGGER no");
    world_done(&w);
}

static const char *killing_dir, *killing_id;
static _Atomic(char *) state_when_killed; /* the first time */

static void look_at_row(const char *id)
{
    char *state = strcmp(id, killing_id) == 0 ? row_state(killing_dir, id) : NULL, *none = NULL;

    if (!atomic_compare_exchange_strong(&state_when_killed, &none, state))
        free(state);
}

TEST(the_row_says_removing_before_the_box_is_killed)
{
    auto_free char *id = NULL;
    struct world w;

    world_up(&w);
    id = create(&w, HOST);
    killing_dir = w.dir;
    killing_id = id;
    atomic_store(&fake.on_kill, look_at_row);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    CHECK_STR(atomic_load(&state_when_killed), "removing");
    world_done(&w);
    atomic_store(&fake.on_kill, NULL);
    free(atomic_exchange(&state_when_killed, NULL));
}

TEST(a_sandbox_whose_row_cannot_say_removing_is_removed_all_the_same)
{
    auto_free char *id = NULL;
    struct world w;

    world_up(&w);
    id = create(&w, HOST);
    run_sql(w.dir, "CREATE TRIGGER no BEFORE UPDATE ON sandbox WHEN NEW.state = 'removing' "
                   "BEGIN SELECT RAISE(FAIL, 'no'); END");
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    await_gone(id);
    run_sql(w.dir, "DROP TRIGGER no");
    world_done(&w);
}

TEST(what_is_counted_is_stored_with_the_row)
{
    auto_free char *id = NULL, *killed = NULL;
    struct world w;

    world_up(&w);
    id = create(&w, HOST);
    CHECK_INT(engine_remove(w.engine, id, NULL), 0);
    killed = ask(w.dir, "SELECT value FROM counter WHERE name = 'killed'");
    CHECK_STR(killed, "1");
    world_done(&w);
}

static void await_no_row(const char *dir)
{
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until; (void)poll(NULL, 0, 10)) {
        auto_free char *n = ask(dir, "SELECT count(*) FROM sandbox");

        if (strcmp(n, "0") == 0)
            return;
    }
    TAP_FAIL("there is a row");
}

TEST(a_box_whose_row_cannot_be_synced_leaves_no_row)
{
    struct err err = {0};
    int log, ends[2];
    struct world w;
    json_t *s;

    world_new(&w);
    w.engine->config.prepared = 0;
    w.engine->config.waits.gone = 1;
    world_start(&w);
    CHECK_INT(pipe(ends), 0);
    log = w.store->log_fd;
    w.store->log_fd = ends[0]; /* which cannot be synced */
    CHECK_INT(try_create(&w, HOST, &s, &err), -1);
    CHECK(strstr(err.text, "write the state to the disk"));
    await_no_row(w.dir);
    w.store->log_fd = log;
    (void)close(ends[0]);
    (void)close(ends[1]);
    world_done(&w);
}

static void *put_box(void *arg)
{
    struct box box = {.id = "sbx_000000000000000000000001"};

    CHECK_INT(writer_put_box(arg, &box, NULL), 0);
    return NULL;
}

static void *stop_writer(void *arg)
{
    writer_stop(arg);
    return NULL;
}

static sem_t database_busy, try_again;

/* SQLite calls this in the thread whose statement finds the database locked. */
static int wait_for_database(void *arg, int count)
{
    (void)arg;
    (void)count;
    CHECK_INT(sem_post(&database_busy), 0);
    return sem_wait(&try_again) == 0;
}

/* The number of threads of this process that do not sleep, with the calling thread. */
static unsigned awake_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned n = 0;

    CHECK(tasks);
    for (struct dirent *d; (d = readdir(tasks));) {
        char path[300], stat[512];
        const char *name_end;

        if (d->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/stat", d->d_name);
        CHECK(read_file_at(AT_FDCWD, path, stat, sizeof(stat)) > 0);
        name_end = strrchr(stat, ')');
        CHECK(name_end);
        n += name_end[2] != 'S';
    }
    (void)closedir(tasks);
    return n;
}

/* Counts twice: the first count may read the state of a thread before another thread wakes it. */
static void await_others_asleep(void)
{
    AWAIT(awake_threads() == 1 && awake_threads() == 1);
}

static void await_sem(sem_t *sem)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    CHECK_INT(sem_timedwait(sem, &until), 0);
}

TEST(the_writer_stops_when_another_has_written_its_row)
{
    struct timespec until;
    pthread_t put, stop;
    struct world w;
    sqlite3 *db;

    world_new(&w);
    CHECK_INT(sem_init(&database_busy, 0, 0) | sem_init(&try_again, 0, 0), 0);
    CHECK_INT(sqlite3_busy_handler(w.store->db, wait_for_database, NULL), SQLITE_OK);
    CHECK_INT(writer_start(w.engine, NULL), 0);
    db = look_into(w.dir);
    CHECK_INT(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(pthread_create(&put, NULL, put_box, w.engine), 0);
    await_sem(&database_busy);
    await_others_asleep();
    CHECK_INT(pthread_create(&stop, NULL, stop_writer, w.engine), 0);
    await_others_asleep(); /* the writer has been asked to stop and waits for the row */
    CHECK_INT(pthread_tryjoin_np(stop, NULL), EBUSY);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
    CHECK_INT(sem_post(&try_again), 0);
    (void)pthread_join(put, NULL);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    CHECK_INT(pthread_timedjoin_np(stop, NULL, &until), 0);
    (void)sem_destroy(&database_busy);
    (void)sem_destroy(&try_again);
    world_done(&w);
}

static void *pause_and_resume(void *arg)
{
    struct world *w = ((void **)arg)[0];
    const char *id = ((void **)arg)[1];
    json_t *s;

    for (int i = 0; i < 50; i++) {
        CHECK_INT(engine_pause(w->engine, id, &s, NULL), 0);
        json_decref(s);
        CHECK_INT(engine_resume(w->engine, id, &s, NULL), 0);
        json_decref(s);
    }
    return NULL;
}

static void *renew(void *arg)
{
    struct world *w = ((void **)arg)[0];
    const char *id = ((void **)arg)[1];
    json_t *s;

    for (int i = 0; i < 50; i++) {
        CHECK_INT(engine_renew(w->engine, id, now_ms() + 3600000, &s, NULL), 0);
        json_decref(s);
    }
    return NULL;
}

/* Those that wait for the disk and those that do not, in each other's way. */
TEST(threads_store_rows_at_once)
{
    struct world w;
    char *ids[4];
    void *args[8][2];
    pthread_t threads[8];

    world_up(&w);
    for (int i = 0; i < 4; i++)
        ids[i] = create(&w, HOST);
    for (int i = 0; i < 8; i++) {
        args[i][0] = &w;
        args[i][1] = ids[i / 2];
        CHECK_INT(pthread_create(&threads[i], NULL, i % 2 ? renew : pause_and_resume, args[i]), 0);
    }
    for (int i = 0; i < 8; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        check_row(&w, ids[i], "running");
        free(ids[i]);
    }
    world_done(&w);
}

TAP_MAIN
