#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "fake_http.h"
#include "oci/digest.h"
#include "oci/manifest.h"
#include "oci/reference.h"
#include "registry/registry.h"
#include "registry/registry_internal.h"
#include "tap.h"
#include "tmpdir.h"

#define OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define MANIFEST     "{\"schemaVersion\":2}"
#define BLOB_SIZE    300000

#ifdef __SANITIZE_THREAD__
/* The threads of the fake servers run until the process ends. ThreadSanitizer sleeps for a second
 * at the end of a process that has threads: 50 s for this program. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=50";
}
#endif

static struct fake_http server, other;
static char blob_bytes[BLOB_SIZE];
static struct blob blob;
static struct err err;

/* Tests set these before they ask. */
static atomic_int failures;     /* answers that still go wrong */
static const char *location;    /* of redirects */
static char challenge[512];     /* the header of a 401 */
static const char *wanted = ""; /* the Authorization that is let in */

static void make_blob(void)
{
    EVP_MD_CTX *sha = digest_new();

    for (size_t i = 0; i < BLOB_SIZE; i++)
        blob_bytes[i] = (char)(i * 7 + i / 251);
    digest_add(sha, blob_bytes, BLOB_SIZE);
    digest_end(sha, blob.digest);
    blob.size = BLOB_SIZE;
}

static void digest_of(const char *text, char ret[DIGEST_HEX])
{
    EVP_MD_CTX *sha = digest_new();

    digest_add(sha, text, strlen(text));
    digest_end(sha, ret);
}

/* A registry for team/app at host, which may be asked over http as other may be. */
static struct registry *open_with(const char *host, struct registry_options o)
{
    char *insecure[] = {server.host, other.host, NULL};
    auto_free char *text = xasprintf("%s/team/app", host);
    struct reference ref;
    struct registry *r;

    if (!o.insecure)
        o.insecure = insecure;
    if (!o.attempts)
        o.attempts = 3;
    o.retry_ms = 2;
    CHECK_INT(reference_parse(text, &ref, &err), 0);
    if (registry_open(&ref, &o, &r, &err) < 0)
        TAP_FAIL("%s", err.text);
    reference_done(&ref);
    return r;
}

static struct registry *open_plain(void)
{
    return open_with(server.host, (struct registry_options){0});
}

static void start(bool (*answer)(struct fake_http *, int, const struct fake_request *))
{
    make_blob();
    fake_http_start(&server, answer);
}

static void check_manifest(struct registry *r)
{
    struct registry_document doc;

    if (registry_manifest(r, "1.0", &doc, &err) < 0)
        TAP_FAIL("%s", err.text);
    CHECK_STR(doc.bytes, MANIFEST);
    CHECK_STR(doc.media_type, OCI_MANIFEST);
    registry_document_done(&doc);
}

static void check_no_manifest(struct registry *r, enum err_kind kind, const char *code,
                              const char *says)
{
    struct registry_document doc;

    err = (struct err){0};
    CHECK_INT(registry_manifest(r, "1.0", &doc, &err), -1);
    CHECK_INT(err.kind, kind);
    CHECK_STR(err.code, code);
    if (!strstr(err.text, says))
        TAP_FAIL("\"%s\" does not say \"%s\"", err.text, says);
}

static int keep(const void *data, size_t len, void *arg, struct err *e)
{
    if (buf_add(arg, data, len) < 0)
        return err_set(e, ERR_INTERNAL, "the sink got more than the blob has");
    return 0;
}

static void check_blob(struct registry *r)
{
    auto_buf struct buf got;

    buf_init(&got, BLOB_SIZE);
    if (registry_blob(r, &blob, keep, &got, &err) < 0)
        TAP_FAIL("%s", err.text);
    CHECK_INT(got.len, BLOB_SIZE);
    CHECK(memcmp(got.data, blob_bytes, BLOB_SIZE) == 0);
}

static void check_bad_blob(struct registry *r, const char *code, const char *says)
{
    auto_buf struct buf got;

    buf_init(&got, BLOB_SIZE);
    err = (struct err){0};
    CHECK_INT(registry_blob(r, &blob, keep, &got, &err), -1);
    CHECK_INT(err.kind, ERR_UNAVAILABLE);
    CHECK_STR(err.code, code);
    if (!strstr(err.text, says))
        TAP_FAIL("\"%s\" does not say \"%s\"", err.text, says);
}

static void check_no_blob(struct registry *r, const char *says)
{
    check_bad_blob(r, "image_pull_failed", says);
}

/* ---- answers ---- */

static bool reply_manifest(int fd)
{
    return fake_reply(fd, "200 OK", "Content-Type: " OCI_MANIFEST "\r\n", MANIFEST);
}

static bool reply_blob(int fd)
{
    fake_sendf(fd, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BLOB_SIZE);
    fake_send(fd, blob_bytes, BLOB_SIZE);
    return true;
}

static bool is_blob(const struct fake_request *q)
{
    return strstr(q->path, "/blobs/") != NULL;
}

static bool answer_plainly(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    return is_blob(q) ? reply_blob(fd) : reply_manifest(fd);
}

static bool answer_404(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    return fake_reply(fd, "404 Not Found", "",
                      "{\"errors\":[{\"code\":\"X\",\"message\":\"manifest\\u001b unknown\"}]}");
}

/* ---- manifests ---- */

TEST(a_manifest_comes_with_its_type_and_digest)
{
    struct registry_document doc;
    struct registry *r;
    char digest[DIGEST_HEX];

    start(answer_plainly);
    r = open_plain();
    CHECK_INT(registry_manifest(r, "1.0", &doc, &err), 0);
    digest_of(MANIFEST, digest);
    CHECK_STR(doc.digest, digest);
    CHECK_INT(doc.len, strlen(MANIFEST));
    CHECK_STR(server.log[0].path, "/v2/team/app/manifests/1.0");
    CHECK_STR(server.log[0].authorization, "");
    CHECK(strncmp(server.log[0].agent, "cay/", 4) == 0);
    CHECK(strstr(server.log[0].accept, OCI_MANIFEST));
    registry_document_done(&doc);
    CHECK_INT(registry_manifest(r, digest, &doc, &err), 0);
    CHECK(strstr(server.log[1].path, "/manifests/sha256:"));
    registry_document_done(&doc);
    CHECK_INT(server.n_connections, 1);
    registry_free(r);
}

TEST(a_manifest_with_another_digest_is_refused)
{
    struct registry_document doc;
    struct registry *r;

    start(answer_plainly);
    r = open_plain();
    CHECK_INT(registry_manifest(r, blob.digest, &doc, &err), -1);
    CHECK_STR(err.code, "image_pull_failed");
    CHECK(strstr(err.text, "changed on the way"));
    registry_free(r);
}

static bool answer_other_digest(struct fake_http *s, int fd, const struct fake_request *q)
{
    char header[128];

    (void)s;
    (void)q;
    (void)snprintf(header, sizeof(header), "Docker-Content-Digest: sha256:%s\r\n", blob.digest);
    return fake_reply(fd, "200 OK", header, MANIFEST);
}

TEST(a_manifest_that_is_not_what_the_registry_says_is_refused)
{
    struct registry *r;

    start(answer_other_digest);
    r = open_plain();
    check_no_manifest(r, ERR_UNAVAILABLE, "image_pull_failed", "changed on the way");
    registry_free(r);
}

static bool answer_endlessly(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    fake_sendf(fd, "HTTP/1.1 200 OK\r\n\r\n");
    for (int i = 0; i < 20; i++)
        fake_send(fd, blob_bytes, BLOB_SIZE);
    return false;
}

TEST(a_manifest_without_end_is_stopped)
{
    struct registry *r;

    start(answer_endlessly);
    r = open_plain();
    check_no_manifest(r, ERR_INVALID, "bad_manifest", "over 4194304 bytes");
    CHECK_INT(fake_requests(&server), 1);
    registry_free(r);
}

TEST(what_is_not_there_is_asked_for_once)
{
    struct registry *r;

    start(answer_404);
    r = open_plain();
    check_no_manifest(r, ERR_NOT_FOUND, "image_not_found",
                      "has no team/app:1.0: check the name and the tag (manifest? unknown)");
    CHECK_INT(fake_requests(&server), 1);
    registry_free(r);
}

/* ---- trying again ---- */

static bool answer_busy(struct fake_http *s, int fd, const struct fake_request *q)
{
    if (atomic_fetch_sub(&failures, 1) > 0)
        return fake_reply(fd, "429 Too Many Requests", "Retry-After: 0\r\n", "");
    return answer_plainly(s, fd, q);
}

TEST(a_registry_that_is_busy_is_asked_again)
{
    struct registry *r;

    start(answer_busy);
    atomic_store(&failures, 2);
    r = open_plain();
    check_manifest(r);
    CHECK_INT(fake_requests(&server), 3);
    registry_free(r);
}

TEST(a_registry_that_stays_busy_is_given_up)
{
    struct registry *r;

    start(answer_busy);
    atomic_store(&failures, 100);
    r = open_plain();
    check_no_manifest(r, ERR_UNAVAILABLE, "image_pull_failed", "no more pulls");
    CHECK_INT(fake_requests(&server), 3);
    registry_free(r);
}

static bool answer_wait_an_hour(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    return fake_reply(fd, "429 Too Many Requests", "Retry-After: 3600\r\n", "");
}

TEST(nobody_waits_for_an_hour)
{
    struct registry *r;

    start(answer_wait_an_hour);
    r = open_plain();
    check_no_manifest(r, ERR_UNAVAILABLE, "image_pull_failed", "try again later");
    CHECK_INT(fake_requests(&server), 1);
    registry_free(r);
}

/* Each kind of failure that may pass, in turn. */
static bool answer_badly_first(struct fake_http *s, int fd, const struct fake_request *q)
{
    switch (atomic_fetch_sub(&failures, 1)) {
    case 3:
        return fake_reply(fd, "503 Service Unavailable", "", "");
    case 2:
        fake_sendf(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{");
        return false;
    case 1:
        return false;
    default:
        return answer_plainly(s, fd, q);
    }
}

TEST(failures_that_pass_are_waited_out)
{
    struct registry *r;

    start(answer_badly_first);
    atomic_store(&failures, 3);
    r = open_with(server.host, (struct registry_options){.attempts = 5});
    check_manifest(r);
    CHECK_INT(fake_requests(&server), 4);
    registry_free(r);
}

TEST(nobody_listens)
{
    struct registry *r;
    int fd;

    start(answer_plainly);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* bound, so that the port stays dead */
    {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(a);

        CHECK_INT(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        CHECK_INT(getsockname(fd, (struct sockaddr *)&a, &len), 0);
        snprintf(server.host, sizeof(server.host), "127.0.0.1:%u", ntohs(a.sin_port));
    }
    r = open_plain();
    check_no_manifest(r, ERR_UNAVAILABLE, "image_pull_failed", "cannot connect to 127.0.0.1:");
    registry_free(r);
    (void)close(fd);
}

TEST(a_host_without_an_address_is_said_to_be_one)
{
    struct registry *r;

    start(answer_plainly);
    r = open_with("no-such-host.invalid", (struct registry_options){0});
    check_no_manifest(r, ERR_UNAVAILABLE, "image_pull_failed", "there is no address for");
    registry_free(r);
}

TEST(plain_http_is_only_for_hosts_that_are_listed)
{
    char *none[] = {"127.0.0.1:1", NULL};
    char *by_host[] = {"127.0.0.1", NULL};
    struct registry *r;

    start(answer_plainly);
    r = open_with(server.host, (struct registry_options){.insecure = none});
    check_no_manifest(r, ERR_UNAVAILABLE, "image_pull_failed", "add it to CAY_INSECURE_REGISTRIES");
    CHECK_INT(fake_requests(&server), 0);
    registry_free(r);
    r = open_with(server.host, (struct registry_options){.insecure = by_host});
    check_manifest(r);
    registry_free(r);
}

/* ---- blobs ---- */

TEST(a_blob_arrives_whole)
{
    struct registry *r;

    start(answer_plainly);
    r = open_plain();
    check_blob(r);
    CHECK_STR(server.log[0].range, "");
    registry_free(r);
}

/* Stops after a third, twice; honours ranges. */
static bool answer_broken(struct fake_http *s, int fd, const struct fake_request *q)
{
    size_t from = 0, part = BLOB_SIZE;

    (void)s;
    if (q->range[0] && sscanf(q->range, "bytes=%zu-", &from) != 1)
        abort();
    if (atomic_fetch_sub(&failures, 1) > 0)
        part = BLOB_SIZE / 3;
    if (part > BLOB_SIZE - from)
        part = BLOB_SIZE - from;
    if (from > 0)
        fake_sendf(fd, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %zu-%d/%d\r\n", from,
                   BLOB_SIZE - 1, BLOB_SIZE);
    else
        fake_sendf(fd, "HTTP/1.1 200 OK\r\n");
    fake_sendf(fd, "Content-Length: %zu\r\n\r\n", BLOB_SIZE - from);
    fake_send(fd, blob_bytes + from, part);
    return false;
}

TEST(a_broken_transfer_goes_on_where_it_broke)
{
    struct registry *r;

    start(answer_broken);
    atomic_store(&failures, 2);
    r = open_plain();
    check_blob(r);
    CHECK_INT(fake_requests(&server), 3);
    CHECK_STR(server.log[1].range, "bytes=100000-");
    CHECK_STR(server.log[2].range, "bytes=200000-");
    registry_free(r);
}

/* As if it knew no ranges. */
static bool answer_broken_whole(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    fake_sendf(fd, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BLOB_SIZE);
    if (atomic_fetch_sub(&failures, 1) > 0)
        fake_send(fd, blob_bytes, BLOB_SIZE / 3);
    else
        fake_send(fd, blob_bytes, BLOB_SIZE);
    return false;
}

TEST(a_server_without_ranges_is_read_again_and_passed_over)
{
    struct registry *r;

    start(answer_broken_whole);
    atomic_store(&failures, 1);
    r = open_plain();
    check_blob(r);
    CHECK_INT(fake_requests(&server), 2);
    CHECK_STR(server.log[1].range, "bytes=100000-");
    registry_free(r);
}

TEST(a_transfer_that_breaks_again_and_again_is_given_up)
{
    struct registry *r;

    start(answer_broken_whole);
    atomic_store(&failures, 100);
    r = open_plain();
    check_no_blob(r, "broke");
    CHECK_INT(fake_requests(&server), 3);
    registry_free(r);
}

static bool answer_wrong_part(struct fake_http *s, int fd, const struct fake_request *q)
{
    if (!q->range[0])
        return answer_broken_whole(s, fd, q);
    fake_sendf(fd,
               "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-%d/%d\r\n"
               "Content-Length: %d\r\n\r\n",
               BLOB_SIZE - 1, BLOB_SIZE, BLOB_SIZE - 5);
    fake_send(fd, blob_bytes + 5, BLOB_SIZE - 5);
    return false;
}

TEST(another_part_than_was_asked_for_is_refused)
{
    struct registry *r;

    start(answer_wrong_part);
    atomic_store(&failures, 1);
    r = open_plain();
    check_no_blob(r, "another part");
    registry_free(r);
}

/* The length is not said; the body ends with the connection. */
static bool answer_until_close(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)q;
    fake_sendf(fd, "HTTP/1.1 200 OK\r\n\r\n");
    fake_send(fd, blob_bytes, BLOB_SIZE);
    return false;
}

TEST(more_bytes_than_promised_are_stopped)
{
    struct registry *r;

    start(answer_until_close);
    r = open_plain();
    check_blob(r);
    blob.size = BLOB_SIZE - 1;
    check_no_blob(r, "another size");
    CHECK_INT(fake_requests(&server), 2);
    registry_free(r);
}

TEST(a_length_that_is_not_the_promised_one_is_refused_at_once)
{
    auto_buf struct buf got;
    struct registry *r;

    start(answer_plainly);
    blob.size = BLOB_SIZE + 1;
    r = open_plain();
    buf_init(&got, BLOB_SIZE + 1);
    CHECK_INT(registry_blob(r, &blob, keep, &got, &err), -1);
    CHECK(strstr(err.text, "another size"));
    CHECK_INT(got.len, 0);
    CHECK_INT(fake_requests(&server), 1);
    registry_free(r);
}

TEST(fewer_bytes_than_promised_are_not_a_blob)
{
    struct registry *r;

    start(answer_until_close);
    blob.size = BLOB_SIZE + 1;
    r = open_plain();
    check_no_blob(r, "sent 300000 of the 300001 bytes");
    registry_free(r);
}

TEST(wrong_bytes_are_not_a_blob)
{
    struct registry *r;

    start(answer_plainly);
    blob_bytes[12345] ^= 1;
    r = open_plain();
    check_bad_blob(r, "digest_mismatch", "changed on the way");
    registry_free(r);
}

TEST(a_blob_of_nothing_needs_no_request)
{
    auto_buf struct buf got;
    struct blob empty = {0};
    struct registry *r;

    start(answer_plainly);
    digest_of("", empty.digest);
    buf_init(&got, 1);
    r = open_plain();
    CHECK_INT(registry_blob(r, &empty, keep, &got, &err), 0);
    CHECK_INT(fake_requests(&server), 0);
    registry_free(r);
}

static int refuse(const void *data, size_t len, void *arg, struct err *e)
{
    (void)data;
    (void)len;
    (void)arg;
    return err_code(e, ERR_TOO_LARGE, "full", "the disk is full");
}

TEST(a_sink_that_fails_ends_it)
{
    struct registry *r;

    start(answer_plainly);
    r = open_plain();
    CHECK_INT(registry_blob(r, &blob, refuse, NULL, &err), -1);
    CHECK_STR(err.code, "full");
    CHECK_INT(fake_requests(&server), 1);
    registry_free(r);
}

/* ---- who we are ---- */

static bool answer_guarded(struct fake_http *s, int fd, const struct fake_request *q)
{
    if (strncmp(q->path, "/token", 6) == 0)
        return fake_reply(fd, "200 OK", "", "{\"token\":\"T0K\",\"expires_in\":300}");
    if (strcmp(q->authorization, wanted) != 0)
        return fake_reply(fd, "401 Unauthorized", challenge, "");
    return answer_plainly(s, fd, q);
}

static void guard_with_bearer(const char *realm_host)
{
    wanted = "Bearer T0K";
    snprintf(challenge, sizeof(challenge),
             "Www-Authenticate: Bearer realm=\"http://%s/token\",service=\"a b\","
             "scope=\"repository:team/app:pull\"\r\n",
             realm_host);
}

static void guard_with_basic(void)
{
    wanted = "Basic bWU6c2VjcmV0"; /* me:secret */
    snprintf(challenge, sizeof(challenge), "WWW-Authenticate: Basic realm=\"x\"\r\n");
}

TEST(a_token_is_fetched_once_and_used_for_all)
{
    struct registry *r;

    start(answer_guarded);
    guard_with_bearer(server.host);
    r = open_plain();
    check_manifest(r);
    check_blob(r);
    CHECK_INT(fake_asked(&server, "/token"), 1);
    CHECK_STR(server.log[1].path, "/token?service=a%20b&scope=repository%3Ateam%2Fapp%3Apull");
    CHECK_STR(server.log[1].authorization, "");
    CHECK_INT(fake_requests(&server), 4);
    registry_free(r);
}

TEST(a_password_goes_to_the_token_service_and_not_to_the_registry)
{
    struct registry *r;

    start(answer_guarded);
    fake_http_start(&other, answer_guarded);
    guard_with_bearer(other.host);
    r = open_with(server.host, (struct registry_options){.username = "me", .password = "secret"});
    check_manifest(r);
    CHECK_INT(fake_requests(&other), 1);
    CHECK_STR(other.log[0].authorization, "Basic bWU6c2VjcmV0");
    CHECK(strstr(other.log[0].path, "account=me"));
    CHECK_STR(server.log[0].authorization, "");
    CHECK_STR(server.log[1].authorization, "Bearer T0K");
    registry_free(r);
}

TEST(a_token_service_is_the_registrys_own_within_its_domain)
{
    static const struct {
        const char *host, *realm;
        bool own;
    } cases[] = {
        {"ghcr.io", "ghcr.io", true},
        {"GHCR.io", "ghcr.IO", true},
        {"registry-1.docker.io", "auth.docker.io", true},
        {"registry.gitlab.com", "gitlab.com", true},
        {"docker.elastic.co", "docker-auth.elastic.co", true},
        {"registry.example.co.uk", "auth.example.co.uk", true},
        {"127.0.0.1", "127.0.0.1", true},
        {"[::1]", "[::1]", true},
        {"localhost", "localhost", true},
        {"ghcr.io", "evil.io", false},
        {"ghcr.io", "io", false},
        {"ghcr.io", "evil.example", false},
        {"registry-1.docker.io", "docker.io.evil.example", false},
        {"registry-1.docker.io", "evildocker.io", false},
        {"registry-1.docker.io", "ocker.io", false},
        {"example.co.uk", "evil.co.uk", false},
        {"example.co.uk", "co.uk", false},
        {"10.0.0.1", "20.0.0.1", false},
        {"127.0.0.1", "localhost", false},
        {"localhost", "evil", false},
        {"registry", "auth", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (realm_is_own(cases[i].host, cases[i].realm) != cases[i].own)
            TAP_FAIL("%s is%s of %s", cases[i].realm, cases[i].own ? " not" : "", cases[i].host);
}

TEST(a_password_goes_to_no_token_service_of_another_domain_unless_it_is_listed)
{
    auto_free char *realm = NULL, *pair = NULL, *all_ports = NULL, *else_where = NULL;
    struct registry_options o = {.username = "me", .password = "secret"};
    char *insecure[] = {server.host, "localhost", NULL};
    struct registry *r;

    start(answer_guarded);
    fake_http_start(&other, answer_guarded);
    realm = xasprintf("localhost%s", strchr(other.host, ':'));
    guard_with_bearer(realm);
    o.insecure = insecure;
    r = open_with(server.host, o);
    check_no_manifest(r, ERR_FORBIDDEN, "registry_denied",
                      "CAY_REGISTRY_REALMS must have 127.0.0.1:");
    CHECK_INT(fake_requests(&other), 0);
    registry_free(r);
    /* Without a login there is nothing to lose. */
    r = open_with(server.host, (struct registry_options){.insecure = insecure});
    check_manifest(r);
    CHECK_INT(fake_requests(&other), 1);
    CHECK_STR(other.log[0].authorization, "");
    registry_free(r);
    else_where = xasprintf("%s=localhost:1", server.host);
    pair = xasprintf("%s=%s", server.host, realm);
    all_ports = xasprintf("%s=localhost", server.host);
    o.realms = (char *[]){else_where, "localhost=localhost", NULL};
    r = open_with(server.host, o);
    check_no_manifest(r, ERR_FORBIDDEN, "registry_denied", "CAY_REGISTRY_REALMS");
    registry_free(r);
    CHECK_INT(fake_requests(&other), 1);
    o.realms = (char *[]){else_where, pair, NULL};
    r = open_with(server.host, o);
    check_manifest(r);
    registry_free(r);
    CHECK_STR(other.log[1].authorization, "Basic bWU6c2VjcmV0");
    o.realms = (char *[]){all_ports, NULL};
    r = open_with(server.host, o);
    check_manifest(r);
    registry_free(r);
}

TEST(basic_credentials_are_sent_when_asked_for)
{
    struct registry *r;

    start(answer_guarded);
    guard_with_basic();
    r = open_with(server.host, (struct registry_options){.username = "me", .password = "secret"});
    check_manifest(r);
    check_blob(r);
    CHECK_STR(server.log[0].authorization, "");
    CHECK_INT(fake_requests(&server), 3);
    registry_free(r);
}

TEST(wrong_credentials_are_told_apart_from_none)
{
    struct registry *r;

    start(answer_guarded);
    guard_with_basic();
    r = open_with(server.host, (struct registry_options){.username = "me", .password = "wrong"});
    check_no_manifest(r, ERR_FORBIDDEN, "registry_denied", "does not let me have team/app:1.0");
    CHECK_INT(fake_requests(&server), 2);
    registry_free(r);
    r = open_plain();
    check_no_manifest(r, ERR_FORBIDDEN, "registry_denied",
                      "wants a login for team/app:1.0, or it does");
    CHECK(strstr(err.text, "registry_auth or `docker login`"));
    registry_free(r);
}

static bool answer_no_tokens(struct fake_http *s, int fd, const struct fake_request *q)
{
    if (strncmp(q->path, "/token", 6) == 0)
        return fake_reply(fd, "401 Unauthorized", "", "");
    return answer_guarded(s, fd, q);
}

TEST(a_token_service_can_say_no)
{
    struct registry *r;

    start(answer_no_tokens);
    guard_with_bearer(server.host);
    r = open_with(server.host, (struct registry_options){.username = "me", .password = "wrong"});
    check_no_manifest(r, ERR_FORBIDDEN, "registry_denied", "refused the credentials of me");
    registry_free(r);
    r = open_plain();
    check_no_manifest(r, ERR_FORBIDDEN, "registry_denied", "wants a login");
    registry_free(r);
}

static bool answer_bad_token(struct fake_http *s, int fd, const struct fake_request *q)
{
    if (strncmp(q->path, "/token", 6) == 0)
        return fake_reply(fd, "200 OK", "", "{\"token\":\"a\\r\\nX-Evil: 1\"}");
    return answer_guarded(s, fd, q);
}

TEST(a_token_cannot_bring_a_header_along)
{
    struct registry *r;

    start(answer_bad_token);
    guard_with_bearer(server.host);
    r = open_plain();
    check_no_manifest(r, ERR_UNAVAILABLE, "image_pull_failed", "no usable token");
    registry_free(r);
}

/* The first token is refused, as when it has expired. */
static bool answer_stale(struct fake_http *s, int fd, const struct fake_request *q)
{
    if (strncmp(q->path, "/token", 6) == 0)
        return fake_reply(fd, "200 OK", "",
                          fake_asked(s, "/token") > 1 ? "{\"access_token\":\"T0K\"}"
                                                      : "{\"token\":\"OLD\"}");
    if (is_blob(q))
        return answer_guarded(s, fd, q);
    return strcmp(q->authorization, "") ? reply_manifest(fd) : answer_guarded(s, fd, q);
}

TEST(a_token_that_is_refused_is_fetched_anew)
{
    struct registry *r;

    start(answer_stale);
    guard_with_bearer(server.host);
    r = open_plain();
    check_manifest(r);
    check_blob(r);
    CHECK_INT(fake_asked(&server, "/token"), 2);
    registry_free(r);
}

static void *blob_thread(void *arg)
{
    check_blob(arg);
    return NULL;
}

TEST(threads_share_one_token)
{
    pthread_t threads[4];
    struct registry *r;

    start(answer_guarded);
    guard_with_bearer(server.host);
    r = open_plain();
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        CHECK_INT(pthread_create(&threads[i], NULL, blob_thread, r), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(fake_asked(&server, "/token"), 1);
    check_blob(r);
    CHECK(fake_connections(&server) <= ARRAY_LEN(threads) + 1);
    registry_free(r);
}

/* ---- redirects ---- */

static bool answer_elsewhere(struct fake_http *s, int fd, const struct fake_request *q)
{
    char header[512];

    if (strncmp(q->path, "/token", 6) == 0)
        return answer_guarded(s, fd, q);
    if (strcmp(q->authorization, wanted) != 0)
        return fake_reply(fd, "401 Unauthorized", challenge, "");
    if (strncmp(q->path, "/moved", 6) == 0)
        return is_blob(q) ? reply_blob(fd) : reply_manifest(fd);
    snprintf(header, sizeof(header), "Location: %s%s\r\n", location,
             is_blob(q) ? "/moved/blobs/" : "/moved");
    return fake_reply(fd, "307 Temporary Redirect", header, "");
}

TEST(a_redirect_to_another_host_takes_no_credentials_along)
{
    auto_free char *url = NULL;
    struct registry *r;

    start(answer_elsewhere);
    fake_http_start(&other, answer_plainly);
    url = xasprintf("http://%s", other.host);
    location = url;
    guard_with_basic();
    r = open_with(server.host, (struct registry_options){.username = "me", .password = "secret"});
    check_manifest(r);
    check_blob(r);
    CHECK_INT(fake_requests(&other), 2);
    CHECK_STR(other.log[0].authorization, "");
    CHECK_STR(other.log[1].authorization, "");
    registry_free(r);
}

TEST(a_redirect_on_the_same_host_keeps_them)
{
    struct registry *r;

    start(answer_elsewhere);
    location = "";
    guard_with_basic();
    r = open_with(server.host, (struct registry_options){.username = "me", .password = "secret"});
    check_manifest(r);
    CHECK_STR(server.log[2].path, "/moved");
    CHECK_STR(server.log[2].authorization, wanted);
    registry_free(r);
}

/* As answer_elsewhere, but for anybody, and without an end. */
static bool answer_go_on(struct fake_http *s, int fd, const struct fake_request *q)
{
    char header[512];

    (void)s;
    (void)q;
    snprintf(header, sizeof(header), "Location: %s\r\n", location);
    return fake_reply(fd, "302 Found", header, "");
}

/* Asks for a password, for a token service of its own. */
static bool answer_trap(struct fake_http *s, int fd, const struct fake_request *q)
{
    char header[256];

    (void)q;
    snprintf(header, sizeof(header), "WWW-Authenticate: Bearer realm=\"http://%s/token\"\r\n",
             s->host);
    return fake_reply(fd, "401 Unauthorized", header, "");
}

TEST(who_answers_after_a_redirect_gets_no_credentials_for_asking)
{
    auto_free char *url = NULL;
    struct registry *r;

    start(answer_go_on);
    fake_http_start(&other, answer_trap);
    url = xasprintf("http://%s/x", other.host);
    location = url;
    r = open_with(server.host, (struct registry_options){.username = "me", .password = "secret"});
    check_no_manifest(r, ERR_UNAVAILABLE, "image_pull_failed", "HTTP 401");
    CHECK_INT(fake_requests(&other), 1);
    CHECK_STR(other.log[0].authorization, "");
    registry_free(r);
}

TEST(redirects_to_where_nobody_may_go_are_refused)
{
    static const struct {
        const char *to, *says;
    } cases[] = {
        {"http://169.254.169.254/latest/meta-data", "link-local"},
        {"https://169.254.169.254/", "link-local"},
        {"http://2852039166/", "link-local"},
        {"http://0xa9fea9fe/", "link-local"},
        {"https://169.254.169.254./", "link-local"},
        {"http://[fe80::1]/", "link-local"},
        {"http://[::ffff:169.254.169.254]/", "link-local"},
        {"http://[fd00:ec2::254]/", "link-local"},
        {"http://100.100.100.200/", "link-local"},
        {"http://127.0.0.1:1/", "over plain http"},
        {"http://me:secret@127.0.0.1/", "user name"},
        {"ftp://127.0.0.1/x", "not http"},
        {"file:///etc/passwd", "address"},
        {"/", "circle"},
    };
    char *listed[] = {server.host,       "169.254.169.254", "[fe80::1]",
                      "[fd00:ec2::254]", "100.100.100.200", NULL};
    struct registry *r;

    start(answer_go_on);
    r = open_with(server.host, (struct registry_options){.insecure = listed});
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        location = cases[i].to;
        check_no_manifest(r, ERR_UNAVAILABLE, "image_pull_failed", cases[i].says);
    }
    registry_free(r);
}

TEST(token_services_where_nobody_may_go_are_refused)
{
    static const struct {
        const char *realm, *says;
    } cases[] = {
        {"169.254.169.254", "link-local"},
        {"127.0.0.1:1", "over plain http"},
    };
    char *listed[] = {server.host, "169.254.169.254", NULL};
    struct registry *r;

    start(answer_guarded);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        guard_with_bearer(cases[i].realm);
        r = open_with(server.host, (struct registry_options){
                                       .insecure = listed, .username = "me", .password = "secret"});
        check_no_manifest(r, ERR_UNAVAILABLE, "image_pull_failed", cases[i].says);
        registry_free(r);
    }
}

/* In place of the C library's: here a name has the address of a metadata service. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (node && strcmp(node, "metadata.test") == 0)
        node = "169.254.169.254";
    return real(node, service, hints, ret);
}

TEST(names_of_addresses_where_nobody_may_go_are_refused)
{
    struct registry *r;

    start(answer_plainly);
    r = open_with("metadata.test", (struct registry_options){0});
    check_no_manifest(r, ERR_UNAVAILABLE, "image_pull_failed",
                      "refused to connect to metadata.test: it has a link-local address");
    registry_free(r);
}

TEST(addresses_of_metadata_services_are_known)
{
    static const struct {
        const char *text;
        bool forbidden;
    } cases[] = {
        {"169.254.0.1", true},
        {"169.254.255.255", true},
        {"169.253.255.255", false},
        {"169.255.0.0", false},
        {"127.0.0.1", false},
        {"10.0.0.1", false},
        {"fe80::1", true},
        {"febf::1", true},
        {"fec0::1", false},
        {"::ffff:169.254.1.1", true},
        {"::ffff:8.8.8.8", false},
        {"64:ff9b::a9fe:a9fe", true},
        {"fd00:ec2::254", true},
        {"2001:db8::1", false},
        {"::1", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct sockaddr_in v4 = {.sin_family = AF_INET};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
        const void *a = &v4;

        if (inet_pton(AF_INET, cases[i].text, &v4.sin_addr) != 1) {
            CHECK_INT(inet_pton(AF_INET6, cases[i].text, &v6.sin6_addr), 1);
            a = &v6;
        }
        if (address_is_forbidden(a) != cases[i].forbidden)
            TAP_FAIL("%s", cases[i].text);
    }
}

/* ---- mirrors ---- */

static struct registry *open_mirrored(struct registry_options o)
{
    auto_free char *mirror = xasprintf("%s=http://%s/cache/", server.host, other.host);
    char *mirrors[] = {"docker.io=https://elsewhere.example", mirror, NULL};

    o.mirrors = mirrors;
    return open_with(server.host, o);
}

TEST(a_mirror_is_asked_first)
{
    struct registry *r;

    start(answer_plainly);
    fake_http_start(&other, answer_plainly);
    r = open_mirrored((struct registry_options){.username = "me", .password = "secret"});
    check_manifest(r);
    check_blob(r);
    CHECK_INT(fake_requests(&other), 2);
    CHECK_STR(other.log[0].path, "/cache/v2/team/app/manifests/1.0");
    CHECK_INT(fake_requests(&server), 0);
    registry_free(r);
}

TEST(what_a_mirror_does_not_have_comes_from_the_registry)
{
    struct registry *r;

    start(answer_plainly);
    fake_http_start(&other, answer_404);
    r = open_mirrored((struct registry_options){0});
    check_manifest(r);
    check_blob(r);
    CHECK_INT(fake_requests(&other), 2);
    CHECK_INT(fake_requests(&server), 2);
    registry_free(r);
}

TEST(a_mirror_gets_no_credentials_of_the_registry)
{
    struct registry *r;

    start(answer_guarded);
    fake_http_start(&other, answer_guarded);
    guard_with_basic();
    r = open_mirrored((struct registry_options){.username = "me", .password = "secret"});
    check_manifest(r);
    CHECK_INT(fake_requests(&other), 1);
    CHECK_STR(other.log[0].authorization, "");
    CHECK_INT(fake_requests(&server), 2);
    registry_free(r);
}

static bool answer_nothing(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    (void)fd;
    (void)q;
    return false;
}

TEST(a_mirror_that_is_down_is_not_asked_for_ever)
{
    unsigned asked;
    struct registry *r;

    start(answer_plainly);
    fake_http_start(&other, answer_nothing);
    r = open_mirrored((struct registry_options){0});
    check_manifest(r);
    asked = fake_requests(&other);
    CHECK(asked >= 1 && asked <= 4); /* libcurl asks again by itself on a connection used before */
    check_blob(r);
    check_blob(r);
    CHECK_INT(fake_requests(&other), asked);
    registry_free(r);
}

/* A blob breaks off on the mirror, which then is gone. */
static bool answer_third_then_nothing(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)q;
    if (fake_requests(s) == 1) {
        fake_sendf(fd, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BLOB_SIZE);
        fake_send(fd, blob_bytes, BLOB_SIZE / 3);
    }
    return false;
}

TEST(a_blob_can_begin_at_a_mirror_and_end_at_the_registry)
{
    struct registry *r;

    start(answer_broken);
    fake_http_start(&other, answer_third_then_nothing);
    r = open_mirrored((struct registry_options){0});
    check_blob(r);
    CHECK_STR(server.log[0].range, "bytes=100000-");
    registry_free(r);
}

TEST(only_hosts_that_are_asked_have_their_passwords_told)
{
    char *mirrors[] = {"docker.io=https://cache.example:8443/prefix", "ghcr.io=https://g.example",
                       "nonsense", NULL};
    static const struct {
        const char *image, *host;
        bool asked;
    } cases[] = {
        {"python", "https://index.docker.io/v1/", true},
        {"python", "cache.example:8443", true},
        {"python", "docker.io", false},
        {"python", "ghcr.io", false},
        {"python", "g.example", false},
        {"python", "nonsense", false},
        {"python", "", false},
        {"ghcr.io/a/b", "ghcr.io", true},
        {"ghcr.io/a/b", "g.example", true},
        {"ghcr.io/a/b", "cache.example:8443", false},
        {"ghcr.io/a/b", "https://index.docker.io/v1/", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct reference ref;

        CHECK_INT(reference_parse(cases[i].image, &ref, NULL), 0);
        CHECK_INT(registry_asks(&ref, mirrors, cases[i].host), cases[i].asked);
        reference_done(&ref);
    }
}

TEST(a_bad_mirror_or_ca_is_refused_at_once)
{
    char *mirrors[][2] = {{"127.0.0.1:1", NULL}, {"127.0.0.1:1=http://127.0.0.1:2", NULL}};
    struct registry_options with_ca = {.ca_file = "/nonexistent"};
    struct registry *r = NULL;
    struct reference ref;

    CHECK_INT(reference_parse("127.0.0.1:1/x", &ref, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(mirrors); i++) {
        struct registry_options o = {.mirrors = mirrors[i]};

        CHECK_INT(registry_open(&ref, &o, &r, &err), -1);
        CHECK(strstr(err.text, "the mirror"));
    }
    CHECK_INT(registry_open(&ref, &with_ca, &r, &err), -1);
    CHECK(strstr(err.text, "/nonexistent"));
    reference_done(&ref);
}

/* ---- challenges ---- */

TEST(challenges_are_read_as_rfc_9110_writes_them)
{
    static const struct {
        const char *first, *second;
        int found;
        bool bearer;
        const char *realm, *scope;
    } cases[] = {
        {"Bearer realm=\"https://a/t\",service=\"s\",scope=\"repository:x:pull,push\"", NULL, 0,
         true, "https://a/t", "repository:x:pull,push"},
        {"bearer  REALM = \"r\" , scope=unquoted", NULL, 0, true, "r", "unquoted"},
        {"Basic realm=\"x\", Bearer realm=\"y\"", NULL, 0, true, "y", NULL},
        {"Basic realm=\"x\"", "Bearer realm=\"y\"", 0, true, "y", NULL},
        {"Bearer realm=\"y\"", "Basic realm=\"x\"", 0, true, "y", NULL},
        {"Negotiate, Basic realm=\"a\\\"b\"", NULL, 0, false, "a\"b", NULL},
        {"Basic", NULL, 0, false, NULL, NULL},
        {"Bearer realm=https://a/t?x=1,scope=s", NULL, 0, true, "https://a/t?x=1", "s"},
        {"Bearer scope=\"x\"", NULL, -1, false, NULL, NULL},
        {"Bearer realm=\"open", NULL, -1, false, NULL, NULL},
        {"Digest realm=\"x\"", NULL, -1, false, NULL, NULL},
        {"", NULL, -1, false, NULL, NULL},
        {",,, ", NULL, -1, false, NULL, NULL},
        {"=\"", NULL, -1, false, NULL, NULL},
        {"Basic Basic Basic", NULL, 0, false, NULL, NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_strv char **headers = strv_add(NULL, cases[i].first);
        struct challenge c;

        if (cases[i].second)
            headers = strv_add(headers, cases[i].second);
        if (challenge_parse(headers, &c) != cases[i].found)
            TAP_FAIL("%s", cases[i].first);
        if (cases[i].found < 0)
            continue;
        CHECK_INT(c.bearer, cases[i].bearer);
        CHECK_STR(c.realm ? c.realm : "", cases[i].realm ? cases[i].realm : "");
        CHECK_STR(c.scope ? c.scope : "", cases[i].scope ? cases[i].scope : "");
        challenge_done(&c);
    }
}

/* ---- docker's config.json ---- */

static char *write_file(const char *dir, const char *name, const char *text, mode_t mode)
{
    char *path = xasprintf("%s/%s", dir, name);
    FILE *f = fopen(path, "we");

    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
    CHECK_INT(chmod(path, mode), 0);
    return path;
}

TEST(credentials_are_found_by_host)
{
    static const char text[] =
        "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"aHViOnB3\"},"
        "\"ghcr.io\":{\"auth\":\"bWU6c2U6Y3JldA==\"},"
        "\"https://quay.io/v2/\":{\"username\":\"u\",\"password\":\"p\"},"
        "\"reg.example/team\":{\"auth\":\"bWU6c2VjcmV0\"},"
        "\"id.example\":{\"auth\":\"\",\"identitytoken\":\"IDT\"},"
        "\"bad.example\":{\"auth\":\"%%%\"}}}";
    static const struct {
        const char *host, *username, *password;
    } cases[] = {
        {DOCKER_HUB_KEY, "hub", "pw"}, {"ghcr.io", "me", "se:cret"}, {"GHCR.io", "me", "se:cret"},
        {"quay.io", "u", "p"},         {"ghcr.io:444", NULL, NULL},  {"reg.example", NULL, NULL},
        {"evil-ghcr.io", NULL, NULL},  {"ghcr.io.evil", NULL, NULL},
    };
    auto_dir char *dir = dir_new();
    auto_free char *path = write_file(dir, "config.json", text, 0600);
    struct credentials c;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_INT(credentials_find(path, cases[i].host, &c, &err), 0);
        CHECK_STR(c.username ? c.username : "-", cases[i].username ? cases[i].username : "-");
        CHECK_STR(c.password ? c.password : "-", cases[i].password ? cases[i].password : "-");
        credentials_done(&c);
    }
    CHECK_INT(credentials_find(path, "id.example", &c, &err), 0);
    CHECK_STR(c.identity, "IDT");
    credentials_done(&c);
    CHECK_INT(credentials_find(path, "bad.example", &c, &err), -1);
    CHECK_STR(err.code, "bad_docker_config");
    CHECK_INT(credentials_find("/nonexistent/config.json", "ghcr.io", &c, &err), 0);
    CHECK(!c.username);
    free(write_file(dir, "config.json", "not JSON", 0600));
    CHECK_INT(credentials_find(path, "ghcr.io", &c, &err), -1);
    CHECK(strstr(err.text, "not JSON"));
}

TEST(docker_logins_are_used)
{
    auto_dir char *dir = dir_new();
    auto_free char *text = NULL, *path = NULL;
    struct registry *r;

    start(answer_guarded);
    guard_with_basic();
    text = xasprintf("{\"auths\":{\"%s\":{\"auth\":\"bWU6c2VjcmV0\"}}}", server.host);
    path = write_file(dir, "config.json", text, 0600);
    r = open_with(server.host, (struct registry_options){.docker_config = path});
    check_manifest(r);
    registry_free(r);
}

TEST(an_identity_token_is_posted_to_the_token_service)
{
    auto_dir char *dir = dir_new();
    auto_free char *text = NULL, *path = NULL;
    struct registry *r;

    start(answer_guarded);
    guard_with_bearer(server.host);
    text = xasprintf("{\"auths\":{\"%s\":{\"identitytoken\":\"I D\"}}}", server.host);
    path = write_file(dir, "config.json", text, 0600);
    r = open_with(server.host, (struct registry_options){.docker_config = path});
    check_manifest(r);
    CHECK_STR(server.log[1].method, "POST");
    CHECK_STR(server.log[1].path, "/token");
    CHECK_STR(server.log[1].authorization, "");
    CHECK(strstr(server.log[1].body, "grant_type=refresh_token"));
    CHECK(strstr(server.log[1].body, "refresh_token=I%20D"));
    registry_free(r);
}

static bool answer_moved_tokens(struct fake_http *s, int fd, const struct fake_request *q)
{
    char header[256];

    if (strncmp(q->path, "/token", 6) != 0)
        return answer_guarded(s, fd, q);
    snprintf(header, sizeof(header), "Location: http://%s/token\r\n", other.host);
    return fake_reply(fd, "307 Temporary Redirect", header, "");
}

TEST(an_identity_token_does_not_follow_a_redirect)
{
    auto_dir char *dir = dir_new();
    auto_free char *text = NULL, *path = NULL;
    struct registry *r;

    start(answer_moved_tokens);
    fake_http_start(&other, answer_guarded);
    guard_with_bearer(server.host);
    text = xasprintf("{\"auths\":{\"%s\":{\"identitytoken\":\"ID\"}}}", server.host);
    path = write_file(dir, "config.json", text, 0600);
    r = open_with(server.host, (struct registry_options){.docker_config = path});
    check_no_manifest(r, ERR_UNAVAILABLE, "image_pull_failed", "answered HTTP 307");
    CHECK_INT(fake_requests(&other), 0);
    registry_free(r);
}

/* ---- credential helpers ---- */

#define SCRIPT "#!/bin/sh\n[ \"$1\" = get ] || exit 9\nread -r host\n"

static int ask(const char *dir, const char *name, struct credentials *c)
{
    const char *dirs[] = {"/nonexistent", dir, NULL};

    *c = (struct credentials){0};
    err = (struct err){0};
    return helper_ask(dirs, name, "ghcr.io", c, &err);
}

TEST(a_helper_gives_credentials)
{
    auto_dir char *dir = dir_new();
    struct credentials c;

    if (geteuid() != 0)
        SKIP("helpers must belong to root");
    free(write_file(dir, "docker-credential-ok",
                    SCRIPT "echo \"{\\\"Username\\\":\\\"u-$host\\\",\\\"Secret\\\":\\\"s\\\"}\"\n",
                    0755));
    free(write_file(dir, "docker-credential-id",
                    SCRIPT "echo '{\"Username\":\"<token>\",\"Secret\":\"s\"}'\n", 0755));
    free(write_file(dir, "docker-credential-none",
                    SCRIPT "echo 'credentials not found in native keychain'; exit 1\n", 0755));
    free(write_file(dir, "docker-credential-deaf",
                    "#!/bin/sh\nexec <&-\necho '{\"Username\":\"a\",\"Secret\":\"b\"}'\n", 0755));
    CHECK_INT(ask(dir, "ok", &c), 0);
    CHECK_STR(c.username, "u-ghcr.io");
    CHECK_STR(c.password, "s");
    credentials_done(&c);
    CHECK_INT(ask(dir, "id", &c), 0);
    CHECK_STR(c.identity, "s");
    CHECK(!c.username);
    credentials_done(&c);
    CHECK_INT(ask(dir, "none", &c), 0);
    CHECK(!c.username && !c.identity);
    CHECK_INT(ask(dir, "deaf", &c), 0);
    CHECK_STR(c.username, "a");
    credentials_done(&c);
}

TEST(a_helper_that_cannot_be_trusted_or_fails_is_refused)
{
    auto_dir char *dir = dir_new();
    struct credentials c;

    if (geteuid() != 0)
        SKIP("helpers must belong to root");
    free(write_file(dir, "docker-credential-open", SCRIPT "touch \"$0.ran\"\n", 0777));
    free(write_file(dir, "docker-credential-alien", SCRIPT "touch \"$0.ran\"\n", 0755));
    free(write_file(dir, "docker-credential-fails", SCRIPT "exit 1\n", 0755));
    free(write_file(dir, "docker-credential-words", SCRIPT "echo hello\n", 0755));
    free(write_file(dir, "docker-credential-floods", SCRIPT "exec yes\n", 0755));
    {
        auto_free char *path = xasprintf("%s/docker-credential-alien", dir);

        CHECK_INT(chown(path, 12345, 0), 0);
    }
    CHECK_INT(ask(dir, "open", &c), -1);
    CHECK(strstr(err.text, "not root's alone"));
    CHECK_INT(ask(dir, "alien", &c), -1);
    CHECK(strstr(err.text, "not root's alone"));
    {
        auto_free char *ran = xasprintf("%s/*.ran", dir);

        CHECK_INT(files_like(ran), 0);
    }
    CHECK_INT(ask(dir, "fails", &c), -1);
    CHECK(strstr(err.text, "failed"));
    CHECK_INT(ask(dir, "words", &c), -1);
    CHECK(strstr(err.text, "no user name"));
    CHECK_INT(ask(dir, "floods", &c), -1);
    CHECK_INT(ask(dir, "../x", &c), -1);
    CHECK(strstr(err.text, "letters"));
    CHECK_INT(ask(dir, "", &c), -1);
    CHECK_INT(ask(dir, "missing", &c), -1);
    CHECK(strstr(err.text, "install it"));
}

TAP_MAIN
