#pragma once

#include <jansson.h>
#include <poll.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "engine/exec.h"
#include "engine/files.h"
#include "engine/json_text_internal.h"
#include "engine/logs.h"
#include "tap.h"

/* Waits on the thread of the test for what an exec waits for. */

static inline void exec_wait_here(const struct exec *x)
{
    struct exec_wait wait;
    struct pollfd p;
    int64_t ms = -1;

    engine_exec_wait(x, &wait);
    p = (struct pollfd){.fd = wait.events ? wait.fd : -1, .events = (short)wait.events};
    if (wait.until_ns)
        ms = (wait.until_ns - mono_ns()) / 1000000 + 1;
    (void)poll(&p, 1, ms < -1 ? 0 : (int)ms);
}

/* The next output: 0 or -1. */
static inline int exec_next_here(struct exec *x, struct exec_output *out, struct err *err)
{
    int r;

    while ((r = engine_exec_next(x, out, err)) == 0)
        exec_wait_here(x);
    return r < 0 ? -1 : 0;
}

/* Opens and waits for the start. */
static inline int exec_open_here(struct engine *e, const char *id, const struct exec_request *req,
                                 struct exec **ret, uint32_t *ret_pid, struct err *err)
{
    struct exec_output out;

    if (engine_exec_open(e, id, req, ret, err) < 0)
        return -1;
    if (exec_next_here(*ret, &out, err) < 0) {
        engine_exec_close(*ret);
        return -1;
    }
    CHECK_INT(out.what, EXEC_STARTED);
    *ret_pid = out.pid;
    return 0;
}

/* To the end: {exitCode, stdout, stderr, duration, reason, truncated}. */
static inline int exec_run_here(struct engine *e, const char *id, const struct exec_request *req,
                                json_t **ret, struct err *err)
{
    struct exec_request whole = *req;
    struct exec_result result;
    struct exec *x;
    int r;

    whole.collect = true;
    if (engine_exec_open(e, id, &whole, &x, err) < 0)
        return -1;
    while ((r = engine_exec_collect(x, &result, err)) > 0)
        exec_wait_here(x);
    if (r == 0)
        *ret = json_pack("{s:i, s:o, s:o, s:f, s:s, s:b}", "exitCode", result.end.exit_code,
                         "stdout", json_of_bytes(result.out->data, result.out->len), "stderr",
                         json_of_bytes(result.errors->data, result.errors->len), "duration",
                         result.end.duration_ms, "reason", result.end.reason, "truncated",
                         result.truncated);
    engine_exec_close(x);
    return r;
}

/* ---- lists as arrays ---- */

static inline int add_to_array(json_t *item, void *array, struct err *err)
{
    (void)err;
    return json_array_append_new(array, item);
}

static inline int file_list_here(struct engine *e, const char *id, struct file_path path,
                                 json_t **ret, struct err *err)
{
    json_t *items = json_array();
    int r = engine_file_list(e, id, path, add_to_array, items, err);

    if (r == 0)
        *ret = items;
    else
        json_decref(items);
    return r;
}

static inline int file_search_here(struct engine *e, const char *id, struct file_path dir,
                                   const char *pattern, json_t **ret, struct err *err)
{
    json_t *items = json_array();
    int r = engine_file_search(e, id, dir, pattern, add_to_array, items, err);

    if (r == 0)
        *ret = items;
    else
        json_decref(items);
    return r;
}

/* ---- logs ---- */

static inline void log_wait_here(const struct log_stream *log)
{
    struct pollfd p = {.events = POLLIN};
    int64_t until;

    log_stream_wait(log, &p.fd, &until);
    (void)poll(&p, 1, until ? (int)((until - mono_ns()) / 1000000) + 1 : -1);
}

/* ---- a file whole ---- */

static inline int file_read_here(struct engine *e, const char *id, struct file_path path,
                                 struct buf *out, struct err *err)
{
    auto_file_stream struct file_stream *file = NULL;
    const char *piece;
    uint64_t size;
    ssize_t n;

    if (engine_file_open_read(e, id, path, (struct file_range){0}, &file, &size, err) < 0)
        return -1;
    while ((n = engine_file_next(file, &piece, err)) > 0)
        CHECK_INT(buf_add(out, piece, (size_t)n), 0);
    return n < 0 ? -1 : 0;
}
