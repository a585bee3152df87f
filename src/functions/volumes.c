#include "engine/volumes.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/functions_internal.h"
#include "model/mount.h"

#define PIECE_BYTES   (128u << 10)
#define JSON_BODY_MAX (24u << 20) /* base64 of as much, with room for the rest */

static const char *in_volume(const struct call *call)
{
    return in_str(call, "volumeId");
}

static int create(struct call *call, struct err *err)
{
    return engine_volume_create(call->engine, in_str(call, "name"),
                                (uint32_t)in_int(call, "sizeMb"), &call->out, err);
}

static int list(struct call *call, struct err *err)
{
    (void)err;
    engine_volume_list(call->engine, &call->out);
    return 0;
}

static int get(struct call *call, struct err *err)
{
    return engine_volume_get(call->engine, in_volume(call), &call->out, err);
}

static int delete_volume(struct call *call, struct err *err)
{
    auto_free char *id = NULL;

    if (engine_volume_remove(call->engine, in_volume(call), &id, err) < 0)
        return -1;
    call->out = json_pack("{s:s}", "deleted", id);
    return 0;
}

static int attach(struct call *call, struct err *err)
{
    struct volume_attach a = {
        .sandbox_id = in_id(call),
        .mount_path = in_str(call, "mountPath"),
        .sub_path = in_str(call, "subPath"),
        .read_only = in_bool(call, "readOnly"),
        .noexec = in_bool(call, "noexec"),
    };

    return engine_volume_attach(call->engine, in_volume(call), &a, &call->out, err);
}

static int detach(struct call *call, struct err *err)
{
    return engine_volume_detach(call->engine, in_volume(call), in_id(call),
                                in_str(call, "mountPath"), &call->out, err);
}

/* ---- files ---- */

static int send_item(json_t *item, void *call, struct err *err)
{
    return sink_item(call, item, err);
}

static int list_files(struct call *call, struct err *err)
{
    return engine_volume_files(call->engine, in_volume(call), in_str(call, "path"), send_item, call,
                               err);
}

/* What was there when it was opened is sent: a file that grows meanwhile is cut there. */
static int send_file(struct call *call, struct err *err)
{
    auto_free char *piece = xmalloc(PIECE_BYTES);
    auto_volume_file struct volume_file *file = NULL;
    uint64_t left;

    if (engine_volume_open_read(call->engine, in_volume(call), in_str(call, "path"), &file, &left,
                                err) < 0)
        return -1;
    if (left > 0 && sink_size(call, left, err) < 0)
        return -1;
    while (left > 0) {
        ssize_t n = engine_volume_read(file, piece, left < PIECE_BYTES ? left : PIECE_BYTES, err);

        if (n == 0)
            return err_code(err, ERR_CONFLICT, "file_changed",
                            "the file became shorter while it was read; read it again");
        if (n < 0 || sink_bytes(call, CHANNEL_ANSWER, piece, (size_t)n, err) < 0)
            return -1;
        left -= (uint64_t)n;
    }
    return 0;
}

static int copy_base64(struct call *call, struct volume_file *file, struct err *err)
{
    const json_t *content = json_object_get(call->in, "content");
    auto_buf struct buf data = {0};

    buf_init(&data, JSON_BODY_MAX);
    if (base64_decode(&data, json_string_value(content), json_string_length(content)) < 0)
        return err_code(err, ERR_INVALID, "bad_base64",
                        "Invalid base64: content must be standard base64 with padding and without "
                        "white space");
    return engine_volume_write(file, data.data, data.len, err);
}

/* The file is replaced when all of the body has come. */
struct upload {
    struct taker taker; /* first */
    struct volume_file *file;
};

static int upload_take(struct taker *t, const char *data, size_t len, struct err *err)
{
    return engine_volume_write(((struct upload *)t)->file, data, len, err);
}

static int upload_end(struct taker *t, struct call *call, struct err *err)
{
    if (engine_volume_write_end(((struct upload *)t)->file, err) < 0)
        return -1;
    return reply_success(call);
}

static void upload_free(struct taker *t)
{
    engine_volume_close(((struct upload *)t)->file);
    free(t);
}

static const struct taker_ops upload_ops = {upload_take, upload_end, upload_free};

static int upload(struct call *call, struct err *err)
{
    auto_volume_file struct volume_file *file = NULL;
    struct upload *u;
    uint32_t mode;

    if (in_mode(call, &mode, err) < 0)
        return -1;
    if (!call->uploads && !json_object_get(call->in, "content"))
        return err_set(err, ERR_INVALID,
                       "content is required: base64, or send the bytes as the body with "
                       "Content-Type: application/octet-stream");
    if (engine_volume_open_write(call->engine, in_volume(call), in_str(call, "path"), mode, &file,
                                 err) < 0)
        return -1;
    if (!call->uploads) {
        if (copy_base64(call, file, err) < 0 || engine_volume_write_end(file, err) < 0)
            return -1;
        return reply_success(call);
    }
    u = xcalloc(1, sizeof(*u));
    u->taker.ops = &upload_ops;
    u->file = steal_ptr(file);
    call->taker = &u->taker;
    return 0;
}

static int write_text(struct call *call, struct err *err)
{
    const json_t *content = json_object_get(call->in, "content");
    auto_volume_file struct volume_file *file = NULL;

    if (engine_volume_open_write(call->engine, in_volume(call), in_str(call, "path"),
                                 FILE_MODE_KEEP, &file, err) < 0 ||
        engine_volume_write(file, json_string_value(content), json_string_length(content), err) <
            0 ||
        engine_volume_write_end(file, err) < 0)
        return -1;
    return reply_success(call);
}

static int file_info(struct call *call, struct err *err)
{
    return engine_volume_file_info(call->engine, in_volume(call), in_str(call, "path"), &call->out,
                                   err);
}

static int make_dir(struct call *call, struct err *err)
{
    if (engine_volume_mkdir(call->engine, in_volume(call), in_str(call, "path"), err) < 0)
        return -1;
    return reply_success(call);
}

static int delete_file(struct call *call, struct err *err)
{
    if (engine_volume_delete(call->engine, in_volume(call), in_str(call, "path"),
                             in_bool(call, "recursive"), err) < 0)
        return -1;
    return reply_success(call);
}

/* ---- the table ---- */

static const struct field create_fields[] = {
    {"name", FIELD_STRING, .min = 1, .max = VOLUME_NAME_MAX, .example = "\"cache\"",
     .help = "to use in place of the id; without / : , and may repeat"},
    {"sizeMb", FIELD_INT, .optional = true, .min = VOLUME_MB_MIN, .max = VOLUME_MB_MAX,
     .help = "MB that it can hold (default CAY_DEFAULT_VOLUME)"},
    {"driver", FIELD_STRING, .optional = true, .lenient = true, .max = 255,
     .help = "taken and ignored, for clients that send it"},
    {0},
};

static const struct field attach_fields[] = {
    {"sandboxId", FIELD_STRING, .min = 1, .max = 1024, .example = EXAMPLE_SANDBOX_ID,
     .help = "id of a sandbox, or the name of exactly one"},
    {"mountPath", FIELD_STRING, .min = 1, .max = MOUNT_PATH_MAX, .example = "\"/data\"",
     .help = "absolute; made when it is missing. No part of it may be a link"},
    {"readOnly", FIELD_BOOL, .optional = true, .help = "nothing can be written there"},
    {"noexec", FIELD_BOOL, .optional = true, .help = "no program can be started from there"},
    {"subPath", FIELD_STRING, .optional = true, .max = MOUNT_PATH_MAX,
     .help = "the folder of it that is mounted; made when it is missing"},
    {0},
};

static const struct field detach_fields[] = {
    {"sandboxId", FIELD_STRING, .optional = true, .max = 1024,
     .help = "which sandbox, when several have it"},
    {"mountPath", FIELD_STRING, .optional = true, .max = MOUNT_PATH_MAX,
     .help = "which place, when the sandbox has it at several"},
    {0},
};

#define VOLUME_PATH                                                                                \
    {                                                                                              \
        "path", FIELD_STRING, .min = 1, .max = PATH_BYTES_MAX, .example = "\"/a.txt\"",            \
                              .help = "in the volume, whose top is /"                              \
    }

static const struct field path_fields[] = {VOLUME_PATH, {0}};

static const struct field list_fields[] = {
    {"path", FIELD_STRING, .max = PATH_BYTES_MAX, .preset = "\"/\"", .help = "a folder in it"},
    {0},
};

static const struct field write_fields[] = {
    VOLUME_PATH,
    {"content", FIELD_STRING, .max = JSON_BODY_MAX, .example = "\"hello\\n\"", .help = "text"},
    {0},
};

static const struct field upload_fields[] = {
    VOLUME_PATH,
    {"content", FIELD_STRING, .optional = true, .max = JSON_BODY_MAX, .example = "\"aGVsbG8K\"",
     .help = "base64; or send the bytes as the body"},
    {"mode", FIELD_STRING, .optional = true, .min = 3, .max = 4, .pattern = "^[0-7]{3,4}$",
     .help = "octal digits; else as it is, or 0644"},
    {0},
};

static const struct field delete_fields[] = {
    VOLUME_PATH,
    {"recursive", FIELD_BOOL, .optional = true, .help = "a folder goes with all that is in it"},
    {0},
};

const struct function volume_functions[] = {
    {"volume::create", "POST", "/volumes", create_fields, create, "sandbox_volume_create",
     SCOPE_WRITE, .reach = REACH_NEVER, .flags = FUNCTION_MAKES, .help = "Makes a volume",
     .gives = &volume_shape, .errors = "volume_limit no_space"},
    {"volume::list", "GET", "/volumes", NULL, list, NULL, SCOPE_READ, .reach = REACH_NEVER,
     .help = "Lists volumes, the newest first", .gives = &volume_list_shape},
    {"volume::get", "GET", "/volumes/:volumeId", NULL, get, NULL, SCOPE_READ, .reach = REACH_NEVER,
     .help = "Shows a volume and who has it", .gives = &volume_shape, .errors = ERRORS_VOLUME},
    {"volume::delete", "DELETE", "/volumes/:volumeId", NULL, delete_volume, NULL, SCOPE_WRITE,
     .reach = REACH_NEVER, .help = "Removes a volume that no sandbox has, and all that is in it",
     .gives = &volume_deleted_shape, .errors = ERRORS_VOLUME " volume_in_use"},
    {"volume::attach", "POST", "/volumes/:volumeId/attach", attach_fields, attach,
     "sandbox_volume_attach", SCOPE_WRITE, .reach = REACH_NEVER, .flags = FUNCTION_MAKES,
     .help = "Mounts a volume in a sandbox, at once and whenever it is started",
     .gives = &volume_attached_shape,
     .errors = ERRORS_GONE
     " " ERRORS_MOUNT
     " sandbox_not_running sandbox_busy no_space launcher_lost agent_lost disk_damaged "
     "path_traversal"},
    {"volume::detach", "POST", "/volumes/:volumeId/detach", detach_fields, detach, NULL,
     SCOPE_WRITE, .reach = REACH_NEVER,
     .help = "Takes a volume out of a sandbox; refused while files of it are open",
     .gives = &volume_detached_shape,
     .errors = ERRORS_GONE
     " " ERRORS_VOLUME " volume_busy volume_not_attached volume_ambiguous bad_mount_path "
     "sandbox_not_running sandbox_busy no_space launcher_lost agent_lost disk_damaged "
     "path_traversal"},
    {"volume::files", "POST", "/volumes/:volumeId/files/list", list_fields, list_files, NULL,
     SCOPE_READ, .reach = REACH_NEVER, .answer = ANSWER_LIST, .help = "Lists a folder of a volume",
     .gives = &file_list_shape, .errors = ERRORS_VOLUME_FILE},
    {"volume::file_info", "POST", "/volumes/:volumeId/files/info", path_fields, file_info, NULL,
     SCOPE_READ, .reach = REACH_NEVER, .help = "Shows what a path of a volume is",
     .gives = &file_meta_shape, .errors = ERRORS_VOLUME_FILE},
    {"volume::read", "POST", "/volumes/:volumeId/files/read", path_fields, send_file, NULL,
     SCOPE_READ, .reach = REACH_NEVER, .answer = ANSWER_TEXT,
     .help = "Reads a file of a volume as text", .gives = &file_text_shape,
     .errors = ERRORS_VOLUME_FILE " file_too_large file_changed"},
    {"volume::download", "POST", "/volumes/:volumeId/files/download", path_fields, send_file, NULL,
     SCOPE_READ, .reach = REACH_NEVER, .answer = ANSWER_BYTES,
     .help = "Reads a file of a volume; with Accept: application/octet-stream as it is",
     .gives = &file_bytes_shape, .errors = ERRORS_VOLUME_FILE " file_too_large file_changed"},
    {"volume::write", "POST", "/volumes/:volumeId/files/write", write_fields, write_text, NULL,
     SCOPE_WRITE, .reach = REACH_NEVER, .body_max = JSON_BODY_MAX,
     .help = "Replaces a file of a volume with text", .gives = &success_shape,
     .errors = ERRORS_VOLUME_FILE},
    {"volume::upload", "POST", "/volumes/:volumeId/files/upload", upload_fields, upload, NULL,
     SCOPE_WRITE, .reach = REACH_NEVER, .flags = FUNCTION_RAW_IN, .body_max = JSON_BODY_MAX,
     .help = "Replaces a file of a volume with bytes", .gives = &success_shape,
     .errors = ERRORS_VOLUME_FILE " bad_base64"},
    {"volume::mkdir", "POST", "/volumes/:volumeId/files/mkdir", path_fields, make_dir, NULL,
     SCOPE_WRITE, .reach = REACH_NEVER, .help = "Makes a folder in a volume, with those above it",
     .gives = &success_shape, .errors = ERRORS_VOLUME_FILE},
    {"volume::remove_file", "POST", "/volumes/:volumeId/files/delete", delete_fields, delete_file,
     NULL, SCOPE_WRITE, .reach = REACH_NEVER, .help = "Removes a file or a folder of a volume",
     .gives = &success_shape, .errors = ERRORS_VOLUME_FILE " delete_incomplete"},
    {0},
};
