#include "api/api_internal.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "image/image.h"

static json_t *image_json(const struct image *image)
{
    json_t *env = json_array();

    for (char **e = image->env; e && *e; e++)
        (void)json_array_append_new(env, json_string(*e));
    return json_pack("{s:s, s:s, s:I, s:I, s:s, s:s, s:o}", "name", image->name, "id", image->id,
                     "size", (json_int_t)image->size, "createdAt", (json_int_t)image->created_ms,
                     "workdir", image->workdir, "user", image->user, "env", env);
}

static int list(struct call *call, struct err *err)
{
    json_t *images = json_array();
    struct image **all;
    unsigned n;

    if (image_list(engine_images(call->engine), &all, &n, err) < 0) {
        json_decref(images);
        return -1;
    }
    for (unsigned i = 0; i < n; i++) {
        (void)json_array_append_new(images, image_json(all[i]));
        image_free(all[i]);
    }
    free(all);
    call->out = json_pack("{s:o}", "images", images);
    return 0;
}

static int get(struct call *call, struct err *err)
{
    struct image *image;

    if (image_get(engine_images(call->engine), in_str(call, "name"), &image, err) < 0)
        return -1;
    call->out = image_json(image);
    image_free(image);
    return 0;
}

static int import(struct call *call, struct err *err)
{
    const char *path = in_str(call, "path"), *name = in_str(call, "name");
    struct image *image;

    if (path[0] != '/')
        return err_set(err, ERR_INVALID, "path must be absolute, on the daemon's machine");
    if (!image_name_valid(name))
        return err_code(err, ERR_INVALID, "bad_image",
                        "name must be an image name such as app, team/app or team/app:1.0");
    if (engine_image_import(call->engine, path, name, &image, err) < 0)
        return -1;
    call->out = image_json(image);
    image_free(image);
    return 0;
}

static int remove_image(struct call *call, struct err *err)
{
    const char *name = in_str(call, "name");

    if (engine_image_remove(call->engine, name, err) < 0)
        return -1;
    call->out = json_pack("{s:s}", "deleted", name);
    return 0;
}

static const struct field import_fields[] = {
    {"path", FIELD_STRING, .required = true, .min = 1, .max = PATH_BYTES_MAX,
     .help = "a root directory or a tar archive on the daemon's machine"},
    {"name", FIELD_STRING, .required = true, .min = 1, .max = 255, .help = "of the image"},
    {0},
};

const struct function image_functions[] = {
    {"image::list", "GET", "/images", NULL, list, NULL, SCOPE_READ, .help = "Lists images",
     .result = "{images: [{name, id, size, createdAt, workdir, user, env}]}"},
    {"image::import", "POST", "/images/import", import_fields, import, NULL, SCOPE_ADMIN,
     .flags = FUNCTION_LOCAL,
     .help = "Makes an image from a directory or an archive; only for root, on the unix socket",
     .result = "the image"},
    {"image::get", "GET", "/images/:name", NULL, get, NULL, SCOPE_READ, .flags = FUNCTION_DECODE,
     .help = "Shows an image; / and : of its name are percent-encoded", .result = "the image"},
    {"image::remove", "DELETE", "/images/:name", NULL, remove_image, NULL, SCOPE_ADMIN,
     .flags = FUNCTION_DECODE, .help = "Removes an image that no sandbox uses",
     .result = "{deleted: name}"},
    {0},
};
