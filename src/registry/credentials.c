/* Docker's config.json: what `docker login` keeps, there or with a helper. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "registry/registry_internal.h"

#define CONFIG_MAX (1u << 20)

/* Not PATH: it is the operator's programs that are meant, whoever started us. */
static const char *const helper_dirs[] = {"/usr/local/bin", "/usr/bin", "/bin", NULL};

void secret_free(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}

void credentials_done(struct credentials *c)
{
    free(c->username);
    secret_free(c->password);
    secret_free(c->identity);
    *c = (struct credentials){0};
}

static int bad(struct err *err, const char *path, const char *why)
{
    return err_code(err, ERR_INVALID, "bad_docker_config", "%.100s: %s", path, why);
}

/* *ret stays NULL when there is no such file. */
static int load(const char *path, json_t **ret, struct err *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    auto_buf struct buf text;
    ssize_t n;

    buf_init(&text, CONFIG_MAX);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (fd < 0)
        return bad(err, path, strerror(errno));
    do {
        char *room = buf_room(&text, 4096);

        if (!room)
            return bad(err, path, "it is larger than 1 MiB");
        n = read_some(fd, room, 4096);
        if (n < 0)
            return bad(err, path, strerror((int)-n));
        text.len += (size_t)n;
    } while (n > 0);
    *ret = json_loadb(text.data, text.len, 0, NULL);
    explicit_bzero(text.data, text.len);
    return *ret ? 0 : bad(err, path, "it is not JSON, as `docker login` writes it");
}

/* Keys are hosts, or addresses as docker has written them: https://HOST/v1/. One with another path
 * is for a part of its host only, and not meant. */
static bool key_is_for(const char *key, const char *host)
{
    const char *scheme = strstr(key, "://"), *start = scheme ? scheme + 3 : key;
    size_t len = strcspn(start, "/");
    const char *path = start + len;

    if (strcmp(host, DOCKER_HUB_KEY) == 0)
        return strcmp(key, DOCKER_HUB_KEY) == 0 ||
               (len == 15 && strncasecmp(start, "index.docker.io", len) == 0) ||
               (len == 9 && strncasecmp(start, DOCKER_HUB, len) == 0);
    return strlen(host) == len && strncasecmp(start, host, len) == 0 &&
           (!path[0] || strcmp(path, "/") == 0 || str_starts(path, "/v1") ||
            str_starts(path, "/v2"));
}

static json_t *find_key(json_t *object, const char *host)
{
    json_t *value, *exact = json_object_get(object, host);
    const char *key;

    if (exact)
        return exact;
    json_object_foreach(object, key, value) if (key_is_for(key, host)) return value;
    return NULL;
}

/* "auth" is base64 of name:password. */
static int read_pair(const char *path, const char *auth, struct credentials *c, struct err *err)
{
    auto_buf struct buf pair;
    char *colon;
    int r = 0;

    buf_init(&pair, CONFIG_MAX);
    if (base64_decode(&pair, auth, strlen(auth)) < 0 || !pair.data ||
        strlen(pair.data) != pair.len || !(colon = strchr(pair.data, ':'))) {
        r = bad(err, path, "an \"auth\" in it is not base64 of NAME:PASSWORD; log in again");
    } else {
        c->username = xstrndup(pair.data, (size_t)(colon - pair.data));
        c->password = xstrdup(colon + 1);
    }
    if (pair.data)
        explicit_bzero(pair.data, pair.len);
    return r;
}

static int read_entry(const char *path, const json_t *entry, struct credentials *c, struct err *err)
{
    const char *auth = json_string_value(json_object_get(entry, "auth"));
    const char *username = json_string_value(json_object_get(entry, "username"));
    const char *password = json_string_value(json_object_get(entry, "password"));
    const char *identity = json_string_value(json_object_get(entry, "identitytoken"));

    if (identity && identity[0])
        c->identity = xstrdup(identity);
    if (auth && auth[0])
        return read_pair(path, auth, c, err);
    if (username && username[0] && password) {
        c->username = xstrdup(username);
        c->password = xstrdup(password);
    }
    return 0;
}

/* Its own helper, else the one for all hosts, else the file itself. */
static int find(const char *path, json_t *root, const char *host, struct credentials *c,
                struct err *err)
{
    const char *helper = json_string_value(find_key(json_object_get(root, "credHelpers"), host));
    const char *store = json_string_value(json_object_get(root, "credsStore"));

    if (!helper && store && store[0])
        helper = store;
    if (helper && helper_ask(helper_dirs, helper, host, c, err) < 0)
        return err_wrap(err, "%.60s", path);
    if (c->username || c->identity)
        return 0;
    return read_entry(path, find_key(json_object_get(root, "auths"), host), c, err);
}

int credentials_find(const char *docker_config, const char *host, struct credentials *ret,
                     struct err *err)
{
    struct credentials c = {0};
    json_t *root = NULL;
    int r;

    if (load(docker_config, &root, err) < 0)
        return -1;
    r = find(docker_config, root, host, &c, err);
    json_decref(root);
    if (r < 0)
        credentials_done(&c);
    else
        *ret = c;
    return r;
}
