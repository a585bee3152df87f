/* client_libcay ADDRESS ROUNDS: libcay beside plain HTTP on a kept connection, in one process.
 * Prints what bench/clients.py asks of every language: exec_raw and exec (us, by turns), lives (s
 * for a hundred). */
#include <cay.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "http/client.h"

#define WARM    50
#define LIVES   100
#define THREADS 16
#define HUNDRED 5 /* so often */

static struct cay *cay;
static struct cay_error err;
static const char *const argv_true[] = {"/bin/true", NULL};
static const struct cay_command command = {.argv = argv_true};

static void check(int r, const char *text)
{
    if (r == 0)
        return;
    fprintf(stderr, "%s\n", text);
    exit(1);
}

static double since_us(int64_t began)
{
    return (double)(mono_ns() - began) / 1e3;
}

static double exec_raw(struct http_client *http, const char *path)
{
    static const char body[] = "{\"command\": [\"/bin/true\"]}";
    int64_t began = mono_ns();
    struct http_response response;
    auto_free char *text = NULL;
    struct err why = {0};
    size_t len;

    check(http_client_send(http, "POST", path, "application/json", body, strlen(body), &response,
                           &why),
          why.text);
    check(http_client_body(http, 1u << 20, &text, &len, &why), why.text);
    check(strstr(text, "\"exitCode\":0") ? 0 : -1, text);
    return since_us(began);
}

static double exec_ours(const char *sandbox)
{
    int64_t began = mono_ns();
    struct cay_output output;

    check(cay_exec(cay, sandbox, &command, &output, &err), err.message);
    check(output.result.exit_code, "it failed");
    cay_output_done(&output);
    return since_us(began);
}

static void print_list(const char *name, const double *v, int n, const char *end)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < n; i++)
        printf("%s%.3f", i ? ", " : "", v[i]);
    printf("]%s", end);
}

static void execs(const char *address, int rounds)
{
    auto_free double *raw = xcalloc((size_t)rounds, sizeof(*raw));
    auto_free double *ours = xcalloc((size_t)rounds, sizeof(*ours));
    struct http_client *http = http_client_new(address, NULL);
    auto_free char *path = NULL;
    struct cay_sandbox box;

    check(cay_create(cay, NULL, &box, &err), err.message);
    path = xasprintf("/sandbox/sandboxes/%s/exec", box.id);
    for (int i = -WARM; i < rounds; i++) { /* by turns, so that both meet the same noise */
        double a = exec_raw(http, path), b = exec_ours(box.id);

        if (i >= 0) {
            raw[i] = a;
            ours[i] = b;
        }
    }
    check(cay_kill(cay, box.id, &err), err.message);
    cay_sandbox_done(&box);
    http_client_free(http);
    print_list("exec_raw", raw, rounds, ", ");
    print_list("exec", ours, rounds, ", ");
}

static atomic_int left;

static void *live(void *arg)
{
    (void)arg;
    while (atomic_fetch_sub(&left, 1) > 0) {
        struct cay_sandbox box;

        check(cay_create(cay, NULL, &box, NULL), "a create failed");
        (void)exec_ours(box.id);
        check(cay_kill(cay, box.id, NULL), "a kill failed");
        cay_sandbox_done(&box);
    }
    return NULL;
}

static double hundred(void)
{
    int64_t began = mono_ns();
    pthread_t threads[THREADS];

    atomic_store(&left, LIVES);
    for (int i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, live, NULL), "no thread");
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    return since_us(began) / 1e6;
}

int main(int argc, char **argv)
{
    struct cay_options options = {.address = argc > 1 ? argv[1] : NULL};
    double lives[HUNDRED];
    int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 500;

    check(cay_open(&options, &cay, &err), err.message);
    printf("{");
    execs(cay_address(cay), rounds > 0 ? rounds : 1);
    (void)hundred();
    for (int i = 0; i < HUNDRED; i++)
        lives[i] = hundred();
    print_list("lives", lives, HUNDRED, "}\n");
    cay_close(cay);
    return 0;
}
