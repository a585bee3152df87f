/* bench_http [SECONDS]: each server in a process of its own, driven by blocking keep-alive clients
 * in threads: requests a second and latency with 1 and 8 clients, and resident memory with 2,000
 * connections that had a request and are idle. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "hello.h"
#include "http/client.h"

#define CLIENTS_MAX 8
#define SAMPLES_MAX (2u << 20)
#define IDLE        2000

static const struct {
    const char *name;
    int (*start)(int listen_fd);
} servers[] = {
    {"cay", hello_cay},
#ifdef HAVE_MICROHTTPD
    {"libmicrohttpd, epoll, pool of 2", hello_microhttpd_pool},
    {"libmicrohttpd, thread per connection", hello_microhttpd_threads},
#endif
};

struct load {
    pthread_t thread;
    char target[64];
    int64_t until;
    uint32_t *ns;
    size_t count;
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* Run again by exec, so that the memory of the measuring process is not counted as the server's. */
static void serve(const char *which, const char *fd)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (servers[strtoul(which, NULL, 10) % ARRAY_LEN(servers)].start((int)strtol(fd, NULL, 10)) < 0)
        die("start the server");
    for (;;)
        (void)pause();
}

static pid_t start(size_t which, int *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char index[24], fd_text[24];
    pid_t pid;

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 4096) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        die("listen");
    *ret_port = ntohs(a.sin_port);
    (void)snprintf(index, sizeof(index), "%zu", which);
    (void)snprintf(fd_text, sizeof(fd_text), "%d", fd);
    pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        (void)execl("/proc/self/exe", "bench_http", "--serve", index, fd_text, (char *)NULL);
        die("exec");
    }
    (void)close(fd);
    return pid;
}

static void request(struct http_client *c)
{
    struct http_response r;
    struct err err = {0};
    char data[256];

    if (http_client_send(c, "GET", "/hello", NULL, NULL, 0, &r, &err) < 0 || r.status != 200) {
        (void)fprintf(stderr, "bench_http: %s\n", err.text);
        exit(1);
    }
    while (http_client_read(c, data, sizeof(data), &err) > 0)
        continue;
}

static void *run_load(void *arg)
{
    struct load *l = arg;
    struct http_client *c = http_client_new(l->target, NULL);
    int64_t now = mono_ns();

    for (int i = 0; i < 100; i++)
        request(c);
    while (now < l->until && l->count < SAMPLES_MAX) {
        int64_t start_ns = now;

        request(c);
        now = mono_ns();
        l->ns[l->count++] = (uint32_t)(now - start_ns);
    }
    http_client_free(c);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static double cpu_seconds(pid_t pid)
{
    unsigned long user = 0, system_time = 0;
    char path[64];
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f || fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                     &system_time) != 2)
        die(path);
    (void)fclose(f);
    return (double)(user + system_time) / (double)sysconf(_SC_CLK_TCK);
}

static void measure(int port, pid_t pid, int clients, int seconds)
{
    struct load loads[CLIENTS_MAX] = {0};
    uint32_t *all = xmalloc(SAMPLES_MAX * CLIENTS_MAX * sizeof(*all));
    double cpu = cpu_seconds(pid);
    int64_t begin = mono_ns();
    size_t n = 0;

    for (int i = 0; i < clients; i++) {
        struct load *l = &loads[i];

        (void)snprintf(l->target, sizeof(l->target), "http://127.0.0.1:%d", port);
        l->ns = xmalloc(SAMPLES_MAX * sizeof(*l->ns));
        l->until = begin + (int64_t)seconds * 1000000000;
        if (pthread_create(&l->thread, NULL, run_load, l) != 0)
            die("pthread_create");
    }
    for (int i = 0; i < clients; i++) {
        (void)pthread_join(loads[i].thread, NULL);
        memcpy(all + n, loads[i].ns, loads[i].count * sizeof(*all));
        n += loads[i].count;
        free(loads[i].ns);
    }
    qsort(all, n, sizeof(*all), compare);
    printf(" %7.0f /s %6.1f %7.1f %5.1f us |", (double)n * 1e9 / (double)(mono_ns() - begin),
           all[n / 2] / 1e3, all[n * 99 / 100] / 1e3, (cpu_seconds(pid) - cpu) * 1e6 / (double)n);
    (void)fflush(stdout);
    free(all);
}

/* Not from statm, which is off by what each CPU has not added up yet. */
static double rss_mib(pid_t pid)
{
    char path[64], line[256];
    long kib = -1;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    f = fopen(path, "re");
    if (!f)
        die(path);
    while (kib < 0 && fgets(line, sizeof(line), f))
        (void)sscanf(line, "Rss: %ld", &kib);
    (void)fclose(f);
    return (double)kib / 1024;
}

static void measure_idle(int port, pid_t pid)
{
    static struct http_client *clients[IDLE];
    double before = rss_mib(pid);
    char target[64];

    (void)snprintf(target, sizeof(target), "http://127.0.0.1:%d", port);
    for (int i = 0; i < IDLE; i++) {
        clients[i] = http_client_new(target, NULL);
        request(clients[i]);
    }
    printf(" %6.1f MiB (%.1f before)\n", rss_mib(pid), before);
    for (int i = 0; i < IDLE; i++)
        http_client_free(clients[i]);
}

int main(int argc, char **argv)
{
    struct rlimit files;
    int seconds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 3;

    if (argc == 4 && strcmp(argv[1], "--serve") == 0)
        serve(argv[2], argv[3]);
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        die("getrlimit");
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        (void)fprintf(stderr, "bench_http: cannot raise the limit of open files, going on\n");
    printf("%-38s | 1 client: rate, p50, p99, CPU      | 8 clients: rate, p50, p99, CPU     | %d "
           "idle\n",
           "", IDLE);
    for (size_t i = 0; i < ARRAY_LEN(servers); i++) {
        int port;
        pid_t pid = start(i, &port);

        printf("%-38s |", servers[i].name);
        measure(port, pid, 1, seconds);
        measure(port, pid, 8, seconds);
        measure_idle(port, pid);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    return 0;
}
