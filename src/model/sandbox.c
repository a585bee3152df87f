#include "model/sandbox.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/id.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/mount.h"
#include "model/port.h"

#define TO(s) (1u << SANDBOX_##s)

const char *const sandbox_state_words[SANDBOX_STATES + 1] = {
    [SANDBOX_PREPARED] = "prepared", [SANDBOX_CREATING] = "creating",
    [SANDBOX_RUNNING] = "running",   [SANDBOX_PAUSED] = "paused",
    [SANDBOX_STOPPED] = "stopped",   [SANDBOX_REMOVING] = "removing",
};

const char *const sandbox_status_words[] = {
    "creating", "running", "paused", "stopped", SANDBOX_STATUS_EXPIRED, NULL};

const char *const sandbox_timeout_words[] = {"remove", "stop", NULL};

/* The whole lifecycle: what may follow. */
static const unsigned next_states[SANDBOX_STATES] = {
    [SANDBOX_PREPARED] = TO(CREATING) | TO(REMOVING),
    [SANDBOX_CREATING] = TO(RUNNING) | TO(REMOVING),
    [SANDBOX_RUNNING] = TO(PAUSED) | TO(STOPPED) | TO(REMOVING),
    [SANDBOX_PAUSED] = TO(RUNNING) | TO(STOPPED) | TO(REMOVING),
    [SANDBOX_STOPPED] = TO(RUNNING) | TO(REMOVING),
    [SANDBOX_REMOVING] = 0,
};

const char *sandbox_state_name(enum sandbox_state state)
{
    return sandbox_state_words[state];
}

int sandbox_state_parse(const char *name, enum sandbox_state *ret)
{
    for (int i = 0; i < SANDBOX_STATES; i++) {
        if (strcmp(sandbox_state_words[i], name) == 0) {
            *ret = (enum sandbox_state)i;
            return 0;
        }
    }
    return -EINVAL;
}

int sandbox_check_move(enum sandbox_state from, enum sandbox_state to, struct err *err)
{
    if (next_states[from] & (1u << to))
        return 0;
    return err_set(err, ERR_CONFLICT, "a %s sandbox cannot become %s", sandbox_state_words[from],
                   sandbox_state_words[to]);
}

bool sandbox_name_is_like_id(const char *name)
{
    return str_starts(name, SANDBOX_ID_START);
}

bool sandbox_selector_parse(const char *text, struct sandbox_selector *ret)
{
    for (const char *at = strchr(text, '@'); at; at = strchr(at + 1, '@')) {
        size_t key_len = strcspn(at + 1, "@=");

        if (at == text || key_len == 0 || at[1 + key_len] != '=')
            continue;
        ret->name = xstrndup(text, (size_t)(at - text));
        ret->key = xstrndup(at + 1, key_len);
        ret->value = at + 1 + key_len + 1;
        return true;
    }
    return false;
}

void sandbox_selector_done(struct sandbox_selector *s)
{
    free(s->name);
    free(s->key);
}

int64_t sandbox_expiry(int64_t now_ms, uint32_t timeout_s)
{
    return timeout_s ? now_ms + timeout_s * 1000LL : EXPIRES_NEVER;
}

bool sandbox_network_same(const json_t *a, const json_t *b)
{
    return a == b || (a && b && json_equal(a, b));
}

void sandbox_spec_done(struct sandbox_spec *spec)
{
    free(spec->image);
    free(spec->name);
    free(spec->workdir);
    json_decref(spec->env);
    json_decref(spec->metadata);
    strv_free(spec->entrypoint);
    free(spec->template);
    free(spec->template_build);
    json_decref(spec->mounts);
    json_decref(spec->ports);
    json_decref(spec->network);
    json_decref(spec->networks);
    *spec = (struct sandbox_spec){0};
}

static void set_int(json_t *o, const char *key, uint32_t value)
{
    (void)json_object_set_new(o, key, json_integer(value));
}

static void set_map(json_t *o, const char *key, json_t *map)
{
    if (map && json_object_size(map) > 0)
        (void)json_object_set_new(o, key, json_deep_copy(map));
}

static void set_text(json_t *o, const char *key, const char *text)
{
    if (text)
        (void)json_object_set_new(o, key, json_string(text));
}

json_t *sandbox_spec_json(const struct sandbox_spec *spec)
{
    json_t *o = json_object();

    (void)json_object_set_new(o, "image", json_string(spec->image));
    set_text(o, "name", spec->name);
    set_int(o, "timeout", spec->timeout_s);
    if (spec->idle_s)
        set_int(o, "idleTimeout", spec->idle_s);
    if (spec->idle_removes)
        (void)json_object_set_new(o, "idleRemoves", json_true());
    if (spec->expiry_stops)
        set_text(o, "onTimeout", sandbox_timeout_words[true]);
    set_int(o, "memory", spec->limits.memory_mb);
    (void)json_object_set_new(o, "cpu", json_real(spec->limits.cpu_millis / 1000.0));
    set_int(o, "disk", spec->limits.disk_mb);
    set_int(o, "pids", spec->limits.pids);
    if (spec->network)
        (void)json_object_set_new(o, "network", json_deep_copy(spec->network));
    if (json_array_size(spec->networks) > 0)
        (void)json_object_set_new(o, "networks", json_deep_copy(spec->networks));
    set_map(o, "env", spec->env);
    (void)json_object_set_new(o, "workdir", json_string(spec->workdir));
    set_map(o, "metadata", spec->metadata);
    if (spec->entrypoint)
        (void)json_object_set_new(o, "entrypoint", json_of_strings(spec->entrypoint));
    set_text(o, "template", spec->template);
    set_text(o, "templateBuild", spec->template_build);
    if (json_array_size(spec->mounts) > 0)
        (void)json_object_set_new(o, "mounts", json_deep_copy(spec->mounts));
    if (json_array_size(spec->ports) > 0)
        (void)json_object_set_new(o, "ports", json_deep_copy(spec->ports));
    return o;
}

static int load_string(const json_t *config, const char *key, char **ret, struct err *err)
{
    const char *s = json_string_value(json_object_get(config, key));

    if (!s)
        return err_set(err, ERR_INTERNAL, "the stored configuration has no %s", key);
    *ret = xstrdup(s);
    return 0;
}

/* NULL when there is none. */
static char *load_text(const json_t *config, const char *key)
{
    const char *s = json_string_value(json_object_get(config, key));

    return s ? xstrdup(s) : NULL;
}

static int load_u32(const json_t *config, const char *key, uint32_t *ret, struct err *err)
{
    const json_t *v = json_object_get(config, key);
    json_int_t n = json_integer_value(v);

    if (!json_is_integer(v) || n < 0 || n > UINT32_MAX)
        return err_set(err, ERR_INTERNAL, "the stored configuration has no usable %s", key);
    *ret = (uint32_t)n;
    return 0;
}

static int load_map(const json_t *config, const char *key, json_t **ret, struct err *err)
{
    json_t *map = json_object_get(config, key);
    const char *name;
    json_t *value;

    if (!map) {
        *ret = json_object();
        return 0;
    }
    if (!json_is_object(map))
        return err_set(err, ERR_INTERNAL, "%s of the stored configuration is no object", key);
    json_object_foreach(map, name, value)
    {
        if (!json_is_string(value))
            return err_set(err, ERR_INTERNAL,
                           "%s of the stored configuration holds a value that "
                           "is no string",
                           key);
    }
    *ret = json_deep_copy(map);
    return 0;
}

static int load_list(const json_t *config, const char *key, char ***ret, struct err *err)
{
    const json_t *list = json_object_get(config, key);
    auto_strv char **v = NULL;
    size_t i;
    json_t *item;

    if (!list)
        return 0;
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item))
            return err_set(err, ERR_INTERNAL,
                           "%s of the stored configuration holds an item that "
                           "is no string",
                           key);
        v = strv_add(v, json_string_value(item));
    }
    *ret = steal_ptr(v);
    return 0;
}

static int load_mounts(const json_t *config, json_t **ret, struct err *err)
{
    json_t *mounts = json_object_get(config, "mounts");
    struct mount_spec m;

    for (size_t i = 0; i < json_array_size(mounts); i++)
        if (mount_spec_load(json_array_get(mounts, i), &m, err) < 0)
            return -1;
    *ret = mounts ? json_deep_copy(mounts) : NULL;
    return 0;
}

static int load_ports(const json_t *config, json_t **ret, struct err *err)
{
    json_t *ports = json_object_get(config, "ports");
    struct port_spec p;

    for (size_t i = 0; i < json_array_size(ports); i++)
        if (port_spec_load(json_array_get(ports, i), &p, err) < 0)
            return -1;
    *ret = ports ? json_deep_copy(ports) : NULL;
    return 0;
}

/* false is what rows of before have for none. */
static json_t *load_network(json_t *network)
{
    return json_is_true(network) || json_is_object(network) ? json_deep_copy(network) : NULL;
}

/* What is no id is left out: nobody could disconnect it. */
static json_t *load_networks(const json_t *networks)
{
    json_t *ids = json_array(), *id;
    size_t i;

    json_array_foreach((json_t *)networks, i, id)
    {
        if (json_is_string(id) && id_valid(json_string_value(id), "net"))
            (void)json_array_append(ids, id);
    }
    if (json_array_size(ids) > 0)
        return ids;
    json_decref(ids);
    return NULL;
}

static int load(const json_t *config, struct sandbox_spec *ret, struct err *err)
{
    const json_t *cpu = json_object_get(config, "cpu");

    if (load_string(config, "image", &ret->image, err) < 0 ||
        load_string(config, "workdir", &ret->workdir, err) < 0 ||
        load_u32(config, "timeout", &ret->timeout_s, err) < 0 ||
        (json_object_get(config, "idleTimeout") &&
         load_u32(config, "idleTimeout", &ret->idle_s, err) < 0) ||
        load_u32(config, "memory", &ret->limits.memory_mb, err) < 0 ||
        load_u32(config, "disk", &ret->limits.disk_mb, err) < 0 ||
        load_u32(config, "pids", &ret->limits.pids, err) < 0 ||
        load_map(config, "env", &ret->env, err) < 0 ||
        load_map(config, "metadata", &ret->metadata, err) < 0 ||
        load_list(config, "entrypoint", &ret->entrypoint, err) < 0 ||
        load_mounts(config, &ret->mounts, err) < 0 || load_ports(config, &ret->ports, err) < 0)
        return -1;
    if (!json_is_number(cpu) || json_number_value(cpu) < 0 || json_number_value(cpu) > 1024)
        return err_set(err, ERR_INTERNAL, "the stored configuration has no usable cpu");
    ret->limits.cpu_millis = (uint32_t)(json_number_value(cpu) * 1000 + 0.5);
    ret->idle_removes = json_is_true(json_object_get(config, "idleRemoves"));
    ret->expiry_stops = strcmp(json_text(config, "onTimeout"), sandbox_timeout_words[true]) == 0;
    ret->network = load_network(json_object_get(config, "network"));
    ret->networks = load_networks(json_object_get(config, "networks"));
    ret->name = load_text(config, "name");
    ret->template = load_text(config, "template");
    ret->template_build = load_text(config, "templateBuild");
    return 0;
}

int sandbox_spec_load(const json_t *config, struct sandbox_spec *ret, struct err *err)
{
    struct sandbox_spec spec = {0};

    if (load(config, &spec, err) < 0) {
        sandbox_spec_done(&spec);
        return -1;
    }
    *ret = spec;
    return 0;
}
