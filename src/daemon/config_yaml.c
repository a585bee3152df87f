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

/* Reads the files that iii has for its sandboxes. There are two: that of the engine, with an entry
 * for each of its workers (modules, in older files), and the flat one that it gives to the worker
 * `iii-sandbox`. Both become values of variables, which are checked as all others. */

struct file {
    struct daemon_config *config; /* for warnings */
    const char *path;
    bool listens;     /* its listeners are ours */
    json_t *values;   /* {variable: {text, where}} */
    bool first_given; /* one of its listeners is that of the variables */
    bool guarded;     /* it has a listener with rules, which is not opened */
    int rest_line;    /* of the REST API that is served; 0 = none yet */
    bool state_told, sandboxes_given;
};

#define GRACE "registration_namespace_grace_ms"

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

/* The short names that there are with the custom images of the environment, else of the file. NULL
 * when those of the environment are wrong, which is told when the variable is read. */
static struct image_policy *short_names(const struct file *f)
{
    static const char variable[] = "CAY_CUSTOM_IMAGES";
    const char *text = config_lookup(variable);
    const json_t *value = json_object_get(f->values, variable);
    const struct image_policy_config config = {.custom = text    ? text
                                                         : value ? json_text(value, "text")
                                                                 : NULL};
    struct image_policy *policy = NULL;

    return image_policy_new(&config, &policy, NULL) == 0 ? policy : NULL;
}

/* In the order of the file. The names go to the variable as JSON, because any character can be in
 * one and none is a wildcard. */
static int read_allowlist(struct file *f, const json_t *config, const json_t *lines,
                          struct err *err)
{
    static const char key[] = "image_allowlist";
    json_t *list = json_object_get(config, key), *entry;
    const json_t *at = yaml_lines_of(lines, key);
    struct image_policy *known;
    size_t i;

    if (list && !json_is_null(list) && !json_is_array(list))
        return refuse(f, at, err, "image_allowlist must be a list of names");
    json_array_foreach(list, i, entry)
    {
        if (!json_is_string(entry))
            return refuse(f, yaml_lines_at(at, i), err, "image_allowlist must hold names");
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
    put(f, "CAY_ALLOWED_IMAGES",
        json_is_array(list) ? json_dumps(list, JSON_COMPACT) : xstrdup("[]"), at ? at : lines, key);
    put(f, "CAY_IMAGE_STRICT", xstrdup("true"), at ? at : lines, key);
    return 0;
}

/* Of one image; what is not said is 0, which nothing fits into. */
static int read_cap(const struct file *f, const char *name, const json_t *cap, const json_t *at,
                    json_t *caps, struct err *err)
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
    (void)json_object_set_new(caps, name, json_pack("{s:I, s:I}", "cpu", c, "memory", m));
    return 0;
}

static int read_caps(struct file *f, const json_t *config, const json_t *lines, struct err *err)
{
    static const char key[] = "per_image_caps";
    json_t *all = json_object_get(config, key), *cap, *caps;
    const json_t *at = yaml_lines_of(lines, key);
    const char *name;
    int status = 0;

    if (!all || json_is_null(all))
        return 0;
    if (!json_is_object(all))
        return refuse(f, at, err, "per_image_caps must hold names of images");
    caps = json_object();
    json_object_foreach(all, name, cap)
    {
        if (status == 0)
            status = read_cap(f, name, cap, yaml_lines_of(at, name), caps, err);
    }
    if (status == 0 && json_object_size(caps) > 0)
        put(f, "CAY_IMAGE_CAPS", json_dumps(caps, JSON_COMPACT), at, key);
    json_decref(caps);
    return status;
}

/* By the rules of the variable, but told with the place in the file. */
static int check_custom(const struct file *f, const char *name, const json_t *reference,
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
        return refuse(f, at, err, "custom_images: a name is empty");
    if (!one)
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
    const char *name;

    if (!all || json_is_null(all))
        return 0;
    if (!json_is_object(all))
        return refuse(f, at, err, "custom_images must hold NAME: IMAGE");
    json_object_foreach(all, name, reference)
    {
        if (check_custom(f, name, reference, yaml_lines_of(at, name), err) < 0)
            return -1;
    }
    if (json_object_size(all) > 0)
        put(f, "CAY_CUSTOM_IMAGES", json_dumps(all, JSON_COMPACT), at, key);
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
    if (read_custom(f, config, lines, err) < 0 || read_allowlist(f, config, lines, err) < 0)
        return -1;
    return read_caps(f, config, lines, err);
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

/* ---- other entries of the engine's file ---- */

#define NAMES_MAX 2000 /* bytes of names in a warning */

enum module {
    MODULE_UNKNOWN,
    MODULE_LISTENER,
    MODULE_SANDBOXES,
    MODULE_REST,
    MODULE_STATE,
    MODULE_ENGINE
};

/* By their names of today, and by the last word of the class or type that older files have. */
static const struct {
    const char *name;
    enum module kind;
} known_modules[] = {
    {"iii-worker-manager", MODULE_LISTENER},
    {"WorkerModule", MODULE_LISTENER},
    {"iii-sandbox", MODULE_SANDBOXES},
    {"iii-http", MODULE_REST},
    {"RestApiModule", MODULE_REST},
    {"iii-state", MODULE_STATE},
    {"state", MODULE_STATE},
    {"StateModule", MODULE_STATE},
    {"iii-queue", MODULE_ENGINE},
    {"queue", MODULE_ENGINE},
    {"QueueModule", MODULE_ENGINE},
    {"iii-cron", MODULE_ENGINE},
    {"CronModule", MODULE_ENGINE},
    {"iii-pubsub", MODULE_ENGINE},
    {"PubSubModule", MODULE_ENGINE},
    {"iii-stream", MODULE_ENGINE},
    {"StreamModule", MODULE_ENGINE},
    {"StreamsModule", MODULE_ENGINE},
    {"EventModule", MODULE_ENGINE},
    {"iii-observability", MODULE_ENGINE},
    {"OtelModule", MODULE_ENGINE},
    {"LoggingModule", MODULE_ENGINE},
    {"TracingModule", MODULE_ENGINE},
    {"iii-telemetry", MODULE_ENGINE},
    {"TelemetryModule", MODULE_ENGINE},
    {"iii-exec", MODULE_ENGINE},
    {"ExecModule", MODULE_ENGINE},
    {"iii-bridge", MODULE_ENGINE},
    {"BridgeClientModule", MODULE_ENGINE},
    {"HttpFunctionsModule", MODULE_ENGINE},
    {"KvServer", MODULE_ENGINE},
    {"AdminApiModule", MODULE_ENGINE},
    {"DevToolsModule", MODULE_ENGINE},
    {"configuration", MODULE_ENGINE},
    {"iii-engine-functions", MODULE_ENGINE},
};

/* "modules::api::RestApiModule" is known by its last word. */
static enum module module_of(const char *text)
{
    const char *colon = strrchr(text, ':'), *word = colon ? colon + 1 : text;

    for (size_t i = 0; i < ARRAY_LEN(known_modules); i++)
        if (strcmp(known_modules[i].name, word) == 0)
            return known_modules[i].kind;
    return MODULE_UNKNOWN;
}

/* What an entry is called: by the key that names a module we know, else by the first that is there;
 * NULL when none is. */
static const char *entry_name(const json_t *entry, enum module *ret)
{
    static const char *const keys[] = {"name", "class", "type"};
    const char *first = NULL;

    *ret = MODULE_UNKNOWN;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const char *text = json_string_value(json_object_get(entry, keys[i]));

        if (!text || !*text)
            continue;
        *ret = module_of(text);
        if (*ret != MODULE_UNKNOWN)
            return text;
        first = first ? first : text;
    }
    return first;
}

static void add_name(struct buf *names, const char *name)
{
    (void)buf_addf(names, "%s%.60s", names->len ? ", " : "", name);
}

/* A number, or the text of one as "${PORT:3111}" gives it. */
static int read_port(struct file *f, const char *variable, const json_t *port, const json_t *lines,
                     struct err *err)
{
    if (!json_is_integer(port) && !json_is_string(port))
        return refuse(f, lines, err, "port must be a whole number");
    put(f, variable,
        json_is_string(port) ? xstrdup(json_string_value(port))
                             : xasprintf("%lld", (long long)json_integer_value(port)),
        lines, "port");
    return 0;
}

static void read_origin(struct file *f, const char *origin, const json_t *lines, struct buf *text)
{
    const char *why = "an origin is like https://app.example";

    if (origin && config_is_origin(origin) && !strchr(origin, '*')) {
        (void)buf_addf(text, "%s%s", text->len ? "," : "", origin);
        return;
    }
    if (origin && strcmp(origin, "*") == 0)
        why = "every web page could then run code on this machine; name the origins, here or in "
              "CAY_CORS_ORIGINS";
    config_warn(f->config, xasprintf("%.120s:%d: cors.allowed_origins: \"%.60s\" is not used: %s",
                                     f->path, yaml_line(lines), origin ? origin : "", why));
}

static void read_origins(struct file *f, json_t *origins, const json_t *lines)
{
    auto_buf struct buf text = {0};
    json_t *origin;
    size_t i;

    buf_init(&text, YAML_BYTES_MAX);
    if (json_is_string(origins))
        read_origin(f, json_string_value(origins), lines, &text);
    json_array_foreach(origins, i, origin)
    {
        read_origin(f, json_string_value(origin), yaml_lines_at(lines, i), &text);
    }
    if (text.len > 0)
        put(f, "CAY_CORS_ORIGINS", buf_steal(&text), lines, "cors.allowed_origins");
}

/* unused: the keys that have no meaning here. */
static void read_cors(struct file *f, json_t *cors, const json_t *lines, struct buf *unused)
{
    const char *key;
    json_t *value;

    if (!json_is_object(cors))
        add_name(unused, "cors");
    json_object_foreach(cors, key, value)
    {
        auto_free char *name = xasprintf("cors.%.50s", key);

        if (strcmp(key, "allowed_origins") == 0)
            read_origins(f, value, yaml_lines_of(lines, key));
        else
            add_name(unused, name);
    }
}

static int read_rest_key(struct file *f, const char *key, json_t *value, const json_t *lines,
                         struct buf *unused, struct err *err)
{
    if (json_is_null(value))
        return 0;
    if (strcmp(key, "port") == 0)
        return read_port(f, "CAY_REST_PORT", value, lines, err);
    if (strcmp(key, "host") == 0) {
        if (!json_string_length(value))
            return refuse(f, lines, err, "host must be an address");
        put(f, "CAY_REST_HOST", xstrdup(json_string_value(value)), lines, "host");
    } else if (strcmp(key, "cors") == 0) {
        read_cors(f, value, lines, unused);
    } else {
        add_name(unused, key);
    }
    return 0;
}

static int read_rest(struct file *f, const char *name, json_t *config, const json_t *lines,
                     struct err *err)
{
    auto_buf struct buf unused = {0};
    const char *key;
    json_t *value;

    if (f->rest_line) {
        config_warn(f->config,
                    xasprintf("%.120s:%d: cay serves one REST API, that of line %d: this "
                              "%.60s is not used",
                              f->path, yaml_line(lines), f->rest_line, name));
        return 0;
    }
    f->rest_line = yaml_line(lines);
    buf_init(&unused, NAMES_MAX);
    json_object_foreach(config, key, value)
    {
        if (read_rest_key(f, key, value, yaml_lines_of(lines, key), &unused, err) < 0)
            return -1;
    }
    if (unused.len > 0)
        config_warn(f->config, xasprintf("%.120s:%d: settings of %.60s that cay does not use: %s",
                                         f->path, yaml_line(lines), name, unused.data));
    return 0;
}

/* Where a state module would keep its file; NULL when it says nothing of one. */
static const char *state_path(const json_t *config)
{
    const json_t *adapter = json_object_get(config, "adapter");
    const json_t *places[] = {json_object_get(adapter, "config"), adapter, config};

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const char *path = json_string_value(json_object_get(places[i], "path"));

        if (!path)
            path = json_string_value(json_object_get(places[i], "file_path"));
        if (path)
            return path;
    }
    return NULL;
}

static void tell_state(struct file *f, const char *name, const json_t *config, const json_t *lines)
{
    const char *path = state_path(config);

    if (f->state_told)
        return;
    f->state_told = true;
    config_warn(
        f->config,
        xasprintf("%.120s:%d: %s%.120s is not used: cay keeps its state in a database in the "
                  "folder CAY_DATA; functions state::* need an iii engine",
                  f->path, yaml_line(lines), path ? "the file " : "", path ? path : name));
}

/* Names that are only told. */
struct others {
    struct buf engine, unknown;
};

/* When we are the worker of an engine, all but the sandboxes is the engine's. */
static int read_module(struct file *f, enum module kind, const char *name, json_t *config,
                       const json_t *lines, struct others *others, struct err *err)
{
    if (!f->listens)
        return 0;
    switch (kind) {
    case MODULE_LISTENER:
        return read_listener(f, config, lines, err);
    case MODULE_REST:
        return read_rest(f, name, config, lines, err);
    case MODULE_STATE:
        tell_state(f, name, config, lines);
        return 0;
    case MODULE_ENGINE:
        add_name(&others->engine, name);
        return 0;
    case MODULE_SANDBOXES:
    case MODULE_UNKNOWN:
        break;
    }
    add_name(&others->unknown, name);
    return 0;
}

static int read_entry(struct file *f, json_t *entry, const json_t *lines, struct others *others,
                      struct err *err)
{
    enum module kind;
    const char *name = entry_name(entry, &kind);
    json_t *config = json_object_get(entry, "config");
    const json_t *at = is_given(entry, "config") ? yaml_lines_of(lines, "config") : lines;

    if (!name)
        return refuse(f, lines, err, "an entry must have a name, a type or a class");
    if (is_given(entry, "config") && !json_is_object(config))
        return refuse(f, at, err, "config must hold settings");
    if (kind != MODULE_SANDBOXES)
        return read_module(f, kind, name, config, at, others, err);
    if (f->sandboxes_given)
        return refuse(f, lines, err, "iii-sandbox stands here for the second time");
    f->sandboxes_given = true;
    return read_sandboxes(f, config, at, err);
}

static void tell_others(struct file *f, const struct others *others)
{
    if (others->engine.len > 0)
        config_warn(
            f->config,
            xasprintf("%.120s: not started, and not needed for sandboxes: %s. An iii engine "
                      "that has cay as its worker (cay worker) provides them",
                      f->path, others->engine.data));
    if (others->unknown.len > 0)
        config_warn(f->config, xasprintf("%.120s: unknown, and not started: %s", f->path,
                                         others->unknown.data));
}

static int read_entries(struct file *f, const json_t *entries, const json_t *lines, struct err *err)
{
    struct others others = {0};
    json_t *entry;
    int status = 0;
    size_t i;

    if (entries && !json_is_null(entries) && !json_is_array(entries))
        return refuse(f, lines, err, "workers must be a list");
    buf_init(&others.engine, NAMES_MAX);
    buf_init(&others.unknown, NAMES_MAX);
    json_array_foreach(entries, i, entry)
    {
        if (status == 0)
            status = read_entry(f, entry, yaml_lines_at(lines, i), &others, err);
    }
    if (status == 0)
        tell_others(f, &others);
    buf_done(&others.engine);
    buf_done(&others.unknown);
    /* As in iii: a file that names listeners has those and no default one. */
    if (f->guarded && !f->first_given)
        put(f, "CAY_WS_PORT", xstrdup("0"), lines, "port");
    return status;
}

/* Older engines have the port of their only listener at the top of the file. An entry for a
 * listener wins. */
static int read_engine_port(struct file *f, const json_t *root, const json_t *lines,
                            struct err *err)
{
    const json_t *port = json_object_get(root, "port");

    if (!f->listens || !is_given(root, "port") || f->first_given || f->guarded)
        return 0;
    return read_port(f, "CAY_WS_PORT", port, yaml_lines_of(lines, "port"), err);
}

static bool is_engine_key(const char *key)
{
    static const char *const keys[] = {"workers", "modules", "port", GRACE};

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

static int read_engine(struct file *f, json_t *root, const json_t *lines, struct err *err)
{
    json_t *workers = json_object_get(root, "workers"), *modules = json_object_get(root, "modules");
    const char *key, *which = workers ? "workers" : "modules";
    json_t *value;

    json_object_foreach(root, key, value)
    {
        if (!is_engine_key(key))
            return err_set(err, ERR_INVALID, "%.120s:%d: there is no setting \"%.60s\"", f->path,
                           yaml_line(yaml_lines_of(lines, key)), key);
    }
    if (workers && modules)
        return refuse(f, yaml_lines_of(lines, "modules"), err,
                      "modules is another name of workers: give one of the two");
    value = json_object_get(root, GRACE);
    if (value && !json_is_integer(value))
        return refuse(f, yaml_lines_of(lines, GRACE), err, GRACE " must be a whole number");
    if (read_entries(f, json_object_get(root, which), yaml_lines_of(lines, which), err) < 0)
        return -1;
    return read_engine_port(f, root, lines, err);
}

/* ---- a file ---- */

static int read_root(struct file *f, json_t *root, const json_t *lines, struct err *err)
{
    if (!json_is_object(root))
        return refuse(f, lines, err, "must hold settings: workers, or those of iii-sandbox");
    if (json_object_get(root, "workers") || json_object_get(root, "modules") ||
        json_object_get(root, GRACE))
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
