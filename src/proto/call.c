#include "proto/call.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "proto/wire.h"

static void put_limits(struct buf *b, const struct call_exec *c)
{
    wire_put_u32(b, c->n_limits);
    for (uint32_t i = 0; i < c->n_limits; i++) {
        wire_put_u32(b, c->limits[i].resource);
        wire_put_u64(b, c->limits[i].soft);
        wire_put_u64(b, c->limits[i].hard);
    }
}

static void get_limits(struct wire *w, struct call_exec *ret)
{
    uint32_t n = wire_get_u32(w);

    if (n > RLIMITS_MAX)
        w->bad = true;
    for (uint32_t i = 0; i < n && !w->bad; i++) {
        ret->limits[i].resource = wire_get_u32(w);
        ret->limits[i].soft = wire_get_u64(w);
        ret->limits[i].hard = wire_get_u64(w);
    }
    ret->n_limits = w->bad ? 0 : n;
}

void call_exec_put(struct buf *b, const struct call_exec *c)
{
    wire_put_u32(b, c->flags);
    wire_put_str(b, c->id);
    wire_put_list(b, c->argv);
    wire_put_list(b, c->env);
    wire_put_str(b, c->cwd);
    wire_put_str(b, c->user);
    wire_put_u64(b, c->timeout_ms);
    wire_put_u64(b, c->output_max);
    wire_put_u32(b, c->rows);
    wire_put_u32(b, c->cols);
    wire_put_u32(b, c->nofile);
    if (c->flags & EXEC_LIMITS)
        put_limits(b, c);
    if (c->flags & EXEC_INPUT)
        wire_put_u64(b, c->input_len);
}

void call_exec_get(struct wire *w, struct call_exec *ret)
{
    ret->flags = wire_get_u32(w);
    ret->id = wire_get_str(w);
    ret->argv = wire_get_list(w, CALL_ARGS_MAX);
    ret->env = wire_get_list(w, CALL_ARGS_MAX);
    ret->cwd = wire_get_str(w);
    ret->user = wire_get_str(w);
    ret->timeout_ms = wire_get_u64(w);
    ret->output_max = wire_get_u64(w);
    ret->rows = wire_get_u32(w);
    ret->cols = wire_get_u32(w);
    ret->nofile = wire_get_u32(w);
    ret->n_limits = 0;
    ret->input_len = 0;
    if (ret->flags & EXEC_LIMITS)
        get_limits(w, ret);
    if (ret->flags & EXEC_INPUT)
        ret->input_len = wire_get_u64(w);
}

void call_exec_done(struct call_exec *c)
{
    free(c->id);
    strv_free(c->argv);
    strv_free(c->env);
    free(c->cwd);
    free(c->user);
    *c = (struct call_exec){0};
}

void call_exit_put(struct buf *b, const struct call_exit *c)
{
    wire_put_u32(b, c->how);
    wire_put_u32(b, c->code);
    wire_put_u64(b, c->duration_ns);
    wire_put_u64(b, c->lost_stdout);
    wire_put_u64(b, c->lost_stderr);
}

void call_exit_get(struct wire *w, struct call_exit *ret)
{
    ret->how = wire_get_u32(w);
    ret->code = wire_get_u32(w);
    ret->duration_ns = wire_get_u64(w);
    ret->lost_stdout = wire_get_u64(w);
    ret->lost_stderr = wire_get_u64(w);
}

void call_log_put(struct buf *b, const struct call_log *c)
{
    wire_put_u64(b, c->size);
    wire_put_u32(b, c->running);
    wire_put_u32(b, c->pid);
    wire_put_u64(b, c->started_ms);
    wire_put_u64(b, c->finished_ms);
    call_exit_put(b, &c->exit);
}

void call_log_get(struct wire *w, struct call_log *ret)
{
    ret->size = wire_get_u64(w);
    ret->running = wire_get_u32(w);
    ret->pid = wire_get_u32(w);
    ret->started_ms = wire_get_u64(w);
    ret->finished_ms = wire_get_u64(w);
    call_exit_get(w, &ret->exit);
}

void call_kept_put(struct buf *b, const struct call_kept *c)
{
    wire_put_str(b, c->id);
    wire_put_str(b, c->command);
    wire_put_u32(b, c->running);
    wire_put_u32(b, c->pid);
    wire_put_u32(b, c->flags);
    wire_put_u64(b, c->started_ms);
    wire_put_u64(b, c->finished_ms);
    wire_put_u64(b, c->start);
    wire_put_u64(b, c->end);
    call_exit_put(b, &c->exit);
}

static void get_text(struct wire *w, char *ret, size_t size)
{
    auto_free char *text = wire_get_str(w);
    size_t len = strlen(text);

    if (len >= size)
        w->bad = true;
    else
        memcpy(ret, text, len);
}

void call_kept_get(struct wire *w, struct call_kept *ret)
{
    *ret = (struct call_kept){0};
    get_text(w, ret->id, sizeof(ret->id));
    get_text(w, ret->command, sizeof(ret->command));
    ret->running = wire_get_u32(w);
    ret->pid = wire_get_u32(w);
    ret->flags = wire_get_u32(w);
    ret->started_ms = wire_get_u64(w);
    ret->finished_ms = wire_get_u64(w);
    ret->start = wire_get_u64(w);
    ret->end = wire_get_u64(w);
    call_exit_get(w, &ret->exit);
}

void call_state_put(struct buf *b, const struct call_kept *c)
{
    call_kept_put(b, c);
    wire_put_u32(b, c->rows);
    wire_put_u32(b, c->cols);
}

void call_state_get(struct wire *w, struct call_kept *ret)
{
    call_kept_get(w, ret);
    if (w->p == w->end)
        return;
    ret->rows = wire_get_u32(w);
    ret->cols = wire_get_u32(w);
}

void call_file_put(struct buf *b, const struct call_file *c)
{
    wire_put_str(b, c->path);
    wire_put_u32(b, c->kind);
    wire_put_u32(b, c->mode);
    wire_put_u64(b, c->size);
    wire_put_u64(b, (uint64_t)c->mtime_ms);
    wire_put_u32(b, c->uid);
    wire_put_u32(b, c->gid);
    wire_put_str(b, c->owner);
    wire_put_str(b, c->group);
    wire_put_str(b, c->target);
}

void call_file_get(struct wire *w, struct call_file *ret)
{
    ret->path = wire_get_str(w);
    ret->kind = wire_get_u32(w);
    ret->mode = wire_get_u32(w);
    ret->size = wire_get_u64(w);
    ret->mtime_ms = time_ms_clamp((int64_t)wire_get_u64(w));
    ret->uid = wire_get_u32(w);
    ret->gid = wire_get_u32(w);
    ret->owner = wire_get_str(w);
    ret->group = wire_get_str(w);
    ret->target = wire_get_str(w);
}

void call_file_done(struct call_file *c)
{
    free(c->path);
    free(c->owner);
    free(c->group);
    free(c->target);
    *c = (struct call_file){0};
}

void call_match_put(struct buf *b, const struct call_match *c)
{
    wire_put_u32(b, c->kind);
    wire_put_str(b, c->path);
    wire_put_u64(b, c->line);
    wire_put_bytes(b, c->text, c->len);
}

void call_match_get(struct wire *w, struct call_match *ret)
{
    struct buf copy = {0};
    const void *text;

    ret->kind = wire_get_u32(w);
    ret->path = wire_get_str(w);
    ret->line = wire_get_u64(w);
    text = wire_get_bytes(w, &ret->len);
    buf_init(&copy, ret->len);
    (void)buf_add(&copy, text, ret->len);
    ret->text = buf_steal(&copy);
}

void call_match_done(struct call_match *c)
{
    free(c->path);
    free(c->text);
    *c = (struct call_match){0};
}

void call_edit_put(struct buf *b, const struct call_edit *c)
{
    wire_put_u32(b, c->alive);
    wire_put_str(b, c->path);
    wire_put_u64(b, c->replacements);
    wire_put_str(b, c->error);
}

void call_edit_get(struct wire *w, struct call_edit *ret)
{
    ret->alive = wire_get_u32(w);
    ret->path = wire_get_str(w);
    ret->replacements = wire_get_u64(w);
    ret->error = wire_get_str(w);
}

void call_edit_done(struct call_edit *c)
{
    free(c->path);
    free(c->error);
    *c = (struct call_edit){0};
}

void call_process_put(struct buf *b, const struct call_process *c)
{
    wire_put_u32(b, c->pid);
    wire_put_u32(b, c->ppid);
    wire_put_u32(b, c->uid);
    wire_put_str(b, c->user);
    wire_put_str(b, c->state);
    wire_put_u64(b, c->cpu_ms);
    wire_put_u64(b, c->age_ms);
    wire_put_u64(b, c->rss);
    wire_put_u64(b, c->vsz);
    wire_put_str(b, c->command);
}

void call_change_put(struct buf *b, const struct call_change *c)
{
    wire_put_u32(b, c->kind);
    wire_put_u32(b, c->is_dir);
    wire_put_u64(b, c->time_ms);
    wire_put_u64(b, c->lost);
    wire_put_str(b, c->path);
    wire_put_str(b, c->from);
}

void call_change_get(struct wire *w, struct call_change *ret)
{
    ret->kind = wire_get_u32(w);
    ret->is_dir = wire_get_u32(w);
    ret->time_ms = wire_get_u64(w);
    ret->lost = wire_get_u64(w);
    ret->path = wire_get_str(w);
    ret->from = wire_get_str(w);
}

void call_change_done(struct call_change *c)
{
    free(c->path);
    free(c->from);
    *c = (struct call_change){0};
}

void call_process_get(struct wire *w, struct call_process *ret)
{
    ret->pid = wire_get_u32(w);
    ret->ppid = wire_get_u32(w);
    ret->uid = wire_get_u32(w);
    ret->user = wire_get_str(w);
    ret->state = wire_get_str(w);
    ret->cpu_ms = wire_get_u64(w);
    ret->age_ms = wire_get_u64(w);
    ret->rss = wire_get_u64(w);
    ret->vsz = wire_get_u64(w);
    ret->command = wire_get_str(w);
}

void call_process_done(struct call_process *c)
{
    free(c->user);
    free(c->state);
    free(c->command);
    *c = (struct call_process){0};
}

/* The words an agent may use; they end up in API answers, so others are not passed on. */
static const char *const known_codes[] = {
    "bad_cwd",        "bad_user",         "command_not_found",   "not_executable",
    "process_limit",  "file_not_found",   "not_a_file",          "not_a_directory",
    "is_a_directory", "no_space",         "permission_denied",   "log_not_found",
    "sandbox_busy",   "too_many_streams", "exec_not_found",      "exec_attached",
    "exec_exists",    "port_closed",      "recording_not_found", "watch_limit",
    "bad_rlimit",     "file_exists",      "directory_not_empty", "bad_regex",
    "bad_fs_request",
};

void call_error_put(struct buf *b, const struct err *err)
{
    wire_put_u32(b, err->kind);
    wire_put_u32(b, (uint32_t)err->sys);
    wire_put_str(b, err->code);
    wire_put_str(b, err->text);
}

int call_error_get(const void *payload, unsigned long len, struct err *err)
{
    auto_free char *code = NULL;
    auto_free char *text = NULL;
    struct wire w;
    uint32_t kind, sys;

    wire_init(&w, payload, len);
    kind = wire_get_u32(&w);
    sys = wire_get_u32(&w);
    code = wire_get_str(&w);
    text = wire_get_str(&w);
    if (!wire_ok(&w) || kind == ERR_NONE || kind >= ERR_KINDS || !*text)
        return err_set(err, ERR_INTERNAL, "the agent sent an error that cannot be read");
    (void)err_set(err, kind, "%s", text);
    if (err) {
        err->sys = (int)sys;
        for (size_t i = 0; i < ARRAY_LEN(known_codes); i++)
            if (strcmp(code, known_codes[i]) == 0)
                err->code = known_codes[i];
    }
    return -1;
}
