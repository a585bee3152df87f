#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "store/store.h"
#include "tap.h"
#include "tmpdir.h"

static struct store *open_store(const char *dir, int *rebuilt)
{
    struct store *s = NULL;
    struct err err = {0};
    int unused;

    if (store_open(dir, &s, rebuilt ? rebuilt : &unused, &err) < 0)
        TAP_FAIL("store_open: %s", err.text);
    return s;
}

static struct sandbox_row row_of(char digit, enum sandbox_state state)
{
    struct sandbox_row row = {
        .state = state,
        .created_ms = 1000 + digit,
        .expires_ms = 2000,
        .deadline_ns = 3000,
        .config = "{}",
        .boot_id = "boot",
        .pid = 42,
        .pid_start = UINT64_MAX - 1,
        .slot = 7,
        .image_id = "host",
        .image_config = "{\"env\":[]}",
    };

    snprintf(row.id, sizeof(row.id), "sbx_%c00000000000000000000000", digit);
    return row;
}

static int count_rows(const struct sandbox_row *row, void *arg)
{
    (void)row;
    ++*(int *)arg;
    return 0;
}

static int rows_in(struct store *s)
{
    int n = 0;

    CHECK_INT(store_each_sandbox(s, count_rows, &n, NULL), 0);
    return n;
}

static int check_row(const struct sandbox_row *row, void *arg)
{
    const struct sandbox_row *want = arg;

    CHECK_STR(row->id, want->id);
    CHECK_INT(row->state, want->state);
    CHECK(!row->reason == !want->reason);
    CHECK_INT(row->created_ms, want->created_ms);
    CHECK_INT(row->expires_ms, want->expires_ms);
    CHECK_INT(row->deadline_ns, want->deadline_ns);
    CHECK_STR(row->config, want->config);
    CHECK_STR(row->boot_id, want->boot_id);
    CHECK_INT(row->pid, want->pid);
    CHECK(row->pid_start == want->pid_start);
    CHECK_INT(row->slot, want->slot);
    CHECK_STR(row->image_id, want->image_id);
    CHECK_STR(row->image_config, want->image_config);
    return 5;
}

static void execute(const char *path, const char *sql)
{
    sqlite3 *db;

    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* As a daemon is that is killed between a fork and the exec of the child. The child has a copy of
 * the lock until it ends. It ends when the next daemon has read the file of the lock, which that
 * does after it was refused the lock. An open that fails has waited for the child for 2 s. */
TEST(a_folder_is_opened_while_a_child_of_a_dead_daemon_still_has_the_lock)
{
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/lock", dir);
    struct pollfd waits[2] = {{.events = POLLIN}, {.events = POLLIN}};
    struct store *s = NULL;
    struct err err = {0};
    int ends[2], rebuilt, status;
    int64_t began;
    pid_t daemon;

    CHECK_INT(pipe(ends), 0); /* closed by the end of the test, whatever that is */
    daemon = fork();
    if (daemon == 0) {
        close(ends[1]);
        (void)open_store(dir, NULL);
        waits[0].fd = inotify_init1(IN_CLOEXEC);
        waits[1].fd = ends[0];
        if (inotify_add_watch(waits[0].fd, path, IN_ACCESS) < 0)
            _exit(1);
        if (fork() == 0)
            (void)poll(waits, ARRAY_LEN(waits), -1);
        _exit(0);
    }
    close(ends[0]);
    CHECK_INT(waitpid(daemon, &status, 0), daemon);
    CHECK_INT(status, 0);
    for (began = mono_ns(); store_open(dir, &s, &rebuilt, &err) < 0; began = mono_ns()) {
        CHECK_STR(err.code, "data_in_use");
        CHECK(mono_ns() - began >= 2000000000ll);
    }
    store_close(s);
    close(ends[1]);
}

/* The pid of the daemon means nothing in another PID namespace, where nobody has it. */
TEST(a_daemon_in_another_pid_namespace_is_not_taken_for_dead)
{
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/lock", dir);
    struct store *s = open_store(dir, NULL), *other = NULL;
    struct err err = {0};
    char text[64] = "";
    int status, rebuilt;
    pid_t child = fork();

    if (child == 0) {
        if (unshare(CLONE_NEWPID) < 0)
            _exit(77);
        child = fork();
        if (child == 0) {
            _exit(store_open(dir, &other, &rebuilt, &err) < 0 &&
                          strcmp(err.code, "data_in_use") == 0 &&
                          strstr(err.text, "is in use by another cay") &&
                          strstr(err.text, "in another container")
                      ? 0
                      : 4);
        }
        _exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 5);
    }
    CHECK_INT(waitpid(child, &status, 0), child);
    if (WEXITSTATUS(status) == 77)
        SKIP("needs a PID namespace");
    CHECK_INT(WEXITSTATUS(status), 0);
    CHECK(read_file_at(AT_FDCWD, path, text, sizeof(text)) > 0);
    CHECK_INT(strtol(text, NULL, 10), getpid());
    store_close(s);
}

/* Of cay 0.1.0, which wrote the pid alone. */
TEST(a_lock_that_names_no_namespace_is_of_ours)
{
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/lock", dir);
    struct store *s = open_store(dir, NULL), *other = NULL;
    struct err err = {0};
    auto_free char *want = xasprintf("(pid %d)", getpid());
    auto_free char *pid = xasprintf("%d\n", getpid());
    int rebuilt;

    CHECK_INT(truncate(path, 0), 0);
    CHECK_INT(write_file_at(AT_FDCWD, path, pid), 0);
    CHECK_INT(store_open(dir, &other, &rebuilt, &err), -1);
    CHECK(strstr(err.text, want));
    store_close(s);
}

TEST(a_row_is_there_after_reopening)
{
    auto_dir char *dir = dir_new();
    struct sandbox_row row = row_of('1', SANDBOX_RUNNING);
    struct store *s = open_store(dir, NULL);

    CHECK_INT(store_put_sandbox(s, &row, NULL), 0);
    store_close(s);
    s = open_store(dir, NULL);
    CHECK_INT(store_each_sandbox(s, check_row, &row, NULL), 5);
    store_close(s);
}

TEST(a_row_outlives_the_process_that_wrote_it_without_a_sync)
{
    auto_dir char *dir = dir_new();
    struct sandbox_row row = row_of('1', SANDBOX_RUNNING);
    struct store *s;
    pid_t child = fork();

    if (child == 0) {
        s = open_store(dir, NULL);
        if (store_put_sandbox(s, &row, NULL) == 0)
            (void)kill(getpid(), SIGKILL);
        _exit(1);
    }
    CHECK_INT(waitpid(child, &(int){0}, 0), child);
    s = open_store(dir, NULL);
    CHECK_INT(store_each_sandbox(s, check_row, &row, NULL), 5);
    store_close(s);
}

TEST(the_log_does_not_grow_with_the_rows_that_are_written)
{
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/cay.db-wal", dir);
    struct store *s = open_store(dir, NULL);
    struct stat before, after;

    CHECK_INT(stat(path, &before), 0);
    for (int i = 0; i < 1000; i++) {
        struct sandbox_row row = row_of((char)('0' + i % 10), SANDBOX_RUNNING);

        CHECK_INT(store_put_sandbox(s, &row, NULL), 0);
    }
    CHECK_INT(store_sync(s, NULL), 0);
    CHECK_INT(stat(path, &after), 0);
    CHECK_INT(after.st_size, before.st_size);
    CHECK_INT(rows_in(s), 10);
    store_close(s);
}

TEST(putting_a_row_again_replaces_it_and_keeps_its_execs)
{
    auto_dir char *dir = dir_new();
    struct store *s = open_store(dir, NULL);
    struct sandbox_row row = row_of('1', SANDBOX_RUNNING);
    struct exec_record exec = {.id = "bg_1", .command = "sleep 1", .pid = 9, .started_ms = 5}, got;

    snprintf(exec.sandbox_id, sizeof(exec.sandbox_id), "%s", row.id);
    CHECK_INT(store_put_sandbox(s, &row, NULL), 0);
    CHECK_INT(store_put_exec(s, &exec, NULL), 0);
    row.state = SANDBOX_STOPPED;
    row.reason = "lost";
    CHECK_INT(store_put_sandbox(s, &row, NULL), 0);
    CHECK_INT(store_each_sandbox(s, check_row, &row, NULL), 5);
    CHECK_INT(store_get_exec(s, "bg_1", &got, NULL), 0);
    CHECK_STR(got.command, "sleep 1");
    CHECK_STR(got.sandbox_id, row.id);
    CHECK_INT(got.pid, 9);
    exec_record_done(&got);
    store_close(s);
}

TEST(deleting_a_sandbox_deletes_its_execs)
{
    auto_dir char *dir = dir_new();
    struct store *s = open_store(dir, NULL);
    struct sandbox_row row = row_of('1', SANDBOX_RUNNING);
    struct exec_record exec = {.id = "bg_1", .command = "x"}, got;
    struct err err = {0};

    snprintf(exec.sandbox_id, sizeof(exec.sandbox_id), "%s", row.id);
    CHECK_INT(store_put_sandbox(s, &row, NULL), 0);
    CHECK_INT(store_put_exec(s, &exec, NULL), 0);
    CHECK_INT(store_delete_sandbox(s, row.id, NULL), 0);
    CHECK_INT(store_delete_sandbox(s, row.id, NULL), 0);
    CHECK_INT(rows_in(s), 0);
    CHECK_INT(store_get_exec(s, "bg_1", &got, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    CHECK_STR(err.text, "Background exec not found: bg_1");
    store_close(s);
}

TEST(a_sandbox_has_so_many_background_execs_and_no_more)
{
    auto_dir char *dir = dir_new();
    struct store *s = open_store(dir, NULL);
    struct sandbox_row rows[2] = {row_of('1', SANDBOX_RUNNING), row_of('2', SANDBOX_RUNNING)};
    struct exec_record exec = {.command = "true"};
    auto_free char *fill = NULL, *path = NULL;
    struct err err = {0};

    for (int i = 0; i < 2; i++)
        CHECK_INT(store_put_sandbox(s, &rows[i], NULL), 0);
    store_close(s);
    fill = xasprintf("WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
                     "INSERT INTO exec SELECT 'bg_' || i, '%s', 'true', 0, 0 FROM n",
                     STORE_EXECS_MAX - 1, rows[0].id);
    path = xasprintf("%s/cay.db", dir);
    execute(path, fill);
    s = open_store(dir, NULL);
    (void)snprintf(exec.sandbox_id, sizeof(exec.sandbox_id), "%s", rows[0].id);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(exec.id, sizeof(exec.id), "bg_%d", i);
        CHECK_INT(store_put_exec(s, &exec, NULL), 0);
    }
    (void)snprintf(exec.id, sizeof(exec.id), "bg_more");
    CHECK_INT(store_put_exec(s, &exec, &err), -1);
    CHECK_STR(err.code, "limit");
    (void)snprintf(exec.sandbox_id, sizeof(exec.sandbox_id), "%s", rows[1].id);
    CHECK_INT(store_put_exec(s, &exec, NULL), 0);
    CHECK_INT(store_delete_exec(s, "bg_7", NULL), 0);
    (void)snprintf(exec.id, sizeof(exec.id), "bg_room");
    (void)snprintf(exec.sandbox_id, sizeof(exec.sandbox_id), "%s", rows[0].id);
    CHECK_INT(store_put_exec(s, &exec, NULL), 0);
    store_close(s);
}

TEST(counters_only_grow_and_survive)
{
    auto_dir char *dir = dir_new();
    struct store *s = open_store(dir, NULL);
    int64_t n;

    CHECK_INT(store_counter(s, "created", &n, NULL), 0);
    CHECK_INT(n, 0);
    CHECK_INT(store_count(s, "created", 2, NULL), 0);
    CHECK_INT(store_count(s, "created", 3, NULL), 0);
    store_close(s);
    s = open_store(dir, NULL);
    CHECK_INT(store_counter(s, "created", &n, NULL), 0);
    CHECK_INT(n, 5);
    store_close(s);
}

TEST(a_batch_is_kept_whole)
{
    auto_dir char *dir = dir_new();
    struct store *s = open_store(dir, NULL);
    struct sandbox_row a = row_of('1', SANDBOX_RUNNING), b = row_of('2', SANDBOX_RUNNING);

    store_begin(s);
    CHECK_INT(store_put_sandbox(s, &a, NULL), 0);
    CHECK_INT(store_put_sandbox(s, &b, NULL), 0);
    CHECK_INT(store_commit(s, NULL), 0);
    CHECK_INT(rows_in(s), 2);
    store_close(s);
}

TEST(a_batch_with_a_failure_is_dropped_whole)
{
    auto_dir char *dir = dir_new();
    struct store *s = open_store(dir, NULL);
    struct sandbox_row a = row_of('1', SANDBOX_RUNNING);
    struct exec_record orphan = {.id = "bg_1", .sandbox_id = "sbx_none", .command = "x"};

    store_begin(s);
    CHECK_INT(store_put_sandbox(s, &a, NULL), 0);
    CHECK_INT(store_put_exec(s, &orphan, NULL), -1);
    CHECK_INT(store_commit(s, NULL), -1);
    CHECK_INT(rows_in(s), 0);
    CHECK_INT(store_put_sandbox(s, &a, NULL), 0);
    store_close(s);
}

TEST(a_second_daemon_is_refused_and_told_the_pid)
{
    auto_dir char *dir = dir_new();
    struct store *s = open_store(dir, NULL), *second = NULL;
    struct err err = {0};
    char pid[32];
    int rebuilt;

    snprintf(pid, sizeof(pid), "pid %d", getpid());
    CHECK_INT(store_open(dir, &second, &rebuilt, &err), -1);
    CHECK_INT(err.kind, ERR_CONFLICT);
    CHECK(strstr(err.text, pid));
    store_close(s);
    store_close(open_store(dir, NULL));
}

TEST(files_are_closed_to_others)
{
    auto_dir char *dir = dir_new();
    auto_free char *data = xasprintf("%s/data", dir);
    struct store *s = open_store(data, NULL);
    struct sandbox_row row = row_of('1', SANDBOX_RUNNING);
    static const char *const files[] = {"cay.db", "cay.db-wal", "lock"};
    struct stat st;

    CHECK_INT(store_put_sandbox(s, &row, NULL), 0);
    CHECK_INT(stat(data, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0700);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        auto_free char *path = xasprintf("%s/%s", data, files[i]);

        CHECK_INT(stat(path, &st), 0);
        CHECK_INT(st.st_mode & 0777, 0600);
    }
    store_close(s);
}

static void damage(const char *dir, const char *bytes, off_t at)
{
    auto_free char *path = xasprintf("%s/cay.db", dir);
    auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    CHECK_INT(pwrite(fd, bytes, strlen(bytes), at), (ssize_t)strlen(bytes));
}

static int quarantined(const char *dir)
{
    auto_free char *cmd = xasprintf("%s/cay.db.corrupt-*", dir);

    return files_like(cmd);
}

TEST(a_corrupt_database_is_moved_aside)
{
    auto_dir char *dir = dir_new();
    struct store *s = open_store(dir, NULL);
    struct sandbox_row row = row_of('1', SANDBOX_RUNNING);
    int rebuilt = 0;

    CHECK_INT(store_put_sandbox(s, &row, NULL), 0);
    store_close(s);
    damage(dir, "this is not a database at all", 0);
    s = open_store(dir, &rebuilt);
    CHECK_INT(rebuilt, 1);
    CHECK_INT(rows_in(s), 0);
    CHECK_INT(quarantined(dir), 1);
    CHECK_INT(store_put_sandbox(s, &row, NULL), 0);
    store_close(s);
    s = open_store(dir, &rebuilt);
    CHECK_INT(rebuilt, 0);
    CHECK_INT(rows_in(s), 1);
    store_close(s);
}

TEST(damage_inside_a_page_is_found_at_start)
{
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/cay.db", dir);
    struct store *s = open_store(dir, NULL);
    int rebuilt = 0;

    for (char c = '0'; c <= '9'; c++) {
        struct sandbox_row row = row_of(c, SANDBOX_RUNNING);

        CHECK_INT(store_put_sandbox(s, &row, NULL), 0);
    }
    store_close(s);
    for (off_t page = 1; page < 5; page++)
        damage(dir, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", page * 4096);
    store_close(open_store(dir, &rebuilt));
    CHECK_INT(rebuilt, 1);
    CHECK_INT(quarantined(dir), 1);
}

TEST(an_empty_database_beside_disks_of_sandboxes_has_lost_its_rows)
{
    auto_dir char *dir = dir_new();
    auto_free char *sandboxes = xasprintf("%s/sandboxes", dir);
    auto_free char *one = xasprintf("%s/sbx_0", sandboxes);
    int rebuilt = 0;

    store_close(open_store(dir, &rebuilt));
    CHECK_INT(rebuilt, 0);
    CHECK_INT(mkdir(one, 0700), 0);
    store_close(open_store(dir, &rebuilt));
    CHECK_INT(rebuilt, 0);
    {
        auto_free char *path = xasprintf("%s/cay.db", dir);

        CHECK_INT(truncate(path, 0), 0);
    }
    store_close(open_store(dir, &rebuilt));
    CHECK_INT(rebuilt, 1);
}

static void lose_database(const char *dir)
{
    static const char *const names[] = {"cay.db", "cay.db-wal", "cay.db-shm"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_free char *path = xasprintf("%s/%s", dir, names[i]);

        (void)unlink(path);
    }
}

static void write_beside(const char *dir, const char *id, const char *ending, const char *text)
{
    auto_free char *path = xasprintf("%s/sandboxes/%s%s", dir, id, ending);
    FILE *f = fopen(path, "we");

    CHECK(f);
    CHECK(fputs(text, f) >= 0);
    CHECK_INT(fclose(f), 0);
}

TEST(a_row_comes_back_from_the_note_beside_its_disk)
{
    auto_dir char *dir = dir_new();
    struct sandbox_row row = row_of('a', SANDBOX_PAUSED);
    struct store *s = open_store(dir, NULL);

    row.reason = "a \"reason\"";
    row.config = "{\"image\":\"host\",\"env\":{\"K\":\"v\\n\"}}";
    CHECK_INT(store_note(s, &row, NULL), 0);
    CHECK(store_has_note(s, row.id) && !store_note_says_rubbish(s, row.id));
    write_beside(dir, row.id, ".img", "");
    store_close(s);
    lose_database(dir);
    s = open_store(dir, NULL);
    row.pid = 0; /* is looked for */
    row.pid_start = 0;
    CHECK_INT(store_each_sandbox(s, check_row, &row, NULL), 5);
    /* Now the row counts, whatever the note says. */
    row.state = SANDBOX_STOPPED;
    CHECK_INT(store_put_sandbox(s, &row, NULL), 0);
    store_close(s);
    s = open_store(dir, NULL);
    CHECK_INT(store_each_sandbox(s, check_row, &row, NULL), 5);
    store_close(s);
}

TEST(a_row_that_says_spare_of_a_disk_with_a_note_is_of_an_older_database)
{
    auto_dir char *dir = dir_new();
    struct sandbox_row row = row_of('a', SANDBOX_RUNNING), broken = row_of('b', SANDBOX_PREPARED);
    struct store *s = open_store(dir, NULL);

    CHECK_INT(store_note(s, &row, NULL), 0);
    write_beside(dir, row.id, ".img", "");
    write_beside(dir, broken.id, ".img", "");
    write_beside(dir, broken.id, ".json", "");
    row.state = SANDBOX_PREPARED;
    CHECK_INT(store_put_sandbox(s, &row, NULL), 0);
    CHECK_INT(store_put_sandbox(s, &broken, NULL), 0);
    store_close(s);
    s = open_store(dir, NULL);
    row.state = SANDBOX_RUNNING;
    row.pid = 0;
    row.pid_start = 0;
    CHECK_INT(store_each_sandbox(s, check_row, &row, NULL), 5);
    CHECK_INT(rows_in(s), 1); /* the other is an operator's to decide */
    CHECK(!store_note_says_rubbish(s, broken.id));
    store_close(s);
}

TEST(only_a_whole_note_of_a_sandbox_with_a_disk_becomes_a_row)
{
    auto_dir char *dir = dir_new();
    struct sandbox_row gone = row_of('a', SANDBOX_RUNNING), spare = row_of('b', SANDBOX_PREPARED),
                       doomed = row_of('c', SANDBOX_RUNNING);
    struct store *s = open_store(dir, NULL);

    CHECK_INT(store_note(s, &gone, NULL), 0);
    CHECK_INT(store_note(s, &spare, NULL), 0);
    CHECK_INT(store_note(s, &doomed, NULL), 0);
    doomed.state = SANDBOX_REMOVING;
    CHECK_INT(store_note(s, &doomed, NULL), 0);
    write_beside(dir, spare.id, ".img", "");
    write_beside(dir, doomed.id, ".img", "");
    write_beside(dir, "sbx_d00000000000000000000000", ".img", "");
    write_beside(dir, "sbx_d00000000000000000000000", ".json", "{\"note\":1,\"id\":");
    write_beside(dir, "sbx_e00000000000000000000000", ".img", "");
    write_beside(dir, "sbx_e00000000000000000000000", ".json",
                 "{\"note\":2,\"id\":\"sbx_e00000000000000000000000\"}");
    store_close(s);
    s = open_store(dir, NULL);
    CHECK_INT(rows_in(s), 0);
    CHECK(!store_has_note(s, gone.id));
    CHECK(store_note_says_rubbish(s, spare.id) && store_note_says_rubbish(s, doomed.id));
    CHECK(!store_note_says_rubbish(s, "sbx_d00000000000000000000000"));
    CHECK(store_has_note(s, "sbx_d00000000000000000000000"));
    CHECK(store_has_note(s, "sbx_e00000000000000000000000"));
    store_note_claim(s, spare.id);
    CHECK(!store_note_says_rubbish(s, spare.id) && !store_has_note(s, spare.id));
    spare.state = SANDBOX_CREATING;
    CHECK_INT(store_note(s, &spare, NULL), 0);
    CHECK(store_has_note(s, spare.id));
    store_note_remove(s, doomed.id);
    CHECK(!store_note_says_rubbish(s, doomed.id));
    store_close(s);
}

TEST(marks_share_a_file_and_what_is_noted_of_one_is_not_noted_of_another)
{
    auto_dir char *dir = dir_new();
    struct sandbox_row a = row_of('a', SANDBOX_PREPARED), b = row_of('b', SANDBOX_PREPARED);
    auto_free char *mark = xasprintf("%s/sandboxes/mark", dir);
    struct store *s = open_store(dir, NULL);
    struct stat st;

    CHECK_INT(store_note(s, &a, NULL), 0);
    CHECK_INT(store_note(s, &b, NULL), 0);
    CHECK_INT(stat(mark, &st), 0);
    CHECK_INT(st.st_nlink, 3);
    store_note_claim(s, a.id);
    store_note_claim(s, b.id);
    a.state = SANDBOX_CREATING;
    CHECK_INT(store_note(s, &a, NULL), 0);
    CHECK(store_has_note(s, a.id) && !store_has_note(s, b.id));
    CHECK_INT(stat(mark, &st), 0);
    CHECK_INT(st.st_size, 0);
    b.state = SANDBOX_REMOVING;
    CHECK_INT(store_note(s, &b, NULL), 0);
    CHECK(store_note_says_rubbish(s, b.id) && !store_note_says_rubbish(s, a.id));
    /* It is a saving only. */
    CHECK_INT(unlink(mark), 0);
    b.id[4] = 'c';
    b.state = SANDBOX_PREPARED;
    CHECK_INT(store_note(s, &b, NULL), 0);
    CHECK(store_note_says_rubbish(s, b.id));
    store_close(s);
}

TEST(a_newer_schema_is_refused_and_left_as_it_is)
{
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/cay.db", dir);
    struct store *s = open_store(dir, NULL);
    struct sandbox_row row = row_of('1', SANDBOX_RUNNING);
    struct err err = {0};
    int rebuilt;

    CHECK_INT(store_put_sandbox(s, &row, NULL), 0);
    store_close(s);
    execute(path, "PRAGMA user_version = 99");
    CHECK_INT(store_open(dir, &s, &rebuilt, &err), -1);
    CHECK_INT(err.kind, ERR_CONFLICT);
    CHECK_STR(err.code, "schema_too_new");
    CHECK(strstr(err.text, "schema 99"));
    CHECK_INT(quarantined(dir), 0);
    execute(path, "PRAGMA user_version = 1");
    s = open_store(dir, NULL);
    CHECK_INT(rows_in(s), 1);
    store_close(s);
}

TEST(a_database_of_another_program_is_refused)
{
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/cay.db", dir);
    struct store *s;
    struct err err = {0};
    int rebuilt;

    execute(path, "CREATE TABLE t (x); PRAGMA application_id = 77; PRAGMA user_version = 1");
    CHECK_INT(store_open(dir, &s, &rebuilt, &err), -1);
    CHECK_INT(err.kind, ERR_CONFLICT);
    CHECK(strstr(err.text, "another program"));
}

static void *put_many(void *arg)
{
    struct store *s = arg;

    for (int i = 0; i < 50; i++) {
        struct sandbox_row row = row_of((char)('0' + i % 10), SANDBOX_RUNNING);

        CHECK_INT(store_put_sandbox(s, &row, NULL), 0);
        CHECK_INT(store_count(s, "n", 1, NULL), 0);
    }
    return NULL;
}

TEST(threads_may_write_at_once)
{
    auto_dir char *dir = dir_new();
    struct store *s = open_store(dir, NULL);
    pthread_t threads[4];
    int64_t n;

    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, put_many, s), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(rows_in(s), 10);
    CHECK_INT(store_counter(s, "n", &n, NULL), 0);
    CHECK_INT(n, 200);
    store_close(s);
}

/* ---- sandboxes that are no more ---- */

static struct gone_sandbox gone_of(unsigned n, const char *name, int64_t ended_ms)
{
    struct gone_sandbox gone = {.ended_ms = ended_ms, .timeout_s = 300, .expired = n % 2};

    snprintf(gone.id, sizeof(gone.id), "sbx_%024u", n);
    snprintf(gone.name, sizeof(gone.name), "%s", name);
    return gone;
}

static void put_gone(struct store *s, unsigned n, const char *name, int64_t ended_ms)
{
    struct gone_sandbox gone = gone_of(n, name, ended_ms);

    store_put_gone(s, &gone);
}

TEST(who_is_gone_is_known_by_id_and_name_also_after_a_start)
{
    auto_dir char *dir = dir_new();
    struct store *s = open_store(dir, NULL);
    struct gone_sandbox found;
    int64_t now = now_ms();

    put_gone(s, 1, "web", now - 2000);
    put_gone(s, 2, "web", now - 1000);
    put_gone(s, 3, "", now);
    put_gone(s, 4, "sbx_like", now);
    for (int i = 0; i < 2; i++) {
        CHECK(store_find_gone(s, "sbx_000000000000000000000001", &found));
        CHECK(found.expired && found.timeout_s == 300 && found.ended_ms == now - 2000);
        CHECK(store_find_gone(s, "web", &found));
        CHECK_STR(found.id, "sbx_000000000000000000000002");
        CHECK(!store_find_gone(s, "", &found) && !store_find_gone(s, "other", &found));
        CHECK(!store_find_gone(s, "sbx_like", &found)); /* that is an id, and nobody had it */
        store_close(s);
        s = open_store(dir, NULL);
    }
    store_close(s);
}

TEST(who_is_gone_is_forgotten_after_an_hour_and_when_there_are_many)
{
    auto_dir char *dir = dir_new();
    struct store *s = open_store(dir, NULL);
    struct gone_sandbox found;
    int64_t now = now_ms();

    put_gone(s, 1, "old", now - 3601 * 1000);
    CHECK(!store_find_gone(s, "old", &found));
    put_gone(s, 2, "first", now);
    for (unsigned i = 0; i < STORE_GONE_MAX - 1; i++)
        put_gone(s, 3, "many", now);
    CHECK(store_find_gone(s, "first", &found));
    put_gone(s, 3, "many", now);
    CHECK(!store_find_gone(s, "first", &found) && store_find_gone(s, "many", &found));
    store_close(s);
}

TEST(what_is_remembered_in_a_form_that_cannot_be_is_not)
{
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/gone", dir);
    struct store *s = open_store(dir, NULL);
    struct gone_sandbox found;
    int fd;

    put_gone(s, 1, "web", now_ms());
    store_close(s);
    fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, "no", 2, 24) == 2); /* in its id */
    (void)close(fd);
    s = open_store(dir, NULL);
    CHECK(!store_find_gone(s, "web", &found));
    put_gone(s, 2, "web", now_ms());
    CHECK(store_find_gone(s, "web", &found));
    store_close(s);
}

TAP_MAIN
