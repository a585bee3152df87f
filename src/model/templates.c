#include "model/templates.h"

#include <stdbool.h>

#include "base/mem.h"

/* As public clients know them: tests of theirs look for these by id and name. */
static const struct {
    const char *name, *description, *image;
    int memory_mb, timeout_s;
    bool network;
    const char *env, *value; /* one variable, or NULL */
} builtin[] = {
    {"python-data-science", "Python 3.12 with room for data", "python:3.12-slim", 1024, 7200, false,
     "PYTHONUNBUFFERED", "1"},
    {"node-web", "Node.js 20 for web applications", "node:20-slim", 512, 3600, true, NULL, NULL},
    {"go-api", "Go 1.22 for services", "golang:1.22-alpine", 512, 3600, true, NULL, NULL},
    {"rust-cli", "Rust 1.77 for programs", "rust:1.77-slim", 1024, 7200, false, NULL, NULL},
};

json_t *templates_builtin(void)
{
    json_t *all = json_array();

    for (size_t i = 0; i < ARRAY_LEN(builtin); i++) {
        json_t *config = json_pack("{s:s, s:i, s:i}", "image", builtin[i].image, "memory",
                                   builtin[i].memory_mb, "timeout", builtin[i].timeout_s);

        if (builtin[i].network)
            (void)json_object_set_new(config, "network", json_true());
        if (builtin[i].env)
            (void)json_object_set_new(config, "env",
                                      json_pack("{s:s}", builtin[i].env, builtin[i].value));
        (void)json_array_append_new(
            all, json_pack("{s:o, s:s, s:s, s:o, s:b, s:i}", "id",
                           json_sprintf("%s%s", TEMPLATE_ID_START, builtin[i].name), "name",
                           builtin[i].name, "description", builtin[i].description, "config", config,
                           "builtin", 1, "createdAt", 0));
    }
    return all;
}
