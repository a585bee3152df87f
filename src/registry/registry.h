#pragma once

#include <stdbool.h>
#include <stddef.h>

struct blob;
struct err;
struct reference;
struct registry;

/* A registry, asked for one repository: OCI distribution and Docker v2 over libcurl. Only the image
 * worker links this: the daemon itself never talks to a registry.
 *
 * Credentials go to the host they belong to and nowhere else: not to a redirect's target, not to a
 * mirror, and to a token service only if it is the registry's own (realm.c) or listed in realms,
 * and over TLS (or where plain http was allowed). Addresses of 169.254.0.0/16 and fe80::/10, and
 * other clouds' metadata services, are never connected to.
 *
 * A host that is listed as insecure is asked over http, not over https first; without a port the
 * entry stands for all ports of its host. The program that links this ignores SIGPIPE. */

/* Who we are to a host. */
struct credentials {
    char *username, *password; /* NULL = none */
    char *identity;            /* a token to get tokens with; NULL = none */
};

void credentials_done(struct credentials *c);
/* Those of host ("ghcr.io:443", or docker hub's own key) in a config.json of docker's; none is not
 * an error. ERR_INVALID "bad_docker_config" when the file or its helper does not work. */
int credentials_find(const char *docker_config, const char *host, struct credentials *ret,
                     struct err *err);

struct registry_options {
    char *const *insecure; /* HOST[:PORT] that may be asked over plain http; NULL = none */
    char *const *mirrors;  /* "docker.io=https://mirror.example": asked before the host itself */
    char *const *realms;   /* "registry.example=auth.example": may be shown its logins */
    const char *ca_file;   /* PEM, beside the system's own; NULL = none */
    const char *docker_config; /* a config.json with auths and credential helpers; NULL = none */
    const char *username, *password; /* for the reference's own host; NULL = from docker_config */
    /* Instead of docker_config, where another process reads that; NULL = none. */
    int (*credentials)(void *arg, const char *host, struct credentials *ret, struct err *err);
    void *credentials_arg;
    unsigned attempts; /* of each request before it is given up; 0 = 5 */
    unsigned retry_ms; /* before the second attempt, twice that before the next; 0 = 200 ms */
};

int registry_open(const struct reference *ref, const struct registry_options *options,
                  struct registry **ret, struct err *err);
void registry_free(struct registry *r);
/* Is host, as credentials are kept, one that such a registry asks: its own, or a mirror's? */
bool registry_asks(const struct reference *ref, char *const *mirrors, const char *host);

struct registry_document {
    char *bytes;
    size_t len;
    char *media_type;
    char digest[65]; /* of the bytes; equal to what was asked for when that was a digest */
};

/* The manifest of a tag or of a digest (64 hex digits). ERR_NOT_FOUND "image_not_found" when the
 * registry does not have it, ERR_FORBIDDEN "registry_denied" when it wants (other) credentials,
 * ERR_UNAVAILABLE "image_pull_failed" when it cannot be reached; each says what to do. */
int registry_manifest(struct registry *r, const char *tag_or_digest, struct registry_document *ret,
                      struct err *err);
void registry_document_done(struct registry_document *doc);

/* Streams a blob into sink(), in order and each byte once, however often the transfer broke and
 * went on. Digest and size are checked: when it returns 0 the sink has seen exactly that blob; an
 * error may come after any number of bytes. Several threads may do this on one registry. A sink
 * that returns -1 (with err set) ends it. Bytes that are not the blob's: "digest_mismatch". */
int registry_blob(struct registry *r, const struct blob *blob,
                  int (*sink)(const void *data, size_t len, void *arg, struct err *err), void *arg,
                  struct err *err);
