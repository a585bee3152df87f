#include "worker/secrets.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "oci/reference.h"
#include "registry/registry.h"
#include "worker/worker.h"

#define HOST_MAX   300
#define ANSWER_MAX (160u << 10) /* a helper says 64 KiB at most */

/* ---- the fetcher ---- */

static int take_answer(const char *text, size_t len, struct credentials *ret, struct err *err)
{
    json_t *o = json_loadb(text, len, 0, NULL);
    const char *user = json_string_value(json_object_get(o, "username"));
    const char *password = json_string_value(json_object_get(o, "password"));
    const char *identity = json_string_value(json_object_get(o, "identity"));
    int r = 0;

    if (json_object_get(o, "kind")) {
        error_from_json(o, err);
        r = -1;
    } else {
        ret->username = user ? xstrdup(user) : NULL;
        ret->password = password ? xstrdup(password) : NULL;
        ret->identity = identity ? xstrdup(identity) : NULL;
    }
    json_decref(o);
    return r;
}

int secrets_ask(int sock, const char *host, struct credentials *ret, struct err *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    auto_free char *text = xmalloc(ANSWER_MAX);
    size_t none = 0;
    ssize_t n;
    int r;

    (void)pthread_mutex_lock(&lock);
    r = send_fds(sock, host, strlen(host), NULL, 0);
    n = r < 0 ? r : recv_fds(sock, text, ANSWER_MAX, NULL, &none);
    (void)pthread_mutex_unlock(&lock);
    if (n <= 0)
        return err_set(err, ERR_INTERNAL, "the image worker's keeper does not answer");
    r = take_answer(text, (size_t)n, ret, err);
    explicit_bzero(text, (size_t)n);
    return r;
}

/* ---- the keeper ---- */

static json_t *answer(const json_t *request, const char *host)
{
    const char *config = json_string_value(json_object_get(request, "docker_config"));
    auto_strv char **mirrors = strings_of_json(json_object_get(request, "mirrors"));
    struct credentials c = {0};
    struct reference ref;
    struct err err = {0};
    json_t *o;

    if (!config)
        return json_object();
    if (reference_parse(json_string_value(json_object_get(request, "reference")), &ref, &err) < 0)
        return error_json(&err);
    if (!registry_asks(&ref, mirrors, host)) {
        (void)err_set(&err, ERR_FORBIDDEN, "this pull does not ask %.100s", host);
        o = error_json(&err);
    } else if (credentials_find(config, host, &c, &err) < 0) {
        o = error_json(&err);
    } else {
        o = json_pack("{s:s*, s:s*, s:s*}", "username", c.username, "password", c.password,
                      "identity", c.identity);
        credentials_done(&c);
    }
    reference_done(&ref);
    return o;
}

static int send_answer(int sock, json_t *o)
{
    auto_free char *text = o ? json_dumps(o, JSON_COMPACT) : xstrdup("{}");
    int r;

    json_decref(o);
    if (!text)
        return -ENOMEM;
    r = send_fds(sock, text, strlen(text), NULL, 0);
    explicit_bzero(text, strlen(text));
    return r;
}

void secrets_serve(int sock, const json_t *request)
{
    for (;;) {
        char host[HOST_MAX + 1];
        size_t none = 0;
        ssize_t n = recv_fds(sock, host, HOST_MAX, NULL, &none);

        if (n <= 0)
            return;
        host[n] = '\0';
        if (send_answer(sock, answer(request, host)) < 0)
            return;
    }
}
