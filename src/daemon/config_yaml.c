#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/config.h"
#include "daemon/config_file.h"
#include "daemon/config_internal.h"
#include "daemon/yaml_json.h"

/* Reads the files that iii has for its sandboxes. There are two: that of the engine
 * (config_engine.c), and the flat one that it gives to the worker `iii-sandbox`
 * (config_sandboxes.c). Both become values of variables, which are checked as all others. */

#define PATH_SHOWN 120 /* bytes of a path in messages */

char *config_file_at(const struct config_file *f, const json_t *lines)
{
    return xasprintf("%.120s:%d", f->path, yaml_line(lines));
}

int config_file_refuse(const struct config_file *f, const json_t *lines, struct err *err,
                       const char *why)
{
    return err_set(err, ERR_INVALID, "%.120s:%d: %s", f->path, yaml_line(lines), why);
}

void config_file_put(struct config_file *f, const char *variable, char *text, const json_t *lines,
                     const char *key)
{
    auto_free char *at = config_file_at(f, lines), *where = xasprintf("%s: %s", at, key);

    (void)json_object_set_new(f->values, variable,
                              json_pack("{s:s, s:s}", "text", text, "where", where));
    free(text);
}

static int read_root(struct config_file *f, json_t *root, const json_t *lines, struct err *err)
{
    if (!json_is_object(root))
        return config_file_refuse(f, lines, err,
                                  "must hold settings: workers, or those of iii-sandbox");
    if (json_object_get(root, "workers") || json_object_get(root, "modules") ||
        json_object_get(root, CONFIG_GRACE))
        return config_file_engine(f, root, lines, err);
    if (json_object_get(root, "sandbox"))
        return config_file_refuse(f, yaml_lines_of(lines, "sandbox"), err,
                                  "sandbox: is the old shape: what is in it belongs at the top");
    return config_file_sandboxes(f, root, lines, err);
}

static const char *variable(const char *name, void *arg)
{
    struct daemon_config *c = arg;

    c->file_variables = strv_add(c->file_variables, name);
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
    size_t len = strlen(path);
    /* Of a long path the end, which has the name of the file. */
    struct config_file f = {
        .config = c, .path = len > PATH_SHOWN ? path + len - PATH_SHOWN : path, .listens = listens};
    auto_free char *text = xmalloc(YAML_BYTES_MAX + 2), *expanded = NULL;
    json_t *root = NULL, *lines = NULL;
    ssize_t n = read_file_at(AT_FDCWD, path, text, YAML_BYTES_MAX + 2);
    int status;

    if (n < 0)
        return err_sys(err, (int)-n, "--config %s", path);
    if (strlen(text) != (size_t)n)
        return err_set(err, ERR_INVALID, "%.120s: is no text", path);
    expanded = yaml_expand(text, variable, c, err);
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
