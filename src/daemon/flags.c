#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/setting.h"
#include "base/str.h"
#include "daemon/config.h"
#include "daemon/config_internal.h"
#include "engine/image_policy.h"
#include "http/websocket_client.h"
#include "iii/link.h"
#include "model/serve_flags.h"

#define TOKEN_BYTES_MAX 1024

#define VALUE(ID, name, value, help) FLAG_##ID,
#define SWITCH(ID, name, help)       FLAG_##ID,
enum flag {
    FLAG_FIRST = 256, /* beyond every short flag */
    SERVE_FLAGS(VALUE, SWITCH) SERVE_PROGRAM_FLAGS(VALUE) FLAG_HELP,
};
#undef VALUE
#undef SWITCH

#define VALUE(ID, name, value, help) {name, value, FLAG_##ID, help},
#define SWITCH(ID, name, help)       {name, NULL, FLAG_##ID, help},
static const struct {
    const char *name, *arg;
    enum flag flag;
    const char *help;
} flags[] = {SERVE_FLAGS(VALUE, SWITCH) SERVE_PROGRAM_FLAGS(VALUE)
             /* cay help takes it for every command */
             SWITCH(HELP, "help", "print this and end")};
#undef VALUE
#undef SWITCH

void config_help_flags(FILE *out, bool worker)
{
    if (worker)
        (void)fprintf(
            out,
            "Usage: cay worker [FLAGS]\n\nServes as cay serve does, and is the "
            "sandbox worker of an iii engine: that of --engine,\nelse the one at " III_ENGINE_URL
            ".\n\n");
    else
        (void)fprintf(out,
                      "Usage: cay serve [FLAGS]\n\nServes the API over TCP and a unix socket.\n\n");
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        (void)fprintf(out, "  --%s%s%s\n      %s\n", flags[i].name, flags[i].arg ? " " : "",
                      flags[i].arg ? flags[i].arg : "", flags[i].help);
}

static void replace(char **field, const char *text)
{
    free(*field);
    *field = xstrdup(text);
}

static int set_listen(struct daemon_config *c, const char *text, struct err *err)
{
    const char *colon = strrchr(text, ':');
    uint64_t port;
    size_t len;

    if (!colon || colon == text || str_u64(colon + 1, &port) < 0 || port > 65535)
        return err_set(err, ERR_INVALID, "--listen must be HOST:PORT, not \"%s\"", text);
    len = (size_t)(colon - text);
    if (text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    free(c->host);
    c->host = xstrndup(text, len);
    c->port = (uint32_t)port;
    c->listen_given = true;
    return 0;
}

static int set_ws_port(struct daemon_config *c, const char *text, struct err *err)
{
    uint64_t port;

    if (str_u64(text, &port) < 0 || port > 65535)
        return err_set(err, ERR_INVALID, "--ws-port must be a port, or 0 for none, not \"%s\"",
                       text);
    c->ws_port = (uint32_t)port;
    c->ws_port_given = true;
    return 0;
}

/* What goes into a header line as it is: visible ASCII. */
static bool is_visible(const char *s)
{
    for (; *s; s++)
        if (*s <= ' ' || *s > '~')
            return false;
    return true;
}

/* source: what names the token, a flag or a variable. The same below. */
static int check_token(const char *token, const char *source, struct err *err)
{
    if (!token || (is_visible(token) && strlen(token) <= TOKEN_BYTES_MAX))
        return 0;
    return err_set(err, ERR_INVALID,
                   "%s must be at most %d visible ASCII characters without spaces", source,
                   TOKEN_BYTES_MAX);
}

static int check_engine(const char *text, const char *source, struct err *err)
{
    struct websocket_url url = {0};
    int r = text ? websocket_url_parse(text, &url, err) : 0;

    websocket_url_done(&url);
    return r < 0 ? err_wrap(err, "%s", source) : 0;
}

static int set_token_file(struct daemon_config *c, const char *path, struct err *err)
{
    char text[TOKEN_BYTES_MAX + 2];
    ssize_t n = read_file_at(AT_FDCWD, path, text, sizeof(text));

    if (n < 0)
        return err_sys(err, (int)-n, "--token-file %s", path);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        text[--n] = '\0';
    if (n == 0)
        return err_set(err, ERR_INVALID, "--token-file %s is empty", path);
    if (check_token(text, "what --token-file holds", err) < 0)
        return -1;
    replace(&c->token, text);
    return 0;
}

static int set_fd(const char *name, const char *text, int *ret, struct err *err)
{
    uint64_t n;

    if (str_u64(text, &n) < 0 || n > INT_MAX || fcntl((int)n, F_GETFD) < 0)
        return err_set(err, ERR_INVALID, "%s must be the number of an open descriptor, not \"%s\"",
                       name, text);
    *ret = (int)n;
    return 0;
}

static int set_flag(struct daemon_config *c, enum flag flag, const char *value, struct err *err)
{
    switch (flag) {
    case FLAG_LISTEN:
        return set_listen(c, value, err);
    case FLAG_CONFIG:
        replace(&c->config_path, value);
        return 0;
    case FLAG_WS_PORT:
        return set_ws_port(c, value, err);
    case FLAG_ENGINE:
        replace(&c->link.url, value);
        return check_engine(value, "--engine", err);
    case FLAG_STANDBY:
        c->link.standby = true;
        return 0;
    case FLAG_DATA:
        replace(&c->data, value);
        return 0;
    case FLAG_RUN:
        replace(&c->run, value);
        return 0;
    case FLAG_TOKEN_FILE:
        return set_token_file(c, value, err);
    case FLAG_INSECURE:
        c->insecure = true;
        return 0;
    case FLAG_STOP_SANDBOXES:
        c->stop_sandboxes = true;
        return 0;
    case FLAG_NO_TCP:
        c->no_tcp = true;
        return 0;
    case FLAG_REPLACE:
        c->replace = true;
        return 0;
    case FLAG_DETACH:
        c->detach = true;
        return 0;
    case FLAG_READY_FD:
        return set_fd("--ready-fd", value, &c->ready_fd, err);
    case FLAG_PARENT_FD:
        return set_fd("--exit-with-parent-fd", value, &c->parent_fd, err);
    case FLAG_REMOVE:
        replace(&c->remove, value);
        return 0;
    case FLAG_OPENAPI:
        c->openapi = true;
        return 0;
    case FLAG_HELP:
        c->help = true;
        return 0;
    case FLAG_FIRST:
        break;
    }
    return err_set(err, ERR_INTERNAL, "a flag without a meaning");
}

static void fill_options(struct option options[ARRAY_LEN(flags) + 1])
{
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        options[i] = (struct option){.name = flags[i].name,
                                     .has_arg = flags[i].arg ? required_argument : no_argument,
                                     .val = (int)flags[i].flag};
    options[ARRAY_LEN(flags)] = (struct option){0};
    optind = 0;
    opterr = 0;
}

/* Returns the value of a flag; NULL when it is absent, or when help is asked for. Errors in other
 * flags are found when they are read. */
static const char *flag_value(int argc, char **argv, enum flag wanted)
{
    struct option options[ARRAY_LEN(flags) + 1];
    const char *value = NULL;
    int flag;

    fill_options(options);
    while ((flag = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
        if (flag == 'h' || flag == FLAG_HELP)
            return NULL;
        if (flag == (int)wanted)
            value = optarg;
    }
    return value;
}

const char *config_flag_file(int argc, char **argv)
{
    return flag_value(argc, argv, FLAG_CONFIG);
}

const char *config_flag_engine(int argc, char **argv)
{
    return flag_value(argc, argv, FLAG_ENGINE);
}

int config_flags(struct daemon_config *c, int argc, char **argv, struct err *err)
{
    struct option options[ARRAY_LEN(flags) + 1];
    int flag;

    fill_options(options);
    while ((flag = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
        if (flag == '?' || flag == ':')
            return err_set(err, ERR_INVALID, "%s: %s; see cay serve --help", argv[optind - 1],
                           flag == ':' ? "needs a value" : "no such flag");
        if (set_flag(c, flag == 'h' ? FLAG_HELP : (enum flag)flag, optarg, err) < 0)
            return -1;
    }
    if (optind < argc)
        return err_set(err, ERR_INVALID, "cay serve takes no argument \"%s\"; see --help",
                       argv[optind]);
    return 0;
}

/* Commas and semicolons separate the origins of the variable. */
bool config_is_origin(const char *text)
{
    return (str_starts(text, "http://") || str_starts(text, "https://")) && is_visible(text) &&
           !str_ends(text, "/") && !strpbrk(text, ",;");
}

static int check_images(const struct daemon_config *c, struct err *err)
{
    const struct image_policy_config config = {.allowed = c->allowed_images,
                                               .custom = c->custom_images,
                                               .caps = c->image_caps,
                                               .strict = c->image_strict};
    struct image_policy *policy;

    for (char *const *m = c->registry_mirrors; m && *m; m++) {
        const char *url = strchr(*m, '=');

        if (!url || url == *m || !is_visible(*m) ||
            (!str_starts(url + 1, "https://") && !str_starts(url + 1, "http://")))
            return err_set(err, ERR_INVALID,
                           "CAY_REGISTRY_MIRRORS must hold pairs like "
                           "docker.io=https://mirror.example, not \"%.80s\"",
                           *m);
    }
    for (char *const *r = c->registry_realms; r && *r; r++) {
        const char *host = strchr(*r, '=');

        if (!host || host == *r || !host[1] || !is_visible(*r) || strpbrk(*r, "/*"))
            return err_set(err, ERR_INVALID,
                           "CAY_REGISTRY_REALMS must hold pairs like "
                           "registry.example=auth.example, not \"%.80s\"",
                           *r);
    }
    for (char *const *r = c->insecure_registries; r && *r; r++)
        if (!is_visible(*r) || strchr(*r, '/'))
            return err_set(err, ERR_INVALID,
                           "CAY_INSECURE_REGISTRIES must hold HOST or HOST:PORT, not \"%.80s\"",
                           *r);
    if (c->registry_ca && access(c->registry_ca, R_OK) < 0)
        return err_sys(err, errno, "CAY_REGISTRY_CA: %s", c->registry_ca);
    if (c->webhook_ca && access(c->webhook_ca, R_OK) < 0)
        return err_sys(err, errno, "CAY_WEBHOOK_CA: %s", c->webhook_ca);
    if (image_policy_new(&config, &policy, err) < 0)
        return -1;
    image_policy_free(policy);
    return 0;
}

/* One that is none would allow nothing, and nobody would know why. */
static int check_binds(const struct daemon_config *c, struct err *err)
{
    for (char *const *path = c->bind_allow; path && *path; path++)
        if (**path != '/' || strstr(*path, "/../") || str_ends(*path, "/.."))
            return err_set(err, ERR_INVALID,
                           "CAY_BIND_ALLOW must hold absolute paths without .., not \"%.80s\"",
                           *path);
    return 0;
}

static bool is_below(const char *path, const char *folder)
{
    return str_starts(path, folder) && path[strlen(folder)] == '/';
}

/* All of it goes, so it must be what the daemon was given, and nothing above that. */
static int check_remove(const struct daemon_config *c, struct err *err)
{
    if (!c->remove ||
        (c->stop_sandboxes && is_below(c->data, c->remove) && is_below(c->run, c->remove)))
        return 0;
    return err_set(err, ERR_INVALID,
                   "--remove must hold --data and --run, and needs --stop-sandboxes");
}

static int check_link(const struct daemon_config *c, struct err *err)
{
    const struct link_config *link = &c->link;

    if (check_engine(link->url, config_source(c, "CAY_ENGINE"), err) < 0)
        return -1;
    if (link->token && !is_visible(link->token))
        return err_set(err, ERR_INVALID,
                       "CAY_ENGINE_TOKEN must be visible ASCII characters without spaces");
    if (link->standby && !link->url)
        return err_set(err, ERR_INVALID, "--standby needs the engine that it is about: --engine");
    return 0;
}

/* Where the public worker takes docker for a backend that it does not know, cay refuses to start: a
 * wall that was asked for and is not there must not be found out by an escape. */
static int check_isolation(struct err *err)
{
    const char *backend = setting_text(CONFIG_ISOLATION);

    if (!backend || strcmp(backend, "docker") == 0 || strcmp(backend, "native") == 0)
        return 0;
    return err_set(err, ERR_INVALID,
                   CONFIG_ISOLATION
                   "=%.80s: cay cannot isolate sandboxes that way: they share the "
                   "kernel of this machine, as with docker. Unset it to accept that",
                   backend);
}

int config_check(const struct daemon_config *c, struct err *err)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

    if (check_isolation(err) < 0 ||
        check_token(c->token, config_source(c, "CAY_AUTH_TOKEN"), err) < 0)
        return -1;
    if (c->prefix[strspn(c->prefix, letters)])
        return err_set(err, ERR_INVALID,
                       "%s must be one word of letters, digits, - and _, not \"%s\"",
                       config_source(c, "CAY_API_PREFIX"), c->prefix);
    if (c->workspace[0] != '/' || strstr(c->workspace, ".."))
        return err_set(err, ERR_INVALID, "%s must be an absolute path, not \"%s\"",
                       config_source(c, "CAY_WORKSPACE_DIR"), c->workspace);
    if (config_list_has(c->origins, "*"))
        return err_set(
            err, ERR_INVALID,
            "CAY_CORS_ORIGINS must name the origins: * would let every web page use this "
            "machine");
    for (char *const *o = c->origins; o && *o; o++)
        if (!config_is_origin(*o))
            return err_set(err, ERR_INVALID,
                           "CAY_CORS_ORIGINS must hold origins like https://app.example, not "
                           "\"%s\"",
                           *o);
    if (c->detach && c->ready_fd >= 0)
        return err_set(err, ERR_INVALID, "--detach and --ready-fd are two ways of saying the same");
    if (config_list_has(c->hosts, "*") && !c->token && !c->require_token)
        return err_set(err, ERR_INVALID, "CAY_ALLOWED_HOSTS=* needs a token: set CAY_AUTH_TOKEN");
    if (check_link(c, err) < 0 || check_binds(c, err) < 0 || check_remove(c, err) < 0)
        return -1;
    return check_images(c, err);
}
