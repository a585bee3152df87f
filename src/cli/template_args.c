#include "cli/template_args.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/args.h"
#include "cli/create.h"
#include "cli/env_args.h"
#include "cli/ui.h"

#define FILE_BYTES_MAX (1u << 20) /* of one file; what a template may have in all is less */

static int read_all(const char *path, struct buf *out, struct err *err)
{
    auto_close int fd =
        strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    char piece[65536];
    ssize_t n = 0;

    if (fd < 0)
        return err_set(err, ERR_INVALID, "%.120s cannot be read: %s", path, strerror(errno));
    while ((n = read_some(fd, piece, sizeof(piece))) > 0)
        if (buf_add(out, piece, (size_t)n) < 0)
            return err_set(err, ERR_INVALID, "%.120s is longer than %u KiB", path,
                           FILE_BYTES_MAX >> 10);
    if (n < 0)
        return err_set(err, ERR_INVALID, "%.120s cannot be read: %s", path, strerror((int)-n));
    return 0;
}

/* ---- from a file ---- */

/* {name, description, config, build}, or the keys of config beside name and description. */
static json_t *wrapped(json_t *o)
{
    static const char *const outer[] = {"name", "description", "build"};
    json_t *body;

    if (json_object_get(o, "config"))
        return o;
    body = json_object();
    for (size_t i = 0; i < ARRAY_LEN(outer); i++) {
        if (json_object_get(o, outer[i]))
            (void)json_object_set(body, outer[i], json_object_get(o, outer[i]));
        (void)json_object_del(o, outer[i]);
    }
    (void)json_object_set_new(body, "config", o);
    return body;
}

static int body_of_file(const char *path, json_t **ret, struct err *err)
{
    auto_buf struct buf text = {0};
    json_error_t where;
    json_t *o;

    buf_init(&text, FILE_BYTES_MAX);
    if (read_all(path, &text, err) < 0)
        return -1;
    o = json_loadb(text.data ? text.data : "", text.len, JSON_REJECT_DUPLICATES, &where);
    if (!json_is_object(o)) {
        json_decref(o);
        return err_set(err, ERR_INVALID, "%.120s: line %d: %.80s", path, where.line,
                       o ? "not an object" : where.text);
    }
    *ret = wrapped(o);
    return 0;
}

/* ---- from flags ---- */

static int add_file(json_t *files, const char *pair, struct err *err)
{
    const char *colon = strrchr(pair, ':');
    auto_free char *here = colon ? xstrndup(pair, (size_t)(colon - pair)) : NULL;
    auto_buf struct buf text = {0};
    json_t *content;

    if (!colon || colon == pair || !colon[1])
        return err_set(err, ERR_INVALID, "--file takes HERE:PATH, not \"%.80s\"", pair);
    buf_init(&text, FILE_BYTES_MAX);
    if (read_all(here, &text, err) < 0)
        return -1;
    content = json_stringn(text.data ? text.data : "", text.len);
    if (!content || strlen(json_string_value(content)) != text.len) {
        json_decref(content);
        return err_set(err, ERR_INVALID,
                       "%.80s is not a text: build the template from a directory to bring it along",
                       here);
    }
    return json_array_append_new(files,
                                 json_pack("{s:s, s:o}", "path", colon + 1, "content", content));
}

static int put_files(const struct args *args, json_t *config, struct err *err)
{
    json_t *files = json_array();

    for (char **f = args_list(args, "file"); f && *f; f++) {
        if (add_file(files, *f, err) < 0) {
            json_decref(files);
            return -1;
        }
    }
    if (json_array_size(files) > 0)
        return json_object_set_new(config, "files", files);
    json_decref(files);
    return 0;
}

static int put_commands(const struct args *args, json_t *config, struct err *err)
{
    json_t *setup = json_array(), *words = NULL;

    for (char **line = args_list(args, "run"); line && *line; line++)
        if (json_array_append_new(setup, json_string(*line)) < 0)
            (void)json_array_clear(setup);
    if (json_array_size(setup) > 0)
        (void)json_object_set_new(config, "setup", setup);
    else
        json_decref(setup);
    if (args_list(args, "run") && !json_object_get(config, "setup"))
        return err_set(err, ERR_INVALID, "--run needs UTF-8 text");
    if (args_text(args, "entrypoint") &&
        command_words(args_text(args, "entrypoint"), "--entrypoint", &words, err) < 0)
        return -1;
    return words ? json_object_set_new(config, "entrypoint", words) : 0;
}

static int put_pairs(const struct args *args, json_t *config, const char *key, const char *flag,
                     struct err *err)
{
    json_t *pairs = NULL;

    if (args_list(args, key) && pairs_to_json(args_list(args, key), flag, &pairs, err) < 0)
        return -1;
    return pairs ? json_object_set_new(config, key, pairs) : 0;
}

static void put_whole(const struct args *args, json_t *config, const char *flag, const char *key)
{
    if (args_has(args, flag))
        (void)json_object_set_new(config, key,
                                  json_integer((json_int_t)(args_number(args, flag, 0) + 0.5)));
}

static int put_config(const struct args *args, json_t *config, struct err *err)
{
    json_put_text(config, "image", args->words[1]);
    json_put_text(config, "workdir", args_text(args, "workdir"));
    json_put_text(config, "user", args_text(args, "user"));
    json_put_text(config, "ready", args_text(args, "ready"));
    put_whole(args, config, "ready-timeout", "readyTimeout");
    put_whole(args, config, "timeout", "timeout");
    put_whole(args, config, "memory", "memory");
    put_whole(args, config, "pids", "pids");
    put_whole(args, config, "disk", "disk");
    if (args_has(args, "cpu"))
        (void)json_object_set_new(config, "cpu", json_real(args_number(args, "cpu", 1)));
    if (put_pairs(args, config, "env", "--env", err) < 0 ||
        put_pairs(args, config, "metadata", "--metadata", err) < 0 ||
        put_files(args, config, err) < 0)
        return -1;
    return put_commands(args, config, err);
}

int template_body(const struct args *args, json_t **ret, struct err *err)
{
    json_t *body = NULL, *config;

    if (args->n_words == 1) {
        if (body_of_file(args->words[0], &body, err) < 0)
            return -1;
    } else {
        config = json_object();
        body = json_pack("{s:o}", "config", config);
        json_put_text(body, "name", args->words[0]);
        if (put_config(args, config, err) < 0) {
            json_decref(body);
            return -1;
        }
    }
    json_put_text(body, "description", args_text(args, "description"));
    if (args_has(args, "no-build"))
        (void)json_object_set_new(body, "build", json_false());
    *ret = body;
    return 0;
}
