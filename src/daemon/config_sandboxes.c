#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/setting.h"
#include "base/str.h"
#include "daemon/config_file.h"
#include "daemon/config_internal.h"
#include "daemon/yaml_json.h"
#include "engine/image_policy.h"
#include "model/sandbox.h"

/* The settings of iii's worker `iii-sandbox`. */

enum kind { KIND_BOOL, KIND_NUMBER };

static const struct setting {
    const char *key, *variable;
    enum kind kind;
    const char *preset; /* that of iii, which may not be that of the variable */
    uint32_t least;     /* what is less is taken for it */
} settings[] = {
    {"auto_install", "CAY_AUTO_INSTALL", KIND_BOOL, "true", 0},
    {"default_idle_timeout_secs", "CAY_III_IDLE", KIND_NUMBER, "300", 0},
    {"max_concurrent_sandboxes", "CAY_III_SANDBOXES", KIND_NUMBER, "32", 0},
    {"max_concurrent_exec_per_sandbox", "CAY_III_EXECS", KIND_NUMBER, "4", 1},
    {"max_exec_timeout_ms", "CAY_III_EXEC_MS", KIND_NUMBER, "300000", 0},
    {"default_cpus", "CAY_DEFAULT_CPU", KIND_NUMBER, "1", 0},
    {"default_memory_mb", "CAY_DEFAULT_MEMORY", KIND_NUMBER, "512", 0},
};

/* The text of a value that is there; NULL when it is of another kind. */
static char *text_of(const struct setting *s, const json_t *value)
{
    if (s->kind == KIND_BOOL)
        return json_is_boolean(value) ? xstrdup(json_is_true(value) ? "true" : "false") : NULL;
    if (!json_is_integer(value))
        return NULL;
    if (json_integer_value(value) >= 0 && json_integer_value(value) < s->least)
        return xasprintf("%u", s->least);
    return xasprintf("%lld", (long long)json_integer_value(value));
}

static int read_setting(struct config_file *f, const struct setting *s, const json_t *config,
                        const json_t *lines, struct err *err)
{
    const json_t *value = json_object_get(config, s->key), *at = yaml_lines_of(lines, s->key);
    char *text;

    if (!value || json_is_null(value)) {
        config_file_put(f, s->variable, xstrdup(s->preset), lines, s->key);
        return 0;
    }
    text = text_of(s, value);
    if (!text)
        return err_set(err, ERR_INVALID, "%.120s:%d: %s must be %s", f->path, yaml_line(at), s->key,
                       s->kind == KIND_BOOL ? "true or false" : "a whole number");
    config_file_put(f, s->variable, text, at, s->key);
    return 0;
}

/* Raises a limit of the daemon that the operator has not set to the one that iii's file sets. A
 * value above the variable's maximum is left to the check of iii's own variable. */
static void raise_to(struct config_file *f, const char *variable, uint64_t least,
                     const json_t *lines, const char *key)
{
    uint64_t preset;

    if (str_u64(config_preset(variable), &preset) == 0 && least > preset &&
        least <= config_most(variable))
        config_file_put(f, variable, xasprintf("%llu", (unsigned long long)least), lines, key);
}

static uint64_t number_of(const struct config_file *f, const char *variable)
{
    uint64_t n = 0;

    (void)str_u64(json_text(json_object_get(f->values, variable), "text"), &n);
    return n;
}

/* Returns the short names with the custom images of the environment, else of the file. NULL when
 * the variable is wrong, which is reported when it is read. */
static struct image_policy *short_names(const struct config_file *f)
{
    static const char variable[] = "CAY_CUSTOM_IMAGES";
    const char *text = setting_text(variable);
    const json_t *value = json_object_get(f->values, variable);
    const struct image_policy_config config = {.custom = text    ? text
                                                         : value ? json_text(value, "text")
                                                                 : NULL};
    struct image_policy *policy = NULL;

    return image_policy_new(&config, &policy, NULL) == 0 ? policy : NULL;
}

/* In the order of the file. The names go to the variable as JSON, because any character can be in
 * one and none is a wildcard. */
static int read_allowlist(struct config_file *f, const json_t *config, const json_t *lines,
                          struct err *err)
{
    static const char key[] = "image_allowlist";
    json_t *list = json_object_get(config, key), *entry;
    const json_t *at = yaml_lines_of(lines, key);
    struct image_policy *known;
    size_t i;

    if (list && !json_is_null(list) && !json_is_array(list))
        return config_file_refuse(f, at, err, "image_allowlist must be a list of names");
    if (!list || json_is_null(list))
        config_warn(f->config, xasprintf("%.120s:%d: there is no image_allowlist, so no image is "
                                         "allowed",
                                         f->path, yaml_line(lines)));
    json_array_foreach(list, i, entry)
    {
        if (!json_is_string(entry))
            return config_file_refuse(f, yaml_lines_at(at, i), err,
                                      "image_allowlist must hold names");
    }
    known = short_names(f);
    json_array_foreach(list, i, entry)
    {
        if (known && !image_policy_is_short_name(known, json_string_value(entry)))
            config_warn(
                f->config,
                xasprintf("%.120s:%d: image_allowlist: \"%.60s\" is neither a preset nor in "
                          "custom_images, and allows no image",
                          f->path, yaml_line(yaml_lines_at(at, i)), json_string_value(entry)));
    }
    image_policy_free(known);
    config_file_put(f, "CAY_ALLOWED_IMAGES",
                    json_is_array(list) ? json_dumps(list, JSON_COMPACT) : xstrdup("[]"),
                    at ? at : lines, key);
    config_file_put(f, "CAY_IMAGE_STRICT", xstrdup("true"), at ? at : lines, key);
    return 0;
}

/* Reads the caps of one image. A cap that is absent is 0, as in iii: no sandbox fits into it. */
static int read_cap(const struct config_file *f, const char *name, const json_t *cap,
                    const json_t *at, json_t *caps, struct err *err)
{
    const json_t *cpus = json_object_get(cap, "max_cpus"),
                 *memory = json_object_get(cap, "max_memory_mb");
    json_int_t c = json_integer_value(cpus), m = json_integer_value(memory);

    if (!json_is_object(cap) || (cpus && !json_is_integer(cpus)) ||
        (memory && !json_is_integer(memory)) || c < 0 || m < 0)
        return config_file_refuse(
            f, at, err, "per_image_caps must hold {max_cpus: N, max_memory_mb: N} for each name");
    c = c > CPU_MILLIS_MAX / 1000 ? CPU_MILLIS_MAX / 1000 : c;
    m = m > MEMORY_MB_MAX ? MEMORY_MB_MAX : m < MEMORY_MB_MIN ? 0 : m;
    (void)json_object_set_new(caps, name, json_pack("{s:I, s:I}", "cpu", c, "memory", m));
    return 0;
}

static int read_caps(struct config_file *f, const json_t *config, const json_t *lines,
                     struct err *err)
{
    static const char key[] = "per_image_caps";
    json_t *all = json_object_get(config, key), *cap, *caps;
    const json_t *at = yaml_lines_of(lines, key);
    const char *name;
    int status = 0;

    if (!all || json_is_null(all))
        return 0;
    if (!json_is_object(all))
        return config_file_refuse(f, at, err, "per_image_caps must hold names of images");
    caps = json_object();
    json_object_foreach(all, name, cap)
    {
        if (status == 0)
            status = read_cap(f, name, cap, yaml_lines_of(at, name), caps, err);
    }
    if (status == 0 && json_object_size(caps) > 0)
        config_file_put(f, "CAY_IMAGE_CAPS", json_dumps(caps, JSON_COMPACT), at, key);
    json_decref(caps);
    return status;
}

/* By the rules of the variable, but told with the place in the file. */
static int check_custom(const struct config_file *f, const char *name, const json_t *reference,
                        const json_t *at, struct err *err)
{
    static const char variable[] = "CAY_CUSTOM_IMAGES";
    const char *means = json_string_value(reference), *why;
    json_t *pair = means ? json_pack("{s:s}", name, means) : NULL;
    auto_free char *one = pair ? json_dumps(pair, JSON_COMPACT) : NULL;
    const struct image_policy_config config = {.custom = one};
    struct image_policy *policy = NULL;
    struct err bad = {0};

    json_decref(pair);
    if (!*name)
        return config_file_refuse(f, at, err, "custom_images: a name is empty");
    if (!one)
        return config_file_refuse(f, at, err, "custom_images must hold NAME: IMAGE");
    if (image_policy_new(&config, &policy, &bad) == 0) {
        image_policy_free(policy);
        return 0;
    }
    why = bad.text;
    if (str_starts(why, variable))
        why += strlen(variable) + strspn(why + strlen(variable), ": ");
    return err_set(err, ERR_INVALID, "%.120s:%d: custom_images: %s", f->path, yaml_line(at), why);
}

static int read_custom(struct config_file *f, const json_t *config, const json_t *lines,
                       struct err *err)
{
    static const char key[] = "custom_images";
    json_t *all = json_object_get(config, key), *reference;
    const json_t *at = yaml_lines_of(lines, key);
    const char *name;

    if (!all || json_is_null(all))
        return 0;
    if (!json_is_object(all))
        return config_file_refuse(f, at, err, "custom_images must hold NAME: IMAGE");
    json_object_foreach(all, name, reference)
    {
        if (check_custom(f, name, reference, yaml_lines_of(at, name), err) < 0)
            return -1;
    }
    if (json_object_size(all) > 0)
        config_file_put(f, "CAY_CUSTOM_IMAGES", json_dumps(all, JSON_COMPACT), at, key);
    return 0;
}

static const char *const image_keys[] = {"image_allowlist", "per_image_caps", "custom_images"};

/* The key that is nearest, itself if it is one; NULL if none is near. "workers" is that of the
 * engine's file, which is read as this one without it. */
static const char *nearest_key(const char *key)
{
    size_t least = strlen(key) / 3 + 1, d = str_distance(key, "workers");
    const char *best = d > 0 && d < least ? "workers" : NULL;

    for (size_t i = 0; i < ARRAY_LEN(settings) + ARRAY_LEN(image_keys); i++) {
        const char *known =
            i < ARRAY_LEN(settings) ? settings[i].key : image_keys[i - ARRAY_LEN(settings)];

        d = str_distance(key, known);
        if (d < least) {
            least = d;
            best = known;
        }
    }
    return best;
}

const char *config_file_image_key(json_t *config)
{
    for (size_t i = 0; i < ARRAY_LEN(image_keys); i++)
        if (json_object_get(config, image_keys[i]))
            return image_keys[i];
    return NULL;
}

/* iii passes over them; but a list of images that is misspelt allows none. */
static void tell_unknown(struct config_file *f, json_t *config, const json_t *lines)
{
    const char *key;
    json_t *value;

    json_object_foreach(config, key, value)
    {
        const char *near = nearest_key(key);

        if (near && strcmp(near, key) == 0)
            continue;
        config_warn(f->config, xasprintf("%.120s:%d: there is no setting \"%.60s\"%s%s%s", f->path,
                                         yaml_line(yaml_lines_of(lines, key)), key,
                                         near ? ": did you mean " : "; it is passed over",
                                         near ? near : "", near ? "?" : ""));
    }
}

/* That of the key, or of the block that lacks it. */
static const json_t *line_of(const json_t *lines, const char *key)
{
    const json_t *at = yaml_lines_of(lines, key);

    return at ? at : lines;
}

int config_file_sandboxes(struct config_file *f, json_t *config, const json_t *lines,
                          struct err *err)
{
    tell_unknown(f, config, lines);
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        if (read_setting(f, &settings[i], config, lines, err) < 0)
            return -1;
    if (number_of(f, "CAY_III_SANDBOXES") == 0)
        return config_file_refuse(f, yaml_lines_of(lines, "max_concurrent_sandboxes"), err,
                                  "max_concurrent_sandboxes must be a whole number from 1");
    raise_to(f, "CAY_MAX_SANDBOXES", number_of(f, "CAY_III_SANDBOXES"),
             line_of(lines, "max_concurrent_sandboxes"), "max_concurrent_sandboxes");
    raise_to(f, "CAY_MAX_CMD_TIMEOUT", (number_of(f, "CAY_III_EXEC_MS") + 999) / 1000,
             line_of(lines, "max_exec_timeout_ms"), "max_exec_timeout_ms");
    if (read_custom(f, config, lines, err) < 0 || read_allowlist(f, config, lines, err) < 0)
        return -1;
    return read_caps(f, config, lines, err);
}
