#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/config.h"
#include "daemon/config_file.h"
#include "daemon/config_internal.h"
#include "daemon/yaml_json.h"
#include "iii/iii.h"

/* The file of an iii engine: a list of entries, one for each of its workers (modules, in older
 * files). Those for sandboxes, listeners and the REST API are used; the others are named in
 * warnings. */

/* ---- its listeners ---- */

static bool is_given(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);

    return value && !json_is_null(value);
}

/* A list that ends with NULL. */
static bool is_one_of(const char *const *list, const char *word)
{
    while (*list && strcmp(*list, word) != 0)
        list++;
    return *list;
}

static int check_listener(const struct config_file *f, json_t *config, const json_t *lines,
                          struct err *err)
{
    static const char *const known[] = {
        "port", "host", "middleware_function_id", "rbac", "handshake_timeout_ms", NULL};
    const char *key;
    json_t *value;

    json_object_foreach(config, key, value)
    {
        if (!is_one_of(known, key))
            return err_set(err, ERR_INVALID,
                           "%.120s:%d: iii-worker-manager has no setting \"%.60s\"", f->path,
                           yaml_line(yaml_lines_of(lines, key)), key);
    }
    return 0;
}

/* A number, or the text of one as "${PORT:3111}" gives it. */
static int read_port(struct config_file *f, const json_t *config, json_int_t *ret,
                     const json_t *lines, struct err *err)
{
    const json_t *port = json_object_get(config, "port");
    uint64_t number = 0;

    if (json_is_integer(port) && json_integer_value(port) >= 0)
        number = (uint64_t)json_integer_value(port);
    else if (!json_is_string(port) || str_u64(json_string_value(port), &number) < 0)
        number = UINT64_MAX;
    if (number > 65535)
        return config_file_refuse(f, yaml_lines_of(lines, "port"), err,
                                  "port must be a whole number from 0 to 65535");
    *ret = (json_int_t)number;
    return 0;
}

/* Without blanks around it; free it. */
static int read_host(struct config_file *f, const json_t *config, char **ret, const json_t *lines,
                     struct err *err)
{
    const char *host = json_string_value(json_object_get(config, "host"));
    size_t len;

    host = host ? host + strspn(host, " \t") : "";
    for (len = strlen(host); len > 0 && strchr(" \t", host[len - 1]); len--)
        ;
    if (len == 0)
        return config_file_refuse(f, yaml_lines_of(lines, "host"), err, "host must be an address");
    *ret = xstrndup(host, len);
    return 0;
}

/* Adds a listener beside the first; takes the host. */
static int add_listener(struct config_file *f, char *host, json_int_t port, const json_t *lines,
                        struct err *err)
{
    struct listener_config *l = &f->config->listeners[f->config->n_listeners];
    auto_free char *own = host;

    if (f->config->n_listeners == LISTENERS_MAX)
        return err_set(err, ERR_INVALID, "%.120s:%d: at most %d listeners, beside the first",
                       f->path, yaml_line(lines), LISTENERS_MAX);
    if (port == 0)
        return config_file_refuse(f, yaml_lines_of(lines, "port"), err, "port must be 1 to 65535");
    l->place = config_file_at(f, lines);
    l->host = own ? steal_ptr(own) : xstrdup(config_preset("CAY_WS_HOST"));
    l->port = (uint32_t)port;
    f->config->n_listeners++;
    return 0;
}

/* Also with a key that has no value: cay has no such rules, and without them every client could
 * connect. */
static bool has_rules(const json_t *config)
{
    return json_object_get(config, "rbac") || json_object_get(config, "middleware_function_id");
}

static void skip_guarded(struct config_file *f, json_int_t port, const json_t *lines)
{
    f->guarded = true;
    config_warn(
        f->config,
        xasprintf("%.120s:%d: port %lld is not opened: rbac and middleware_function_id need "
                  "a genuine iii engine, with cay as its worker (cay worker --engine URL)",
                  f->path, yaml_line(lines), (long long)port));
}

/* The first one is that of the variables, so that these and flags can move it. */
static int read_listener(struct config_file *f, json_t *config, const json_t *lines,
                         struct err *err)
{
    json_int_t port = WS_PORT_DEFAULT;
    auto_free char *host = NULL;

    if (check_listener(f, config, lines, err) < 0 ||
        (is_given(config, "port") && read_port(f, config, &port, lines, err) < 0) ||
        (is_given(config, "host") && read_host(f, config, &host, lines, err) < 0))
        return -1;
    if (has_rules(config)) {
        skip_guarded(f, port, lines);
        return 0;
    }
    if (f->first_given)
        return add_listener(f, steal_ptr(host), port, lines, err);
    f->first_given = true;
    config_file_put(f, "CAY_WS_PORT", xasprintf("%lld", (long long)port),
                    is_given(config, "port") ? yaml_lines_of(lines, "port") : lines, "port");
    if (host)
        config_file_put(f, "CAY_WS_HOST", steal_ptr(host), yaml_lines_of(lines, "host"), "host");
    return 0;
}

/* ---- other entries ---- */

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

/* Returns the name of an entry: the value of the key that names a known module, else of the first
 * key that is there; NULL when none is. */
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

static void read_origin(struct config_file *f, const char *origin, const json_t *lines,
                        struct buf *text)
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

static void read_origins(struct config_file *f, json_t *origins, const json_t *lines)
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
        config_file_put(f, "CAY_CORS_ORIGINS", buf_steal(&text), lines, "cors.allowed_origins");
}

/* unused: the keys that have no meaning here. */
static void read_cors(struct config_file *f, json_t *cors, const json_t *lines, struct buf *unused)
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

static int put_port(struct config_file *f, const char *variable, const json_t *config,
                    const json_t *lines, struct err *err)
{
    json_int_t port;

    if (!is_given(config, "port"))
        return 0;
    if (read_port(f, config, &port, lines, err) < 0)
        return -1;
    config_file_put(f, variable, xasprintf("%lld", (long long)port), yaml_lines_of(lines, "port"),
                    "port");
    return 0;
}

static int put_host(struct config_file *f, const char *variable, const json_t *config,
                    const json_t *lines, struct err *err)
{
    char *host;

    if (!is_given(config, "host"))
        return 0;
    if (read_host(f, config, &host, lines, err) < 0)
        return -1;
    config_file_put(f, variable, host, yaml_lines_of(lines, "host"), "host");
    return 0;
}

/* Settings of the REST API beside its address. */
static void read_rest_key(struct config_file *f, const char *key, json_t *value,
                          const json_t *lines, struct buf *unused)
{
    if (json_is_null(value) || strcmp(key, "port") == 0 || strcmp(key, "host") == 0)
        return;
    if (strcmp(key, "cors") == 0)
        read_cors(f, value, lines, unused);
    else
        add_name(unused, key);
}

static int read_rest(struct config_file *f, const char *name, json_t *config, const json_t *lines,
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
    if (put_port(f, "CAY_REST_PORT", config, lines, err) < 0 ||
        put_host(f, "CAY_REST_HOST", config, lines, err) < 0)
        return -1;
    json_object_foreach(config, key, value)
    {
        read_rest_key(f, key, value, yaml_lines_of(lines, key), &unused);
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

static void tell_state(struct config_file *f, const char *name, const json_t *config,
                       const json_t *lines)
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

/* A misspelt name must not let every image or every client in. */
static int check_unknown(const struct config_file *f, const char *name, json_t *config,
                         const json_t *lines, struct err *err)
{
    const char *key = config_file_image_key(config), *owner = "iii-sandbox";

    if (!key && has_rules(config)) {
        key = "rbac or middleware_function_id";
        owner = "iii-worker-manager";
    }
    if (!key)
        return 0;
    return err_set(err, ERR_INVALID,
                   "%.120s:%d: \"%.60s\" is unknown, but has a setting of %s (%s): is its name "
                   "misspelt?",
                   f->path, yaml_line(lines), name, owner, key);
}

/* When we are the worker of an engine, all but the sandboxes is the engine's. */
static int read_module(struct config_file *f, enum module kind, const char *name, json_t *config,
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
    return check_unknown(f, name, config, lines, err);
}

/* A setting beside config would have no effect. */
static int check_entry_keys(const struct config_file *f, json_t *entry, const json_t *lines,
                            struct err *err)
{
    static const char *const known[] = {"name", "type", "class", "image", "config", NULL};
    const char *key;
    json_t *value;

    json_object_foreach(entry, key, value)
    {
        if (!is_one_of(known, key))
            return err_set(err, ERR_INVALID,
                           "%.120s:%d: \"%.60s\" has no effect here: put it into "
                           "config",
                           f->path, yaml_line(yaml_lines_of(lines, key)), key);
    }
    return 0;
}

static int read_entry(struct config_file *f, json_t *entry, const json_t *lines,
                      struct others *others, struct err *err)
{
    enum module kind;
    const char *name = entry_name(entry, &kind);
    json_t *config = json_object_get(entry, "config");
    const json_t *at = is_given(entry, "config") ? yaml_lines_of(lines, "config") : lines;

    if (!name)
        return config_file_refuse(f, lines, err, "an entry must have a name, a type or a class");
    if (is_given(entry, "config") && !json_is_object(config))
        return config_file_refuse(f, at, err, "config must hold settings");
    if (kind != MODULE_UNKNOWN && kind != MODULE_ENGINE && kind != MODULE_STATE &&
        check_entry_keys(f, entry, lines, err) < 0)
        return -1;
    if (kind != MODULE_SANDBOXES)
        return read_module(f, kind, name, config, at, others, err);
    if (f->sandboxes_given)
        return config_file_refuse(f, lines, err, "iii-sandbox stands here for the second time");
    f->sandboxes_given = true;
    return config_file_sandboxes(f, config, at, err);
}

static void tell_others(struct config_file *f, const struct others *others)
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

static int read_entries(struct config_file *f, const json_t *entries, const json_t *lines,
                        struct err *err)
{
    struct others others = {0};
    json_t *entry;
    int status = 0;
    size_t i;

    if (entries && !json_is_null(entries) && !json_is_array(entries))
        return config_file_refuse(f, lines, err, "workers must be a list");
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
        config_file_put(f, "CAY_WS_PORT", xstrdup("0"), lines, "port");
    return status;
}

/* Older engines have the port of their only listener at the top of the file. An entry for a
 * listener wins. */
static int read_engine_port(struct config_file *f, const json_t *root, const json_t *lines,
                            struct err *err)
{
    if (!f->listens || f->first_given || f->guarded)
        return 0;
    return put_port(f, "CAY_WS_PORT", root, lines, err);
}

/* An engine takes any number: it is clamped to what the variable can have. */
static void put_grace(struct config_file *f, json_int_t ms, const json_t *lines)
{
    ms = ms < 1 ? 1 : ms > III_GRACE_MS_MAX ? III_GRACE_MS_MAX : ms;
    config_file_put(f, "CAY_III_GRACE_MS", xasprintf("%lld", (long long)ms),
                    yaml_lines_of(lines, CONFIG_GRACE), CONFIG_GRACE);
}

int config_file_engine(struct config_file *f, json_t *root, const json_t *lines, struct err *err)
{
    static const char *const known[] = {"workers", "modules", "port", CONFIG_GRACE, NULL};
    json_t *workers = json_object_get(root, "workers"), *modules = json_object_get(root, "modules");
    const char *key, *which = workers ? "workers" : "modules";
    json_t *value;

    json_object_foreach(root, key, value)
    {
        if (!is_one_of(known, key))
            return err_set(err, ERR_INVALID, "%.120s:%d: there is no setting \"%.60s\"", f->path,
                           yaml_line(yaml_lines_of(lines, key)), key);
    }
    if (workers && modules)
        return config_file_refuse(f, yaml_lines_of(lines, "modules"), err,
                                  "modules is another name of workers: give one of the two");
    value = json_object_get(root, CONFIG_GRACE);
    if (value && !json_is_integer(value))
        return config_file_refuse(f, yaml_lines_of(lines, CONFIG_GRACE), err,
                                  CONFIG_GRACE " must be a whole number");
    if (value)
        put_grace(f, json_integer_value(value), lines);
    if (read_entries(f, json_object_get(root, which), yaml_lines_of(lines, which), err) < 0)
        return -1;
    return read_engine_port(f, root, lines, err);
}
