#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/pull.h"
#include "cli/ui.h"

#define PASSWORD_MAX 65536

/* All of stdin but the end of its last line. */
static int read_password(char *ret, size_t size, struct err *err)
{
    size_t len = 0;

    for (;;) {
        ssize_t n = read_some(STDIN_FILENO, ret + len, size - len);

        if (n < 0)
            return err_sys(err, (int)-n, "read the password");
        if (n == 0)
            break;
        len += (size_t)n;
        if (len == size)
            return err_set(err, ERR_INVALID, "the password on stdin is longer than %zu bytes",
                           size - 1);
    }
    if (len > 0 && ret[len - 1] == '\n')
        len--;
    if (len > 0 && ret[len - 1] == '\r')
        len--;
    ret[len] = '\0';
    if (len == 0 || strlen(ret) != len || !utf8_valid(ret, len))
        return err_set(err, ERR_INVALID, "there is no password on stdin, or it is not text");
    return 0;
}

/* {username, password}, or NULL when none was given. */
static int read_auth(const struct args *args, json_t **ret, struct err *err)
{
    auto_free char *password = NULL;
    const char *username = args_text(args, "username");
    int r;

    *ret = NULL;
    if (!username && !args_has(args, "password-stdin"))
        return 0;
    if (!username || !*username)
        return err_set(err, ERR_INVALID, "--password-stdin needs --username too");
    if (!args_has(args, "password-stdin"))
        return err_set(err, ERR_INVALID,
                       "--username needs --password-stdin: other users can read the arguments of a "
                       "process, so a password comes from stdin only");
    password = xmalloc(PASSWORD_MAX + 1);
    r = read_password(password, PASSWORD_MAX + 1, err);
    if (r == 0)
        *ret = json_pack("{s:s, s:s}", "username", username, "password", password);
    explicit_bzero(password, PASSWORD_MAX + 1);
    if (r == 0 && !*ret)
        return err_set(err, ERR_INVALID, "--username is not valid UTF-8 text");
    return r;
}

static int fetch(struct args *args, const char *path, json_t *body, struct pull *pull)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *image = NULL;

    if (api_open(&api, args, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (pull_call(&api, path, body, pull, &image, &err) < 0)
        return pull_fail(&err);
    return ui_made(args, image);
}

int cmd_image_pull(struct args *args)
{
    struct pull pull = {.name = args->words[0], .quiet = args_has(args, "quiet")};
    json_t *body = json_object(), *auth = NULL;
    struct err err = {0};

    if (read_auth(args, &auth, &err) < 0) {
        json_decref(body);
        return ui_usage(args, "%s", err.text);
    }
    json_put_text(body, "reference", args->words[0]);
    json_put_text(body, "name", args_text(args, "name"));
    json_put_text(body, "platform", args_text(args, "platform"));
    if (args_has(args, "insecure"))
        (void)json_object_set_new(body, "insecure", json_true());
    if (auth)
        (void)json_object_set_new(body, "registry_auth", auth);
    return fetch(args, "/images/pull", body, &pull);
}

int cmd_image_import(struct args *args)
{
    struct pull pull = {.name = args->words[0], .silent = true, .quiet = args_has(args, "quiet")};
    json_t *body = json_object();
    struct err err = {0};
    char path[PATH_MAX];

    /* The daemon reads it, and its working directory is another one. */
    if (!realpath(args->words[0], path)) {
        json_decref(body);
        (void)err_set(&err, ERR_INVALID, "%s cannot be read: %m", args->words[0]);
        return ui_fail(&err);
    }
    json_put_text(body, "path", path);
    if (args->n_words > 1)
        json_put_text(body, "name", args->words[1]);
    return fetch(args, "/images/import", body, &pull);
}
