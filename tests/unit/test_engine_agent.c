#include <sys/pidfd.h>

#include "agent_runtime.h"
#include "engine/engine.h"
#include "engine/exec.h"
#include "engine/files.h"
#include "engine/idle.h"
#include "engine/logs.h"
#include "engine/processes.h"
#include "engine/sandboxes.h"
#include "exec_rig.h"
#include "fake_images.h"
#include "sandbox_request.h"
#include "store/store.h"
#include "tmpdir.h"

/* The engine and the real agent, which runs as an ordinary process: do the two ends of proto/call.h
 * mean the same? The workspace is a folder of the test. */

static struct store *store;
static struct engine *engine;
static char *data_dir;
static char id[ID_SIZE];

static void up(const char *create)
{
    json_t *out;
    struct engine_config config = {
        .default_image = "host",
        .default_timeout_s = 3600,
        .default_limits = {512, 1000, 256, 4096},
        .ceilings = {4096, 4000, 4096, 86400},
        .max_sandboxes = 2,
        .allowed_images = "*",
        .auto_install = true,
        .workspace = rig.files,
        .max_command_s = 20,
        .sweep_s = 3600,
    };
    struct err err = {0};
    int rebuilt;

    rig_start();
    data_dir = dir_new();
    config.data_dir = data_dir;
    if (store_open(data_dir, &store, &rebuilt, &err) < 0 ||
        engine_new(&config, store, NULL, &rig_runtime, &engine, &err) < 0 ||
        engine_start(engine, &err) < 0 || create_from(engine, create, NULL, &out, &err) < 0)
        TAP_FAIL("%s", err.text);
    snprintf(id, sizeof(id), "%s", json_string_value(json_object_get(out, "id")));
    json_decref(out);
}

static void down(void)
{
    engine_stop(engine, true);
    engine_free(engine);
    store_close(store);
    dir_remove(&data_dir);
    fake_volumes_remove();
}

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "(no string)";
}

static json_t *run(const char *command)
{
    struct err err = {0};
    json_t *out;

    if (exec_run_here(engine, id, &(struct exec_request){.command = command}, &out, &err) < 0)
        TAP_FAIL("%s: %s", command, err.text);
    return out;
}

static void check_run(const char *command, int code, const char *want_out, const char *want_err)
{
    json_t *out = run(command);

    CHECK_STR(str(out, "stdout"), want_out);
    CHECK_STR(str(out, "stderr"), want_err);
    CHECK_INT(json_integer_value(json_object_get(out, "exitCode")), code);
    CHECK(json_number_value(json_object_get(out, "duration")) > 0);
    json_decref(out);
}

TEST(commands_run)
{
    auto_free char *pwd = NULL;

    up("{\"image\":\"x\",\"env\":{\"A\":\"b c\"}}");
    pwd = xasprintf("%s\n", rig.files);
    check_run("echo hello", 0, "hello\n", "");
    check_run("echo no >&2; exit 3", 3, "", "no\n");
    check_run("printf %s \"$A\"", 0, "b c", "");
    check_run("pwd", 0, pwd, "");
    check_run("kill -TERM $$", 143, "", "");
    check_run("sleep 300 & echo $((1+1))", 0, "2\n", "");
    down();
}

TEST(a_timeout_is_told_with_its_time)
{
    struct err err = {0};
    json_t *out;

    up("{\"image\":\"x\"}");
    CHECK_INT(exec_run_here(engine, id,
                            &(struct exec_request){.command = "sleep 60", .timeout_ms = 20}, &out,
                            &err),
              -1);
    CHECK_STR(err.text, "Command timed out after 20ms");
    down();
}

TEST(a_missing_program_and_a_missing_cwd_are_the_callers_errors)
{
    char *argv[] = {"no-such-program", NULL};
    struct err err = {0};
    json_t *out;

    up("{\"image\":\"x\"}");
    CHECK_INT(exec_run_here(engine, id, &(struct exec_request){.argv = argv}, &out, &err), -1);
    CHECK_STR(err.code, "command_not_found");
    CHECK_INT(exec_run_here(engine, id, &(struct exec_request){.command = "x", .cwd = "/no/where"},
                            &out, &err),
              -1);
    CHECK_STR(err.code, "bad_cwd");
    down();
}

TEST(a_stream_takes_input_and_ends_with_the_exit)
{
    struct exec_request req = {.command = "cat", .want_stdin = true};
    auto_buf struct buf got = {0};
    struct exec_output out;
    struct exec *x;
    uint32_t pid;

    up("{\"image\":\"x\"}");
    buf_init(&got, 100);
    CHECK_INT(exec_open_here(engine, id, &req, &x, &pid, NULL), 0);
    CHECK(pid > 0);
    engine_exec_stdin(x, "ping", 4);
    engine_exec_stdin(x, NULL, 0);
    for (;;) {
        CHECK_INT(exec_next_here(x, &out, NULL), 0);
        if (out.what == EXEC_EXIT)
            break;
        CHECK_INT(buf_add(&got, out.data, out.len), 0);
    }
    CHECK_INT(out.exit_code, 0);
    CHECK_STR(got.data, "ping");
    engine_exec_close(x);
    down();
}

TEST(closing_an_exec_ends_the_command)
{
    auto_close int process = -1;
    struct pollfd p;
    struct exec *x;
    uint32_t pid;

    up("{\"image\":\"x\"}");
    CHECK_INT(exec_open_here(engine, id, &(struct exec_request){.command = "exec sleep 77"}, &x,
                             &pid, NULL),
              0);
    process = pidfd_open((pid_t)pid, 0);
    CHECK(process >= 0);
    engine_exec_close(x);
    p = (struct pollfd){.fd = process, .events = POLLIN};
    CHECK_INT(poll(&p, 1, PATIENCE_MS), 1);
    down();
}

TEST(a_background_exec_is_followed_to_its_end)
{
    json_t *out;
    auto_free char *bg = NULL;

    up("{\"image\":\"x\"}");
    CHECK_INT(engine_exec_background(
                  engine, id, &(struct exec_request){.command = "echo one; exit 4"}, &out, NULL),
              0);
    bg = xstrdup(str(out, "id"));
    do {
        json_decref(out);
        CHECK_INT(engine_background_status(engine, bg, &out, NULL), 0);
    } while (json_is_true(json_object_get(out, "running")));
    CHECK_INT(json_integer_value(json_object_get(out, "exitCode")), 4);
    CHECK(json_is_integer(json_object_get(out, "finishedAt")));
    json_decref(out);
    CHECK_INT(engine_background_logs(engine, bg, 0, &out, NULL), 0);
    CHECK_STR(str(out, "output"), "one\n");
    CHECK_INT(json_integer_value(json_object_get(out, "cursor")), 4);
    json_decref(out);
    CHECK_INT(engine_background_logs(engine, bg, 4, &out, NULL), 0);
    CHECK_STR(str(out, "output"), "");
    json_decref(out);
    down();
}

static void check_log(uint64_t lines, bool follow, const char *want)
{
    auto_buf struct buf got = {0};
    struct log_stream *log;
    struct log_piece piece;
    int r;

    buf_init(&got, 1 << 20);
    CHECK_INT(engine_log_open(engine, id, lines, follow, &log, NULL), 0);
    while ((r = log_stream_next(log, &piece, NULL)) > 0) {
        if (r == LOG_PIECE)
            CHECK_INT(buf_add(&got, piece.data, piece.len), 0);
        else
            log_wait_here(log);
    }
    CHECK_INT(r, LOG_ENDED);
    CHECK_STR(got.data ? got.data : "", want);
    log_stream_close(log);
}

TEST(the_entrypoint_writes_the_main_log_and_the_last_lines_of_it_can_be_had)
{
    up("{\"image\":\"x\",\"entrypoint\":[\"sh\",\"-c\",\"echo a; echo b; printf c\"]}");
    check_log(100, true, "a\nb\nc");
    check_log(3, false, "a\nb\nc");
    check_log(2, false, "b\nc");
    check_log(1, false, "c");
    check_log(0, false, "");
    down();
}

/* How many bytes it has, and what it begins with. */
static size_t drain_log(uint64_t lines, bool follow, char first[16])
{
    struct log_stream *log;
    struct log_piece piece;
    size_t total = 0;
    int r;

    first[0] = '\0';
    CHECK_INT(engine_log_open(engine, id, lines, follow, &log, NULL), 0);
    while ((r = log_stream_next(log, &piece, NULL)) > 0) {
        if (r == LOG_WAITS)
            log_wait_here(log);
        else if (total == 0)
            snprintf(first, 16, "%.*s", (int)strcspn(piece.data, "\n"), piece.data);
        if (r == LOG_PIECE)
            total += piece.len;
    }
    CHECK_INT(r, LOG_ENDED);
    log_stream_close(log);
    return total;
}

TEST(the_last_lines_of_a_long_log_are_found_from_its_end)
{
    char first[16];

    up("{\"image\":\"x\",\"entrypoint\":[\"seq\",\"1000001\",\"1120000\"]}");
    CHECK_INT(drain_log(1000000, true, first), 120000 * 8);
    CHECK_STR(first, "1000001");
    CHECK_INT(drain_log(100000, false, first), 100000 * 8);
    CHECK_STR(first, "1020001");
    CHECK_INT(drain_log(32768, false, first), 32768 * 8); /* a whole window */
    CHECK_STR(first, "1087233");
    down();
}

static struct file_path at(const char *path)
{
    return (struct file_path){.path = path};
}

TEST(files_are_written_read_listed_and_removed)
{
    auto_free char *big = xcalloc(1, 700000), *path = NULL;
    auto_buf struct buf data = {0};
    json_t *out, *paths = json_pack("[s]", "d/big");
    struct err err = {0};

    up("{\"image\":\"x\"}");
    memset(big, 'b', 700000);
    buf_init(&data, 1 << 20);
    CHECK_INT(engine_file_write(engine, id, at("d/big"), big, 700000, NULL), 0);
    CHECK_INT(file_read_here(engine, id, at("d/big"), &data, NULL), 0);
    CHECK_INT(data.len, 700000);
    CHECK(memcmp(data.data, big, 700000) == 0);
    CHECK_INT(file_list_here(engine, id, at("d"), &out, NULL), 0);
    path = xasprintf("%s/d/big", rig.files);
    CHECK_STR(str(json_array_get(out, 0), "name"), "big");
    CHECK_STR(str(json_array_get(out, 0), "path"), path);
    json_decref(out);
    CHECK_INT(engine_file_chmod(engine, id, at("d/big"), "600", NULL), 0);
    CHECK_INT(engine_file_info(engine, id, paths, false, false, &out, NULL), 0);
    CHECK_STR(str(json_array_get(out, 0), "permissions"), "-rw-------");
    CHECK_STR(str(json_array_get(out, 0), "path"), path);
    CHECK_INT(json_integer_value(json_object_get(json_array_get(out, 0), "size")), 700000);
    json_decref(out);
    CHECK_INT(file_search_here(engine, id, at("."), "b*", &out, NULL), 0);
    CHECK_STR(json_string_value(json_array_get(out, 0)), path);
    json_decref(out);
    CHECK_INT(engine_file_move(engine, id, at("d/big"), at("moved"), NULL), 0);
    CHECK_INT(file_read_here(engine, id, at("d/big"), &data, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    CHECK_INT(engine_file_delete(engine, id, at("moved"), NULL), 0);
    CHECK_INT(engine_file_delete(engine, id, at("moved"), NULL), 0);
    CHECK_INT(engine_file_delete(engine, id, at("d"), &err), -1);
    CHECK_STR(err.code, "is_a_directory");
    CHECK_INT(engine_file_mkdir(engine, id, at("d/e/f"), NULL), 0);
    CHECK_INT(engine_file_rmdir(engine, id, at("d"), NULL), 0);
    CHECK_INT(file_list_here(engine, id, at("d"), &out, NULL), 0);
    CHECK_INT(json_array_size(out), 0);
    json_decref(out);
    CHECK_INT(engine_file_info(engine, id, paths, false, false, &out, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    json_decref(paths);
    down();
}

TEST(a_write_that_is_not_ended_leaves_the_old_file)
{
    auto_buf struct buf data = {0};
    struct file_stream *file;

    up("{\"image\":\"x\"}");
    buf_init(&data, 100);
    CHECK_INT(engine_file_write(engine, id, at("f"), "old", 3, NULL), 0);
    CHECK_INT(engine_file_open_write(engine, id, at("f"), FILE_MODE_KEEP, true, &file, NULL), 0);
    CHECK_INT(engine_file_write_some(file, "new", 3, NULL), 0);
    engine_file_close(file);
    CHECK_INT(file_read_here(engine, id, at("f"), &data, NULL), 0);
    CHECK_STR(data.data, "old");
    down();
}

TEST(exact_changes_tell_what_was_in_the_way)
{
    struct file_marks marks = {.mode = 0640, .uid = FILE_OWNER_KEEP, .gid = FILE_OWNER_KEEP};
    struct file_stream *file;
    struct file_look look;
    struct err err = {0};
    uint64_t size;
    uint32_t n;
    bool made;

    up("{\"image\":\"x\"}");
    CHECK_INT(engine_file_make_dir(engine, id, at("d"), 0755, false, &made, NULL), 0);
    CHECK(made);
    CHECK_INT(engine_file_make_dir(engine, id, at("d"), 0755, false, &made, &err), -1);
    CHECK_STR(err.code, "file_exists");
    CHECK_INT(engine_file_make_dir(engine, id, at("d"), 0755, true, &made, NULL), 0);
    CHECK(!made);
    CHECK_INT(engine_file_write(engine, id, at("d/f"), "text", 4, NULL), 0);
    CHECK_INT(engine_file_remove(engine, id, at("d"), false, &err), -1);
    CHECK_STR(err.code, "directory_not_empty");
    CHECK_INT(engine_file_mark(engine, id, at("d/f"), &marks, &n, NULL), 0);
    CHECK_INT(n, 1);
    CHECK_INT(engine_file_rename(engine, id, at("d/f"), at("d/g"), false, NULL), 0);
    CHECK_INT(
        engine_file_open_read(engine, id, at("d/g"), (struct file_range){0}, &file, &size, NULL),
        0);
    engine_file_look(file, &look);
    CHECK_INT(look.size, 4);
    CHECK_INT(look.mode & 07777, 0640);
    CHECK(look.mtime_ms > 0);
    engine_file_close(file);
    CHECK_INT(engine_file_open_write(engine, id, at("no/f"), 0644, false, &file, NULL), 0);
    CHECK_INT(engine_file_write_end(file, &err), -1);
    CHECK_STR(err.code, "file_not_found");
    engine_file_close(file);
    CHECK_INT(engine_file_remove(engine, id, at("d"), true, NULL), 0);
    CHECK_INT(engine_file_remove(engine, id, at("d"), true, &err), -1);
    CHECK_STR(err.code, "file_not_found");
    CHECK(engine_last_active(engine, id) > now_ms() - 60000);
    CHECK_INT(engine_last_active(engine, "sbx_none"), 0);
    down();
}

TEST(a_write_that_cannot_be_is_refused_with_the_agents_reason)
{
    auto_free char *big = xcalloc(1, 4 << 20);
    struct err err = {0};

    up("{\"image\":\"x\"}");
    CHECK_INT(engine_file_mkdir(engine, id, at("dir"), NULL), 0);
    CHECK_INT(engine_file_write(engine, id, at("dir"), big, 4 << 20, &err), -1);
    CHECK_STR(err.code, "is_a_directory");
    down();
}

TEST(processes_are_listed_and_signalled)
{
    struct exec_output out;
    json_t *list, *p;
    struct exec *x;
    uint32_t pid;
    size_t i;
    bool found = false;

    up("{\"image\":\"x\"}");
    CHECK_INT(exec_open_here(engine, id, &(struct exec_request){.command = "exec sleep 77"}, &x,
                             &pid, NULL),
              0);
    CHECK_INT(engine_processes(engine, id, &list, NULL), 0);
    json_array_foreach(json_object_get(list, "processes"), i, p)
    {
        found = found || json_integer_value(json_object_get(p, "pid")) == pid;
    }
    CHECK(found);
    json_decref(list);
    CHECK_INT(engine_process_kill(engine, id, pid, "KILL", NULL), 0);
    CHECK_INT(exec_next_here(x, &out, NULL), 0);
    CHECK_INT(out.what, EXEC_EXIT);
    CHECK_INT(out.exit_code, 137);
    CHECK_STR(out.reason, "signal");
    engine_exec_close(x);
    down();
}

TAP_MAIN
