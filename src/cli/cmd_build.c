/* `cay template build`: of a folder with a Dockerfile or a cay.json, or of a template again. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/context.h"
#include "cli/env_args.h"
#include "cli/network_args.h"
#include "cli/pull.h"
#include "cli/template_args.h"
#include "cli/ui.h"

#define APART    ".cay-build" /* in the archive: what the daemon alone reads */
#define FILE_MAX (256u << 10)

struct source {
    char *dir;
    char *file;  /* what to read, from here */
    char *shown; /* what it is called in messages */
    char *text;
    size_t len;
};

static void source_done(struct source *s)
{
    free(s->dir);
    free(s->file);
    free(s->shown);
    free(s->text);
}
#define auto_source __attribute__((cleanup(source_done)))

static bool is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* --file as docker has it: from here, "-" is stdin. Without it, what the folder has. */
static void choose_file(struct source *s, const char *given)
{
    static const char *const names[] = {"Dockerfile", "cay.json"};

    if (given) {
        const char *slash = strrchr(given, '/');

        s->file = xstrdup(given);
        s->shown = xstrdup(strcmp(given, "-") == 0 ? "Dockerfile" : slash ? slash + 1 : given);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        free(s->file);
        free(s->shown);
        s->file = xasprintf("%s/%s", s->dir, names[i]);
        s->shown = xstrdup(names[i]);
        if (access(s->file, F_OK) == 0)
            return;
    }
    free(s->file);
    free(s->shown);
    s->file = xasprintf("%s/Dockerfile", s->dir);
    s->shown = xstrdup("Dockerfile");
}

static int read_text(struct source *s, struct err *err)
{
    bool here = strcmp(s->file, "-") == 0;
    auto_close int fd = here ? dup(STDIN_FILENO) : open(s->file, O_RDONLY | O_CLOEXEC);
    auto_buf struct buf text = {0};
    ssize_t n;

    if (fd < 0 && errno == ENOENT)
        return err_set(err, ERR_INVALID,
                       "%.150s is not there: a build needs a Dockerfile or a cay.json", s->file);
    if (fd < 0)
        return err_sys(err, errno, "read %.150s", s->file);
    buf_init(&text, FILE_MAX);
    for (;;) {
        char *room = buf_room(&text, 65536);

        if (!room)
            return err_set(err, ERR_INVALID, "%.150s is longer than %u KiB", s->file,
                           FILE_MAX >> 10);
        n = read_some(fd, room, 65536);
        if (n < 0)
            return err_sys(err, (int)-n, "read %.150s", s->file);
        if (n == 0)
            break;
        text.len += (size_t)n;
    }
    s->len = text.len;
    s->text = buf_steal(&text);
    return 0;
}

/* What the folder is called. */
static char *name_of(const char *dir)
{
    char path[PATH_MAX];
    const char *slash;

    if (!realpath(dir, path))
        return xstrdup("template");
    slash = strrchr(path, '/');
    return xstrdup(slash && slash[1] ? slash + 1 : "template");
}

/* ---- the call ---- */

static void add_query(struct buf *q, const char *key, const char *value)
{
    if (!value)
        return;
    (void)buf_addf(q, "%s%s=", q->len ? "&" : "", key);
    url_encode(q, value);
}

static void add_number(struct buf *q, const struct args *args, const char *flag, const char *key)
{
    if (args_has(args, flag))
        (void)buf_addf(q, "%s%s=%.10g", q->len ? "&" : "", key, args_number(args, flag, 0));
}

/* --build-arg NAME takes the value from here, as docker does. */
static int add_args(struct buf *q, const struct args *args, struct err *err)
{
    json_t *o = json_object();
    auto_free char *text = NULL;
    int r = 0;

    for (char **arg = args_list(args, "build-arg"); r == 0 && arg && *arg; arg++)
        r = env_add(o, *arg, "--build-arg", err);
    if (r == 0 && json_object_size(o) > 0) {
        text = json_dumps(o, JSON_COMPACT);
        add_query(q, "buildArgs", text);
    }
    json_decref(o);
    return r;
}

static int add_network(struct buf *q, const struct args *args, struct err *err)
{
    auto_free char *text = NULL;
    json_t *network = NULL;

    if (network_args(args, &network, err) < 0)
        return -1;
    if (network)
        text = json_dumps(network, JSON_COMPACT | JSON_ENCODE_ANY);
    add_query(q, "network", text);
    json_decref(network);
    return 0;
}

/* What a cay.json says that it is called; NULL = nothing. */
static char *name_in(const struct source *s)
{
    json_t *o = str_ends(s->shown, ".json") ? json_loadb(s->text, s->len, 0, NULL) : NULL;
    const char *said = json_text(o, "name");
    char *name = *said ? xstrdup(said) : NULL;

    json_decref(o);
    return name;
}

static int make_query(struct buf *q, const struct args *args, const struct source *s,
                      struct err *err)
{
    auto_free char *of_dir = name_of(s->dir), *said = name_in(s);
    const char *given = args_text(args, "name");

    add_query(q, "name", given ? given : said ? said : of_dir);
    add_query(q, "file", s->shown);
    add_query(q, "apart", APART);
    add_query(q, "target", args_text(args, "target"));
    add_query(q, "description", args_text(args, "description"));
    if (args_has(args, "no-cache"))
        add_query(q, "noCache", "true");
    add_number(q, args, "memory", "memory");
    add_number(q, args, "cpu", "cpu");
    add_number(q, args, "disk", "disk");
    add_number(q, args, "step-timeout", "stepTimeout");
    return add_network(q, args, err) < 0 ? -1 : add_args(q, args, err);
}

static int send_folder(struct args *args, const struct source *s, const struct context *c)
{
    struct pull pull = {.name = s->shown,
                        .quiet = args_has(args, "quiet"),
                        .events = args_has(args, "json"),
                        .upload_fd = c->fd,
                        .upload_size = c->size};
    auto_api struct api api = {0};
    auto_buf struct buf query = {0};
    auto_free char *path = NULL;
    struct err err = {0};
    json_t *template = NULL;

    buf_init(&query, 1u << 20);
    if (make_query(&query, args, s, &err) < 0)
        return ui_usage(args, "%s", err.text);
    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    path = xasprintf("/templates/build?%s", query.data);
    if (pull_call(&api, path, NULL, &pull, &template, &err) < 0)
        return pull_fail(&err);
    if (!pull.events)
        printf("%s\n", json_text(template, "id"));
    json_decref(template);
    return STATUS_OK;
}

static int build_folder(struct args *args)
{
    auto_source struct source s = {.dir = xstrdup(args->words[0])};
    struct context c = {.fd = -1};
    struct err err = {0};
    int status;

    choose_file(&s, args_text(args, "file"));
    if (read_text(&s, &err) < 0 || context_pack(s.dir, s.file, APART, s.text, s.len, &c, &err) < 0)
        return ui_fail(&err);
    status = send_folder(args, &s, &c);
    close_fd(&c.fd);
    return status;
}

int cmd_template_build(struct args *args)
{
    if (is_dir(args->words[0]) || strchr(args->words[0], '/'))
        return build_folder(args);
    return template_build_again(args);
}
