/* What an answer that is no success means for people, and what they can do. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "registry/registry_internal.h"

#define MESSAGE_MAX 72

int problem_printable(struct err *err)
{
    for (char *c = err->text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return -1;
}

/* " (the registry's own words)", or "" */
static void own_words(const struct response *res, char ret[MESSAGE_MAX + 8])
{
    json_t *root = json_loadb(res->problem.data ? res->problem.data : "", res->problem.len,
                              JSON_DISABLE_EOF_CHECK, NULL);
    const json_t *first = json_array_get(json_object_get(root, "errors"), 0);
    const char *message = json_string_value(json_object_get(first, "message"));

    ret[0] = '\0';
    if (message && message[0])
        (void)snprintf(ret, MESSAGE_MAX + 8, " (%.*s)", MESSAGE_MAX, message);
    json_decref(root);
}

static int denied(struct endpoint *ep, const char *what, const char *words, struct err *err)
{
    const char *user;
    bool known;

    pthread_mutex_lock(&ep->lock);
    user = ep->credentials.username ? ep->credentials.username : "your login";
    known = ep->credentials.username || ep->credentials.identity;
    pthread_mutex_unlock(&ep->lock);
    if (known)
        return err_code(err, ERR_FORBIDDEN, "registry_denied",
                        "%.50s does not let %.40s have %.80s: check the name, the password or "
                        "token and its rights%s",
                        ep->name, user, what, words);
    return err_code(err, ERR_FORBIDDEN, "registry_denied",
                    "%.50s wants a login for %.70s, or it does not exist: check the name, or pass "
                    "credentials with registry_auth or `docker login`%s",
                    ep->name, what, words);
}

static int explain(struct endpoint *ep, const char *what, const struct response *res,
                   struct err *err)
{
    char words[MESSAGE_MAX + 8];

    own_words(res, words);
    if (res->elsewhere)
        return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                        "where %.60s sent us for %.80s the answer was HTTP %d%s", ep->name, what,
                        res->status, words);
    switch (res->status) {
    case 401:
    case 403:
        return denied(ep, what, words, err);
    case 404:
        return err_code(err, ERR_NOT_FOUND, "image_not_found",
                        "%.60s has no %.100s: check the name and the tag%s", ep->name, what, words);
    case 429:
        return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                        "%.60s allows no more pulls for now: log in, or try again later%s",
                        ep->name, words);
    default:
        return err_code(err, ERR_UNAVAILABLE, "image_pull_failed",
                        "%.60s answered HTTP %d for %.80s: %s%s", ep->name, res->status, what,
                        res->status >= 500 ? "try again later" : "is it a registry?", words);
    }
}

int status_error(struct endpoint *ep, const char *what, const struct response *res, struct err *err)
{
    (void)explain(ep, what, res, err);
    return problem_printable(err);
}
