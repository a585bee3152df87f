#include <string.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "engine/images.h"
#include "engine/pull_policy.h"
#include "engine/watch.h"
#include "functions/functions_internal.h"
#include "model/sandbox.h"

#define EXPORT_CHUNK (256u << 10)
#define MB           (1 << 20)

/* ---- look ---- */

static int list(struct call *call, struct err *err)
{
    return engine_image_list(call->engine, &call->out, err);
}

static int get(struct call *call, struct err *err)
{
    if (reach_check_image(call, in_str(call, "name"), err) < 0)
        return -1;
    return engine_image_get(call->engine, in_str(call, "name"), &call->out, err);
}

static int catalog(struct call *call, struct err *err)
{
    return engine_image_catalog(call->engine, &call->out, err);
}

/* ---- pull, import, export ---- */

/* Over plain http the daemon would talk to whatever somebody names, with no proof of who it is. */
static int check_insecure(const struct call *call, struct err *err)
{
    if (!in_bool(call, "insecure") || call->caller->admin)
        return 0;
    return err_code(err, ERR_FORBIDDEN, "insecure_not_allowed",
                    "insecure is for callers with a token or on the unix socket: add the registry "
                    "to CAY_INSECURE_REGISTRIES instead");
}

static int pull(struct call *call, struct err *err)
{
    const json_t *auth = json_object_get(call->in, "registry_auth");
    struct pull_request req = {
        .reference = in_str(call, "reference"),
        .name = in_str(call, "name"),
        .username = json_string_value(json_object_get(auth, "username")),
        .password = json_string_value(json_object_get(auth, "password")),
        .insecure = in_bool(call, "insecure"),
        .platform = in_str(call, "platform"),
    };
    struct engine_watch watch = call_watch(call);

    if (check_insecure(call, err) < 0)
        return -1;
    (void)pull_policy_parse(in_str(call, "policy"), &req.policy);
    return engine_image_pull(call->engine, &req, &watch, &call->out, err);
}

static int import(struct call *call, struct err *err)
{
    const char *path = in_str(call, "path");
    struct engine_watch watch = call_watch(call);

    if (path[0] != '/')
        return err_set(err, ERR_INVALID, "path must be absolute, on the daemon's machine");
    return engine_image_import(call->engine, path, in_str(call, "name"), &watch, &call->out, err);
}

/* What goes wrong after the first bytes shows as an archive without its end. */
int send_archive(struct call *call, struct image_export *archive, struct err *err)
{
    auto_free char *chunk = xmalloc(EXPORT_CHUNK);
    bool any = false;
    ssize_t n;
    int r = 0;

    while (r == 0 && (n = read_some(archive->fd, chunk, EXPORT_CHUNK)) > 0) {
        r = sink_bytes(call, CHANNEL_ANSWER, chunk, (size_t)n, err);
        any = true;
    }
    if (engine_export_close(archive, r == 0 ? err : NULL) < 0)
        return -1;
    if (!any)
        return err_set(err, ERR_INTERNAL, "the archive is empty");
    return r;
}

static int export(struct call *call, struct err *err)
{
    struct image_export archive;

    if (engine_export_open(call->engine, in_str(call, "name"), &archive, err) < 0)
        return -1;
    return send_archive(call, &archive, err);
}

/* ---- names ---- */

static int tag(struct call *call, struct err *err)
{
    return engine_image_tag(call->engine, in_str(call, "image"), in_str(call, "name"), &call->out,
                            err);
}

static int remove_image(struct call *call, struct err *err)
{
    const char *name = in_str(call, "name");

    if (engine_image_remove(call->engine, name, err) < 0)
        return -1;
    call->out = json_pack("{s:s}", "deleted", name);
    return 0;
}

static int prune(struct call *call, struct err *err)
{
    struct prune_request req = {
        .unused_ms = in_int(call, "unusedFor") * 1000,
        .keep_bytes = in_int(call, "keepMb") * MB,
        .dry_run = in_bool(call, "dryRun"),
    };

    return engine_image_prune(call->engine, &req, &call->out, err);
}

static int commit(struct call *call, struct err *err)
{
    auto_strv char **entrypoint = in_strings(call, "entrypoint"), **cmd = in_strings(call, "cmd");
    struct commit_request req = {
        .name = in_str(call, "name"),
        .env = json_object_get(call->in, "env"),
        .workdir = in_str(call, "workdir"),
        .user = in_str(call, "user"),
        .entrypoint = entrypoint,
        .cmd = cmd,
        .labels = json_object_get(call->in, "labels"),
    };

    return engine_commit(call->engine, in_id(call), &req, &call->out, err);
}

/* ---- rows ---- */

static const struct field pull_fields[] = {
    {"reference", FIELD_STRING, .min = 1, .max = IMAGE_NAME_MAX, .example = "\"python:3.12-slim\"",
     .help = "what to pull: python:3.12-slim, ghcr.io/team/app:1, or a name of the catalog"},
    {"name", FIELD_STRING, .optional = true, .min = 1, .max = IMAGE_NAME_MAX,
     .help = "what to call it here; as the reference when absent"},
    REGISTRY_AUTH_FIELD,
    {"insecure", FIELD_BOOL, .optional = true,
     .help = "over plain http; only with a token or on the unix socket"},
    PLATFORM_FIELD,
    {"policy", FIELD_STRING, .choices = pull_policy_words, .preset = "\"always\"",
     .help = "whether to look for a newer one"},
    {0},
};

static const struct field import_fields[] = {
    {"path", FIELD_STRING, .min = 1, .max = PATH_BYTES_MAX, .example = "\"/srv/rootfs.tar\"",
     .help = "on the daemon's machine: a root directory, a tar archive of one, what docker save or "
             "an export wrote, or an OCI layout"},
    {"name", FIELD_STRING, .optional = true, .min = 1, .max = IMAGE_NAME_MAX,
     .help = "of the image; what the archive calls it when absent"},
    {0},
};

static const struct field tag_fields[] = {
    {"name", FIELD_STRING, .min = 1, .max = IMAGE_NAME_MAX, .example = "\"my-app:1\"",
     .help = "the new name"},
    {0},
};

static const struct field prune_fields[] = {
    {"unusedFor", FIELD_INT, .optional = true, .max = 1e9, .example = "86400",
     .help = "seconds: only those not used for that long; 0 or absent = any"},
    {"keepMb", FIELD_INT, .optional = true, .max = 1e9,
     .help = "the least recently used, until the rest takes no more; 0 or absent = all"},
    {"dryRun", FIELD_BOOL, .optional = true, .help = "only tell what would go"},
    {0},
};

static const struct field commit_fields[] = {
    {"name", FIELD_STRING, .min = 1, .max = IMAGE_NAME_MAX, .example = "\"my-app:1\"",
     .help = "of the image"},
    {"env", FIELD_STRING_MAP, .optional = true, .max = ARG_BYTES_MAX,
     .help = "added to the image's"},
    {"workdir", FIELD_STRING, .optional = true, .max = PATH_BYTES_MAX,
     .help = "where commands start"},
    {"user", FIELD_STRING, .optional = true, .max = 256,
     .help = "who runs them: name, uid, or either with :group"},
    {"entrypoint", FIELD_STRINGS, .optional = true, .max = ARG_BYTES_MAX, .help = "of the image"},
    {"cmd", FIELD_STRINGS, .optional = true, .max = ARG_BYTES_MAX, .help = "of the image"},
    {"labels", FIELD_STRING_MAP, .optional = true, .max = 65536, .help = "of the image"},
    {0},
};

const struct function image_functions[] = {
    {"image::list", "GET", "/images", NULL, list, NULL, SCOPE_READ, .reach = REACH_MAKERS,
     .help = "Lists images", .gives = &image_list_shape},
    {"image::catalog", "GET", "/images/catalog", NULL, catalog, NULL, SCOPE_READ,
     .reach = REACH_MAKERS, .help = "Lists the short names of images and what they stand for",
     .gives = &image_catalog_shape},
    {"image::pull", "POST", "/images/pull", pull_fields, pull, NULL, SCOPE_WRITE,
     .reach = REACH_MAKERS, .flags = FUNCTION_EVENTS, .done = "done", .key = "image",
     .help = "Gets an image from its registry", .gives = &image_shape, .events = &pull_event_shape,
     .errors = ERRORS_PULL " insecure_not_allowed image_reserved"},
    {"image::import", "POST", "/images/import", import_fields, import, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER, .flags = FUNCTION_LOCAL | FUNCTION_EVENTS, .done = "done",
     .key = "image",
     .help = "Makes an image from a directory or an archive; only for root, on the unix socket",
     .gives = &image_shape, .events = &pull_event_shape,
     .errors = ERRORS_WORKER " local_only bad_path name_missing several_images bad_image_name "
                             "image_reserved image_exists bad_platform no_platform"},
    {"image::prune", "POST", "/images/prune", prune_fields, prune, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER, .help = "Removes images that no sandbox uses",
     .gives = &image_prune_shape},
    {"image::get", "GET", "/images/:name", NULL, get, NULL, SCOPE_READ, .reach = REACH_MAKERS,
     .help = "Shows an image; / and : of its name are percent-encoded", .gives = &image_shape,
     .errors = ERRORS_IMAGE_NAME},
    {"image::remove", "DELETE", "/images/:name", NULL, remove_image, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER, .help = "Removes an image that no sandbox uses",
     .gives = &image_deleted_shape, .errors = ERRORS_IMAGE_NAME " image_in_use image_reserved"},
    {"image::tag", "POST", "/images/:image/tag", tag_fields, tag, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER, .help = "Gives an image one more name", .gives = &image_shape,
     .errors = ERRORS_IMAGE_NAME " image_reserved image_limit no_space"},
    {"image::export", "GET", "/images/:name/export", NULL, export, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER, .answer = ANSWER_TAR,
     .help = "Gives an image as an OCI layout in a tar archive, which docker load takes too",
     .errors = ERRORS_IMAGE_NAME " " ERRORS_WORKER " host_image whiteout_name"},
    {"image::commit", "POST", "/sandboxes/:sandboxId/commit", commit_fields, commit, NULL,
     SCOPE_WRITE, .reach = REACH_NEVER, .flags = FUNCTION_MAKES,
     .help = "Makes an image of a sandbox as it is; one that runs stands still meanwhile",
     .gives = &image_shape,
     .errors = ERRORS_IMAGE_NAME " " ERRORS_WORKER " " ERRORS_GONE
                                 " sandbox_busy conflict image_reserved disk_damaged "
                                 "too_many_layers commit_interrupted"},
    {0},
};
