#include "engine/env.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/env_internal.h"
#include "engine/files_internal.h"
#include "engine/json_text_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/turn_internal.h"
#include "engine/writer_internal.h"
#include "model/env.h"
#include "model/limits.h"

#define ENV_VARS_MAX  1024
#define ENV_BYTES_MAX (128u << 10)
#define ENV_FILE      "/etc/environment"
#define ENV_FILE_MAX  (1u << 20)
#define DEFAULT_PATH  "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static int check_key(const char *key, struct err *err)
{
    if (env_key_valid(key))
        return 0;
    return err_set(
        err, ERR_INVALID,
        "the name of a variable must be 1 to %d of the characters A-Z a-z 0-9 _ and must "
        "not start with a digit",
        ENV_KEY_MAX);
}

int env_check(const json_t *vars, struct err *err)
{
    const char *key;
    json_t *value;
    size_t bytes = 0;

    json_object_foreach((json_t *)(uintptr_t)vars, key, value)
    {
        const char *text = json_string_value(value);

        if (check_key(key, err) < 0)
            return err_wrap(err, "environment variable %.80s", key);
        if (!text || strlen(text) != json_string_length(value))
            return err_set(err, ERR_INVALID, "the value of %s must be a string without NUL", key);
        bytes += strlen(key) + strlen(text) + 2;
    }
    if (json_object_size(vars) > ENV_VARS_MAX || bytes > ENV_BYTES_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "the environment is too large: at most %d variables and %u KiB",
                       ENV_VARS_MAX, ENV_BYTES_MAX >> 10);
    return 0;
}

bool user_is_root(const char *user)
{
    size_t len = strcspn(user, ":");

    return len == 0 || (len == 4 && strncmp(user, "root", 4) == 0) || (len == 1 && *user == '0');
}

static void set_default(json_t *env, const char *key, const char *value)
{
    if (!json_object_get(env, key))
        (void)json_object_set_new(env, key, json_cstr(value));
}

/* What the image and the box give, before anyone's wishes. */
static json_t *env_base(const struct sandbox *sb, const char *user, bool tty)
{
    json_t *env = json_object();
    char hostname[ID_SIZE];

    for (char **var = sb->image_env; var && *var; var++) {
        const char *eq = strchr(*var, '=');
        auto_free char *key = eq ? xstrndup(*var, (size_t)(eq - *var)) : NULL;

        if (key)
            (void)json_object_set_new(env, key, json_cstr(eq + 1));
    }
    set_default(env, "PATH", DEFAULT_PATH);
    /* Where others are at home the agent finds in the box. */
    if (user_is_root(user ? user : sb->image_user))
        set_default(env, "HOME", "/root");
    id_hostname(sb->box.id, hostname);
    (void)json_object_set_new(env, "HOSTNAME", json_cstr(hostname));
    if (tty)
        set_default(env, "TERM", "xterm-256color");
    return env;
}

json_t *env_build(struct sandbox *sb, const char *user, bool tty, const json_t *more)
{
    json_t *env = env_base(sb, user, tty), *own;

    pthread_mutex_lock(&sb->lock);
    own = json_deep_copy(sb->spec.env); /* its strings are counted by who has the lock */
    pthread_mutex_unlock(&sb->lock);
    (void)json_object_update(env, own);
    json_decref(own);
    if (more)
        (void)json_object_update(env, (json_t *)(uintptr_t)more);
    return env;
}

int engine_env_get(struct engine *e, const char *id, const char *key, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    json_t *env, *value, *o;

    if (check_key(key, err) < 0 || sandbox_get_running(e, id, &sb, err) < 0)
        return -1;
    env = env_build(sb, NULL, false, NULL);
    value = json_object_get(env, key);
    o = json_object();
    (void)json_object_set_new(o, "key", json_string(key));
    (void)json_object_set_new(o, "exists", json_boolean(value != NULL));
    (void)json_object_set_new(o, "value", value ? json_incref(value) : json_null());
    json_decref(env);
    *ret = o;
    return 0;
}

int engine_env_list(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    json_t *env, *o;

    if (sandbox_get_running(e, id, &sb, err) < 0)
        return -1;
    env = env_build(sb, NULL, false, NULL);
    o = json_object();
    (void)json_object_set_new(o, "count", json_integer((json_int_t)json_object_size(env)));
    (void)json_object_set_new(o, "vars", env);
    *ret = o;
    return 0;
}

/* ---- changes ---- */

/* Is line (up to its newline) "key=…" for a key of vars? */
static bool line_sets(const char *line, size_t len, const json_t *vars)
{
    const char *eq = memchr(line, '=', len);
    auto_free char *key = eq ? xstrndup(line, (size_t)(eq - line)) : NULL;

    return key && json_object_get(vars, key);
}

/* The file without the lines of changed keys, and with a line for each that has a value now. A
 * value with a line break has no form there and is left out; commands get it all the same. */
static void rewrite(struct buf *out, const struct buf *old, const json_t *changed)
{
    const char *p = old->data ? old->data : "", *end = p + old->len, *key;
    json_t *value;

    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t len = nl ? (size_t)(nl - p) : (size_t)(end - p);

        if (!line_sets(p, len, changed)) {
            (void)buf_add(out, p, len);
            (void)buf_add_str(out, "\n");
        }
        p += len + 1;
    }
    json_object_foreach((json_t *)(uintptr_t)changed, key, value)
    {
        const char *text = json_string_value(value);

        if (text && !strpbrk(text, "\r\n"))
            (void)buf_addf(out, "%s=%s\n", key, text);
    }
}

static int mirror(struct engine *e, struct sandbox *sb, const json_t *changed, struct err *err)
{
    auto_buf struct buf old = {0}, new = {0};
    struct err why = {0};

    buf_init(&old, ENV_FILE_MAX);
    buf_init(&new, ENV_FILE_MAX + 2 * ENV_BYTES_MAX);
    if (file_read(e, sb, ENV_FILE, &old, &why) < 0 && why.kind != ERR_NOT_FOUND) {
        if (err)
            *err = why;
        return -1;
    }
    rewrite(&new, &old, changed);
    return file_write(e, sb, ENV_FILE, new.data, new.len, err);
}

/* changed: key → its value, or null to delete it. */
static int change_env(struct engine *e, struct sandbox *sb, const json_t *changed, struct err *err)
{
    const char *key;
    json_t *value, *env;

    pthread_mutex_lock(&sb->lock);
    env = json_copy(sb->spec.env);
    pthread_mutex_unlock(&sb->lock);
    json_object_foreach((json_t *)(uintptr_t)changed, key, value)
    {
        if (json_is_null(value))
            (void)json_object_del(env, key);
        else
            (void)json_object_set(env, key, value);
    }
    if (env_check(env, err) < 0 || mirror(e, sb, changed, err) < 0) {
        json_decref(env);
        return -1;
    }
    pthread_mutex_lock(&sb->lock);
    json_decref(sb->spec.env);
    sb->spec.env = env;
    pthread_mutex_unlock(&sb->lock);
    return writer_wait(e, writer_put(e, sb), err);
}

static int change_in_turn(struct engine *e, struct sandbox *sb, const json_t *changed,
                          struct err *err)
{
    int r;

    if (turn_take(e, &sb->env_turn, err) < 0)
        return -1;
    r = change_env(e, sb, changed, err);
    turn_give(&sb->env_turn);
    return r;
}

/* With its lock held: what makes env of what there is. */
static json_t *difference(const json_t *before, const json_t *env)
{
    json_t *changed = json_object(), *value;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)before, key, value)
    {
        if (!json_object_get(env, key))
            (void)json_object_set_new(changed, key, json_null());
    }
    json_object_foreach((json_t *)(uintptr_t)env, key, value)
    {
        if (!json_equal(json_object_get(before, key), value))
            (void)json_object_set_new(changed, key, json_deep_copy(value));
    }
    return changed;
}

int env_replace(struct engine *e, struct sandbox *sb, const json_t *env, struct err *err)
{
    json_t *changed;
    int r = 0;

    if (turn_take(e, &sb->env_turn, err) < 0)
        return -1;
    pthread_mutex_lock(&sb->lock);
    changed = difference(sb->spec.env, env);
    pthread_mutex_unlock(&sb->lock);
    if (json_object_size(changed) > 0)
        r = change_env(e, sb, changed, err);
    json_decref(changed);
    turn_give(&sb->env_turn);
    return r;
}

int engine_env_set(struct engine *e, const char *id, const json_t *vars, json_t **ret,
                   struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    const char *key;
    json_t *value, *keys, *copy;
    int r;

    if (json_object_size(vars) == 0)
        return err_set(err, ERR_INVALID, "vars is required: an object of at least one variable");
    if (env_check(vars, err) < 0 || sandbox_get_running(e, id, &sb, err) < 0)
        return -1;
    /* Of its own: the sandbox keeps the values, the caller its object. */
    copy = json_deep_copy(vars);
    r = change_in_turn(e, sb, copy, err);
    json_decref(copy);
    if (r < 0)
        return -1;
    keys = json_array();
    json_object_foreach((json_t *)(uintptr_t)vars, key, value)
    {
        (void)json_array_append_new(keys, json_string(key));
    }
    *ret = json_object();
    (void)json_object_set_new(*ret, "count", json_integer((json_int_t)json_array_size(keys)));
    (void)json_object_set_new(*ret, "set", keys);
    return 0;
}

int engine_env_delete(struct engine *e, const char *id, const char *key, json_t **ret,
                      struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    json_t *base, *changed;
    bool fixed;
    int r;

    if (check_key(key, err) < 0 || sandbox_get_running(e, id, &sb, err) < 0)
        return -1;
    base = env_base(sb, NULL, false);
    fixed = json_object_get(base, key) != NULL;
    json_decref(base);
    if (fixed)
        return err_set(err, ERR_INVALID,
                       "%s comes with the image and cannot be deleted; set it to "
                       "another value instead",
                       key);
    changed = json_object();
    (void)json_object_set_new(changed, key, json_null());
    r = change_in_turn(e, sb, changed, err);
    json_decref(changed);
    if (r < 0)
        return -1;
    *ret = json_object();
    (void)json_object_set_new(*ret, "deleted", json_string(key));
    return 0;
}
