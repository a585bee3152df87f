/* Docker's grammar of names, with what it leaves open closed: a host is kept in lower case, so that
 * one image has one name, and what would read differently when it is written short and read again
 * is written long. */
#include "oci/reference.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/digest.h"
#include "oci/oci_internal.h"

#define HUB     "docker.io"
#define LIBRARY "library/"
#define LATEST  "latest"
#define TAG_MAX 128

static const char lower_digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";

static int bad(struct err *err, const char *text, const char *why)
{
    char shown[80];

    (void)snprintf(shown, sizeof(shown), "%.79s", text);
    make_printable(shown);
    return err_code(err, ERR_INVALID, "bad_image_name",
                    "%s is not an image name: %s (like python:3.12 or ghcr.io/owner/app:1.0)",
                    shown, why);
}

/* Does the part before the first slash name a host, rather than begin the path? */
static bool is_host(const char *s, size_t len)
{
    return memchr(s, '.', len) || memchr(s, ':', len) ||
           (len == 9 && strncasecmp(s, "localhost", 9) == 0);
}

static bool label_ok(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '-')
            return false;
    return len > 0 && len <= 63 && s[0] != '-' && s[len - 1] != '-';
}

/* Labels with dots between them, or an IPv6 address in brackets. */
static bool host_name_ok(const char *s, size_t len)
{
    if (len > 2 && s[0] == '[')
        return s[len - 1] == ']' && strspn(s + 1, "0123456789abcdefABCDEF:") == len - 2;
    for (;;) {
        const char *dot = memchr(s, '.', len);
        size_t n = dot ? (size_t)(dot - s) : len;

        if (!label_ok(s, n))
            return false;
        if (!dot)
            return true;
        s += n + 1;
        len -= n + 1;
    }
}

static bool host_ok(const char *host)
{
    const char *bracket = strrchr(host, ']'), *colon = strrchr(bracket ? bracket : host, ':');
    uint64_t port;

    if (!colon)
        return host_name_ok(host, strlen(host));
    return host_name_ok(host, (size_t)(colon - host)) && str_u64(colon + 1, &port) == 0 &&
           port > 0 && port <= 65535;
}

/* Words of lower-case letters and digits, joined by '.', '_', '__' or any number of '-'. */
static bool component_ok(const char *s, size_t len)
{
    size_t i = 0;

    for (;;) {
        size_t word = strspn(s + i, lower_digits), sep;

        if (word == 0)
            return false;
        i += word;
        if (i >= len)
            return i == len;
        sep = strspn(s + i, "-");
        if (sep == 0 && s[i] == '_')
            sep = s[i + 1] == '_' ? 2 : 1;
        else if (sep == 0 && s[i] == '.')
            sep = 1;
        if (sep == 0)
            return false;
        i += sep;
    }
}

static bool path_ok(const char *path)
{
    for (const char *s = path;;) {
        size_t len = strcspn(s, "/");

        if (!component_ok(s, len))
            return false;
        if (!s[len])
            return true;
        s += len + 1;
    }
}

static bool tag_ok(const char *tag)
{
    size_t len = strlen(tag);

    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)tag[i]) && tag[i] != '_' &&
            (i == 0 || (tag[i] != '.' && tag[i] != '-')))
            return false;
    return len > 0 && len <= TAG_MAX;
}

/* Cuts "@sha256:…" and ":tag" off name. */
static int take_suffixes(const char *text, char *name, struct reference *ref, struct err *err)
{
    char *at = strchr(name, '@'), *slash, *colon;

    if (at) {
        *at++ = '\0';
        if (!str_starts(at, DIGEST_PREFIX) || !digest_valid(at + strlen(DIGEST_PREFIX)))
            return bad(err, text, "after the @ comes sha256: and 64 digits of 0-9 and a-f");
        ref->digest = xstrdup(at + strlen(DIGEST_PREFIX));
    }
    slash = strrchr(name, '/');
    colon = strrchr(slash ? slash : name, ':');
    if (colon) {
        *colon++ = '\0';
        if (!tag_ok(colon))
            return bad(err, text, "a tag is up to 128 letters, digits, '_', '.' and '-'");
        ref->tag = xstrdup(colon);
    } else if (!at) {
        ref->tag = xstrdup(LATEST);
    }
    return 0;
}

static int take_host(const char *text, const char *name, struct reference *ref, const char **rest,
                     struct err *err)
{
    const char *slash = strchr(name, '/');

    *rest = name;
    if (!slash || !is_host(name, (size_t)(slash - name))) {
        ref->host = xstrdup(HUB);
        return 0;
    }
    ref->host = xstrndup(name, (size_t)(slash - name));
    if (!host_ok(ref->host))
        return bad(err, text, "the part before the first / is no host name");
    for (char *c = ref->host; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (strcmp(ref->host, "index." HUB) == 0) {
        free(ref->host);
        ref->host = xstrdup(HUB);
    }
    *rest = slash + 1;
    return 0;
}

static int take_path(const char *text, const char *rest, struct reference *ref, struct err *err)
{
    if (!path_ok(rest))
        return bad(err, text,
                   "its path is words of a-z and 0-9 in lower case, joined by . _ __ - and /");
    if (strcmp(ref->host, HUB) != 0 || strchr(rest, '/'))
        ref->path = xstrdup(rest);
    else
        ref->path = xasprintf(LIBRARY "%s", rest);
    /* On its own this would read as the id of an image. */
    if (strcmp(ref->host, HUB) == 0 && str_starts(ref->path, LIBRARY) &&
        digest_valid(ref->path + strlen(LIBRARY)))
        return bad(err, text, "64 hex digits are an id, not a name");
    return 0;
}

static int parse(const char *text, struct reference *ref, struct err *err)
{
    auto_free char *name = NULL, *full = NULL;
    const char *rest;

    if (!text[0])
        return bad(err, "\"\"", "it is empty");
    if (strlen(text) > REFERENCE_MAX)
        return bad(err, text, "it is longer than 255 characters");
    if (strstr(text, "://"))
        return bad(err, text, "leave out what stands before and with ://");
    name = xstrdup(text);
    if (take_suffixes(text, name, ref, err) < 0 || take_host(text, name, ref, &rest, err) < 0 ||
        take_path(text, rest, ref, err) < 0)
        return -1;
    full = reference_full(ref);
    if (strlen(full) > REFERENCE_MAX)
        return bad(err, text, "it is longer than 255 characters with its host");
    return 0;
}

int reference_parse(const char *text, struct reference *ret, struct err *err)
{
    struct reference ref = {0};

    if (parse(text, &ref, err) < 0) {
        reference_done(&ref);
        return -1;
    }
    *ret = ref;
    return 0;
}

void reference_done(struct reference *ref)
{
    free(ref->host);
    free(ref->path);
    free(ref->tag);
    free(ref->digest);
    *ref = (struct reference){0};
}

static char *join(const char *host, const char *path, const char *tag, const char *digest)
{
    return xasprintf("%s%s%s%s%s%s%s", host, host[0] ? "/" : "", path, tag ? ":" : "",
                     tag ? tag : "", digest ? "@" DIGEST_PREFIX : "", digest ? digest : "");
}

char *reference_full(const struct reference *ref)
{
    return join(ref->host, ref->path, ref->tag, ref->digest);
}

char *reference_short(const struct reference *ref)
{
    const char *host = ref->host, *path = ref->path, *tag = ref->tag;

    if (strcmp(host, HUB) == 0) {
        const char *word = str_starts(path, LIBRARY) ? path + strlen(LIBRARY) : path;

        if (!strchr(word, '/')) {
            host = "";
            path = word;
        } else if (!is_host(path, strcspn(path, "/"))) {
            host = "";
        }
    }
    /* With a digest and no tag there is none to leave out. */
    if (tag && !ref->digest && strcmp(tag, LATEST) == 0)
        tag = NULL;
    return join(host, path, tag, ref->digest);
}

char *reference_shorten(const char *text)
{
    struct reference ref;
    char *s;

    if (reference_parse(text, &ref, NULL) < 0)
        return NULL;
    s = reference_short(&ref);
    reference_done(&ref);
    return s;
}
