#include "engine/snapshots.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/images.h"
#include "engine/watch.h"
#include "functions/functions_internal.h"
#include "functions/reach.h"
#include "model/sandbox.h"

#define ERRORS_SNAPSHOT "snapshot_not_found"
#define ERRORS_TAKE                                                                                \
    "image_too_large image_limit too_many_layers bad_image commit_interrupted conflict"

static const char *in_snapshot(const struct call *call)
{
    return in_str(call, "snapshotId");
}

static int create(struct call *call, struct err *err)
{
    return engine_snapshot(call->engine, in_id(call), in_str(call, "name"),
                           json_object_get(call->in, "labels"), &call->out, err);
}

static int list_of_sandbox(struct call *call, struct err *err)
{
    (void)err;
    engine_snapshot_list(call->engine, in_id(call), json_object_get(call->in, "labels"),
                         &call->out);
    return 0;
}

static int list_all(struct call *call, struct err *err)
{
    json_t *all;

    (void)err;
    engine_snapshot_list(call->engine, NULL, json_object_get(call->in, "labels"), &call->out);
    all = json_object_get(call->out, "snapshots");
    for (size_t i = json_array_size(all); i-- > 0;)
        if (!call_reaches(call,
                          json_string_value(json_object_get(json_array_get(all, i), "sandboxId"))))
            (void)json_array_remove(all, i);
    return 0;
}

static int get(struct call *call, struct err *err)
{
    return engine_snapshot_get(call->engine, in_snapshot(call), &call->out, err);
}

static int label(struct call *call, struct err *err)
{
    return engine_snapshot_label(call->engine, in_snapshot(call), in_str(call, "name"),
                                 json_object_get(call->in, "labels"), &call->out, err);
}

/* Its JSON is freed by request_done(); it points into maker. */
static struct clone_request in_request(const struct call *call, struct call_maker *maker)
{
    const struct caller *caller = call->caller;

    call_read_maker(call, maker);
    return (struct clone_request){
        .name = in_str(call, "name"),
        .unique = in_bool(call, "unique"),
        .unshared = caller_is_restricted(caller),
        .locked = reach_locked_keys(call),
        .label = caller->label_key[0] ? json_pack("{s:s}", caller->label_key, caller->label_value)
                                      : NULL,
        .maker = maker->maker,
    };
}

static void request_done(struct clone_request *req)
{
    json_decref(req->locked);
    json_decref(req->label);
}

#define auto_request __attribute__((cleanup(request_done)))

static int clone_snapshot(struct call *call, struct err *err)
{
    struct call_maker maker;
    auto_request struct clone_request req = in_request(call, &maker);
    struct engine_watch watch = call_watch(call);

    if (engine_snapshot_clone(call->engine, in_snapshot(call), &req, &watch, &call->out, err) < 0)
        return -1;
    return call_gives_made(call, &call->out, err);
}

static int restore(struct call *call, struct err *err)
{
    return engine_restore(call->engine, in_id(call), in_snapshot(call), &call->out, err);
}

static int delete_snapshot(struct call *call, struct err *err)
{
    auto_free char *id = NULL;

    if (engine_snapshot_delete(call->engine, in_snapshot(call), &id, err) < 0)
        return -1;
    call->out = json_pack("{s:s}", "deleted", id);
    return 0;
}

static int diff(struct call *call, struct err *err)
{
    return engine_diff(call->engine, in_id(call), in_snapshot(call), &call->out, err);
}

static int export(struct call *call, struct err *err)
{
    struct image_export archive;

    if (engine_snapshot_export_open(call->engine, in_snapshot(call), &archive, err) < 0)
        return -1;
    return send_archive(call, &archive, err);
}

static int import(struct call *call, struct err *err)
{
    return engine_snapshot_import(call->engine, in_str(call, "path"), in_str(call, "image"),
                                  in_str(call, "name"), json_object_get(call->in, "labels"),
                                  &call->out, err);
}

static int fork_of(struct call *call, unsigned count, json_t **ret, struct err *err)
{
    struct call_maker maker;
    auto_request struct clone_request req = in_request(call, &maker);
    struct engine_watch watch = call_watch(call);

    if (engine_fork(call->engine, in_id(call), count, &req, &watch, ret, err) < 0)
        return -1;
    return call_gives_made(call, ret, err);
}

static int clone_sandbox(struct call *call, struct err *err)
{
    json_t *made;

    if (fork_of(call, 1, &made, err) < 0)
        return -1;
    call->out = json_incref(json_array_get(made, 0));
    json_decref(made);
    return 0;
}

static int fork_sandbox(struct call *call, struct err *err)
{
    json_t *made;

    if (fork_of(call, (unsigned)in_int(call, "count"), &made, err) < 0)
        return -1;
    call->out = json_pack("{s:o}", "sandboxes", made);
    return 0;
}

#define UNIQUE_FIELD                                                                               \
    {                                                                                              \
        "unique", FIELD_BOOL, .optional = true,                                                    \
                              .help = "fail with name_taken when another sandbox has such a name"  \
    }

#define LABELS_FIELD                                                                               \
    {                                                                                              \
        "labels", FIELD_STRING_MAP, .optional = true, .max = 65536,                                \
                                    .example = "{\"step\": \"3\"}", .help = "of the caller"        \
    }

static const struct field create_fields[] = {
    {"name", FIELD_STRING, .optional = true, .min = 1, .max = SANDBOX_NAME_MAX,
     .example = "\"before the upgrade\"", .help = "to use in place of the id; the id when absent"},
    LABELS_FIELD,
    {0},
};

static const struct field import_fields[] = {
    {"path", FIELD_STRING, .min = 1, .max = PATH_BYTES_MAX, .example = "\"/srv/layer.tar\"",
     .help = "on the daemon's machine: a layer that an export wrote, or another of OCI"},
    {"image", FIELD_STRING, .min = 1, .max = IMAGE_NAME_MAX, .example = "\"python:3.12-slim\"",
     .help = "that it is on top of, which must be here"},
    {"name", FIELD_STRING, .optional = true, .min = 1, .max = SANDBOX_NAME_MAX,
     .help = "to use in place of the id; the id when absent"},
    LABELS_FIELD,
    {0},
};

static const struct field list_fields[] = {
    {"labels", FIELD_STRING_MAP, .optional = true, .help = "only those with all of these"},
    {0},
};

static const struct field label_fields[] = {
    {"name", FIELD_STRING, .optional = true, .min = 1, .max = SANDBOX_NAME_MAX,
     .help = "its new name"},
    {"labels", FIELD_STRING_MAP, .optional = true, .max = 65536,
     .help = "added to those that it has; an empty value takes one away"},
    {0},
};

static const struct field restore_fields[] = {
    {"snapshotId", FIELD_STRING, .min = 1, .max = 1024, .example = EXAMPLE_SNAPSHOT_ID,
     .help = "id of a snapshot of this sandbox, or the name of exactly one"},
    {0},
};

static const struct field diff_fields[] = {
    {"snapshotId", FIELD_STRING, .optional = true, .min = 1, .max = 1024,
     .help = "id or name of a snapshot; what the sandbox was made from when absent"},
    {0},
};

static const struct field clone_fields[] = {
    {"name", FIELD_STRING, .optional = true, .max = SANDBOX_NAME_MAX, .help = "of the new sandbox"},
    UNIQUE_FIELD,
    ON_TIMEOUT_FIELD,
    {0},
};

static const struct field fork_fields[] = {
    {"count", FIELD_INT, .min = 1, .max = FORK_MAX, .preset = "1", .help = "how many"},
    {"name", FIELD_STRING, .optional = true, .max = SANDBOX_NAME_MAX - 8,
     .help = "of the new sandbox; several are called NAME-1, NAME-2 and so on"},
    UNIQUE_FIELD,
    ON_TIMEOUT_FIELD,
    {0},
};

#define ERRORS_CLONE                                                                               \
    "sandbox_limit stopped_limit machine_full no_space image_not_found launcher_lost "             \
    "image_cap_exceeded " ERRORS_NET " path_traversal name_taken image_not_allowed " ERRORS_JOIN   \
    " " ERRORS_MOUNT " " ERRORS_COMMAND

const struct function snapshot_functions[] = {
    {"snapshot::create", "POST", "/sandboxes/:sandboxId/snapshots", create_fields, create,
     "sandbox_snapshot_create", SCOPE_WRITE, .reach = REACH_SANDBOX, .flags = FUNCTION_MAKES,
     .help =
         "Keeps a sandbox's disk as it is now; one that runs stands still while what it changed "
         "is copied",
     .gives = &snapshot_shape,
     .errors = ERRORS_GONE
     " sandbox_busy no_space image_not_found snapshot_limit disk_damaged " ERRORS_TAKE},
    {"snapshot::list", "GET", "/sandboxes/:sandboxId/snapshots", list_fields, list_of_sandbox,
     "sandbox_snapshot_list", SCOPE_READ, .reach = REACH_SANDBOX,
     .help = "Lists the snapshots of a sandbox, which may be gone itself; the newest first",
     .gives = &snapshot_list_shape, .errors = ERRORS_GONE},
    {"snapshot::restore", "POST", "/sandboxes/:sandboxId/snapshots/restore", restore_fields,
     restore, "sandbox_snapshot_restore", SCOPE_WRITE, .reach = REACH_SANDBOX,
     .owned = &snapshot_owned,
     .help =
         "Gives a sandbox the files of its snapshot back; its processes end, and the entrypoint "
         "runs again",
     .gives = &sandbox_shape,
     .errors = ERRORS_TAKE " " ERRORS_SNAPSHOT " " ERRORS_CLONE " snapshot_of_another"},
    {"snapshot::all", "GET", "/snapshots", list_fields, list_all, NULL, SCOPE_READ,
     .reach = REACH_ITSELF, .help = "Lists the snapshots of all sandboxes, the newest first",
     .gives = &snapshot_list_shape},
    {"snapshot::import", "POST", "/snapshots/import", import_fields, import, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER, .flags = FUNCTION_MAKES | FUNCTION_LOCAL,
     .help = "Makes a snapshot from a layer on top of an image; only for root, on the unix socket",
     .gives = &snapshot_shape,
     .errors = ERRORS_IMAGE_NAME " " ERRORS_WORKER " local_only bad_path snapshot_limit "
                                 "image_not_allowed too_many_layers"},
    {"snapshot::export", "GET", "/snapshots/:snapshotId/export", NULL, export, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER, .answer = ANSWER_TAR,
     .help = "Gives what a snapshot has beyond its image, as an OCI layer in a tar archive",
     .errors = ERRORS_SNAPSHOT " " ERRORS_WORKER " whiteout_name image_not_found"},
    {"snapshot::get", "GET", "/snapshots/:snapshotId", NULL, get, NULL, SCOPE_READ,
     .reach = REACH_OWNED, .owned = &snapshot_owned, .help = "Shows a snapshot",
     .gives = &snapshot_shape, .errors = ERRORS_SNAPSHOT},
    {"snapshot::label", "POST", "/snapshots/:snapshotId/label", label_fields, label, NULL,
     SCOPE_WRITE, .reach = REACH_OWNED, .owned = &snapshot_owned,
     .help = "Gives a snapshot another name, or labels", .gives = &snapshot_shape,
     .errors = ERRORS_SNAPSHOT " no_space snapshot_limit"},
    {"snapshot::clone", "POST", "/snapshots/:snapshotId/clone", clone_fields, clone_snapshot, NULL,
     SCOPE_WRITE, .reach = REACH_CLONES, .owned = &snapshot_owned,
     .flags = FUNCTION_MAKES | FUNCTION_TELLS, .help = "Makes a sandbox from a snapshot",
     .gives = &sandbox_shape, .errors = ERRORS_SNAPSHOT " " ERRORS_CLONE " cancelled"},
    {"snapshot::delete", "DELETE", "/snapshots/:snapshotId", NULL, delete_snapshot, NULL,
     SCOPE_WRITE, .reach = REACH_OWNED, .owned = &snapshot_owned, .help = "Removes a snapshot",
     .gives = &snapshot_deleted_shape, .errors = ERRORS_SNAPSHOT},
    {"sandbox::diff", "GET", "/sandboxes/:sandboxId/diff", diff_fields, diff, NULL, SCOPE_WRITE,
     .reach = REACH_SANDBOX, .owned = &snapshot_owned,
     .help = "Tells which files of a sandbox were added, modified or deleted; one that runs stands "
             "still meanwhile",
     .gives = &diff_shape,
     .errors = ERRORS_GONE " sandbox_busy no_space image_not_found disk_damaged " ERRORS_TAKE
                           " " ERRORS_SNAPSHOT},
    {"sandbox::clone", "POST", "/sandboxes/:sandboxId/clone", clone_fields, clone_sandbox,
     "sandbox_clone", SCOPE_WRITE, .reach = REACH_CLONES, .flags = FUNCTION_MAKES | FUNCTION_TELLS,
     .help = "Makes a sandbox from another as it is now, with its files and its configuration",
     .gives = &sandbox_shape, .errors = ERRORS_TAKE " " ERRORS_CLONE " cancelled"},
    {"sandbox::fork", "POST", "/sandboxes/:sandboxId/fork", fork_fields, fork_sandbox, NULL,
     SCOPE_WRITE, .reach = REACH_CLONES, .flags = FUNCTION_MAKES,
     .help = "Makes several such clones, or none", .gives = &fork_shape,
     .errors = ERRORS_TAKE " " ERRORS_CLONE " cancelled"},
    {0},
};
