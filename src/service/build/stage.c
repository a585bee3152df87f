#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/images.h"
#include "service/build/build_internal.h"

static void free_settings(struct stage *s)
{
    strv_free(s->env);
    free(s->workdir);
    free(s->user);
    free(s->stop_signal);
    strv_free(s->entrypoint);
    strv_free(s->cmd);
    strv_free(s->shell);
    json_decref(s->labels);
    json_decref(s->ports);
}

void stage_done(struct engine *e, struct stage *s)
{
    if (s->image_id)
        engine_image_let_go(e, s->image_id);
    free_settings(s);
    free(s->image_id);
    free(s->name);
    free(s->shown);
    json_decref(s->args);
    json_decref(s->dirs);
}

static char **strings(const json_t *array)
{
    char **list = xcalloc(1, sizeof(*list));

    for (size_t i = 0; i < json_array_size(array); i++)
        list = strv_add(list, json_string_value(json_array_get(array, i)));
    return list;
}

static char *text(const json_t *image, const char *key)
{
    const char *s = json_string_value(json_object_get(image, key));

    return xstrdup(s ? s : "");
}

static char **default_shell(void)
{
    return strv_add(strv_add(NULL, "/bin/sh"), "-c");
}

void stage_begin(struct stage *s, const json_t *image)
{
    const json_t *ports = json_object_get(image, "ports");
    json_t *labels = json_object_get(image, "labels");

    s->env = strings(json_object_get(image, "env"));
    s->workdir = text(image, "workdir");
    s->user = text(image, "user");
    s->stop_signal = text(image, "stopSignal");
    s->entrypoint = strings(json_object_get(image, "entrypoint"));
    s->cmd = strings(json_object_get(image, "cmd"));
    s->shell = default_shell();
    s->labels = labels ? json_deep_copy(labels) : json_object();
    s->ports = json_object();
    for (size_t i = 0; i < json_array_size(ports); i++)
        (void)json_object_set_new(s->ports, json_string_value(json_array_get(ports, i)),
                                  json_object());
    s->args = json_object();
    s->dirs = json_array();
}

void stage_copy(struct engine *e, struct stage *s, const struct stage *from)
{
    s->image_id = from->image_id ? xstrdup(from->image_id) : NULL;
    if (s->image_id)
        engine_image_hold(e, s->image_id);
    s->shown = xstrdup(from->shown);
    s->env = strv_copy(from->env);
    s->workdir = xstrdup(from->workdir);
    s->user = xstrdup(from->user);
    s->stop_signal = xstrdup(from->stop_signal);
    s->entrypoint = strv_copy(from->entrypoint);
    s->cmd = strv_copy(from->cmd);
    s->shell = strv_copy(from->shell);
    s->labels = json_deep_copy(from->labels);
    s->ports = json_deep_copy(from->ports);
    s->args = json_object();
    s->dirs = json_deep_copy(from->dirs);
    s->changed = from->changed;
}

static size_t texts_bytes(const json_t *o)
{
    const char *key;
    json_t *value;
    size_t n = 0;

    json_object_foreach((json_t *)(uintptr_t)o, key, value)
    {
        n += strlen(key) + json_string_length(value);
    }
    return n;
}

size_t stage_bytes(const struct stage *s)
{
    size_t n = texts_bytes(s->labels) + texts_bytes(s->ports);

    for (char **v = s->env; *v; v++)
        n += strlen(*v);
    for (size_t i = 0; i < json_array_size(s->dirs); i++)
        n += json_string_length(json_array_get(s->dirs, i));
    return n;
}

void stage_move(struct engine *e, struct stage *s, char *image_id)
{
    if (s->image_id)
        engine_image_let_go(e, s->image_id);
    free(s->image_id);
    s->image_id = image_id;
}

/* ---- variables ---- */

static char **find_env(const struct stage *s, const char *name)
{
    size_t len = strlen(name);

    for (char **v = s->env; *v; v++)
        if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
            return v;
    return NULL;
}

const char *stage_value(const struct stage *s, const char *name)
{
    char **env = find_env(s, name);

    if (env)
        return *env + strlen(name) + 1;
    return json_string_value(json_object_get(s->args, name));
}

void stage_set_env(struct stage *s, const char *name, const char *value)
{
    char **there = find_env(s, name);
    auto_free char *pair = xasprintf("%s=%s", name, value);

    if (there) {
        free(*there);
        *there = steal_ptr(pair);
    } else {
        s->env = strv_add(s->env, pair);
    }
}

json_t *stage_environment(const struct stage *s)
{
    json_t *o = json_object(), *value;
    const char *name;

    json_object_foreach(s->args, name, value)
    {
        if (json_is_string(value))
            (void)json_object_set(o, name, value);
    }
    for (char **v = s->env; *v; v++) {
        auto_free char *key = xstrndup(*v, strcspn(*v, "="));

        if ((*v)[strlen(key)])
            (void)json_object_set_new(o, key, json_string(*v + strlen(key) + 1));
    }
    return o;
}

/* ---- paths ---- */

char *stage_path(const struct stage *s, const char *path)
{
    if (path[0] == '/')
        return xstrdup(path);
    return xasprintf("%s/%s", strcmp(s->workdir, "/") == 0 ? "" : s->workdir, path);
}

/* ---- settings ---- */

static json_t *list(char *const *v)
{
    json_t *a = json_array();

    for (; v && *v; v++)
        (void)json_array_append_new(a, json_string(*v));
    return a;
}

json_t *stage_config(const struct stage *s)
{
    return json_pack("{s:o, s:s, s:s, s:s, s:o, s:o, s:O, s:O}", "env", list(s->env), "workdir",
                     s->workdir, "user", s->user, "stop_signal", s->stop_signal, "entrypoint",
                     list(s->entrypoint), "cmd", list(s->cmd), "labels", s->labels, "ports",
                     s->ports);
}
