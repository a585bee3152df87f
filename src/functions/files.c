#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/mode.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/files.h"
#include "functions/file_paths.h"
#include "functions/functions_internal.h"

#define KERNEL_FILE_MAX (16u << 20) /* of a file that does not say how long it is */
#define JSON_BODY_MAX   (24u << 20) /* base64 of as much, with room for the rest */
#define PIECE_BYTES     (128u << 10)

static bool wants_base64(const struct call *call)
{
    const char *encoding = in_str(call, "pathEncoding");

    return encoding && strcmp(encoding, "base64") == 0;
}

static struct file_path path_of(const struct call *call, const char *path)
{
    return (struct file_path){
        .path = path, .anywhere = in_bool(call, "anywhere"), .base64 = wants_base64(call)};
}

/* One path in place of its base64: any bytes that a file name can have, which JSON cannot. */
static json_t *decode_path(const json_t *text, struct err *err)
{
    auto_buf struct buf bytes = {0};

    buf_init(&bytes, PATH_TEXT_MAX);
    if (base64_decode(&bytes, json_string_value(text), json_string_length(text)) < 0) {
        (void)err_code(err, ERR_INVALID, "bad_base64",
                       "Invalid base64: with pathEncoding base64 a path must be standard base64 "
                       "with padding and without white space");
        return NULL;
    }
    if (bytes.len == 0 || memchr(bytes.data, '\0', bytes.len)) {
        (void)err_set(err, ERR_INVALID, "a path must not be empty or have a NUL in it");
        return NULL;
    }
    return json_stringn_nocheck(bytes.data, bytes.len);
}

static int decode_member(json_t *object, const char *key, struct err *err)
{
    const json_t *text = json_object_get(object, key);
    json_t *path;

    if (!json_is_string(text))
        return 0;
    path = decode_path(text, err);
    return path ? json_object_set_new(object, key, path) : -1;
}

int file_take_paths(struct call *call, struct err *err)
{
    json_t *paths = json_object_get(call->in, "paths"), *moves = json_object_get(call->in, "moves");

    if (!wants_base64(call))
        return 0;
    if (decode_member(call->in, "path", err) < 0 || decode_member(call->in, "dir", err) < 0 ||
        decode_member(call->in, "from", err) < 0 || decode_member(call->in, "to", err) < 0 ||
        decode_member(call->in, "target", err) < 0)
        return -1;
    for (size_t i = 0; i < json_array_size(paths); i++) {
        json_t *path = decode_path(json_array_get(paths, i), err);

        if (!path)
            return -1;
        (void)json_array_set_new(paths, i, path);
    }
    for (size_t i = 0; i < json_array_size(moves); i++)
        if (decode_member(json_array_get(moves, i), "from", err) < 0 ||
            decode_member(json_array_get(moves, i), "to", err) < 0)
            return -1;
    return 0;
}

struct file_path file_in_path(const struct call *call, const char *name)
{
    const char *path = in_str(call, name);

    return path_of(call, path ? path : engine_config(call->engine)->workspace);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What was there when it was opened is sent: a file that grows meanwhile is cut there. Kernel files
 * say that they are empty and are not, so those are sent to their end. */
static int send_file(struct call *call, struct err *err)
{
    struct file_range range = {.offset = (uint64_t)in_int(call, "offset"),
                               .most = (uint64_t)in_int(call, "limit")};
    auto_file_stream struct file_stream *file = NULL;
    uint64_t size, left;
    const char *piece;
    ssize_t n;

    if (file_take_paths(call, err) < 0)
        return -1;
    if (engine_file_open_read(call->engine, in_id(call), file_in_path(call, "path"), range, &file,
                              &size, err) < 0)
        return -1;
    left = size == 0 ? KERNEL_FILE_MAX : size - least(size, range.offset);
    if (range.most > 0)
        left = least(left, range.most);
    if (size > 0 && sink_size(call, left, err) < 0)
        return -1;
    while ((size == 0 || left > 0) && (n = engine_file_next(file, &piece, err)) != 0) {
        size_t part = n > 0 ? (size_t)least((uint64_t)n, left) : 0;

        if (size == 0 && n > 0 && (uint64_t)n > left)
            return err_code(err, ERR_TOO_LARGE, "file_too_large",
                            "a kernel file is read up to %u MiB", KERNEL_FILE_MAX >> 20);
        if (n < 0 || sink_bytes(call, CHANNEL_ANSWER, piece, part, err) < 0)
            return -1;
        left -= part;
    }
    if (size > 0 && left > 0)
        return err_code(err, ERR_CONFLICT, "file_changed",
                        "the file became shorter while it was read; read it again");
    return 0;
}

static int write_text(struct call *call, struct err *err)
{
    const json_t *content = json_object_get(call->in, "content");

    if (file_take_paths(call, err) < 0)
        return -1;
    if (engine_file_write(call->engine, in_id(call), file_in_path(call, "path"),
                          json_string_value(content), json_string_length(content), err) < 0)
        return -1;
    return reply_success(call);
}

int in_mode(const struct call *call, uint32_t *ret, struct err *err)
{
    const char *mode = in_str(call, "mode");

    *ret = FILE_MODE_KEEP;
    if (mode && mode_octal(mode, ret) < 0)
        return err_set(err, ERR_INVALID, "mode must be 3 or 4 octal digits, such as 0644");
    return 0;
}

static int copy_base64(struct call *call, struct file_stream *file, struct err *err)
{
    const json_t *content = json_object_get(call->in, "content");
    auto_buf struct buf data = {0};

    buf_init(&data, JSON_BODY_MAX);
    if (base64_decode(&data, json_string_value(content), json_string_length(content)) < 0)
        return err_code(err, ERR_INVALID, "bad_base64",
                        "Invalid base64: content must be standard base64 with padding and without "
                        "white space");
    for (size_t at = 0; at < data.len; at += PIECE_BYTES) {
        size_t len = data.len - at < PIECE_BYTES ? data.len - at : PIECE_BYTES;

        if (engine_file_write_some(file, data.data + at, len, err) < 0)
            return -1;
    }
    return 0;
}

/* The file is replaced when all of the body has come. */
struct upload {
    struct taker taker; /* first */
    struct file_stream *file;
};

static int upload_take(struct taker *t, const char *data, size_t len, struct err *err)
{
    return engine_file_write_some(((struct upload *)t)->file, data, len, err);
}

static int upload_end(struct taker *t, struct call *call, struct err *err)
{
    if (engine_file_write_end(((struct upload *)t)->file, err) < 0)
        return -1;
    return reply_success(call);
}

static void upload_free(struct taker *t)
{
    engine_file_close(((struct upload *)t)->file);
    free(t);
}

static const struct taker_ops upload_ops = {upload_take, upload_end, upload_free};

static int upload(struct call *call, struct err *err)
{
    auto_file_stream struct file_stream *file = NULL;
    struct upload *u;
    uint32_t mode;

    if (file_take_paths(call, err) < 0)
        return -1;
    if (in_mode(call, &mode, err) < 0)
        return -1;
    if (!call->uploads && !json_object_get(call->in, "content"))
        return err_set(err, ERR_INVALID,
                       "content is required: base64, or send the bytes as the body with "
                       "Content-Type: application/octet-stream");
    if (engine_file_open_write(call->engine, in_id(call), file_in_path(call, "path"), mode, true,
                               &file, err) < 0)
        return -1;
    if (!call->uploads) {
        if (copy_base64(call, file, err) < 0 || engine_file_write_end(file, err) < 0)
            return -1;
        return reply_success(call);
    }
    u = xcalloc(1, sizeof(*u));
    u->taker.ops = &upload_ops;
    u->file = steal_ptr(file);
    call->taker = &u->taker;
    return 0;
}

static int delete_file(struct call *call, struct err *err)
{
    if (file_take_paths(call, err) < 0)
        return -1;
    if (engine_file_delete(call->engine, in_id(call), file_in_path(call, "path"), err) < 0)
        return -1;
    return reply_success(call);
}

static int send_item(json_t *item, void *call, struct err *err)
{
    return sink_item(call, item, err);
}

static int list(struct call *call, struct err *err)
{
    if (file_take_paths(call, err) < 0)
        return -1;
    return engine_file_list(call->engine, in_id(call), file_in_path(call, "path"), send_item, call,
                            err);
}

static int search(struct call *call, struct err *err)
{
    if (file_take_paths(call, err) < 0)
        return -1;
    return engine_file_search(call->engine, in_id(call), file_in_path(call, "dir"),
                              in_str(call, "pattern"), send_item, call, err);
}

/* paths, or path as a list of one; the caller frees it. */
static json_t *in_paths(struct call *call, struct err *err)
{
    json_t *paths, *path;

    if (file_take_paths(call, err) < 0)
        return NULL;
    paths = json_object_get(call->in, "paths");
    path = json_object_get(call->in, "path");
    if (paths && json_array_size(paths) > 0)
        return json_incref(paths);
    if (path)
        return json_pack("[O]", path);
    (void)err_set(err, ERR_INVALID, "paths is required: an array with at least one path");
    return NULL;
}

static int info(struct call *call, struct err *err)
{
    json_t *paths = in_paths(call, err);
    int r;

    if (!paths)
        return -1;
    r = engine_file_info(call->engine, in_id(call), paths, in_bool(call, "anywhere"),
                         wants_base64(call), &call->out, err);
    json_decref(paths);
    if (r == 0 && !json_object_get(call->in, "paths")) {
        json_t *one = json_incref(json_array_get(call->out, 0));

        json_decref(call->out);
        call->out = one;
    }
    return r;
}

static int check_moves(const json_t *moves, struct err *err)
{
    if (json_array_size(moves) == 0)
        return err_set(err, ERR_INVALID, "moves is required: an array of {from, to}");
    for (size_t i = 0; i < json_array_size(moves); i++) {
        json_t *move = json_array_get(moves, i);

        if (json_string_length(json_object_get(move, "from")) == 0 ||
            json_string_length(json_object_get(move, "to")) == 0)
            return err_set(err, ERR_INVALID, "moves[%zu] must be an object {from, to} of paths", i);
    }
    return 0;
}

static int move(struct call *call, struct err *err)
{
    const json_t *moves = json_object_get(call->in, "moves");

    if (check_moves(moves, err) < 0 || file_take_paths(call, err) < 0)
        return -1;
    for (size_t i = 0; i < json_array_size(moves); i++) {
        const json_t *m = json_array_get(moves, i);
        const char *from = json_string_value(json_object_get(m, "from"));
        const char *to = json_string_value(json_object_get(m, "to"));

        if (engine_file_move(call->engine, in_id(call), path_of(call, from), path_of(call, to),
                             err) < 0)
            return err_wrap(err, "moves[%zu]", i);
    }
    return reply_success(call);
}

static int copy(struct call *call, struct err *err)
{
    if (file_take_paths(call, err) < 0 ||
        engine_file_copy(call->engine, in_id(call), file_in_path(call, "from"),
                         file_in_path(call, "to"), in_bool(call, "replace"), err) < 0)
        return -1;
    return reply_success(call);
}

static int make_link(struct call *call, struct err *err)
{
    if (file_take_paths(call, err) < 0 ||
        engine_file_symlink(call->engine, in_id(call), in_str(call, "target"),
                            file_in_path(call, "path"), in_bool(call, "replace"), err) < 0)
        return -1;
    return reply_success(call);
}

static int each_path(struct call *call,
                     int (*op)(struct engine *, const char *, struct file_path, struct err *),
                     struct err *err)
{
    json_t *paths = in_paths(call, err);
    int r = paths ? 0 : -1;

    for (size_t i = 0; r == 0 && i < json_array_size(paths); i++) {
        const char *path = json_string_value(json_array_get(paths, i));

        r = op(call->engine, in_id(call), path_of(call, path), err);
    }
    json_decref(paths);
    return r < 0 ? -1 : reply_success(call);
}

static int make_dirs(struct call *call, struct err *err)
{
    return each_path(call, engine_file_mkdir, err);
}

static int remove_dirs(struct call *call, struct err *err)
{
    return each_path(call, engine_file_rmdir, err);
}

static int change_mode(struct call *call, struct err *err)
{
    if (file_take_paths(call, err) < 0)
        return -1;
    if (engine_file_chmod(call->engine, in_id(call), file_in_path(call, "path"),
                          in_str(call, "mode"), err) < 0)
        return -1;
    return reply_success(call);
}

#define PATH_FIELD                                                                                 \
    {                                                                                              \
        "path", FIELD_STRING, .min = 1, .max = PATH_TEXT_MAX, .example = "\"a.txt\"",              \
                              .help = "absolute, or relative to the workspace"                     \
    }
#define PATHS_FIELDS                                                                               \
    {"paths",                                                                                      \
     FIELD_STRINGS,                                                                                \
     .optional = true,                                                                             \
     .min = 1,                                                                                     \
     .max = PATH_TEXT_MAX,                                                                         \
     .example = "[\"a.txt\"]",                                                                     \
     .help = "one or more paths"},                                                                 \
    {                                                                                              \
        "path", FIELD_STRING, .optional = true, .min = 1, .max = PATH_TEXT_MAX,                    \
                              .help = "instead of paths: one"                                      \
    }
const char *const file_path_encodings[] = {"utf8", "base64", NULL};

static const struct field path_fields[] = {PATH_FIELD, FILE_PATH_FIELDS, {0}};
static const struct field read_fields[] = {
    PATH_FIELD,
    {"offset", FIELD_INT, .max = 9007199254740991, .preset = "0",
     .help = "bytes to pass over; past the end there is nothing"},
    {"limit", FIELD_INT, .optional = true, .min = 1, .max = 9007199254740991,
     .help = "the most bytes; to the end when absent"},
    FILE_PATH_FIELDS,
    {0},
};
static const struct field copy_fields[] = {
    {"from", FIELD_STRING, .min = 1, .max = PATH_TEXT_MAX, .example = "\"a.txt\"",
     .help = "a file, or a directory with all that is in it"},
    {"to", FIELD_STRING, .min = 1, .max = PATH_TEXT_MAX, .example = "\"b.txt\"",
     .help = "what the copy is called; parents are made"},
    {"replace", FIELD_BOOL, .optional = true,
     .help = "what is there goes; else that is a conflict"},
    FILE_PATH_FIELDS,
    {0},
};
static const struct field link_fields[] = {
    PATH_FIELD,
    {"target", FIELD_STRING, .min = 1, .max = PATH_TEXT_MAX, .example = "\"b.txt\"",
     .help = "what the link says; it need not be there"},
    {"replace", FIELD_BOOL, .optional = true,
     .help = "what is there goes; else that is a conflict"},
    FILE_PATH_FIELDS,
    {0},
};
static const struct field paths_fields[] = {PATHS_FIELDS, FILE_PATH_FIELDS, {0}};

static const struct field write_fields[] = {
    PATH_FIELD,
    {"content", FIELD_STRING, .max = JSON_BODY_MAX, .example = "\"hello\\n\"", .help = "text"},
    FILE_PATH_FIELDS,
    {0},
};

static const struct field upload_fields[] = {
    PATH_FIELD,
    {"content", FIELD_STRING, .optional = true, .max = JSON_BODY_MAX, .example = "\"aGVsbG8K\"",
     .help = "base64; or send the bytes as application/octet-stream and the rest in the query"},
    {"mode", FIELD_STRING, .optional = true, .min = 1, .max = 5, .pattern = "^[0-7]{3,4}$",
     .help = "octal digits; kept when absent, 0644 for a new file"},
    FILE_PATH_FIELDS,
    {0},
};

static const struct field list_fields[] = {
    {"path", FIELD_STRING, .optional = true, .min = 1, .max = PATH_TEXT_MAX,
     .example = "\"/workspace\"", .help = "the workspace when absent"},
    FILE_PATH_FIELDS,
    {0},
};

static const struct field search_fields[] = {
    {"pattern", FIELD_STRING, .min = 1, .max = GLOB_BYTES_MAX, .pattern = "^[^;|$`\\\\]+$",
     .example = "\"*.txt\"", .help = "glob on the base name, without ; | $ ` \\"},
    {"dir", FIELD_STRING, .optional = true, .min = 1, .max = PATH_TEXT_MAX,
     .help = "the workspace when absent"},
    FILE_PATH_FIELDS,
    {0},
};

static const struct field move_fields[] = {
    {"moves", FIELD_ARRAY, .filled = true, .of = &file_move_shape, .help = "done in order"},
    FILE_PATH_FIELDS,
    {0},
};

static const struct field chmod_fields[] = {
    PATH_FIELD,
    {"mode", FIELD_STRING, .min = 1, .max = 32, .pattern = "^([0-7]{3,4}|[ugoa]*[-+=][rwxXt]*)$",
     .example = "\"u+x\"", .help = "3 or 4 octal digits, or one clause like u+x"},
    FILE_PATH_FIELDS,
    {0},
};

const struct function file_functions[] = {
    {"fs::read", "POST", "/sandboxes/:sandboxId/files/read", read_fields, send_file,
     "sandbox_read_file", SCOPE_READ, .reach = REACH_SANDBOX, .answer = ANSWER_TEXT,
     .rate = RATE_FILE, .help = "Reads a file as text", .gives = &file_text_shape,
     .errors = ERRORS_FILE " bad_base64 file_too_large file_changed"},
    {"fs::write", "POST", "/sandboxes/:sandboxId/files/write", write_fields, write_text,
     "sandbox_write_file", SCOPE_WRITE, .reach = REACH_SANDBOX, .body_max = JSON_BODY_MAX,
     .rate = RATE_FILE, .help = "Replaces a file with text; parents are made",
     .gives = &success_shape, .errors = ERRORS_FILE " bad_base64"},
    {"fs::delete", "POST", "/sandboxes/:sandboxId/files/delete", path_fields, delete_file, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX, .rate = RATE_FILE,
     .help = "Removes a file; fine if it is gone", .gives = &success_shape,
     .errors = ERRORS_FILE " bad_base64"},
    {"fs::list", "POST", "/sandboxes/:sandboxId/files/list", list_fields, list,
     "sandbox_list_files", SCOPE_READ, .reach = REACH_SANDBOX, .answer = ANSWER_LIST,
     .rate = RATE_FILE, .help = "Lists a directory", .gives = &file_list_shape,
     .errors = ERRORS_FILE " bad_base64"},
    {"fs::search", "POST", "/sandboxes/:sandboxId/files/search", search_fields, search, NULL,
     SCOPE_READ, .reach = REACH_SANDBOX, .answer = ANSWER_LIST, .rate = RATE_FILE,
     .help = "Finds regular files by name, in all folders below", .gives = &file_paths_shape,
     .errors = ERRORS_FILE " bad_base64"},
    {"fs::upload", "POST", "/sandboxes/:sandboxId/files/upload", upload_fields, upload, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX, .flags = FUNCTION_RAW_IN, .body_max = JSON_BODY_MAX,
     .rate = RATE_FILE,
     .help = "Replaces a file with bytes; a stream has no size limit but the sandbox's disk",
     .gives = &success_shape, .errors = ERRORS_FILE " bad_base64"},
    {"fs::download", "POST", "/sandboxes/:sandboxId/files/download", read_fields, send_file, NULL,
     SCOPE_READ, .reach = REACH_SANDBOX, .answer = ANSWER_BYTES, .rate = RATE_FILE,
     .help = "Reads a file's bytes; with Accept: application/octet-stream as they are",
     .gives = &file_bytes_shape, .errors = ERRORS_FILE " bad_base64 file_too_large file_changed"},
    {"fs::info", "POST", "/sandboxes/:sandboxId/files/info", paths_fields, info, NULL, SCOPE_READ,
     .reach = REACH_SANDBOX, .rate = RATE_FILE, .help = "Shows what paths are",
     .gives = &file_meta_answer_shape, .errors = ERRORS_FILE " bad_base64"},
    {"fs::move", "POST", "/sandboxes/:sandboxId/files/move", move_fields, move, NULL, SCOPE_WRITE,
     .reach = REACH_SANDBOX, .rate = RATE_FILE,
     .help = "Moves as mv does: onto a directory means into it, and a directory replaces nothing; "
             "stops at the first failure",
     .gives = &success_shape, .errors = ERRORS_FILE " bad_base64"},
    {"fs::copy", "POST", "/sandboxes/:sandboxId/files/copy", copy_fields, copy, NULL, SCOPE_WRITE,
     .reach = REACH_SANDBOX, .rate = RATE_FILE,
     .help = "Copies a file, or a directory with all that is in it, with modes, owners and times",
     .gives = &success_shape, .errors = ERRORS_FILE " bad_base64 agent_too_old"},
    {"fs::symlink", "POST", "/sandboxes/:sandboxId/files/symlink", link_fields, make_link, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX, .rate = RATE_FILE,
     .help = "Makes a symbolic link; parents are made", .gives = &success_shape,
     .errors = ERRORS_FILE " bad_base64 agent_too_old"},
    {"fs::mkdir", "POST", "/sandboxes/:sandboxId/files/mkdir", paths_fields, make_dirs, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX, .rate = RATE_FILE,
     .help = "Makes directories and their parents", .gives = &success_shape,
     .errors = ERRORS_FILE " bad_base64"},
    {"fs::rmdir", "POST", "/sandboxes/:sandboxId/files/rmdir", paths_fields, remove_dirs, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX, .rate = RATE_FILE,
     .help = "Removes directories and what is in them", .gives = &success_shape,
     .errors = ERRORS_FILE " bad_base64"},
    {"fs::chmod", "POST", "/sandboxes/:sandboxId/files/chmod", chmod_fields, change_mode, NULL,
     SCOPE_WRITE, .reach = REACH_SANDBOX, .rate = RATE_FILE, .help = "Changes a file's mode",
     .gives = &success_shape, .errors = ERRORS_FILE " bad_base64"},
    {0},
};
