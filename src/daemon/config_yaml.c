#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/config.h"
#include "daemon/config_internal.h"
#include "daemon/yaml_json.h"
#include "engine/image_policy.h"
#include "model/sandbox.h"

/* The files that iii has for its sandboxes, so that who comes from there brings theirs along. There
 * are two: that of the engine, with an entry for each of its workers, and the flat one that it
 * gives to the worker `iii-sandbox`. Both become values of variables, which are checked as all
 * others. */

struct file {
    struct daemon_config *config; /* for warnings */
    const char *path;
    bool listens;     /* its listeners are ours */
    json_t *values;   /* {variable: {text, where}} */
    bool first_given; /* one of its listeners is that of the variables */
    bool guarded;     /* it has a listener with rules, which is not opened */
};

/* "config.yaml:7" */
static char *place(const struct file *f, const json_t *lines)
{
    return xasprintf("%.120s:%d", f->path, yaml_line(lines));
}

static int refuse(const struct file *f, const json_t *lines, struct err *err, const char *why)
{
    return err_set(err, ERR_INVALID, "%.120s:%d: %s", f->path, yaml_line(lines), why);
}

/* Takes text. where: for messages; it ends with the key. */
static void put(struct file *f, const char *variable, char *text, const json_t *lines,
                const char *key)
{
    auto_free char *at = place(f, lines), *where = xasprintf("%s: %s", at, key);

    (void)json_object_set_new(f->values, variable,
                              json_pack("{s:s, s:s}", "text", text, "where", where));
    free(text);
}

/* ---- the settings of sandboxes ---- */

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

static int read_setting(struct file *f, const struct setting *s, const json_t *config,
                        const json_t *lines, struct err *err)
{
    const json_t *value = json_object_get(config, s->key), *at = yaml_lines_of(lines, s->key);
    char *text;

    if (!value || json_is_null(value)) {
        put(f, s->variable, xstrdup(s->preset), lines, s->key);
        return 0;
    }
    text = text_of(s, value);
    if (!text)
        return err_set(err, ERR_INVALID, "%.120s:%d: %s must be %s", f->path, yaml_line(at), s->key,
                       s->kind == KIND_BOOL ? "true or false" : "a whole number");
    put(f, s->variable, text, at, s->key);
    return 0;
}

/* What iii bounds by itself must not stop at a bound of the daemon that nobody has set. What is too
 * much for that one is too much for its own variable, which says so. */
static void raise_to(struct file *f, const char *variable, uint64_t least, const json_t *lines,
                     const char *key)
{
    uint64_t preset;

    if (str_u64(config_preset(variable), &preset) == 0 && least > preset &&
        least <= config_most(variable))
        put(f, variable, xasprintf("%llu", (unsigned long long)least), lines, key);
}

static uint64_t number_of(const struct file *f, const char *variable)
{
    uint64_t n = 0;

    (void)str_u64(json_text(json_object_get(f->values, variable), "text"), &n);
    return n;
}

/* Names of images are short names, and those are made of these. */
static bool is_name(const char *s)
{
    return s && *s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789._-")];
}

static int read_allowlist(struct file *f, const json_t *config, const json_t *lines,
                          struct err *err)
{
    static const char key[] = "image_allowlist";
    const json_t *list = json_object_get(config, key), *at = yaml_lines_of(lines, key), *entry;
    auto_buf struct buf text = {0};
    size_t i;

    buf_init(&text, YAML_BYTES_MAX);
    if (list && !json_is_null(list) && !json_is_array(list))
        return refuse(f, at, err, "image_allowlist must be a list of names");
    json_array_foreach(list, i, entry)
    {
        const char *name = json_string_value(entry);

        if (!name)
            return refuse(f, yaml_lines_at(at, i), err, "image_allowlist must hold names");
        if (is_name(name))
            (void)buf_addf(&text, "%s%s", text.len ? "," : "", name);
        else
            config_warn(f->config, xasprintf("%.120s:%d: image_allowlist: \"%.60s\" is no name of "
                                             "an image, and allows none",
                                             f->path, yaml_line(yaml_lines_at(at, i)), name));
    }
    put(f, "CAY_ALLOWED_IMAGES", buf_steal(&text), at ? at : lines, key);
    put(f, "CAY_IMAGE_STRICT", xstrdup("true"), at ? at : lines, key);
    return 0;
}

/* Of one image; what is not said is 0, which nothing fits into. */
static int read_cap(const struct file *f, const char *name, const json_t *cap, const json_t *at,
                    struct buf *text, struct err *err)
{
    const json_t *cpus = json_object_get(cap, "max_cpus"),
                 *memory = json_object_get(cap, "max_memory_mb");
    json_int_t c = json_integer_value(cpus), m = json_integer_value(memory);

    if (!json_is_object(cap) || (cpus && !json_is_integer(cpus)) ||
        (memory && !json_is_integer(memory)) || c < 0 || m < 0)
        return refuse(f, at, err,
                      "per_image_caps must hold {max_cpus: N, max_memory_mb: N} for each name");
    c = c > CPU_MILLIS_MAX / 1000 ? CPU_MILLIS_MAX / 1000 : c;
    m = m > MEMORY_MB_MAX ? MEMORY_MB_MAX : m < MEMORY_MB_MIN ? 0 : m;
    (void)buf_addf(text, "%s%s:cpu=%lld,memory=%lld", text->len ? ";" : "", name, (long long)c,
                   (long long)m);
    return 0;
}

static int read_caps(struct file *f, const json_t *config, const json_t *lines, struct err *err)
{
    static const char key[] = "per_image_caps";
    json_t *all = json_object_get(config, key), *cap;
    const json_t *at = yaml_lines_of(lines, key);
    auto_buf struct buf text = {0};
    const char *name;

    if (!all || json_is_null(all))
        return 0;
    if (!json_is_object(all))
        return refuse(f, at, err, "per_image_caps must hold names of images");
    buf_init(&text, 8 * YAML_BYTES_MAX); /* "a: {}" becomes "a:cpu=0,memory=0;" */
    json_object_foreach(all, name, cap)
    {
        /* One that no image can have caps none. */
        if (is_name(name) && read_cap(f, name, cap, yaml_lines_of(at, name), &text, err) < 0)
            return -1;
    }
    if (text.len > 0)
        put(f, "CAY_IMAGE_CAPS", buf_steal(&text), at, key);
    return 0;
}

/* By the rules of the variable, but told with the place in the file. */
static int check_custom(const struct file *f, const char *name, const json_t *reference,
                        const json_t *at, struct err *err)
{
    static const char variable[] = "CAY_CUSTOM_IMAGES";
    const char *means = json_string_value(reference), *why;
    auto_free char *one = xasprintf("%s=%s", name, means ? means : "");
    const struct image_policy_config config = {.custom = one};
    struct image_policy *policy = NULL;
    struct err bad = {0};

    if (!*name)
        return refuse(f, at, err, "custom_images: a name is empty");
    if (!means || strpbrk(one, ", "))
        return refuse(f, at, err, "custom_images must hold NAME: IMAGE");
    if (image_policy_new(&config, &policy, &bad) == 0) {
        image_policy_free(policy);
        return 0;
    }
    why = bad.text;
    if (str_starts(why, variable))
        why += strlen(variable) + strspn(why + strlen(variable), ": ");
    return err_set(err, ERR_INVALID, "%.120s:%d: custom_images: %s", f->path, yaml_line(at), why);
}

static int read_custom(struct file *f, const json_t *config, const json_t *lines, struct err *err)
{
    static const char key[] = "custom_images";
    json_t *all = json_object_get(config, key), *reference;
    const json_t *at = yaml_lines_of(lines, key);
    auto_buf struct buf text = {0};
    const char *name;

    if (!all || json_is_null(all))
        return 0;
    if (!json_is_object(all))
        return refuse(f, at, err, "custom_images must hold NAME: IMAGE");
    buf_init(&text, 2 * YAML_BYTES_MAX);
    json_object_foreach(all, name, reference)
    {
        if (check_custom(f, name, reference, yaml_lines_of(at, name), err) < 0)
            return -1;
        (void)buf_addf(&text, "%s%s=%s", text.len ? "," : "", name, json_string_value(reference));
    }
    if (text.len > 0)
        put(f, "CAY_CUSTOM_IMAGES", buf_steal(&text), at, key);
    return 0;
}

static bool is_setting(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        if (strcmp(settings[i].key, key) == 0)
            return true;
    return strcmp(key, "image_allowlist") == 0 || strcmp(key, "per_image_caps") == 0 ||
           strcmp(key, "custom_images") == 0;
}

/* iii passes over them; but a list of images that is misspelt allows none. */
static void tell_unknown(struct file *f, json_t *config, const json_t *lines)
{
    const char *key;
    json_t *value;

    json_object_foreach(config, key, value)
    {
        if (!is_setting(key))
            config_warn(f->config,
                        xasprintf("%.120s:%d: there is no setting \"%.60s\"; it is passed over",
                                  f->path, yaml_line(yaml_lines_of(lines, key)), key));
    }
}

/* Keys that are not there are what iii says, not what we would. */
static int read_sandboxes(struct file *f, json_t *config, const json_t *lines, struct err *err)
{
    tell_unknown(f, config, lines);
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        if (read_setting(f, &settings[i], config, lines, err) < 0)
            return -1;
    if (number_of(f, "CAY_III_SANDBOXES") == 0)
        return refuse(f, yaml_lines_of(lines, "max_concurrent_sandboxes"), err,
                      "max_concurrent_sandboxes must be a whole number from 1");
    raise_to(f, "CAY_MAX_SANDBOXES", number_of(f, "CAY_III_SANDBOXES"), lines,
             "max_concurrent_sandboxes");
    raise_to(f, "CAY_MAX_CMD_TIMEOUT", (number_of(f, "CAY_III_EXEC_MS") + 999) / 1000, lines,
             "max_exec_timeout_ms");
    if (read_allowlist(f, config, lines, err) < 0 || read_caps(f, config, lines, err) < 0)
        return -1;
    return read_custom(f, config, lines, err);
}

/* ---- the engine's file ---- */

static int check_listener(const struct file *f, json_t *config, const json_t *lines,
                          struct err *err)
{
    static const char *const known[] = {"port", "host", "middleware_function_id", "rbac",
                                        "handshake_timeout_ms"};
    const char *key;
    json_t *value;

    json_object_foreach(config, key, value)
    {
        size_t i = 0;

        while (i < ARRAY_LEN(known) && strcmp(known[i], key) != 0)
            i++;
        if (i == ARRAY_LEN(known))
            return err_set(err, ERR_INVALID,
                           "%.120s:%d: iii-worker-manager has no setting \"%.60s\"", f->path,
                           yaml_line(yaml_lines_of(lines, key)), key);
    }
    value = json_object_get(config, "port");
    if (value && !json_is_integer(value))
        return refuse(f, yaml_lines_of(lines, "port"), err, "port must be a whole number");
    value = json_object_get(config, "host");
    if (value && !json_is_string(value))
        return refuse(f, yaml_lines_of(lines, "host"), err, "host must be an address");
    return 0;
}

static bool is_given(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);

    return value && !json_is_null(value);
}

/* Adds a listener beside the first. */
static int add_listener(struct file *f, const json_t *config, const json_t *lines, struct err *err)
{
    const json_t *port = json_object_get(config, "port"), *host = json_object_get(config, "host");
    json_int_t number = port ? json_integer_value(port) : WS_PORT_DEFAULT;
    struct listener_config *l = &f->config->listeners[f->config->n_listeners];

    if (f->config->n_listeners == LISTENERS_MAX)
        return err_set(err, ERR_INVALID, "%.120s:%d: at most %d listeners, beside the first",
                       f->path, yaml_line(lines), LISTENERS_MAX);
    if (number < 1 || number > 65535)
        return refuse(f, yaml_lines_of(lines, "port"), err, "port must be 1 to 65535");
    l->place = place(f, lines);
    l->host = xstrdup(host ? json_string_value(host) : config_preset("CAY_WS_HOST"));
    l->port = (uint32_t)number;
    f->config->n_listeners++;
    return 0;
}

/* cay has no rules for a listener, and without them everybody would come in. */
static void skip_guarded(struct file *f, const json_t *lines)
{
    f->guarded = true;
    config_warn(f->config,
                xasprintf("%.120s:%d: this listener is not opened: rbac and middleware_function_id "
                          "need a genuine iii engine, with cay as its worker (cay worker --engine "
                          "URL)",
                          f->path, yaml_line(lines)));
}

/* The first one is that of the variables, so that these and flags can move it. */
static int read_listener(struct file *f, json_t *config, const json_t *lines, struct err *err)
{
    const json_t *port = json_object_get(config, "port"), *host = json_object_get(config, "host");

    if (check_listener(f, config, lines, err) < 0)
        return -1;
    if (is_given(config, "rbac") || is_given(config, "middleware_function_id")) {
        skip_guarded(f, lines);
        return 0;
    }
    if (f->first_given)
        return add_listener(f, config, lines, err);
    f->first_given = true;
    put(f, "CAY_WS_PORT",
        xasprintf("%lld", port ? (long long)json_integer_value(port) : WS_PORT_DEFAULT),
        port ? yaml_lines_of(lines, "port") : lines, "port");
    if (host)
        put(f, "CAY_WS_HOST", xstrdup(json_string_value(host)), yaml_lines_of(lines, "host"),
            "host");
    return 0;
}

static int read_entry(struct file *f, json_t *entry, const json_t *lines, struct buf *others,
                      bool *sandboxes, struct err *err)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    json_t *config = json_object_get(entry, "config");
    const json_t *at = is_given(entry, "config") ? yaml_lines_of(lines, "config") : lines;

    if (!name)
        return refuse(f, lines, err, "a worker must have a name");
    if (is_given(entry, "config") && !json_is_object(config))
        return refuse(f, at, err, "config must hold settings");
    if (strcmp(name, "iii-worker-manager") == 0)
        return f->listens ? read_listener(f, config, at, err) : 0;
    if (strcmp(name, "iii-sandbox") != 0) {
        (void)buf_addf(others, "%s%.60s", others->len ? ", " : "", name);
        return 0;
    }
    if (*sandboxes)
        return refuse(f, lines, err, "iii-sandbox stands here for the second time");
    *sandboxes = true;
    return read_sandboxes(f, config, at, err);
}

#define OTHERS_MAX 2000 /* bytes of names of workers that are told */

static int read_entries(struct file *f, const json_t *entries, const json_t *lines, struct err *err)
{
    auto_buf struct buf others = {0};
    bool sandboxes = false;
    json_t *entry;
    size_t i;

    buf_init(&others, OTHERS_MAX);
    if (entries && !json_is_null(entries) && !json_is_array(entries))
        return refuse(f, lines, err, "workers must be a list");
    json_array_foreach(entries, i, entry)
    {
        if (read_entry(f, entry, yaml_lines_at(lines, i), &others, &sandboxes, err) < 0)
            return -1;
    }
    /* As in iii: a file that names listeners has those and no default one. */
    if (f->guarded && !f->first_given)
        put(f, "CAY_WS_PORT", xstrdup("0"), lines, "port");
    if (others.len > 0)
        config_warn(f->config,
                    xasprintf("%.120s: workers that cay does not start: %s", f->path, others.data));
    return 0;
}

static int read_engine(struct file *f, json_t *root, const json_t *lines, struct err *err)
{
    static const char grace[] = "registration_namespace_grace_ms";
    json_t *workers = json_object_get(root, "workers"), *modules = json_object_get(root, "modules");
    const char *key, *which = workers ? "workers" : "modules";
    json_t *value;

    json_object_foreach(root, key, value)
    {
        if (strcmp(key, "workers") != 0 && strcmp(key, "modules") != 0 && strcmp(key, grace) != 0)
            return err_set(err, ERR_INVALID, "%.120s:%d: there is no setting \"%.60s\"", f->path,
                           yaml_line(yaml_lines_of(lines, key)), key);
    }
    if (workers && modules)
        return refuse(f, yaml_lines_of(lines, "modules"), err,
                      "modules is another name of workers: give one of the two");
    value = json_object_get(root, grace);
    if (value && !json_is_integer(value))
        return refuse(f, yaml_lines_of(lines, grace), err,
                      "registration_namespace_grace_ms must be a whole number");
    return read_entries(f, json_object_get(root, which), yaml_lines_of(lines, which), err);
}

/* ---- a file ---- */

static int read_root(struct file *f, json_t *root, const json_t *lines, struct err *err)
{
    if (!json_is_object(root))
        return refuse(f, lines, err, "must hold settings: workers, or those of iii-sandbox");
    if (json_object_get(root, "workers") || json_object_get(root, "modules") ||
        json_object_get(root, "registration_namespace_grace_ms"))
        return read_engine(f, root, lines, err);
    if (json_object_get(root, "sandbox"))
        return refuse(f, yaml_lines_of(lines, "sandbox"), err,
                      "sandbox: is the old shape: what is in it belongs at the top");
    return read_sandboxes(f, root, lines, err);
}

static const char *variable(const char *name)
{
    return getenv(name);
}

/* "line 7: …" becomes "config.yaml:7: …". */
static int at_line(const char *path, struct err *err)
{
    auto_free char *text = xstrdup(err->text);

    if (str_starts(text, "line "))
        return err_set(err, ERR_INVALID, "%.120s:%s", path, text + strlen("line "));
    return err_wrap(err, "%.120s", path);
}

int config_yaml(struct daemon_config *c, const char *path, bool listens, json_t **ret,
                struct err *err)
{
    struct file f = {.config = c, .path = path, .listens = listens};
    auto_free char *text = xmalloc(YAML_BYTES_MAX + 2), *expanded = NULL;
    json_t *root = NULL, *lines = NULL;
    ssize_t n = read_file_at(AT_FDCWD, path, text, YAML_BYTES_MAX + 2);
    int status;

    if (n < 0)
        return err_sys(err, (int)-n, "--config %s", path);
    if (strlen(text) != (size_t)n)
        return err_set(err, ERR_INVALID, "%.120s: is no text", path);
    expanded = yaml_expand(text, variable, err);
    if (!expanded || yaml_read(expanded, strlen(expanded), &root, &lines, err) < 0)
        return at_line(path, err);
    f.values = json_object();
    status = read_root(&f, root, lines, err);
    json_decref(root);
    json_decref(lines);
    if (status < 0)
        json_decref(f.values);
    else
        *ret = f.values;
    return status;
}
