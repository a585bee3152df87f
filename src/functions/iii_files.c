#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/iii_internal.h"
#include "functions/iii_read.h"
#include "functions/pipe.h"

#define ENTRIES_MAX   16384       /* in one answer */
#define CONTENT_MAX   (24u << 20) /* in one message */
#define PIECES_A_STEP 16

/* ---- what paths are ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

static json_t *entry_of(const json_t *file, const char *name)
{
    json_int_t ms = json_integer_value(json_object_get(file, "modifiedAt"));

    return json_pack("{s:s, s:O, s:O, s:O, s:I, s:O}", "name", name, "is_dir",
                     json_object_get(file, "isDirectory"), "size", json_object_get(file, "size"),
                     "mode", json_object_get(file, "mode"), "mtime",
                     (json_int_t)time_ms_seconds(ms), "is_symlink",
                     json_object_get(file, "isSymlink"));
}

/* FileMeta of the path of the input, which is not followed if it is a link; NULL. */
static json_t *look_at(struct call *call, const struct file_path *path, struct err *err)
{
    json_t *paths = json_pack("[s]", path->path), *all = NULL, *one;
    int r = paths ? engine_file_info(call->engine, in_id(call), paths, true, false, &all, err)
                  : err_code(err, ERR_INVALID, "bad_fs_request", "path is no text");

    json_decref(paths);
    if (r < 0) {
        (void)iii_file_error(err);
        return NULL;
    }
    one = json_incref(json_array_get(all, 0));
    json_decref(all);
    return one;
}

static int stat_path(struct call *call, struct err *err)
{
    auto_free char *text = NULL;
    struct file_path path = iii_path(in_str(call, "path"), "", &text);
    json_t *file = look_at(call, &path, err);

    if (!file)
        return -1;
    call->out = entry_of(file, base_name(json_string_value(json_object_get(file, "path"))));
    json_decref(file);
    return 0;
}

static int add_entry(json_t *item, void *entries, struct err *err)
{
    const char *name = json_string_value(json_object_get(item, "name"));
    bool full = json_array_size(entries) >= ENTRIES_MAX;

    if (!full)
        (void)json_array_append_new(entries, entry_of(item, name));
    json_decref(item);
    return full ? err_code(err, ERR_TOO_LARGE, "file_failed",
                           "the directory has more than %d entries; run a command to list it",
                           ENTRIES_MAX)
                : 0;
}

static int list(struct call *call, struct err *err)
{
    auto_free char *text = NULL;
    struct file_path path = iii_path(in_str(call, "path"), "", &text);
    json_t *file = look_at(call, &path, err), *entries;
    bool is_dir = json_is_true(json_object_get(file, "isDirectory"));

    if (!file)
        return -1;
    json_decref(file);
    if (!is_dir)
        return err_code(err, ERR_INVALID, "not_a_directory", "%.150s is not a directory", text);
    entries = json_array();
    if (engine_file_list(call->engine, in_id(call), path, add_entry, entries, err) < 0) {
        json_decref(entries);
        return iii_file_error(err);
    }
    call->out = json_pack("{s:o}", "entries", entries);
    return 0;
}

/* ---- changes ---- */

static int read_mode(const struct call *call, uint32_t *ret, struct err *err)
{
    const char *mode = in_str(call, "mode");

    if (str_octal(mode, ret) == 0 && *ret <= 07777)
        return 0;
    return err_code(err, ERR_INVALID, "bad_fs_request", "invalid mode: %.20s is not octal", mode);
}

/* A parent that is missing is what most callers forget. */
static int explain_parent(struct call *call, struct err *err)
{
    (void)iii_file_error(err);
    if (err->code && strcmp(err->code, "file_not_found") == 0 && !in_bool(call, "parents"))
        (void)iii_fix(call, json_pack("{s:b}", "parents", 1),
                      "the parent directory does not exist: send parents: true");
    return -1;
}

static int make_dir(struct call *call, struct err *err)
{
    auto_free char *text = NULL;
    struct file_path path = iii_path(in_str(call, "path"), "", &text);
    uint32_t mode;
    bool made;

    if (read_mode(call, &mode, err) < 0)
        return -1;
    if (engine_file_make_dir(call->engine, in_id(call), path, mode, in_bool(call, "parents"), &made,
                             err) < 0)
        return explain_parent(call, err);
    call->out = json_pack("{s:b}", "created", made);
    return 0;
}

static int remove_path(struct call *call, struct err *err)
{
    auto_free char *text = NULL;
    struct file_path path = iii_path(in_str(call, "path"), "", &text);

    if (engine_file_remove(call->engine, in_id(call), path, in_bool(call, "recursive"), err) < 0)
        return iii_file_error(err);
    call->out = json_pack("{s:b}", "removed", 1);
    return 0;
}

static uint32_t owner_of(const struct call *call, const char *name)
{
    return json_object_get(call->in, name) ? (uint32_t)in_int(call, name) : FILE_OWNER_KEEP;
}

static int change_mode(struct call *call, struct err *err)
{
    struct file_marks marks = {.uid = owner_of(call, "uid"),
                               .gid = owner_of(call, "gid"),
                               .recursive = in_bool(call, "recursive")};
    auto_free char *text = NULL;
    struct file_path path = iii_path(in_str(call, "path"), "", &text);
    uint32_t n;

    if (read_mode(call, &marks.mode, err) < 0)
        return -1;
    if (engine_file_mark(call->engine, in_id(call), path, &marks, &n, err) < 0)
        return iii_file_error(err);
    call->out = json_pack("{s:I}", "updated", (json_int_t)n);
    return 0;
}

static int move(struct call *call, struct err *err)
{
    auto_free char *src = NULL, *dst = NULL;
    struct file_path from = iii_path(in_str(call, "src"), "", &src),
                     to = iii_path(in_str(call, "dst"), "", &dst);

    if (engine_file_rename(call->engine, in_id(call), from, to, in_bool(call, "overwrite"), err) <
        0)
        return iii_file_error(err);
    call->out = json_pack("{s:b}", "moved", 1);
    return 0;
}

/* ---- write ---- */

static int written(struct call *call, uint64_t bytes, const char *path)
{
    call->out = json_pack("{s:I, s:s}", "bytes_written", (json_int_t)bytes, "path", path);
    return 0;
}

struct write_task {
    struct task task; /* first */
    struct pipe *pipe;
    struct file_stream *file;
    char *path;
    bool parents;
    uint64_t bytes;
    int64_t came_ns;  /* when the last byte came */
    uint32_t stall_s; /* seconds without a byte after which the upload fails */
};

static void write_free(struct task *task)
{
    struct write_task *t = (struct write_task *)task;

    engine_file_close(t->file); /* before its end: the old file stays */
    if (t->pipe)
        t->pipe->ops->close(t->pipe);
    free(t->path);
    free(t);
}

static int end_write(struct write_task *t, struct call *call, struct err *err)
{
    if (engine_file_write_end(t->file, err) == 0)
        return written(call, t->bytes, t->path);
    (void)iii_file_error(err);
    if (err->code && strcmp(err->code, "file_not_found") == 0 && !t->parents)
        (void)iii_fix(call, json_pack("{s:b}", "parents", 1),
                      "the parent directory does not exist: send parents: true");
    return -1;
}

static int wait_for_bytes(struct write_task *t, struct err *err)
{
    int64_t until_ns = t->came_ns + t->stall_s * 1000000000ll;

    if (mono_ns() >= until_ns)
        return err_code(err, ERR_TIMEOUT, "stream_stalled",
                        "nothing came over the channel for %u s; the file is as it was",
                        t->stall_s);
    t->task.fd = t->pipe->ops->fd(t->pipe);
    t->task.events = EPOLLIN;
    t->task.until_ns = until_ns;
    return TASK_WAITS;
}

static int write_step(struct task *task, struct call *call, struct err *err)
{
    struct write_task *t = (struct write_task *)task;
    auto_free char *piece = xmalloc(PIPE_PIECE);

    for (int i = 0; i < PIECES_A_STEP; i++) {
        ssize_t n = t->pipe->ops->read(t->pipe, piece, PIPE_PIECE);

        if (n == PIPE_LOST)
            return err_code(err, ERR_CONFLICT, "stream_lost",
                            "the channel broke off before its end; the file is as it was");
        if (n < 0)
            return end_write(t, call, err) < 0 ? -1 : TASK_DONE;
        if (n == 0)
            return wait_for_bytes(t, err);
        if (engine_file_write_some(t->file, piece, (size_t)n, err) < 0)
            return iii_file_error(err);
        t->bytes += (uint64_t)n;
        t->came_ns = mono_ns();
    }
    return TASK_AGAIN;
}

static const struct task_ops write_ops = {.step = write_step, .free = write_free};

static int write_from_pipe(struct call *call, const json_t *ref, struct file_path path,
                           uint32_t mode, struct err *err)
{
    uint32_t stall_s = iii_settings_of(call)->stall_s;
    struct write_task *t;

    if (!call->pipes)
        return err_code(err, ERR_INVALID, "bad_channel", "there are no channels here");
    t = xcalloc(1, sizeof(*t));
    t->task = (struct task){.ops = &write_ops, .fd = -1};
    t->path = xstrdup(in_str(call, "path"));
    t->parents = in_bool(call, "parents");
    t->came_ns = t->task.until_ns = mono_ns();
    t->stall_s = stall_s ? stall_s : III_STALL_S;
    t->pipe = call->pipes->ops->open(call->pipes, ref, false, err);
    if (!t->pipe) {
        write_free(&t->task);
        return -1;
    }
    if (engine_file_open_write(call->engine, in_id(call), path, mode, t->parents, &t->file, err) <
        0) {
        write_free(&t->task);
        return iii_file_error(err);
    }
    call->task = &t->task;
    return 0;
}

static int write_bytes(struct call *call, struct file_path path, uint32_t mode, const void *data,
                       size_t len, struct err *err)
{
    if (engine_file_put(call->engine, in_id(call), path, mode, in_bool(call, "parents"), data, len,
                        err) < 0)
        return explain_parent(call, err);
    return written(call, len, in_str(call, "path"));
}

static int write_base64(struct call *call, const json_t *text, struct file_path path, uint32_t mode,
                        struct err *err)
{
    auto_buf struct buf data = {0};

    buf_init(&data, CONTENT_MAX);
    if (base64_decode(&data, json_string_value(text), json_string_length(text)) < 0)
        return err_code(err, ERR_INVALID, "bad_base64", "content_b64 is not valid base64");
    return write_bytes(call, path, mode, data.data ? data.data : "", data.len, err);
}

static int write_file(struct call *call, struct err *err)
{
    const json_t *content = json_object_get(call->in, "content"),
                 *encoded = json_object_get(call->in, "content_b64");
    auto_free char *text = NULL;
    struct file_path path = iii_path(in_str(call, "path"), "", &text);
    uint32_t mode;

    if (!content == !encoded)
        return err_set(err, ERR_INVALID, "send exactly one of content and content_b64");
    if (content && !json_is_string(content) && !pipe_is_ref(content))
        return err_code(err, ERR_INVALID, "bad_channel",
                        "content must be a string or a channel reference");
    if (read_mode(call, &mode, err) < 0)
        return -1;
    if (encoded)
        return write_base64(call, encoded, path, mode, err);
    if (json_is_string(content))
        return write_bytes(call, path, mode, json_string_value(content),
                           json_string_length(content), err);
    return write_from_pipe(call, content, path, mode, err);
}

/* ---- the rows ---- */

#define PATH_FIELD                                                                                 \
    {                                                                                              \
        "path", FIELD_STRING, .max = PATH_BYTES_MAX, .example = "\"/tmp/a.txt\"",                  \
                              .help = "absolute"                                                   \
    }
#define PARENTS_FIELD                                                                              \
    {                                                                                              \
        "parents", FIELD_BOOL, .preset = "false", .help = "make the directories above it"          \
    }

static const struct field path_fields[] = {III_ID_FIELD, PATH_FIELD, {0}};

static const struct field mkdir_fields[] = {
    III_ID_FIELD,
    PATH_FIELD,
    {"mode", FIELD_STRING, .max = 16, .preset = "\"0755\"", .help = "octal digits"},
    PARENTS_FIELD,
    {0},
};

static const struct field write_fields[] = {
    III_ID_FIELD,
    PATH_FIELD,
    {"mode", FIELD_STRING, .max = 16, .preset = "\"0644\"", .help = "octal digits"},
    PARENTS_FIELD,
    {"content", FIELD_ANY, .optional = true, .example = "\"hello\\n\"",
     .help = "text, or a channel reference of direction read; or content_b64"},
    {"content_b64", FIELD_STRING, .optional = true, .max = 2.0 * CONTENT_MAX, .help = "base64"},
    {0},
};

static const struct field rm_fields[] = {
    III_ID_FIELD,
    PATH_FIELD,
    {"recursive", FIELD_BOOL, .preset = "false", .help = "with all that is in it"},
    {0},
};

static const struct field chmod_fields[] = {
    III_ID_FIELD,
    PATH_FIELD,
    {"mode", FIELD_STRING, .max = 16, .example = "\"0644\"", .help = "octal digits"},
    {"uid", FIELD_INT, .optional = true, .max = 4294967294, .help = "its owner from now on"},
    {"gid", FIELD_INT, .optional = true, .max = 4294967294, .help = "its group from now on"},
    {"recursive", FIELD_BOOL, .preset = "false", .help = "and all below it, but no link"},
    {0},
};

static const struct field mv_fields[] = {
    III_ID_FIELD,
    {"src", FIELD_STRING, .max = PATH_BYTES_MAX, .example = "\"/tmp/a.txt\"", .help = "absolute"},
    {"dst", FIELD_STRING, .max = PATH_BYTES_MAX, .example = "\"/tmp/b.txt\"",
     .help = "its name from now on"},
    {"overwrite", FIELD_BOOL, .preset = "false", .help = "what is there may go"},
    {0},
};

#define ERRORS_III ERRORS_FILE " bad_payload bad_uuid bad_fs_request file_failed agent_too_old"

const struct function iii_file_functions[] = {
    {"sandbox::fs::ls", .fields = path_fields, .run = list, .scope = SCOPE_READ,
     .reach = REACH_SANDBOX, .rate = RATE_FILE, .gives = &iii_ls_shape, .help = "Lists a directory",
     .errors = ERRORS_III},
    {"sandbox::fs::stat", .fields = path_fields, .run = stat_path, .scope = SCOPE_READ,
     .reach = REACH_SANDBOX, .rate = RATE_FILE, .gives = &iii_entry_shape,
     .help = "Shows what a path is, without following links", .errors = ERRORS_III},
    {"sandbox::fs::mkdir", .fields = mkdir_fields, .run = make_dir, .scope = SCOPE_WRITE,
     .reach = REACH_SANDBOX, .rate = RATE_FILE, .gives = &iii_mkdir_shape,
     .help = "Makes a directory", .errors = ERRORS_III " file_exists"},
    {"sandbox::fs::write", .fields = write_fields, .run = write_file, .scope = SCOPE_WRITE,
     .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .rate = RATE_FILE,
     .body_max = 2 * CONTENT_MAX, .gives = &iii_written_shape,
     .help = "Replaces a file with a text, or with what a channel brings",
     .errors = ERRORS_III " bad_base64 bad_channel channel_not_found stream_stalled "
                          "stream_lost"},
    {"sandbox::fs::read", .fields = path_fields, .run = iii_read_file, .scope = SCOPE_READ,
     .reach = REACH_SANDBOX, .rate = RATE_FILE, .gives = &iii_read_shape,
     .help = "Reads a file, over a channel and, of a short text, in the answer",
     .errors = ERRORS_III},
    {"sandbox::fs::rm", .fields = rm_fields, .run = remove_path, .scope = SCOPE_WRITE,
     .reach = REACH_SANDBOX, .rate = RATE_FILE, .gives = &iii_removed_shape,
     .help = "Removes a file, a link itself, or a directory",
     .errors = ERRORS_III " directory_not_empty"},
    {"sandbox::fs::chmod", .fields = chmod_fields, .run = change_mode, .scope = SCOPE_WRITE,
     .reach = REACH_SANDBOX, .rate = RATE_FILE, .gives = &iii_updated_shape,
     .help = "Changes mode and owner", .errors = ERRORS_III},
    {"sandbox::fs::mv", .fields = mv_fields, .run = move, .scope = SCOPE_WRITE,
     .reach = REACH_SANDBOX, .rate = RATE_FILE, .gives = &iii_moved_shape,
     .help = "Gives a file or a directory another name",
     .errors = ERRORS_III " file_exists directory_not_empty"},
    {0},
};
