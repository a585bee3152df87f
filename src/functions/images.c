#include <string.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "functions/functions_internal.h"
#include "http/server.h"
#include "rest/progress.h"

#define EXPORT_CHUNK (256u << 10)
#define MB           (1 << 20)

/* ---- what an image looks like ---- */

static json_t *strings_json(char *const *list)
{
    json_t *array = json_array();

    for (; list && *list; list++)
        (void)json_array_append_new(array, json_string(*list));
    return array;
}

static const char *or_empty(const char *s)
{
    return s ? s : "";
}

/* The lowest is cay's own: the mount points of every box, or what the host image stands on. */
static int own_layers(const struct image *image)
{
    size_t n = image->layers ? strv_len(image->layers) : 0;

    return n > 0 ? (int)n - 1 : 0;
}

static json_t *image_json(struct engine *e, const struct image *image)
{
    auto_free char *name = engine_image_name(e, image);
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "name", name, "id", image->id,
                  "digest", or_empty(image->digest), "origin", or_empty(image->origin), "platform",
                  or_empty(image->platform), "workdir", or_empty(image->workdir), "user",
                  or_empty(image->user), "stopSignal", or_empty(image->stop_signal));
    json_t *more =
        json_pack("{s:I, s:I, s:I, s:I, s:i, s:b, s:o, s:o, s:o, s:o}", "size",
                  (json_int_t)image->size, "createdAt", (json_int_t)image->created_ms, "pulledAt",
                  (json_int_t)image->pulled_ms, "usedAt", (json_int_t)image->used_ms, "layers",
                  own_layers(image), "inUse", engine_image_in_use(e, image->id), "env",
                  strings_json(image->env), "entrypoint", strings_json(image->entrypoint), "cmd",
                  strings_json(image->cmd), "ports", strings_json(image->ports));

    (void)json_object_update(o, more);
    json_decref(more);
    (void)json_object_set_new(o, "labels",
                              image->labels ? json_deep_copy(image->labels) : json_object());
    return o;
}

/* Takes the images and the array of them. */
static json_t *images_json(struct engine *e, struct image **all, unsigned n)
{
    json_t *images = json_array();

    for (unsigned i = 0; i < n; i++) {
        (void)json_array_append_new(images, image_json(e, all[i]));
        image_free(all[i]);
    }
    free(all);
    return images;
}

/* Takes it. */
static int answer(struct call *call, struct image *image)
{
    call->out = image_json(call->engine, image);
    image_free(image);
    return 0;
}

static int answer_progress(struct progress *p, int r, struct image *image, struct err *err)
{
    json_t *result = r == 0 ? image_json(p->call->engine, image) : NULL;

    image_free(image);
    return progress_end(p, r, "done", "image", result, err);
}

/* ---- look ---- */

static int list(struct call *call, struct err *err)
{
    struct image **all;
    unsigned n;

    if (engine_image_list(call->engine, &all, &n, err) < 0)
        return -1;
    call->out = json_pack("{s:o}", "images", images_json(call->engine, all, n));
    return 0;
}

static int get(struct call *call, struct err *err)
{
    struct image *image;

    if (engine_image_get(call->engine, in_str(call, "name"), &image, err) < 0)
        return -1;
    return answer(call, image);
}

static int catalog(struct call *call, struct err *err)
{
    (void)err;
    call->out = json_pack("{s:o}", "images", engine_image_catalog(call->engine));
    return 0;
}

/* ---- pull, import, export ---- */

/* Over plain http the daemon would talk to whatever somebody names, with no proof of who it is. */
static int check_insecure(const struct call *call, struct err *err)
{
    if (!in_bool(call, "insecure") || call->admin)
        return 0;
    return err_code(err, ERR_FORBIDDEN, "insecure_not_allowed",
                    "insecure is for callers with a token or on the unix socket: add the registry "
                    "to CAY_INSECURE_REGISTRIES instead");
}

static int pull(struct call *call, struct err *err)
{
    const json_t *auth = json_object_get(call->in, "registry_auth");
    struct image_pull what = {
        .reference = in_str(call, "reference"),
        .name = in_str(call, "name"),
        .username = json_string_value(json_object_get(auth, "username")),
        .password = json_string_value(json_object_get(auth, "password")),
        .insecure = in_bool(call, "insecure"),
        .platform = in_str(call, "platform"),
    };
    struct image *image = NULL;
    enum pull_policy policy = PULL_ALWAYS;
    struct engine_watch watch;
    struct progress progress;
    int r;

    if (check_insecure(call, err) < 0)
        return -1;
    (void)pull_policy_parse(in_str(call, "policy"), &policy);
    watch = progress_begin(&progress, call);
    r = engine_image_pull(call->engine, &what, policy, &watch, &image, err);
    return answer_progress(&progress, r, image, err);
}

static int import(struct call *call, struct err *err)
{
    const char *path = in_str(call, "path");
    struct image *image = NULL;
    struct engine_watch watch;
    struct progress progress;
    int r;

    if (path[0] != '/')
        return err_set(err, ERR_INVALID, "path must be absolute, on the daemon's machine");
    watch = progress_begin(&progress, call);
    r = engine_image_import(call->engine, path, in_str(call, "name"), &watch, &image, err);
    return answer_progress(&progress, r, image, err);
}

/* Passes the archive on: 0 at its end, -1 when the client has gone. */
static int send_archive(struct call *call, int fd, char *chunk, ssize_t n)
{
    if (http_stream_begin(call->req, 200, "application/x-tar", -1) < 0)
        return -1;
    while (n > 0) {
        if (http_stream_write(call->req, chunk, (size_t)n) < 0)
            return -1;
        n = read_some(fd, chunk, EXPORT_CHUNK);
    }
    return 0;
}

/* The head waits for the first bytes: until then a failure can still be told as one. */
static int export(struct call *call, struct err *err)
{
    auto_free char *chunk = xmalloc(EXPORT_CHUNK);
    struct image_export archive;
    int sent = 0;
    ssize_t n;

    if (engine_export_open(call->engine, in_str(call, "name"), &archive, err) < 0)
        return -1;
    n = read_some(archive.fd, chunk, EXPORT_CHUNK);
    if (n > 0)
        sent = send_archive(call, archive.fd, chunk, n);
    if (engine_export_close(&archive, err) < 0)
        return n > 0 ? 0 : -1; /* a stream without its end is seen to be broken */
    if (n <= 0)
        return err_set(err, ERR_INTERNAL, "the archive is empty");
    if (sent == 0)
        http_stream_end(call->req);
    return 0;
}

/* ---- names ---- */

static int tag(struct call *call, struct err *err)
{
    struct image *image;

    if (engine_image_tag(call->engine, in_str(call, "image"), in_str(call, "name"), &image, err) <
        0)
        return -1;
    return answer(call, image);
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
    struct image_prune what = {
        .unused_ms = in_int(call, "unusedFor") * 1000,
        .keep_bytes = in_int(call, "keepMb") * MB,
        .dry_run = in_bool(call, "dryRun"),
    };
    struct image **removed;
    int64_t bytes;
    unsigned n;

    if (engine_image_prune(call->engine, &what, &removed, &n, &bytes, err) < 0)
        return -1;
    call->out = json_pack("{s:o, s:I, s:b}", "removed", images_json(call->engine, removed, n),
                          "bytes", (json_int_t)bytes, "dryRun", what.dry_run);
    return 0;
}

static int commit(struct call *call, struct err *err)
{
    struct image *image;

    if (engine_commit(call->engine, in_id(call), call->in, &image, err) < 0)
        return -1;
    return answer(call, image);
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
    {"image::list", "GET", "/images", NULL, list, NULL, SCOPE_READ, .help = "Lists images",
     .gives = &image_list_shape},
    {"image::catalog", "GET", "/images/catalog", NULL, catalog, NULL, SCOPE_READ,
     .help = "Lists the short names of images and what they stand for",
     .gives = &image_catalog_shape},
    {"image::pull", "POST", "/images/pull", pull_fields, pull, NULL, SCOPE_WRITE,
     .flags = FUNCTION_EVENTS, .help = "Gets an image from its registry", .gives = &image_shape,
     .events = &pull_event_shape, .errors = ERRORS_PULL " insecure_not_allowed image_reserved"},
    {"image::import", "POST", "/images/import", import_fields, import, NULL, SCOPE_ADMIN,
     .flags = FUNCTION_LOCAL | FUNCTION_EVENTS,
     .help = "Makes an image from a directory or an archive; only for root, on the unix socket",
     .gives = &image_shape, .events = &pull_event_shape,
     .errors = ERRORS_WORKER " local_only bad_path name_missing several_images bad_image_name "
                             "image_reserved bad_platform no_platform"},
    {"image::prune", "POST", "/images/prune", prune_fields, prune, NULL, SCOPE_ADMIN,
     .help = "Removes images that no sandbox uses", .gives = &image_prune_shape},
    {"image::get", "GET", "/images/:name", NULL, get, NULL, SCOPE_READ, .flags = FUNCTION_DECODE,
     .help = "Shows an image; / and : of its name are percent-encoded", .gives = &image_shape,
     .errors = ERRORS_IMAGE_NAME},
    {"image::remove", "DELETE", "/images/:name", NULL, remove_image, NULL, SCOPE_ADMIN,
     .flags = FUNCTION_DECODE, .help = "Removes an image that no sandbox uses",
     .gives = &image_deleted_shape, .errors = ERRORS_IMAGE_NAME " image_in_use image_reserved"},
    {"image::tag", "POST", "/images/:image/tag", tag_fields, tag, NULL, SCOPE_ADMIN,
     .flags = FUNCTION_DECODE, .help = "Gives an image one more name", .gives = &image_shape,
     .errors = ERRORS_IMAGE_NAME " image_reserved"},
    {"image::export", "GET", "/images/:name/export", NULL, export, NULL, SCOPE_ADMIN,
     .flags = FUNCTION_DECODE | FUNCTION_TAR,
     .help = "Gives an image as an OCI layout in a tar archive, which docker load takes too",
     .errors = ERRORS_IMAGE_NAME " " ERRORS_WORKER " host_image"},
    {"image::commit", "POST", "/sandboxes/:sandboxId/commit", commit_fields, commit, NULL,
     SCOPE_WRITE,
     .help = "Makes an image of a sandbox as it is; one that runs stands still meanwhile",
     .gives = &image_shape,
     .errors = ERRORS_IMAGE_NAME " " ERRORS_WORKER
                                 " sandbox_not_found conflict image_reserved too_many_layers"},
    {0},
};
