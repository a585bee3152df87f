#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/mem.h"
#include "built_program.h"
#include "fake_http.h"
#include "service/courier.h"
#include "tap.h"

/* What the program of the build brings to a server of the test's own on loopback. */

static char *loopback[] = {"127.0.0.0/8", NULL};

static struct courier *open_courier(char *const *allow)
{
    const char *path = built_program("CAY_COURIER", "src/courier/cay-courier");
    struct courier_config config = {.allow = allow};
    struct err err = {0};
    struct courier *c;
    struct stat st;
    void *program;
    int fd;

    if (!path)
        SKIP_WITHOUT_PROGRAM("CAY_COURIER does not say where cay-courier is");
    if (geteuid() != 0)
        SKIP("needs root");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        TAP_FAIL("%s cannot be opened", path);
    program = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    config.program = program;
    config.program_bytes = (size_t)st.st_size;
    if (courier_new(&config, &c, &err) < 0 || courier_start(c, &err) < 0)
        TAP_FAIL("%s", err.text);
    return c;
}

struct result {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned told;
    int status;
    char word[16], text[200], address[64];
    unsigned retry_after_s;
};

#define RESULT_INIT                                                                                \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER                        \
    }

static void on_done(const struct courier_answer *a, void *arg)
{
    struct result *r = arg;

    pthread_mutex_lock(&r->lock);
    r->told++;
    r->status = a->status;
    r->retry_after_s = a->retry_after_s;
    (void)snprintf(r->word, sizeof(r->word), "%s", a->word ? a->word : "");
    (void)snprintf(r->text, sizeof(r->text), "%s", a->text);
    (void)snprintf(r->address, sizeof(r->address), "%s", a->address);
    pthread_cond_broadcast(&r->cond);
    pthread_mutex_unlock(&r->lock);
}

static void wait_for(struct result *r, unsigned n)
{
    pthread_mutex_lock(&r->lock);
    while (r->told < n)
        pthread_cond_wait(&r->cond, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static void post(struct courier *c, const char *url, struct result *r)
{
    static char *headers[] = {"Authorization: word", "Content-Type: application/json", NULL};
    struct courier_request q = {.url = url, .headers = headers, .body = "{\"a\":1}", .body_len = 7};
    struct err err = {0};

    if (courier_post(c, &q, on_done, r, &err) < 0)
        TAP_FAIL("%s", err.text);
}

static bool answers(struct fake_http *s, int fd, const struct fake_request *q)
{
    (void)s;
    if (strcmp(q->path, "/busy") == 0)
        return fake_reply(fd, "503 Busy", "Retry-After: 17\r\n", "later");
    if (strcmp(q->path, "/elsewhere") == 0)
        return fake_reply(fd, "302 Found", "Location: /hook\r\n", "");
    if (strcmp(q->path, "/endless") == 0) {
        fake_sendf(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
        for (int i = 0; i < 64; i++)
            fake_sendf(fd, "%01024d", 0);
        return true;
    }
    if (strcmp(q->path, "/much") == 0) {
        fake_sendf(fd, "HTTP/1.1 200 OK\r\n");
        for (int i = 0; i < 200; i++)
            fake_sendf(fd, "X-%d: %01000d\r\n", i, 0);
        fake_sendf(fd, "\r\n");
        return false;
    }
    if (strcmp(q->path, "/nonsense") == 0) {
        fake_sendf(fd, "\x01\x02 what?\r\n\r\n");
        return false;
    }
    if (strcmp(q->path, "/interim") == 0)
        fake_sendf(fd, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    if (strcmp(q->path, "/cut") == 0 || strcmp(q->path, "/stuck") == 0)
        fake_sendf(fd, "HTTP/1.1 200 OK\r\nX: y\r\n");
    if (strcmp(q->path, "/cut") == 0)
        return false;
    if (strcmp(q->path, "/silent") == 0 || strcmp(q->path, "/stuck") == 0)
        pause();
    return fake_reply(fd, "204 No Content", "", "");
}

TEST(a_message_arrives_and_its_status_comes_back)
{
    struct courier *c = open_courier(loopback);
    struct result r = RESULT_INIT;
    static struct fake_http s;
    char url[64];

    fake_http_start(&s, answers);
    (void)snprintf(url, sizeof(url), "http://%s/hook", s.host);
    post(c, url, &r);
    wait_for(&r, 1);
    CHECK_INT(r.status, 204);
    CHECK_STR(r.word, "");
    CHECK_STR(r.address, "127.0.0.1");
    CHECK_STR(s.log[0].method, "POST");
    CHECK_STR(s.log[0].body, "{\"a\":1}");
    CHECK_STR(s.log[0].authorization, "word");
    post(c, url, &r);
    wait_for(&r, 2);
    CHECK_INT(fake_connections(&s), 1); /* which was kept */
    courier_stop(c);
    courier_free(c);
}

TEST(of_an_answer_the_status_is_all_that_counts)
{
    static const struct {
        const char *path, *word;
        int status;
    } cases[] = {
        {"/busy", "", 503},     {"/elsewhere", "", 302},    {"/endless", "", 200},
        {"/much", "broken", 0}, {"/nonsense", "broken", 0}, {"/cut", "broken", 0},
        {"/interim", "", 204},
    };
    struct courier *c = open_courier(loopback);
    static struct fake_http s;

    fake_http_start(&s, answers);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct result r = RESULT_INIT;
        char url[64];

        (void)snprintf(url, sizeof(url), "http://%s%s", s.host, cases[i].path);
        post(c, url, &r);
        wait_for(&r, 1);
        CHECK_INT(r.status, cases[i].status);
        CHECK_STR(r.word, cases[i].word);
        CHECK_INT(r.retry_after_s, i == 0 ? 17 : 0);
    }
    CHECK_INT(fake_requests(&s), ARRAY_LEN(cases)); /* no redirect was followed */
    courier_stop(c);
    courier_free(c);
}

TEST(an_address_that_is_not_public_is_not_called_unless_it_is_listed_or_the_operators)
{
    static char *other[] = {"10.0.0.0/8", "hooks.example.com", NULL};
    struct courier *c = open_courier(other);
    static const char *const forms[] = {"127.0.0.1", "localhost",  "[::1]",   "127.1",
                                        "0x7f.1",    "2130706433", "0.0.0.0", "[::ffff:127.0.0.1]"};
    struct courier_request q = {.body = "", .trusted = true};
    struct result r = RESULT_INIT;
    struct err err = {0};
    static struct fake_http s;
    char url[64];

    fake_http_start(&s, answers);
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        struct result own = RESULT_INIT;

        (void)snprintf(url, sizeof(url), "http://%s:%u/hook", forms[i], s.port);
        post(c, url, &own);
        wait_for(&own, 1);
        if (strcmp(own.word, "refused") != 0)
            TAP_FAIL("%s: %d %s %s", forms[i], own.status, own.word, own.text);
    }
    CHECK_INT(fake_connections(&s), 0);
    /* A connection of the operator's is not there for others afterwards. */
    (void)snprintf(url, sizeof(url), "http://%s/hook", s.host);
    q.url = url;
    CHECK_INT(courier_post(c, &q, on_done, &r, &err), 0);
    wait_for(&r, 1);
    CHECK_INT(r.status, 204);
    post(c, url, &r);
    wait_for(&r, 2);
    CHECK_STR(r.word, "refused");
    CHECK_STR(r.text, "loopback");
    CHECK_INT(fake_asked(&s, "/hook"), 1);
    courier_stop(c);
    courier_free(c);
}

TEST(nobody_listens_or_it_is_no_url_or_no_name)
{
    static const struct {
        const char *url, *word;
    } cases[] = {{"http://127.0.0.1:1/", "no_connection"},
                 {"ftp://127.0.0.1/", "bad_url"},
                 {"http://ann:secret@127.0.0.1/", "bad_url"},
                 {"file:///etc/passwd", "bad_url"},
                 {"http://", "bad_url"}};
    struct courier *c = open_courier(loopback);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct result r = RESULT_INIT;

        post(c, cases[i].url, &r);
        wait_for(&r, 1);
        CHECK_STR(r.word, cases[i].word);
    }
    courier_stop(c);
    courier_free(c);
}

TEST(a_silent_target_holds_up_nobody_else_and_is_given_up)
{
    struct courier *c = open_courier(loopback);
    struct result silent = RESULT_INIT, brief = RESULT_INIT, live = RESULT_INIT;
    struct courier_request q = {.body = "", .timeout_ms = 60000};
    struct err err = {0};
    static struct fake_http s;
    char url[64];

    fake_http_start(&s, answers);
    (void)snprintf(url, sizeof(url), "http://%s/silent", s.host);
    q.url = url;
    for (int i = 0; i < 100; i++)
        CHECK_INT(courier_post(c, &q, on_done, &silent, &err), 0);
    (void)snprintf(url, sizeof(url), "http://%s/hook", s.host);
    post(c, url, &live);
    wait_for(&live, 1);
    CHECK_INT(live.status, 204);
    CHECK_INT(silent.told, 0);
    (void)snprintf(url, sizeof(url), "http://%s/silent", s.host);
    q.timeout_ms = 50;
    for (int i = 0; i < 100; i++)
        CHECK_INT(courier_post(c, &q, on_done, &brief, &err), 0);
    wait_for(&brief, 100);
    CHECK_STR(brief.word, "timeout");
    CHECK_INT(silent.told, 0); /* each has its own time */
    courier_stop(c);
    courier_free(c);
}

TEST(a_head_without_an_end_is_no_answer)
{
    struct courier *c = open_courier(loopback);
    struct courier_request q = {.body = "", .timeout_ms = 50};
    struct result r = RESULT_INIT;
    struct err err = {0};
    static struct fake_http s;
    char url[64];

    fake_http_start(&s, answers);
    (void)snprintf(url, sizeof(url), "http://%s/stuck", s.host);
    q.url = url;
    CHECK_INT(courier_post(c, &q, on_done, &r, &err), 0);
    wait_for(&r, 1);
    CHECK_INT(r.status, 0);
    CHECK_STR(r.word, "timeout");
    courier_stop(c);
    courier_free(c);
}

TEST(one_that_is_killed_takes_along_what_it_was_at_and_is_started_again)
{
    struct courier *c = open_courier(loopback);
    struct result held = RESULT_INIT, next = RESULT_INIT;
    static struct fake_http s;
    char url[64];
    int pid;

    fake_http_start(&s, answers);
    (void)snprintf(url, sizeof(url), "http://%s/hook", s.host);
    post(c, url, &next);
    wait_for(&next, 1);
    (void)snprintf(url, sizeof(url), "http://%s/silent", s.host);
    post(c, url, &held);
    pid = courier_pid(c);
    CHECK(pid > 0);
    CHECK_INT(kill(pid, SIGKILL), 0);
    wait_for(&held, 1);
    CHECK_STR(held.word, "died");
    (void)snprintf(url, sizeof(url), "http://%s/hook", s.host);
    post(c, url, &next);
    wait_for(&next, 2);
    CHECK_INT(next.status, 204);
    CHECK(courier_pid(c) != pid);
    courier_stop(c);
    courier_free(c);
}

TEST(at_the_end_who_waits_is_told_and_nothing_more_is_taken)
{
    struct courier *c = open_courier(loopback);
    struct courier_request q = {.url = "http://127.0.0.1/", .body = ""};
    struct result r = RESULT_INIT;
    struct err err = {0};
    static struct fake_http s;
    char url[64];

    fake_http_start(&s, answers);
    (void)snprintf(url, sizeof(url), "http://%s/silent", s.host);
    for (int i = 0; i < 700; i++) /* more than are sent at once */
        post(c, url, &r);
    courier_stop(c);
    CHECK_INT(r.told, 700);
    CHECK_STR(r.word, "died");
    CHECK_INT(courier_post(c, &q, on_done, &r, &err), -1);
    CHECK_INT(err.kind, ERR_UNAVAILABLE);
    courier_free(c);
}

TEST(what_waits_has_a_bound)
{
    static char body[4 << 20];
    struct courier *c = open_courier(loopback);
    struct courier_request q = {.body = body, .body_len = sizeof(body)};
    struct result r = RESULT_INIT;
    struct err err = {0};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof(at);
    unsigned taken = 0;
    char url[64];

    /* It never reads. */
    CHECK(bind(fd, (struct sockaddr *)&at, len) == 0 && listen(fd, 64) == 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", ntohs(at.sin_port));
    q.url = url;
    while (taken < 100 && courier_post(c, &q, on_done, &r, &err) == 0)
        taken++;
    CHECK(taken > 0 && taken < 9);
    CHECK_STR(err.code, "courier_busy");
    q.body_len++;
    CHECK_INT(courier_post(c, &q, on_done, &r, &err), -1);
    CHECK_INT(err.kind, ERR_TOO_LARGE);
    courier_stop(c);
    CHECK_INT(r.told, taken);
    courier_free(c);
}

TAP_MAIN
