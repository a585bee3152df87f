/* client: drives a cay daemon through its HTTP API with kept-alive connections, and measures it.
 *
 *   client URL rows N           N sandboxes: create, exec, write, read, pause, resume, kill, run
 *   client URL parallel N       N times three sandboxes created at once, by three connections
 *   client URL throughput C S   execs a second by C connections on up to 8 sandboxes, for S seconds
 *   client URL creates N        N sandboxes, one after the other, created and removed
 *   client URL warm N           N that the warm pool has ready, when it is full
 *   client URL burst N          until the last of N that are created at once is there
 *   client URL lives C S        whole lives (create, exec, kill) a second, C connections
 *   client URL cycles C N       N whole lives by C connections: the rate of each tenth
 *   client URL gets C S         looks at one sandbox a second by C connections
 *   client URL submits C S      jobs a second that C connections put into the queue, for later
 *   client URL execs ID MS      execs in this sandbox with a pause after each, for so long
 *   client URL flood ID C S     execs by C connections in this sandbox, for S seconds
 *   client URL fill N           N sandboxes that stay
 *   client URL drain            removes every sandbox */

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/client.h"
#include "samples.h"

#define HEALTHS_PER_SANDBOX 5
#define SANDBOXES_MAX       8
#define CLIENTS_MAX         64
#define PARALLEL            3
#define TENTHS              10
#define BODY_MAX            (1u << 20)
#define EXEC_PAUSE_NS       4000000

static const char *url;
static volatile sig_atomic_t stopping;

static void on_signal(int sig)
{
    (void)sig;
    stopping = 1;
}

/* Sends a request and reads the whole answer, which must be a 200. *ret (NULL = not wanted) is the
 * body, to be freed. */
static int call(struct http_client *c, const char *method, const char *path, const char *body,
                char **ret, struct err *err)
{
    struct http_response res;
    auto_free char *text = NULL;
    size_t len;

    if (http_client_send(c, method, path, body ? "application/json" : NULL, body,
                         body ? strlen(body) : 0, &res, err) < 0 ||
        http_client_body(c, BODY_MAX, &text, &len, err) < 0)
        return err_wrap(err, "%s %s", method, path);
    if (res.status != 200)
        return err_set(err, ERR_INTERNAL, "%s %s: %d %s", method, path, res.status, text);
    if (ret)
        *ret = steal_ptr(text);
    return 0;
}

/* Connected, so that no row pays for the connection. */
static struct http_client *connected(struct err *err)
{
    struct http_client *c = http_client_new(url, NULL);

    if (call(c, "GET", "/sandbox/health", NULL, NULL, err) == 0)
        return c;
    http_client_free(c);
    return NULL;
}

static int call_sandbox(struct http_client *c, const char *id, const char *what, const char *body,
                        char **ret, struct err *err)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "/sandbox/sandboxes/%s/%s", id, what);
    return call(c, "POST", path, body, ret, err);
}

/* The answer is parsed after the clock has stopped, hence *ret_us. */
static int create(struct http_client *c, const char *body, char ret_id[ID_SIZE], double *ret_us,
                  struct err *err)
{
    auto_free char *text = NULL;
    int64_t t = mono_ns();
    const char *id;
    json_t *obj;

    if (call(c, "POST", "/sandbox/sandboxes", body, &text, err) < 0)
        return -1;
    *ret_us = (double)(mono_ns() - t) / 1000;
    obj = json_loads(text, 0, NULL);
    id = json_string_value(json_object_get(obj, "id"));
    if (id)
        (void)snprintf(ret_id, ID_SIZE, "%s", id);
    json_decref(obj);
    return id ? 0 : err_set(err, ERR_INTERNAL, "create gave no id: %.100s", text);
}

static int destroy(struct http_client *c, const char *id, struct err *err)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "/sandbox/sandboxes/%s", id);
    return call(c, "DELETE", path, NULL, NULL, err);
}

static char create_body[300]; /* of the image that is measured with */
static const char echo_hello[] = "{\"command\":\"echo hello\"}";

/* A wrong answer that comes quickly is no result. */
static int expect(const char *answer, const char *part, struct err *err)
{
    if (strstr(answer, part))
        return 0;
    return err_set(err, ERR_INTERNAL, "expected %.60s in the answer: %.120s", part, answer);
}

static int timed(struct http_client *c, const char *id, enum row row, const char *what,
                 const char *body, const char *part, struct err *err)
{
    auto_free char *answer = NULL;
    int64_t t = mono_ns();

    if (call_sandbox(c, id, what, body, &answer, err) < 0)
        return -1;
    (void)samples_since(&rows[row], t);
    return expect(answer, part, err);
}

static int measure_sandbox(struct http_client *c, const char *id, struct err *err)
{
    static char write_body[FILE_SIZE + 100];
    char kilobyte[FILE_SIZE + 1];

    memset(kilobyte, 'x', sizeof(kilobyte) - 1);
    kilobyte[FILE_SIZE] = '\0';
    (void)snprintf(write_body, sizeof(write_body),
                   "{\"path\":\"/workspace/file\",\"content\":\"%s\"}", kilobyte);
    for (int i = 0; i < EXECS_PER_SANDBOX; i++)
        if (timed(c, id, EXEC, "exec", echo_hello, "hello\\n", err) < 0)
            return -1;
    if (timed(c, id, WRITE, "files/write", write_body, "true", err) < 0 ||
        timed(c, id, READ, "files/read", "{\"path\":\"/workspace/file\"}", kilobyte, err) < 0 ||
        timed(c, id, PAUSE, "pause", NULL, "\"paused\"", err) < 0 ||
        timed(c, id, RESUME, "resume", NULL, "\"running\"", err) < 0)
        return -1;
    return 0;
}

static int measure_rows(uint64_t n, struct err *err)
{
    struct http_client *c = connected(err);
    int r = c ? 0 : -1;

    for (uint64_t i = 0; i < n && r == 0 && !stopping; i++) {
        size_t first_exec = rows[EXEC].n;
        char id[ID_SIZE];
        double us;
        int64_t t;

        rest();
        r = create(c, create_body, id, &us, err);
        if (r < 0)
            break;
        samples_add(&rows[CREATE], us);
        r = measure_sandbox(c, id, err);
        t = mono_ns();
        if (destroy(c, id, r < 0 ? NULL : err) < 0)
            r = -1;
        if (r == 0)
            samples_add(&rows[RUN], us + rows[EXEC].v[first_exec] + samples_since(&rows[KILL], t));
    }
    rows_print();
    http_client_free(c);
    return r;
}

static int measure_creates(uint64_t n, struct err *err)
{
    struct http_client *c = connected(err);
    int r = c ? 0 : -1;

    for (uint64_t i = 0; i < n && r == 0 && !stopping; i++) {
        char id[ID_SIZE];
        double us;

        rest();
        r = create(c, create_body, id, &us, err);
        if (r == 0) {
            samples_add(&rows[CREATE], us);
            r = destroy(c, id, err);
        }
    }
    samples_print(&rows[CREATE]);
    http_client_free(c);
    return r;
}

/* The pool has all that it is to have. */
static int await_pool(struct http_client *c, struct err *err)
{
    for (bool full = false; !full && !stopping;) {
        auto_free char *text = NULL;
        json_t *o;

        if (call(c, "GET", "/sandbox/pool/status", NULL, &text, err) < 0)
            return -1;
        o = json_loads(text, 0, NULL);
        full = json_integer_value(json_object_get(o, "ready")) ==
               json_integer_value(json_object_get(o, "total"));
        json_decref(o);
        rest();
    }
    return 0;
}

/* With the first command in each, which is the first that its agent hears. */
static int measure_warm(uint64_t n, struct err *err)
{
    struct samples creates = {"warm", "us"}, execs = {"warm_exec", "us"};
    struct http_client *c = connected(err);
    int r = c ? 0 : -1;

    for (uint64_t i = 0; i < n && r == 0 && !stopping; i++) {
        char id[ID_SIZE];
        double us;
        int64_t t;

        if (await_pool(c, err) < 0 || create(c, create_body, id, &us, err) < 0) {
            r = -1;
            break;
        }
        samples_add(&creates, us);
        t = mono_ns();
        r = call_sandbox(c, id, "exec", echo_hello, NULL, err);
        (void)samples_since(&execs, t);
        if (destroy(c, id, r < 0 ? NULL : err) < 0)
            r = -1;
    }
    samples_print(&creates);
    samples_print(&execs);
    http_client_free(c);
    return r;
}

/* Calls that must not wait for others: five of health, and the removal of a sandbox. */
static int measure_short(uint64_t n, struct err *err)
{
    struct samples health = {"health", "us"}, removal = {"delete", "us"};
    struct http_client *c = connected(err);
    int r = c ? 0 : -1;

    for (uint64_t i = 0; i < n && r == 0 && !stopping; i++) {
        char id[ID_SIZE];
        double us;
        int64_t t;

        rest();
        for (int k = 0; k < HEALTHS_PER_SANDBOX && r == 0; k++) {
            t = mono_ns();
            r = call(c, "GET", "/sandbox/health", NULL, NULL, err);
            (void)samples_since(&health, t);
        }
        if (r < 0 || create(c, create_body, id, &us, err) < 0)
            r = -1;
        if (r == 0) {
            t = mono_ns();
            r = destroy(c, id, err);
            (void)samples_since(&removal, t);
        }
    }
    samples_print(&health);
    samples_print(&removal);
    http_client_free(c);
    return r;
}

/* ---- several connections at once: a thread each ---- */

struct worker {
    pthread_t thread;
    struct http_client *c;
    pthread_barrier_t *start;
    char id[ID_SIZE]; /* the sandbox it made, or works in */
    int64_t seconds;
    uint64_t count;
    struct samples creates;
    int r;
    struct err err;
};

static int run_workers(struct worker *w, unsigned n, void *(*body)(void *), double *ret_us)
{
    pthread_barrier_t start;
    int64_t t;
    int r = 0;

    (void)pthread_barrier_init(&start, NULL, n + 1);
    for (unsigned i = 0; i < n; i++) {
        w[i].start = &start;
        if (pthread_create(&w[i].thread, NULL, body, &w[i]) != 0) {
            (void)fprintf(stderr, "client: no thread could be started\n");
            exit(1);
        }
    }
    t = mono_ns();
    (void)pthread_barrier_wait(&start);
    for (unsigned i = 0; i < n; i++) {
        (void)pthread_join(w[i].thread, NULL);
        if (w[i].r < 0)
            r = -1;
    }
    *ret_us = (double)(mono_ns() - t) / 1000;
    (void)pthread_barrier_destroy(&start);
    return r;
}

static int first_error(const struct worker *w, unsigned n, struct err *err)
{
    for (unsigned i = 0; i < n; i++)
        if (w[i].r < 0) {
            *err = w[i].err;
            break;
        }
    return -1;
}

static void *create_one(void *arg)
{
    struct worker *w = arg;
    double us;

    (void)pthread_barrier_wait(w->start);
    w->r = create(w->c, create_body, w->id, &us, &w->err);
    return NULL;
}

/* n sandboxes at once, that often. */
static int create_at_once(struct samples *row, unsigned n, uint64_t times, struct err *err)
{
    struct worker w[CLIENTS_MAX] = {0};
    int r = 0;

    for (unsigned i = 0; i < n && r == 0; i++)
        if (!(w[i].c = connected(err)))
            r = -1;
    for (uint64_t i = 0; i < times && r == 0 && !stopping; i++) {
        double us;

        rest();
        r = run_workers(w, n, create_one, &us);
        if (r == 0)
            samples_add(row, us);
        else
            (void)first_error(w, n, err);
        for (unsigned k = 0; k < n; k++)
            if (w[k].r == 0 && destroy(w[k].c, w[k].id, r < 0 ? NULL : err) < 0)
                r = -1;
    }
    samples_print(row);
    for (unsigned i = 0; i < n; i++)
        http_client_free(w[i].c);
    return r;
}

static int check_clients(uint64_t clients, struct err *err)
{
    if (clients >= 1 && clients <= CLIENTS_MAX)
        return 0;
    return err_set(err, ERR_INVALID, "clients must be 1 to %d", CLIENTS_MAX);
}

static int measure_parallel(uint64_t n, struct err *err)
{
    return create_at_once(&(struct samples){"create_3", "us"}, PARALLEL, n, err);
}

static int measure_burst(uint64_t n, struct err *err)
{
    if (check_clients(n, err) < 0)
        return -1;
    return create_at_once(&(struct samples){"burst", "us"}, (unsigned)n, 1, err);
}

static void *exec_until(void *arg)
{
    struct worker *w = arg;
    int64_t until;

    (void)pthread_barrier_wait(w->start);
    until = mono_ns() + w->seconds * 1000000000;
    while (w->r == 0 && mono_ns() < until && !stopping) {
        auto_free char *answer = NULL;

        w->r = call_sandbox(w->c, w->id, "exec", echo_hello, &answer, &w->err);
        if (w->r == 0)
            w->r = expect(answer, "hello\\n", &w->err);
        if (w->r == 0)
            w->count++;
    }
    return NULL;
}

static int live_once(struct worker *w)
{
    auto_free char *answer = NULL;
    double us;
    int r;

    if (create(w->c, create_body, w->id, &us, &w->err) < 0)
        return -1;
    samples_add(&w->creates, us);
    r = call_sandbox(w->c, w->id, "exec", echo_hello, &answer, &w->err);
    if (r == 0)
        r = expect(answer, "hello\\n", &w->err);
    if (destroy(w->c, w->id, r < 0 ? NULL : &w->err) < 0)
        r = -1;
    return r;
}

static void *live_until(void *arg)
{
    struct worker *w = arg;
    int64_t until;

    (void)pthread_barrier_wait(w->start);
    until = mono_ns() + w->seconds * 1000000000;
    while (w->r == 0 && mono_ns() < until && !stopping) {
        w->r = live_once(w);
        if (w->r == 0)
            w->count++;
    }
    return NULL;
}

/* When each tenth of so many lives was over. */
static struct {
    uint64_t n;
    _Atomic uint64_t taken, over;
    int64_t marks[TENTHS + 1];
} cycles;

static void *live_some(void *arg)
{
    struct worker *w = arg;

    (void)pthread_barrier_wait(w->start);
    while (w->r == 0 && !stopping && atomic_fetch_add(&cycles.taken, 1) < cycles.n) {
        uint64_t over;

        w->r = live_once(w);
        over = atomic_fetch_add(&cycles.over, 1) + 1;
        w->count++;
        if (over % (cycles.n / TENTHS) == 0)
            cycles.marks[over / (cycles.n / TENTHS)] = mono_ns();
    }
    return NULL;
}

static void *get_until(void *arg)
{
    struct worker *w = arg;
    int64_t until;
    char path[128];

    (void)snprintf(path, sizeof(path), "/sandbox/sandboxes/%s", w->id);
    (void)pthread_barrier_wait(w->start);
    until = mono_ns() + w->seconds * 1000000000;
    while (w->r == 0 && mono_ns() < until && !stopping) {
        w->r = call(w->c, "GET", path, NULL, NULL, &w->err);
        if (w->r == 0)
            w->count++;
    }
    return NULL;
}

/* Jobs that do not start meanwhile. */
static void *submit_until(void *arg)
{
    static const char job[] = "{\"command\": \"true\", \"delay\": 86400}";
    struct worker *w = arg;
    int64_t until;
    char path[128];

    (void)snprintf(path, sizeof(path), "/sandbox/sandboxes/%s/exec/queue", w->id);
    (void)pthread_barrier_wait(w->start);
    until = mono_ns() + w->seconds * 1000000000;
    while (w->r == 0 && mono_ns() < until && !stopping) {
        w->r = call(w->c, "POST", path, job, NULL, &w->err);
        if (w->r == 0)
            w->count++;
    }
    return NULL;
}

static void creates_print(struct worker *w, unsigned n)
{
    struct samples all = {"create", "us"};

    for (unsigned i = 0; i < n; i++) {
        for (size_t k = 0; k < w[i].creates.n; k++)
            samples_add(&all, w[i].creates.v[k]);
        free(w[i].creates.v);
    }
    samples_print(&all);
}

static int pump(struct samples *row, void *(*body)(void *), uint64_t clients, uint64_t seconds,
                char ids[][ID_SIZE], struct err *err)
{
    struct worker w[CLIENTS_MAX] = {0};
    uint64_t count = 0;
    double us = 0;
    int r = 0;

    for (unsigned i = 0; i < clients && r == 0; i++) {
        w[i].seconds = (int64_t)seconds;
        memcpy(w[i].id, ids[i % SANDBOXES_MAX], ID_SIZE);
        if (!(w[i].c = connected(err)))
            r = -1;
    }
    if (r == 0 && run_workers(w, (unsigned)clients, body, &us) < 0)
        r = first_error(w, (unsigned)clients, err);
    for (unsigned i = 0; i < clients; i++) {
        count += w[i].count;
        http_client_free(w[i].c);
    }
    if (r == 0) {
        samples_add(row, (double)count * 1e6 / us);
        samples_print(row);
        creates_print(w, (unsigned)clients);
    }
    return r;
}

/* Each connection makes its own sandboxes. */
static int measure_lives(uint64_t clients, uint64_t seconds, struct err *err)
{
    struct samples row = {"lives", "lives/s"};
    char none[SANDBOXES_MAX][ID_SIZE] = {0};

    if (check_clients(clients, err) < 0)
        return -1;
    return pump(&row, live_until, clients, seconds, none, err);
}

static int measure_cycles(uint64_t clients, uint64_t n, struct err *err)
{
    struct samples whole = {"lives", "lives/s"}, tenths = {"cycles", "lives/s"};
    char none[SANDBOXES_MAX][ID_SIZE] = {0};

    if (n < TENTHS || n % TENTHS != 0)
        return err_set(err, ERR_INVALID, "cycles must be a multiple of %d", TENTHS);
    if (check_clients(clients, err) < 0)
        return -1;
    cycles.n = n;
    cycles.marks[0] = mono_ns();
    if (pump(&whole, live_some, clients, 0, none, err) < 0)
        return -1;
    for (int i = 0; i < TENTHS && cycles.marks[i + 1]; i++)
        samples_add(&tenths,
                    (double)(n / TENTHS) * 1e9 / (double)(cycles.marks[i + 1] - cycles.marks[i]));
    samples_print(&tenths);
    return 0;
}

static int measure_throughput(struct samples *row, void *(*body)(void *), uint64_t clients,
                              uint64_t seconds, struct err *err)
{
    struct http_client *c = http_client_new(url, NULL);
    char ids[SANDBOXES_MAX][ID_SIZE];
    unsigned made = 0;
    double us;
    int r = 0;

    r = check_clients(clients, err);
    while (r == 0 && made < SANDBOXES_MAX && made < clients)
        if ((r = create(c, create_body, ids[made], &us, err)) == 0)
            made++;
    if (r == 0)
        r = pump(row, body, clients, seconds, ids, err);
    while (made > 0)
        if (destroy(c, ids[--made], r < 0 ? NULL : err) < 0)
            r = -1;
    http_client_free(c);
    return r;
}

/* What a neighbour of a noisy sandbox waits for its own commands, of which it has one now and then:
 * one after the other they would want more of a processor than is theirs beside a bomb. */
static int measure_execs(const char *id, uint64_t ms, struct err *err)
{
    struct http_client *c = connected(err);
    int64_t until = mono_ns() + (int64_t)ms * 1000000;
    int r = c ? 0 : -1;

    while (r == 0 && mono_ns() < until && !stopping) {
        (void)nanosleep(&(struct timespec){.tv_nsec = EXEC_PAUSE_NS}, NULL);
        r = timed(c, id, EXEC, "exec", echo_hello, "hello\\n", err);
    }
    samples_print(&rows[EXEC]);
    http_client_free(c);
    return r;
}

/* One caller's commands without end. It may be told that there are too many. */
static void *flood_one(void *arg)
{
    struct worker *w = arg;
    int64_t until;

    (void)pthread_barrier_wait(w->start);
    until = mono_ns() + w->seconds * 1000000000;
    while (mono_ns() < until && !stopping) {
        struct http_response res;
        auto_free char *text = NULL;
        char path[128];
        size_t len;

        (void)snprintf(path, sizeof(path), "/sandbox/sandboxes/%s/exec", w->id);
        if (http_client_send(w->c, "POST", path, "application/json", echo_hello,
                             sizeof(echo_hello) - 1, &res, NULL) == 0)
            (void)http_client_body(w->c, BODY_MAX, &text, &len, NULL);
    }
    return NULL;
}

static int flood(const char *id, uint64_t clients, uint64_t seconds, struct err *err)
{
    struct worker w[CLIENTS_MAX] = {0};
    double us;
    int r = 0;

    if (check_clients(clients, err) < 0)
        return -1;
    for (unsigned i = 0; i < clients && r == 0; i++) {
        w[i].seconds = (int64_t)seconds;
        (void)snprintf(w[i].id, ID_SIZE, "%s", id);
        if (!(w[i].c = connected(err)))
            r = -1;
    }
    if (r == 0)
        r = run_workers(w, (unsigned)clients, flood_one, &us);
    for (unsigned i = 0; i < clients; i++)
        http_client_free(w[i].c);
    return r;
}

static int fill(uint64_t n, struct err *err)
{
    struct http_client *c = http_client_new(url, NULL);
    struct samples row = {"fill", "us"};
    int r = 0;

    for (uint64_t i = 0; i < n && r == 0 && !stopping; i++) {
        char id[ID_SIZE];
        double us;

        r = create(c, create_body, id, &us, err);
        if (r == 0)
            samples_add(&row, us);
    }
    samples_print(&row);
    http_client_free(c);
    return r;
}

static int drain(struct err *err)
{
    struct http_client *c = http_client_new(url, NULL);
    size_t left = 1;
    int r = 0;

    while (left > 0 && r == 0) {
        auto_free char *text = NULL;
        json_t *list, *items, *item;
        size_t i;

        r = call(c, "GET", "/sandbox/sandboxes?pageSize=200", NULL, &text, err);
        list = r == 0 ? json_loads(text, 0, NULL) : NULL;
        items = json_object_get(list, "items");
        left = json_array_size(items);
        json_array_foreach(items, i, item)
        {
            const char *id = json_string_value(json_object_get(item, "id"));

            if (r == 0 && (!id || destroy(c, id, err) < 0))
                r = -1;
        }
        json_decref(list);
    }
    http_client_free(c);
    return r;
}

static int measure(int argc, char **argv, struct err *err)
{
    struct samples execs = {"throughput", "exec/s"}, looks = {"gets", "get/s"},
                   submits = {"submits", "jobs/s"};
    uint64_t n = 0, seconds;

    if (argc == 3 && strcmp(argv[2], "drain") == 0)
        return drain(err);
    if (argc == 4 && str_u64(argv[3], &n) == 0) {
        if (strcmp(argv[2], "rows") == 0)
            return measure_rows(n, err);
        if (strcmp(argv[2], "short") == 0)
            return measure_short(n, err);
        if (strcmp(argv[2], "parallel") == 0)
            return measure_parallel(n, err);
        if (strcmp(argv[2], "creates") == 0)
            return measure_creates(n, err);
        if (strcmp(argv[2], "warm") == 0)
            return measure_warm(n, err);
        if (strcmp(argv[2], "burst") == 0)
            return measure_burst(n, err);
        if (strcmp(argv[2], "fill") == 0)
            return fill(n, err);
    }
    if (argc == 5 && str_u64(argv[3], &n) == 0 && str_u64(argv[4], &seconds) == 0) {
        if (strcmp(argv[2], "throughput") == 0)
            return measure_throughput(&execs, exec_until, n, seconds, err);
        if (strcmp(argv[2], "gets") == 0)
            return measure_throughput(&looks, get_until, n, seconds, err);
        if (strcmp(argv[2], "submits") == 0)
            return measure_throughput(&submits, submit_until, n, seconds, err);
        if (strcmp(argv[2], "lives") == 0)
            return measure_lives(n, seconds, err);
        if (strcmp(argv[2], "cycles") == 0)
            return measure_cycles(n, seconds, err);
    }
    if (argc == 5 && strcmp(argv[2], "execs") == 0 && str_u64(argv[4], &n) == 0)
        return measure_execs(argv[3], n, err);
    if (argc == 6 && strcmp(argv[2], "flood") == 0 && str_u64(argv[4], &n) == 0 &&
        str_u64(argv[5], &seconds) == 0)
        return flood(argv[3], n, seconds, err);
    return err_set(
        err, ERR_INVALID,
        "usage: client URL rows N | short N | parallel N | creates N | warm N | burst N | "
        "throughput CLIENTS SECONDS | lives CLIENTS SECONDS | cycles CLIENTS N | "
        "gets CLIENTS SECONDS | submits CLIENTS SECONDS | "
        "execs ID MS | flood ID CLIENTS SECONDS | fill N | drain");
}

int main(int argc, char **argv)
{
    const char *image = getenv("CAY_BENCH_IMAGE");
    struct err err = {0};

    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    (void)signal(SIGPIPE, SIG_IGN);
    url = argc > 1 ? argv[1] : "";
    (void)snprintf(create_body, sizeof(create_body), "{\"image\":\"%s\",\"memory\":512}",
                   image && *image ? image : "host");
    if (measure(argc, argv, &err) < 0) {
        (void)fprintf(stderr, "client: %s\n", err.text);
        return 1;
    }
    return 0;
}
