#pragma once

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "registry/registry.h"

struct err;
struct sockaddr;

/* What the files of registry/ share. */

/* ---- credentials.c, helper.c: who we are to a host ---- */

void secret_free(char *s); /* wipes it first */

#define DOCKER_HUB     "docker.io"
#define DOCKER_HUB_KEY "https://index.docker.io/v1/"

/* Runs docker-credential-<name> get, found in one of dirs (NULL-terminated), which like the program
 * must be root's and not writable by others. */
int helper_ask(const char *const *dirs, const char *name, const char *host, struct credentials *ret,
               struct err *err);

/* ---- challenge.c: what a WWW-Authenticate header wants ---- */

struct challenge {
    bool bearer; /* or else basic */
    char *realm, *service, *scope;
};

/* Of all the headers' challenges the one to answer: Bearer before Basic. -1 when there is none of
 * these, or a Bearer without a realm. */
int challenge_parse(char *const *headers, struct challenge *ret);
void challenge_done(struct challenge *c);

/* ---- client.c ---- */

struct registry;

/* One place to ask: a mirror, or the registry itself, which is the last. */
struct endpoint {
    struct registry *registry;
    char *base;          /* "https://registry-1.docker.io" */
    char *name;          /* for people: "docker.io", "mirror.example" */
    char *host;          /* as credentials are kept: "ghcr.io", DOCKER_HUB_KEY */
    bool own;            /* the registry itself */
    atomic_bool reached; /* it has answered once */
    atomic_bool down;    /* a mirror that did not answer: it is not asked again */

    pthread_mutex_t
        lock;            /* of what follows; held while a token is fetched, so that one is enough */
    char *authorization; /* the value of the header; NULL = ask without */
    int64_t expires_ns;  /* on the monotonic clock; 0 = never */
    struct credentials credentials;
    bool credentials_read;
};

struct registry {
    char *host, *path; /* of the reference */
    char **insecure, **realms;
    char *ca_file, *docker_config, *username, *password;
    int (*credentials)(void *arg, const char *host, struct credentials *ret, struct err *err);
    void *credentials_arg;
    unsigned attempts, retry_ms;
    struct endpoint *endpoints;
    size_t n_endpoints;

    pthread_mutex_t lock; /* of what follows */
    CURL **idle;          /* handles keep their connections, so they are used again */
    size_t n_idle;
};

/* ---- origin.c: where we may connect ---- */

/* "https://host:443" of url. Refused are other schemes than http and https, user names in it, plain
 * http to a host that is not listed as insecure, and link-local addresses. */
int origin_check(char *const *insecure, const char *url, char **ret_origin, struct err *err);
/* The host, and its port also where url does not say it; -1 when it is no address. */
int origin_host(const char *url, char **ret_host, char **ret_port);
/* The scheme to ask HOST[:PORT] with. */
bool origin_is_insecure(char *const *insecure, const char *host_port);
/* Link-local, or another address of a cloud's metadata service? */
bool address_is_forbidden(const struct sockaddr *address);

/* ---- realm.c: whom a login is shown to ---- */

/* Is the token service at that host the registry's own? */
bool realm_is_own(const char *host, const char *realm);
/* ERR_FORBIDDEN "registry_denied", naming the setting, unless the endpoint's login may go to the
 * realm. */
int realm_check(const struct endpoint *ep, const char *realm, struct err *err);

/* ---- request.c: one request, redirects followed ---- */

struct response {
    int status;
    bool elsewhere;   /* a redirect led to another origin, and that is who answered */
    bool transient;   /* of a failure: trying again may help */
    bool no_answer;   /* of a failure: nothing was heard from the server */
    char *media_type; /* the next three are NULL when not said */
    char *digest, *range, *location;
    char **challenges;
    int64_t length;      /* of the body; -1 = not said */
    int64_t retry_after; /* seconds; 0 = not said, or at once */
    struct buf problem;  /* the body of an answer that is not 2xx, its beginning */
};

struct request {
    const char *url;
    const char *accept;        /* NULL = none */
    const char *authorization; /* for the url's own origin and no other; NULL = none */
    const char *form;          /* NULL = GET; a POST is never redirected */
    int64_t from;              /* ask for the bytes from here on; 0 = all */
    long timeout_s;            /* for all of it; 0 = as long as something comes */
    /* Gets the body of a 2xx answer; -1 (with err set) ends the transfer. */
    int (*body)(const struct response *res, const void *data, size_t len, void *arg,
                struct err *err);
    void *arg;
};

/* 0 when there was an answer, whatever it says. The response is filled in either case. */
int request_run(struct registry *r, const struct request *req, struct response *res,
                struct err *err);
void response_done(struct response *res);

CURL *handle_take(struct registry *r);
void handle_give(struct registry *r, CURL *handle);

/* ---- auth.c: the same, as whoever we are ---- */

/* Answers a challenge of the endpoint itself; any other 401 is returned as it is. */
int endpoint_ask(struct endpoint *ep, struct request *req, struct response *res, struct err *err);

/* ---- retry.c ---- */

struct retry {
    unsigned attempt, most;
};

/* After result r of endpoint_ask: waits and is true when another try may help. */
bool retry_again(struct retry *retry, struct endpoint *ep, int r, const struct response *res);

/* ---- problem.c ---- */

/* Sets err to what an answer that is no success means for people, and returns -1. what is
 * "library/x:tag". */
int status_error(struct endpoint *ep, const char *what, const struct response *res,
                 struct err *err);

/* Makes err's text, which may hold words of strangers, fit for people and for JSON; returns -1. */
int problem_printable(struct err *err);

/* ---- client.c ---- */

/* Asks one endpoint after the other until op succeeds. *stop is set by op when no other can help.
 */
int each_endpoint(struct registry *r,
                  int (*op)(struct endpoint *ep, void *arg, bool *stop, struct err *err), void *arg,
                  struct err *err);
