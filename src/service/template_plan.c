#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "service/build/build.h"
#include "service/templates.h"

/* A template as steps of a build: its image, what commands find (environment, folder, files), then
 * the commands, then who the sandbox's own commands run as. */

#define TEXT_MAX 4096 /* of a step, as people see it; what is longer is cut */

static const char *text_of(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

bool template_needs_build(const json_t *config)
{
    const char *user = text_of(config, "user");

    return json_array_size(json_object_get(config, "files")) > 0 ||
           json_array_size(json_object_get(config, "setup")) > 0 || (user && *user);
}

static char **strings_of(const json_t *array)
{
    char **list = xcalloc(1, sizeof(*list));

    for (size_t i = 0; i < json_array_size(array); i++)
        list = strv_add(list, json_string_value(json_array_get(array, i)));
    return list;
}

/* What people see of a program with its arguments. */
static char *joined(const json_t *command)
{
    char *text = NULL;

    if (json_is_string(command))
        return xstrdup(json_string_value(command));
    for (size_t i = 0; i < json_array_size(command); i++) {
        char *more = xasprintf("%s%s%s", text ? text : "", text ? " " : "",
                               json_string_value(json_array_get(command, i)));

        free(text);
        text = more;
    }
    return text;
}

static int add(struct build_plan *p, enum build_op op, const char *text, char *const *words,
               struct build_step **ret, struct err *err)
{
    struct build_step *step;

    if (build_plan_add(p, op, text, words, &step, err) < 0)
        return -1;
    if (ret)
        *ret = step;
    return 0;
}

static int add_one(struct build_plan *p, enum build_op op, const char *name, const char *word,
                   struct err *err)
{
    auto_free char *text = xasprintf("%s %s", name, word);

    return add(p, op, text, (char *[]){(char *)(uintptr_t)word, NULL}, NULL, err);
}

static int add_env(struct build_plan *p, json_t *env, struct err *err)
{
    auto_strv char **words = NULL;
    auto_buf struct buf text = {0};
    const char *name;
    json_t *value;

    buf_init(&text, TEXT_MAX);
    (void)buf_add_str(&text, "ENV");
    json_object_foreach(env, name, value)
    {
        words = strv_add(strv_add(words, name), json_string_value(value));
        (void)buf_addf(&text, " %s", name); /* what it is may be nobody's business */
    }
    return words ? add(p, BUILD_ENV, text.data, words, NULL, err) : 0;
}

static int check_mode(const char *path, const char *mode, struct err *err)
{
    if (mode && (!*mode || strlen(mode) > 4 || strspn(mode, "01234567") != strlen(mode)))
        return err_set(err, ERR_INVALID, "mode of %.80s must be octal digits, as 0755", path);
    return 0;
}

static int add_file(struct build_plan *p, const json_t *file, const char *folder, bool has_context,
                    struct err *err)
{
    const char *path = text_of(file, "path"), *content = text_of(file, "content");
    const char *source = text_of(file, "source"), *mode = text_of(file, "mode");
    auto_free char *to = *path == '/' ? xstrdup(path) : xasprintf("%s/%s", folder, path);
    auto_free char *text = NULL;
    struct build_step *step;
    int r;

    if (check_mode(path, mode, err) < 0)
        return -1;
    if (source && content)
        return err_set(err, ERR_INVALID, "%.80s: send content or source, not both", path);
    if (source && !has_context)
        return err_set(err, ERR_INVALID,
                       "%.80s: source names a file beside cay.json, for `cay template build "
                       "DIRECTORY`; here send its content",
                       path);
    text = source ? xasprintf("COPY %s %s", source, to) : xasprintf("WRITE %s", to);
    if (source)
        r = add(p, BUILD_COPY, text, (char *[]){(char *)(uintptr_t)source, to, NULL}, &step, err);
    else
        r = add(p, BUILD_WRITE, text,
                (char *[]){to, (char *)(uintptr_t)(content ? content : ""), NULL}, &step, err);
    if (r == 0 && mode)
        step->chmod = xstrdup(mode);
    return r;
}

static int add_command(struct build_plan *p, const json_t *command, struct err *err)
{
    auto_free char *line = joined(command), *text = xasprintf("RUN %s", line);
    auto_strv char **words = json_is_string(command) ? strv_add(NULL, line) : strings_of(command);
    struct build_step *step;

    if (add(p, BUILD_RUN, text, words, &step, err) < 0)
        return -1;
    step->shell = json_is_string(command);
    return 0;
}

static int add_all(struct build_plan *p, const json_t *config, const char *folder, bool has_context,
                   struct err *err)
{
    const char *workdir = text_of(config, "workdir"), *user = text_of(config, "user");
    const json_t *files = json_object_get(config, "files");
    const json_t *setup = json_object_get(config, "setup");

    if (add_one(p, BUILD_FROM, "FROM", text_of(config, "image"), err) < 0 ||
        add_env(p, json_object_get(config, "env"), err) < 0)
        return -1;
    if (workdir && *workdir && *workdir != '/')
        return err_set(err, ERR_INVALID, "workdir must be an absolute path");
    if (!workdir || !*workdir)
        workdir = folder;
    if (add_one(p, BUILD_WORKDIR, "WORKDIR", workdir, err) < 0)
        return -1;
    for (size_t i = 0; i < json_array_size(files); i++)
        if (add_file(p, json_array_get(files, i), workdir, has_context, err) < 0)
            return -1;
    for (size_t i = 0; i < json_array_size(setup); i++)
        if (add_command(p, json_array_get(setup, i), err) < 0)
            return -1;
    return user && *user ? add_one(p, BUILD_USER, "USER", user, err) : 0;
}

int template_plan(const json_t *config, const char *folder, bool has_context,
                  struct build_plan **ret, struct err *err)
{
    auto_build_plan struct build_plan *p = build_plan_new(NULL);

    if (add_all(p, config, folder, has_context, err) < 0)
        return -1;
    *ret = steal_ptr(p);
    return 0;
}
