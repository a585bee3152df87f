#include "cli/env_args.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/args.h"

#define FILE_MAX (1u << 20)

int pairs_to_json(char *const *pairs, const char *what, json_t **ret, struct err *err)
{
    json_t *object = json_object();

    for (; pairs && *pairs; pairs++) {
        if (!strchr(*pairs, '=')) {
            json_decref(object);
            return err_set(err, ERR_INVALID, "%s needs KEY=VALUE, not \"%.100s\"", what, *pairs);
        }
        if (env_add(object, *pairs, what, err) < 0) {
            json_decref(object);
            return -1;
        }
    }
    *ret = object;
    return 0;
}

int env_add(json_t *object, const char *text, const char *what, struct err *err)
{
    size_t n = strcspn(text, "=");
    auto_free char *key = xstrndup(text, n);
    const char *value = text[n] ? text + n + 1 : getenv(key);

    if (n == 0 || !utf8_valid(text, strlen(text)))
        return err_set(err, ERR_INVALID, "%s needs KEY=VALUE or KEY, not \"%.100s\"", what, text);
    if (!value)
        return 0;
    if (!utf8_valid(value, strlen(value)))
        return err_set(err, ERR_INVALID, "%s: the value of %.100s is not UTF-8 text", what, key);
    (void)json_object_set_new(object, key, json_string(value));
    return 0;
}

static int read_whole(const char *path, struct buf *out, struct err *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    char piece[4096];
    ssize_t n;

    if (fd < 0)
        return err_sys(err, errno, "open --env-file %s", path);
    while ((n = read_some(fd, piece, sizeof(piece))) > 0) {
        if (buf_add(out, piece, (size_t)n) < 0)
            return err_set(err, ERR_TOO_LARGE, "--env-file %s is longer than %u bytes", path,
                           FILE_MAX);
    }
    return n < 0 ? err_sys(err, (int)-n, "read --env-file %s", path) : 0;
}

/* Lines as docker reads them: values are taken as they stand, quotes too. */
static int add_file(json_t *object, const char *path, struct err *err)
{
    auto_buf struct buf text = {0};
    auto_free char *what = xasprintf("--env-file %s", path);
    char *save = NULL;

    buf_init(&text, FILE_MAX);
    if (read_whole(path, &text, err) < 0)
        return -1;
    for (char *line = text.data ? strtok_r(text.data, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        size_t len = strlen(line);

        if (len > 0 && line[len - 1] == '\r')
            line[len - 1] = '\0';
        line += strspn(line, " \t");
        if (*line && *line != '#' && env_add(object, line, what, err) < 0)
            return -1;
    }
    return 0;
}

int env_read_args(const struct args *args, json_t **ret, struct err *err)
{
    char **files = args_list(args, "env-file"), **pairs = args_list(args, "env");
    json_t *object = files || pairs ? json_object() : NULL;
    int r = 0;

    for (; r == 0 && files && *files; files++)
        r = add_file(object, *files, err);
    for (; r == 0 && pairs && *pairs; pairs++)
        r = env_add(object, *pairs, "--env", err);
    if (r < 0) {
        json_decref(object);
        return -1;
    }
    *ret = object;
    return 0;
}
