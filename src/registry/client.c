#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/reference.h"
#include "registry/registry.h"
#include "registry/registry_internal.h"

#define ATTEMPTS     5
#define RETRY_MS     200
#define HUB_REGISTRY "registry-1.docker.io"

/* ---- handles ---- */

CURL *handle_take(struct registry *r)
{
    CURL *handle = NULL;

    pthread_mutex_lock(&r->lock);
    if (r->n_idle > 0)
        handle = r->idle[--r->n_idle];
    pthread_mutex_unlock(&r->lock);
    if (!handle)
        handle = curl_easy_init();
    if (!handle)
        abort();
    return handle;
}

void handle_give(struct registry *r, CURL *handle)
{
    curl_easy_reset(handle); /* it points to what is gone; its connections stay */
    pthread_mutex_lock(&r->lock);
    r->idle = xrealloc(r->idle, (r->n_idle + 1) * sizeof(*r->idle));
    r->idle[r->n_idle++] = handle;
    pthread_mutex_unlock(&r->lock);
}

/* ---- endpoints ---- */

static struct endpoint *add_endpoint(struct registry *r)
{
    struct endpoint *ep;

    /* Room for all was made before: they hold locks, and stay where they are. */
    ep = &r->endpoints[r->n_endpoints++];
    ep->registry = r;
    pthread_mutex_init(&ep->lock, NULL);
    return ep;
}

/* As credentials are kept. */
static const char *own_key(const char *host)
{
    return strcmp(host, DOCKER_HUB) == 0 ? DOCKER_HUB_KEY : host;
}

/* HOST[:PORT] of an address; free it. */
static char *authority_of(const char *url)
{
    const char *authority = strstr(url, "://") + 3;

    return xstrndup(authority, strcspn(authority, "/?#"));
}

/* The address of a mirror of host; NULL = of another. */
static const char *mirror_of(const char *entry, const char *host)
{
    const char *equals = strchr(entry, '=');
    size_t len = equals ? (size_t)(equals - entry) : 0;

    if (!equals || strncasecmp(entry, host, len) != 0 || host[len] != '\0' ||
        !strstr(equals, "://"))
        return NULL;
    return equals + 1;
}

bool registry_asks(const struct reference *ref, char *const *mirrors, const char *host)
{
    bool found = strcmp(host, own_key(ref->host)) == 0;

    for (size_t i = 0; !found && mirrors && mirrors[i]; i++) {
        const char *url = mirror_of(mirrors[i], ref->host);
        auto_free char *authority = url ? authority_of(url) : NULL;

        found = authority && strcmp(host, authority) == 0;
    }
    return found;
}

/* "docker.io=https://mirror.example/prefix" */
static int add_mirror(struct registry *r, const char *entry, struct err *err)
{
    const char *equals = strchr(entry, '='), *url = equals ? equals + 1 : "";
    auto_free char *origin = NULL;
    struct endpoint *ep;
    size_t len;

    if (!str_starts(url, "https://") && !str_starts(url, "http://"))
        return err_code(err, ERR_INVALID, "bad_registry_config",
                        "the mirror %.80s is not HOST=https://MIRROR", entry);
    if (!mirror_of(entry, r->host))
        return 0;
    if (origin_check(r->insecure, url, &origin, err) < 0)
        return err_wrap(err, "the mirror %.60s", entry);
    len = strlen(url);
    while (len > 0 && url[len - 1] == '/')
        len--;
    ep = add_endpoint(r);
    ep->base = xstrndup(url, len);
    ep->host = authority_of(url);
    ep->name = xstrdup(ep->host);
    return 0;
}

static void add_own(struct registry *r)
{
    bool hub = strcmp(r->host, DOCKER_HUB) == 0;
    const char *host = hub ? HUB_REGISTRY : r->host;
    struct endpoint *ep = add_endpoint(r);

    ep->base = xasprintf("%s://%s", origin_is_insecure(r->insecure, host) ? "http" : "https", host);
    ep->host = xstrdup(own_key(r->host));
    ep->name = xstrdup(r->host);
    ep->own = true;
}

int each_endpoint(struct registry *r,
                  int (*op)(struct endpoint *ep, void *arg, bool *stop, struct err *err), void *arg,
                  struct err *err)
{
    struct err unused;

    if (!err)
        err = &unused;
    for (size_t i = 0; i < r->n_endpoints; i++) {
        struct endpoint *ep = &r->endpoints[i];
        bool stop = false;

        if (atomic_load(&ep->down))
            continue;
        if (op(ep, arg, &stop, err) == 0)
            return 0;
        if (stop || ep->own)
            return -1;
        /* That a mirror does not have it is what mirrors are like. */
        if (err->kind != ERR_NOT_FOUND)
            log_warn("a mirror failed, going on without it", "mirror", ep->name, "why", err->text);
    }
    return -1;
}

/* ---- the registry ---- */

static char *copy(const char *s)
{
    return s && s[0] ? xstrdup(s) : NULL;
}

static int fill(struct registry *r, const struct registry_options *o, struct err *err)
{
    for (size_t i = 0; o->insecure && o->insecure[i]; i++)
        r->insecure = strv_add(r->insecure, o->insecure[i]);
    for (size_t i = 0; o->realms && o->realms[i]; i++)
        r->realms = strv_add(r->realms, o->realms[i]);
    r->ca_file = copy(o->ca_file);
    r->docker_config = copy(o->docker_config);
    r->username = copy(o->username);
    r->password = copy(o->password);
    r->credentials = o->credentials;
    r->credentials_arg = o->credentials_arg;
    r->attempts = o->attempts ? o->attempts : ATTEMPTS;
    r->retry_ms = o->retry_ms ? o->retry_ms : RETRY_MS;
    if (r->username && strchr(r->username, ':'))
        return err_code(err, ERR_INVALID, "bad_registry_auth",
                        "a user name for a registry has no colon in it");
    if (r->ca_file && access(r->ca_file, R_OK) < 0)
        return err_code(err, ERR_INVALID, "bad_registry_config",
                        "the file of CA certificates %.150s cannot be read", r->ca_file);
    r->endpoints = xcalloc(strv_len(o->mirrors) + 1, sizeof(*r->endpoints));
    for (size_t i = 0; o->mirrors && o->mirrors[i]; i++)
        if (add_mirror(r, o->mirrors[i], err) < 0)
            return -1;
    add_own(r);
    return 0;
}

static void global_init(void)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        abort();
}

int registry_open(const struct reference *ref, const struct registry_options *options,
                  struct registry **ret, struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct registry *r = xcalloc(1, sizeof(*r));

    (void)pthread_once(&once, global_init);
    pthread_mutex_init(&r->lock, NULL);
    r->host = xstrdup(ref->host);
    r->path = xstrdup(ref->path);
    if (fill(r, options, err) < 0) {
        registry_free(r);
        return -1;
    }
    *ret = r;
    return 0;
}

void registry_free(struct registry *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_endpoints; i++) {
        struct endpoint *ep = &r->endpoints[i];

        free(ep->base);
        free(ep->name);
        free(ep->host);
        secret_free(ep->authorization);
        credentials_done(&ep->credentials);
        pthread_mutex_destroy(&ep->lock);
    }
    for (size_t i = 0; i < r->n_idle; i++)
        curl_easy_cleanup(r->idle[i]);
    free(r->idle);
    free(r->endpoints);
    free(r->host);
    free(r->path);
    strv_free(r->insecure);
    strv_free(r->realms);
    free(r->ca_file);
    free(r->docker_config);
    free(r->username);
    secret_free(r->password);
    pthread_mutex_destroy(&r->lock);
    free(r);
}
