#include <netinet/in.h>
#include <sys/socket.h>

#include "engine_world.h"
#include "http/server.h"
#include "rest/rest.h"
#include "service/services.h"

/* The routes of images over a real server and an engine on fakes. */

static struct services no_services;

static struct world world;
static struct rest *api;
static struct rest_config api_config_of_test = {
    .prefix = "sandbox", .runtime = "native", .boundary = "none"};
static struct http_server *server;
static char *socket_path;

static void serve(const char *allowed)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    struct err err = {0};
    int fd;

    world_new(&world);
    world_close(&world, false);
    world.config.allowed_images = allowed;
    world_open(&world);
    world_start(&world);
    api = rest_new(&api_config_of_test, world.engine, &no_services);
    server = http_server_new(&limits, rest_handle, api);
    socket_path = xasprintf("%s/test.sock", world.dir);
    fd = unix_listen(socket_path, 16);
    CHECK(fd >= 0);
    if (http_server_listen(server, fd, false, &err) < 0 || http_server_start(server, &err) < 0)
        TAP_FAIL("%s", err.text);
}

static void done(void)
{
    fake_images_hold(false);
    engine_drain(world.engine);
    http_server_stop(server, 1000);
    http_server_free(server);
    rest_free(api);
    free(socket_path);
    world_done(&world);
}

static int send_request(const char *method, const char *path, const char *accept, const char *body)
{
    auto_free char *text =
        xasprintf("%s /sandbox%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                  "Accept: %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                  method, path, accept, strlen(body), body);
    int fd = unix_connect(socket_path);

    CHECK(fd >= 0);
    CHECK_INT(write_all(fd, text, strlen(text)), 0);
    return fd;
}

static char answer_text[1 << 16];

static const char *read_all(int fd)
{
    size_t len = 0;
    ssize_t n;

    while ((n = read_some(fd, answer_text + len, sizeof(answer_text) - 1 - len)) > 0)
        len += (size_t)n;
    answer_text[len] = '\0';
    CHECK_INT(close(fd), 0);
    return answer_text;
}

/* Reads until the text is there; the connection stays open. */
static void read_until(int fd, const char *want)
{
    size_t len = 0;
    ssize_t n;

    while ((n = read_some(fd, answer_text + len, sizeof(answer_text) - 1 - len)) > 0) {
        len += (size_t)n;
        answer_text[len] = '\0';
        if (strstr(answer_text, want))
            return;
    }
    TAP_FAIL("%s is not in %s", want, answer_text);
}

static const char *ask(const char *method, const char *path, const char *body)
{
    return read_all(send_request(method, path, "*/*", body));
}

static const char *ask_events(const char *path, const char *body)
{
    return read_all(send_request("POST", path, "text/event-stream", body));
}

static void check_answer(const char *got, const char *status, const char *says)
{
    if (strncmp(got, "HTTP/1.1 ", 9) != 0 || strncmp(got + 9, status, 3) != 0 || !strstr(got, says))
        TAP_FAIL("not %s with %s: %s", status, says, got);
}

/* a before b, and both there. */
static bool in_order(const char *text, const char *a, const char *b)
{
    const char *first = strstr(text, a);

    return first && strstr(first, b);
}

TEST(images_are_listed_and_shown_whole)
{
    static const char *const keys[] = {
        "\"name\":",   "\"id\":",         "\"digest\":",     "\"origin\":",    "\"size\":",
        "\"createdAt", "\"pulledAt",      "\"usedAt",        "\"platform",     "\"workdir",
        "\"user\":",   "\"env\":[\"PATH", "\"entrypoint\":", "\"cmd\":",       "\"ports\":",
        "\"labels\":", "\"stopSignal\":", "\"layers\":0",    "\"inUse\":false"};

    serve("*");
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        check_answer(ask("GET", "/images/team%2Fapp%3A1", ""), "200", keys[i]);
    check_answer(ask("GET", "/images/team%2Fapp%3A1", ""), "200", "\"name\":\"team/app:1\"");
    check_answer(ask("GET", "/images", ""), "200", "{\"images\":[{\"name\":\"host\"");
    check_answer(ask("GET", "/images/far", ""), "404", "image_not_found");
    check_answer(ask("GET", "/images/catalog", ""), "200",
                 "{\"name\":\"node\",\"reference\":\"docker.io/library/node:22-slim\",\"kind\":"
                 "\"preset\"}");
    free(create(&world, "{\"image\":\"python\"}"));
    check_answer(ask("GET", "/images/python", ""), "200", "\"inUse\":true");
    done();
}

TEST(a_pull_answers_with_the_image_or_with_what_happens)
{
    const char *got;

    serve("*");
    got = ask("POST", "/images/pull", "{\"reference\":\"far:1\"}");
    check_answer(got, "200", "\"name\":\"far:1\"");
    CHECK(!strstr(got, "event"));
    got = ask_events("/images/pull", "{\"reference\":\"far:2\"}");
    check_answer(got, "200", "text/event-stream");
    CHECK(in_order(got, "data: {\"event\":\"resolving\"", "data: {\"event\":\"layer\""));
    CHECK(in_order(got, "\"event\":\"storing\"", "data: {\"event\":\"done\",\"image\":{"));
    got = ask_events("/images/pull", "{\"reference\":\"far:2\",\"policy\":\"missing\"}");
    CHECK(!strstr(got, "resolving") && strstr(got, "\"event\":\"done\""));
    done();
}

TEST(a_create_that_pulls_says_so)
{
    const char *got;

    serve("*");
    got = ask_events("/sandboxes", "{\"image\":\"far:1\"}");
    CHECK(in_order(got, "\"event\":\"layer\"", "data: {\"event\":\"sandbox\",\"sandbox\":{"));
    got = ask_events("/sandboxes", "{\"image\":\"far:1\"}");
    CHECK(!strstr(got, "layer") && strstr(got, "\"event\":\"sandbox\""));
    check_answer(ask("POST", "/sandboxes", "{\"image\":\"far:1\"}"), "200", "\"status\"");
    done();
}

TEST(what_fails_at_once_has_its_status_and_what_fails_later_is_an_event)
{
    const char *got;

    serve("far:*,py*");
    check_answer(ask_events("/images/pull", "{\"reference\":\"x\"}"), "403", "image_not_allowed");
    check_answer(ask_events("/sandboxes", "{\"image\":\"x\"}"), "403",
                 "\"error\":\"Image not allowed: x\"");
    fake_images.failure = ERR_UNAVAILABLE;
    got = ask_events("/images/pull", "{\"reference\":\"far:1\"}");
    check_answer(got, "200", "\"event\":\"error\"");
    CHECK(strstr(got, "\"status\":503") && strstr(got, "\"code\":\"image_pull_failed\""));
    /* Its text names the registry: a slash in it does not make it a secret of the host. */
    CHECK(strstr(got, "docker.io/library/far:1 does not answer"));
    check_answer(ask("POST", "/sandboxes", "{\"image\":\"far:1\"}"), "503", "image_pull_failed");
    done();
}

TEST(a_client_that_goes_away_ends_its_pull)
{
    static const char *const accepts[] = {"text/event-stream", "*/*"};

    serve("*");
    fake_images_hold(true);
    for (unsigned i = 0; i < ARRAY_LEN(accepts); i++) {
        int fd = send_request("POST", "/images/pull", accepts[i], "{\"reference\":\"far:1\"}");

        if (i == 0)
            read_until(fd, "\"layer\"");
        while (fake_images_count(&fake_images.pulls) < i + 1)
            (void)poll(NULL, 0, 1);
        CHECK_INT(close(fd), 0);
        while (fake_images_count(&fake_images.cancelled) < i + 1)
            (void)poll(NULL, 0, 1);
    }
    done();
}

TEST(bad_input_is_refused_by_name)
{
    static const struct {
        const char *path, *body, *says;
    } bad[] = {
        {"/images/pull", "{}", "reference is required"},
        {"/images/pull", "{\"reference\":\"UPPER\"}", "is not an image name"},
        {"/images/pull", "{\"reference\":\"x\",\"policy\":\"maybe\"}", "policy must be"},
        {"/images/pull", "{\"reference\":\"x\",\"registry_auth\":\"x\"}", "registry_auth must be"},
        {"/images/pull", "{\"reference\":\"x\",\"registry_auth\":{\"username\":\"a\"}}",
         "registry_auth.password is required"},
        {"/sandboxes", "{\"image\":\"x\",\"registry_auth\":{\"password\":\"hidden\"}}",
         "registry_auth.username is required"},
        {"/sandboxes", "{\"image\":\"x\",\"pull\":\"maybe\"}", "pull must be"},
        {"/sandboxes", "{\"image\":\"x\",\"runEntrypoint\":1}", "runEntrypoint must be"},
        {"/images/x/tag", "{}", "name is required"},
        {"/images/x/tag", "{\"name\":\"UPPER\"}", "is not an image name"},
        {"/images/prune", "{\"unusedFor\":-1}", "unusedFor must be"},
        {"/images/prune", "{\"keepMb\":9223372036854775807}", "keepMb must be"},
    };

    serve("*");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const char *got = ask("POST", bad[i].path, bad[i].body);

        check_answer(got, "400", bad[i].says);
        CHECK(!strstr(got, "hidden"));
    }
    CHECK_INT(fake_images.pulls, 0);
    done();
}

TEST(images_are_tagged_pruned_exported_and_committed)
{
    auto_free char *id = NULL, *path = NULL;
    const char *got;

    serve("*");
    check_answer(ask("POST", "/images/a%3A1/tag", "{\"name\":\"b:2\"}"), "200", "\"name\":\"b:2\"");
    check_answer(ask("POST", "/images/a%3A1/tag", "{\"name\":\"python\"}"), "403",
                 "image_reserved");
    check_answer(ask("POST", "/images/prune", "{\"keepMb\":2,\"dryRun\":true}"), "200",
                 "\"removed\":[{\"name\":\"old\"");
    CHECK_INT(fake_images.keep_bytes, 2 << 20);
    got = ask("GET", "/images/team%2Fapp/export", "");
    check_answer(got, "200", "Content-Type: application/x-tar");
    CHECK(strstr(got, "archive of team/app"));
    check_answer(ask("GET", "/images/host/export", ""), "501", "host cannot be exported");
    id = create(&world, "{\"image\":\"py\"}");
    path = xasprintf("/sandboxes/%s/commit", id);
    check_answer(ask("POST", path, "{\"name\":\"made:1\",\"labels\":{\"a\":\"b\"}}"), "200",
                 "\"name\":\"made:1\"");
    CHECK(strstr(fake_images.committed, "made:1"));
    CHECK(strstr(fake_images.committed, "{\"labels\":{\"a\":\"b\"}}"));
    done();
}

TEST(an_import_tells_what_happens_too)
{
    if (geteuid() != 0)
        SKIP("needs root: a path of the host is read for root only");
    serve("*");
    check_answer(ask("POST", "/images/import", "{\"path\":\"/x\"}"), "200",
                 "\"name\":\"archived\"");
    check_answer(ask_events("/images/import", "{\"path\":\"/x\",\"name\":\"a:1\"}"), "200",
                 "\"event\":\"storing\"");
    check_answer(ask("POST", "/images/import", "{\"path\":\"x\"}"), "400", "path must be absolute");
    check_answer(ask("POST", "/images/import", "{\"path\":\"/x\",\"name\":\"host\"}"), "403",
                 "image_reserved");
    done();
}

TEST(plain_http_is_not_for_everybody_who_can_reach_the_port)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    socklen_t len = sizeof(to);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
    static const char request[] =
        "POST /sandbox/images/pull HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Content-Length: 37\r\n\r\n{\"reference\":\"far:1\",\"insecure\":true}";

    serve("*");
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_INT(bind(listener, (struct sockaddr *)&to, len), 0);
    CHECK_INT(listen(listener, 1), 0);
    CHECK_INT(getsockname(listener, (struct sockaddr *)&to, &len), 0);
    CHECK_INT(http_server_listen(server, listener, true, NULL), 0);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&to, len), 0);
    CHECK_INT(write_all(fd, request, strlen(request)), 0);
    check_answer(read_all(fd), "403", "insecure_not_allowed");
    check_answer(ask("POST", "/images/pull", "{\"reference\":\"far:1\",\"insecure\":true}"), "200",
                 "far:1");
    done();
}

TAP_MAIN
