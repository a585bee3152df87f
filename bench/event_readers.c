#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

/* event-readers ADDRESS READERS RATE SECONDS: opens so many streams of events, publishes so many a
 * second, each with the time of its sending, and tells how many came to how many readers and how
 * late. ADDRESS: a port of 127.0.0.1, or the path of a unix socket. Waits for a line on stdin once
 * all streams are open. One thread reads, one publishes: what it takes is not the daemon's. */

#define BUCKET_US 100
#define BUCKETS   20000 /* up to 2 s */
#define READ_MAX  (256u << 10)
#define MARK      "\"sentNs\":"
#define TAIL      64 /* of a read that is kept: a mark and its number may be cut in two */

static uint64_t buckets[BUCKETS];
static atomic_bool over;
static uint64_t published;
static const char *address;

struct reader {
    int fd;
    size_t kept;
    char tail[TAIL];
    uint64_t events;
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int dial(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool is_path = strchr(address, '/');
    int fd = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r, on = 1;

    (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", address);
    in.sin_port = htons((uint16_t)strtoul(address, NULL, 10));
    r = is_path ? connect(fd, (struct sockaddr *)&un, sizeof(un))
                : connect(fd, (struct sockaddr *)&in, sizeof(in));
    if (fd < 0 || r < 0)
        die("connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static void put(int fd, const char *text, size_t len)
{
    if (send(fd, text, len, MSG_NOSIGNAL) != (ssize_t)len)
        die("send");
}

/* ---- publish ---- */

static void publish(int fd)
{
    char body[256], head[256], reply[4096];
    int n = snprintf(body, sizeof(body),
                     "{\"topic\":\"bench.tick\",\"sandboxId\":\"bench\",\"data\":{" MARK "%lld}}",
                     (long long)mono_ns());
    int h = snprintf(head, sizeof(head),
                     "POST /sandbox/events/publish HTTP/1.1\r\nHost: localhost\r\n"
                     "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                     n, body);

    put(fd, head, (size_t)h);
    if (recv(fd, reply, sizeof(reply), 0) <= 0 || strncmp(reply, "HTTP/1.1 200", 12) != 0)
        die("publish");
    published++;
}

struct pace {
    unsigned rate, seconds;
};

static void *publisher(void *arg)
{
    const struct pace *pace = arg;
    int64_t start = mono_ns(), step = 1000000000ll / pace->rate;
    int fd = dial();

    for (uint64_t i = 0; i < (uint64_t)pace->rate * pace->seconds; i++) {
        int64_t at = start + (int64_t)i * step;
        struct timespec ts = {at / 1000000000, at % 1000000000};

        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
        publish(fd);
    }
    (void)close(fd);
    atomic_store(&over, true);
    return NULL;
}

/* ---- read ---- */

static void count(int64_t sent_ns, int64_t now)
{
    int64_t us = (now - sent_ns) / 1000;
    int64_t at = us < 0 ? 0 : us / BUCKET_US;

    buckets[at < BUCKETS ? at : BUCKETS - 1]++;
}

static void take(struct reader *r, char *data, size_t len, int64_t now)
{
    char *p = data, *end = data + len, *last = data;

    while ((p = memmem(p, (size_t)(end - p), MARK, strlen(MARK)))) {
        char *number = p + strlen(MARK), *stop = memchr(number, '}', (size_t)(end - number));

        if (!stop)
            break;
        count(strtoll(number, NULL, 10), now);
        r->events++;
        p = last = stop;
    }
    r->kept = (size_t)(end - last) < TAIL ? (size_t)(end - last) : TAIL;
    memcpy(r->tail, end - r->kept, r->kept);
}

static bool read_some_events(struct reader *r)
{
    static char data[TAIL + READ_MAX + 1];
    ssize_t n;

    memcpy(data, r->tail, r->kept);
    n = recv(r->fd, data + r->kept, READ_MAX, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        die("a stream ended");
    if (n < 0)
        return false;
    data[r->kept + (size_t)n] = '\0';
    take(r, data, r->kept + (size_t)n, mono_ns());
    return true;
}

static void open_reader(struct reader *r, int epoll_fd)
{
    static const char ask[] = "GET /sandbox/stream/events?topic=bench.* HTTP/1.1\r\n"
                              "Host: localhost\r\nAccept: text/event-stream\r\n\r\n";
    static const char all[] = "GET /sandbox/stream/events HTTP/1.1\r\n"
                              "Host: localhost\r\nAccept: text/event-stream\r\n\r\n";
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = r};
    const char *text = getenv("FILTERED") ? ask : all;
    char head[1024];

    r->fd = dial();
    put(r->fd, text, strlen(text));
    if (recv(r->fd, head, sizeof(head), 0) <= 0 || strncmp(head, "HTTP/1.1 200", 12) != 0)
        die("open a stream");
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, r->fd, &e) < 0)
        die("epoll_ctl");
}

/* Until nothing has come for a second after the last was published. */
static void read_all(int epoll_fd)
{
    struct epoll_event e[256];
    int64_t quiet = mono_ns();

    while (!atomic_load(&over) || mono_ns() - quiet < 1000000000ll) {
        int n = epoll_wait(epoll_fd, e, 256, 100);

        for (int i = 0; i < n; i++)
            if (read_some_events(e[i].data.ptr))
                quiet = mono_ns();
    }
}

static double percentile(uint64_t all, double p)
{
    uint64_t want = (uint64_t)((double)all * p), sum = 0;

    for (size_t i = 0; i < BUCKETS; i++) {
        sum += buckets[i];
        if (sum > want)
            return (double)(i + 1) * BUCKET_US / 1000.0;
    }
    return (double)BUCKETS * BUCKET_US / 1000.0;
}

int main(int argc, char **argv)
{
    unsigned n = argc == 5 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    struct pace pace;
    struct reader *readers = xcalloc(n + 1, sizeof(*readers));
    struct rlimit files = {65536, 65536};
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    uint64_t got = 0, least = UINT64_MAX;
    pthread_t thread;

    if (n == 0)
        return fprintf(stderr, "usage: event-readers ADDRESS READERS RATE SECONDS\n"), 2;
    address = argv[1];
    pace =
        (struct pace){(unsigned)strtoul(argv[3], NULL, 10), (unsigned)strtoul(argv[4], NULL, 10)};
    (void)setrlimit(RLIMIT_NOFILE, &files);
    for (unsigned i = 0; i < n; i++)
        open_reader(&readers[i], epoll_fd);
    (void)puts("open");
    (void)fflush(stdout);
    (void)getchar();
    if (pthread_create(&thread, NULL, publisher, &pace) != 0)
        die("pthread_create");
    read_all(epoll_fd);
    (void)pthread_join(thread, NULL);
    for (unsigned i = 0; i < n; i++) {
        got += readers[i].events;
        if (readers[i].events < least)
            least = readers[i].events;
    }
    (void)printf("{\"published\": %llu, \"delivered\": %llu, \"least\": %llu, \"p50\": %.1f, "
                 "\"p99\": %.1f, \"max\": %.1f}\n",
                 (unsigned long long)published, (unsigned long long)got, (unsigned long long)least,
                 percentile(got, 0.5), percentile(got, 0.99), percentile(got, 1.0 - 1e-9));
    (void)fflush(stdout);
    (void)getchar();
    return 0;
}
