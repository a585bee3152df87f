#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/replace.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/config_text.h"
#include "cli/escape.h"
#include "cli/mcp_clients.h"
#include "cli/table.h"
#include "cli/ui.h"

/* Programs that speak MCP keep the servers that they know in a file of settings each. */

#define SETTINGS_BYTES_MAX (16u << 20)

enum base { BASE_HOME, BASE_CONFIG }; /* $HOME, or $XDG_CONFIG_HOME */

struct mcp_client {
    const char *name, *title;
    enum base base;
    const char *file;    /* below that */
    const char *project; /* of a project, below the current folder; NULL = it has none */
    const char *key;     /* the object, or the table, that holds the servers */
    bool toml;
    bool says_stdio; /* each server has a type */
};

static const struct mcp_client clients[] = {
    {"claude", "Claude Code", BASE_HOME, ".claude.json", ".mcp.json", "mcpServers",
     .says_stdio = true},
    {"claude-desktop", "Claude Desktop", BASE_CONFIG, "Claude/claude_desktop_config.json", NULL,
     "mcpServers"},
    {"codex", "Codex", BASE_HOME, ".codex/config.toml", NULL, "mcp_servers", .toml = true},
    {"cursor", "Cursor", BASE_HOME, ".cursor/mcp.json", ".cursor/mcp.json", "mcpServers"},
    {"gemini", "Gemini CLI", BASE_HOME, ".gemini/settings.json", ".gemini/settings.json",
     "mcpServers"},
    {"vscode", "Visual Studio Code", BASE_CONFIG, "Code/User/mcp.json", ".vscode/mcp.json",
     "servers", .says_stdio = true},
    {"windsurf", "Windsurf", BASE_HOME, ".codeium/windsurf/mcp_config.json", NULL, "mcpServers"},
    {"zed", "Zed", BASE_CONFIG, "zed/settings.json", ".zed/settings.json", "context_servers"},
};

static const struct mcp_client *client_by_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        if (strcmp(clients[i].name, name) == 0)
            return &clients[i];
    return NULL;
}

char *mcp_client_names(void)
{
    auto_buf struct buf names;

    buf_init(&names, 1024);
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        (void)buf_addf(&names, "%s%s", i ? " " : "", clients[i].name);
    return buf_steal(&names);
}

/* NULL when nobody says where the home folder is. */
static char *settings_file(const struct mcp_client *client, bool project)
{
    const char *home = getenv("HOME"), *config = getenv("XDG_CONFIG_HOME");

    if (project)
        return xstrdup(client->project);
    if (client->base == BASE_CONFIG && config && *config == '/')
        return xasprintf("%s/%s", config, client->file);
    if (!home || *home != '/')
        return NULL;
    return xasprintf("%s/%s%s", home, client->base == BASE_CONFIG ? ".config/" : "", client->file);
}

/* ---- the file ---- */

/* A file that is not there is an empty one. */
static int read_settings(const char *file, struct buf *ret, struct stat *ret_st, struct err *err)
{
    auto_close int fd = open(file, O_RDONLY | O_CLOEXEC);

    *ret_st = (struct stat){.st_mode = 0600, .st_uid = geteuid(), .st_gid = getegid()};
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "open %s", file);
    if (fstat(fd, ret_st) < 0)
        return err_sys(err, errno, "look at %s", file);
    for (;;) {
        char *room = buf_room(ret, 64 << 10);
        ssize_t n = room ? read_some(fd, room, 64 << 10) : -EFBIG;

        if (n < 0)
            return err_sys(err, (int)-n, "read %s", file);
        if (n == 0)
            break;
        ret->len += (size_t)n;
    }
    if (ret->data)
        ret->data[ret->len] = '\0';
    if (ret->len && strlen(ret->data) != ret->len)
        return err_set(err, ERR_INVALID, "%s is not a text", file);
    return 0;
}

/* The folders that lead to the file. */
static int make_folders(const char *file, struct err *err)
{
    auto_free char *path = xstrdup(file);

    for (char *p = path + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return err_sys(err, errno, "make the folder %s", path);
    }
    return 0;
}

/* Whose it was, it stays; a link to it stays a link. */
static int write_settings(const char *file, const char *text, const struct stat *st,
                          struct err *err)
{
    auto_free char *target = NULL, *folder = NULL;
    auto_close int dirfd = -1;
    const char *name;

    if (make_folders(file, err) < 0)
        return -1;
    target = realpath(file, NULL);
    if (!target)
        target = xstrdup(file);
    name = strrchr(target, '/');
    folder = name ? xstrndup(target, (size_t)(name - target) + 1) : xstrdup(".");
    name = name ? name + 1 : target;
    dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return err_sys(err, errno, "open %s", folder);
    if (replace_file(dirfd, name, text, strlen(text), err) < 0)
        return -1;
    if ((st->st_uid != geteuid() || st->st_gid != getegid()) &&
        fchownat(dirfd, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, errno, "give %s back to its owner", file);
    if (fchmodat(dirfd, name, st->st_mode & 07777, 0) < 0)
        return err_sys(err, errno, "set the mode of %s", file);
    return 0;
}

/* ---- what is put into it ---- */

/* {"command": …, "args": […]}: GUIs have a PATH of their own, so the program is named in full. */
static json_t *server_entry(const struct args *args, const struct mcp_client *client,
                            struct err *err)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    json_t *words = json_pack("[s]", "mcp"), *entry;
    const char *host = args_text(args, "host"), *tools = args_text(args, "tools");

    if (n < 0) {
        json_decref(words);
        (void)err_sys(err, errno, "find out what this program is");
        return NULL;
    }
    self[n] = '\0';
    if (tools)
        json_array_append_new(words, json_sprintf("--tools=%s", tools));
    if (args_has(args, "read-only"))
        json_array_append_new(words, json_string("--read-only"));
    if (host)
        json_array_append_new(words, json_sprintf("--host=%s", host));
    entry = client->says_stdio ? json_pack("{s:s}", "type", "stdio") : json_object();
    json_object_set_new(entry, "command", json_string(self));
    json_object_set_new(entry, "args", words);
    return entry;
}

/* command = "…", args = ["…"]: TOML's basic strings are JSON's. */
static char *toml_lines(const json_t *entry)
{
    auto_free char *command = json_dumps(json_object_get(entry, "command"), JSON_ENCODE_ANY);
    auto_free char *words = json_dumps(json_object_get(entry, "args"), 0);

    return xasprintf("command = %s\nargs = %s\n", command, words);
}

/* entry NULL: the server shall not be there. */
static int change(const struct mcp_client *client, const char *text, const char *name,
                  const json_t *entry, char **ret, struct err *err)
{
    auto_free char *value = NULL;

    if (client->toml) {
        value = entry ? toml_lines(entry) : NULL;
        *ret = config_toml_put(text, client->key, name, value);
        return 0;
    }
    value = entry ? json_dumps(entry, JSON_INDENT(1)) : NULL;
    return config_json_put(text, client->key, name, value, ret, err);
}

/* ---- the commands ---- */

static const char *server_name(const struct args *args)
{
    const char *name = args_text(args, "name");

    return name ? name : "cay";
}

static int list_clients(const struct args *args)
{
    auto_table struct table t;

    table_init(&t, "CLIENT|PROGRAM|SETTINGS|CAY");
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        auto_free char *file = settings_file(&clients[i], false), *without = NULL;
        auto_buf struct buf text;
        struct err err = {0};
        struct stat st;
        const char *state = "-";

        buf_init(&text, SETTINGS_BYTES_MAX);
        if (file && read_settings(file, &text, &st, &err) == 0 && text.len &&
            change(&clients[i], text.data, server_name(args), NULL, &without, &err) == 0)
            state = strcmp(without, text.data) == 0 ? "no" : "yes";
        table_cell(&t, clients[i].name);
        table_cell(&t, clients[i].title);
        table_cell(&t, file ? file : "?");
        table_cell(&t, state);
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
    return ui_finish(STATUS_OK);
}

/* A name that needs no quotes in any of the files. */
static bool name_is_plain(const char *name)
{
    return *name && strlen(name) <= 64 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               strlen(name);
}

static int show(const struct args *args, const char *file, const char *before, const char *after)
{
    bool json = args_has(args, "json"), shown = ui_stdout_is_terminal() && !json;
    auto_free char *diff =
        config_diff(before, after, file, shown, shown && ui_has_color(STDOUT_FILENO));

    if (json) {
        json_t *o =
            json_pack("{s:s, s:b, s:s}", "file", file, "changed", *diff != '\0', "diff", diff);

        ui_json(o);
        json_decref(o);
    } else {
        (void)fputs(diff, stdout);
    }
    return ui_finish(STATUS_OK);
}

/* Settings that cannot be changed are shown what is missing in them. */
static int refuse(const struct mcp_client *client, const char *name, const json_t *entry,
                  const struct err *err)
{
    auto_free char *value = entry ? json_dumps(entry, JSON_INDENT(2)) : NULL;
    int r = ui_fail(err);

    if (value) {
        auto_free char *shown = escape_text(ESCAPE_LINES, value);

        ui_warn("put this under \"%s\" there yourself:", client->key);
        (void)fprintf(stderr, "\"%s\": %s\n", name, shown);
    }
    return r;
}

/* Of a file with that text: entry in it, or (NULL) out of it. */
static int settle_file(const struct args *args, const struct mcp_client *client, const char *file,
                       const char *name, const json_t *entry)
{
    auto_free char *after = NULL;
    const char *before;
    auto_buf struct buf text;
    struct err err = {0};
    struct stat st;
    int r;

    buf_init(&text, SETTINGS_BYTES_MAX);
    if (read_settings(file, &text, &st, &err) < 0)
        return ui_fail(&err);
    before = text.data ? text.data : "";
    if (change(client, before, name, entry, &after, &err) < 0) {
        (void)err_wrap(&err, "%s was left as it is", file);
        return refuse(client, name, entry, &err);
    }
    if (strcmp(after, before) == 0) {
        ui_warn("%s %s already", file, entry ? "has it" : "is without it");
        return show(args, file, before, after);
    }
    if (!args_has(args, "dry-run") && write_settings(file, after, &st, &err) < 0)
        return ui_fail(&err);
    r = show(args, file, before, after);
    if (entry && !args_has(args, "dry-run"))
        ui_warn("start %s again; `cay mcp uninstall %s` takes it back", client->title,
                client->name);
    return r;
}

/* Puts the server into a client's settings, or takes it out of them. */
static int settle(const struct args *args, bool install)
{
    const struct mcp_client *client = client_by_name(args->words[0]);
    const char *name = server_name(args);
    bool project = args_has(args, "project");
    auto_free char *file = NULL;
    struct err err = {0};
    json_t *entry = NULL;
    int r;

    if (!client)
        return ui_usage(args, "no client is called \"%s\": `cay mcp install` lists them",
                        args->words[0]);
    if (!name_is_plain(name))
        return ui_usage(args, "a server's name has letters, digits, - and _");
    if (project && !client->project)
        return ui_usage(args, "%s has no settings for one project", client->title);
    file = settings_file(client, project);
    if (!file)
        return ui_usage(args, "HOME is not set");
    if (install && !(entry = server_entry(args, client, &err)))
        return ui_fail(&err);
    r = settle_file(args, client, file, name, entry);
    json_decref(entry);
    return r;
}

int cmd_mcp_install(struct args *args)
{
    return args->n_words ? settle(args, true) : list_clients(args);
}

int cmd_mcp_uninstall(struct args *args)
{
    return settle(args, false);
}
