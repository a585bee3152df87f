#pragma once

/* An HTTP server on loopback whose answers a test writes itself. One thread a connection; it lives
 * until the test's process ends. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define FAKE_LOG 64

struct fake_request {
    char method[8], path[1024];
    char authorization[512], range[64], agent[64], accept[512], key[64]; /* "" = not sent */
    char body[2048];
};

struct fake_http {
    int fd;
    unsigned port;
    char host[32]; /* "127.0.0.1:PORT" */
    /* Writes the answer to fd; false closes the connection. */
    bool (*answer)(struct fake_http *s, int fd, const struct fake_request *q);
    pthread_mutex_t lock; /* of what follows */
    struct fake_request log[FAKE_LOG];
    unsigned n_requests, n_connections;
};

static void fake_send(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

        if (n <= 0)
            return;
        p += n;
        len -= (size_t)n;
    }
}

__attribute__((format(printf, 2, 3))) static void fake_sendf(int fd, const char *fmt, ...)
{
    char text[4096];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(text))
        abort();
    fake_send(fd, text, (size_t)n);
}

/* A whole answer; headers end with \r\n each. */
static bool fake_reply(int fd, const char *status, const char *headers, const char *body)
{
    fake_sendf(fd, "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n", status, headers, strlen(body));
    fake_send(fd, body, strlen(body));
    return true;
}

static void fake_header(const char *head, const char *name, char *ret, size_t size)
{
    const char *line = head;

    ret[0] = '\0';
    while ((line = strstr(line, "\r\n"))) {
        line += 2;
        if (strncasecmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') {
            line += strlen(name) + 2;
            (void)snprintf(ret, size, "%.*s", (int)strcspn(line, "\r"), line);
        }
    }
}

/* One request; false at the end of the connection. */
static bool fake_read(int fd, struct fake_request *q)
{
    char head[8192], length[16];
    size_t len = 0, want;

    memset(q, 0, sizeof(*q));
    do {
        if (len >= sizeof(head) - 1 || read(fd, head + len, 1) != 1)
            return false;
        head[++len] = '\0';
        if (head[0] < 'A' || head[0] > 'Z') { /* as of TLS: others answer that so, too */
            fake_sendf(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
            return false;
        }
    } while (!strstr(head, "\r\n\r\n"));
    if (sscanf(head, "%7s %1023s", q->method, q->path) != 2)
        return false;
    fake_header(head, "Authorization", q->authorization, sizeof(q->authorization));
    fake_header(head, "Range", q->range, sizeof(q->range));
    fake_header(head, "User-Agent", q->agent, sizeof(q->agent));
    fake_header(head, "Accept", q->accept, sizeof(q->accept));
    fake_header(head, "Idempotency-Key", q->key, sizeof(q->key));
    fake_header(head, "Content-Length", length, sizeof(length));
    want = strtoul(length, NULL, 10);
    if (want >= sizeof(q->body))
        return false;
    for (size_t i = 0; i < want; i++)
        if (read(fd, q->body + i, 1) != 1)
            return false;
    return true;
}

struct fake_conn {
    struct fake_http *server;
    int fd;
};

/* The client sees the end of the connection behind the last byte. Closing at once leaves bytes that
 * a slow client has not taken to the kernel, which throws them away when sockets without an owner,
 * or the memory of all sockets, are too many: then the connection breaks earlier than the test
 * says. */
static void fake_hang_up(int fd)
{
    char rest[256];

    (void)shutdown(fd, SHUT_WR);
    while (read(fd, rest, sizeof(rest)) > 0)
        ;
    (void)close(fd);
}

static void *fake_serve(void *arg)
{
    struct fake_conn conn = *(struct fake_conn *)arg;
    struct fake_http *s = conn.server;
    struct fake_request q;

    free(arg);
    while (fake_read(conn.fd, &q)) {
        pthread_mutex_lock(&s->lock);
        if (s->n_requests < FAKE_LOG)
            s->log[s->n_requests] = q;
        s->n_requests++;
        pthread_mutex_unlock(&s->lock);
        if (!s->answer(s, conn.fd, &q))
            break;
    }
    fake_hang_up(conn.fd);
    return NULL;
}

static void *fake_accept(void *arg)
{
    struct fake_http *s = arg;

    for (;;) {
        struct fake_conn *conn = malloc(sizeof(*conn));
        pthread_t thread;

        if (!conn)
            abort();
        *conn = (struct fake_conn){s, accept4(s->fd, NULL, NULL, SOCK_CLOEXEC)};
        if (conn->fd < 0)
            abort();
        /* A head and a body that are sent one after the other are not held back. */
        (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        pthread_mutex_lock(&s->lock);
        s->n_connections++;
        pthread_mutex_unlock(&s->lock);
        if (pthread_create(&thread, NULL, fake_serve, conn) != 0)
            abort();
        (void)pthread_detach(thread);
    }
    return NULL;
}

/* s must be static: the server's threads use it until the process ends, also after the test has
 * returned. */
static void fake_http_start(struct fake_http *s,
                            bool (*answer)(struct fake_http *, int, const struct fake_request *))
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    pthread_t thread;

    memset(s, 0, sizeof(*s));
    s->answer = answer;
    pthread_mutex_init(&s->lock, NULL);
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->fd < 0 || bind(s->fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(s->fd, 64) < 0 ||
        getsockname(s->fd, (struct sockaddr *)&a, &len) < 0)
        abort();
    s->port = ntohs(a.sin_port);
    (void)snprintf(s->host, sizeof(s->host), "127.0.0.1:%u", s->port);
    if (pthread_create(&thread, NULL, fake_accept, s) != 0)
        abort();
    (void)pthread_detach(thread);
}

static unsigned fake_requests(struct fake_http *s)
{
    unsigned n;

    pthread_mutex_lock(&s->lock);
    n = s->n_requests;
    pthread_mutex_unlock(&s->lock);
    return n;
}

static unsigned fake_connections(struct fake_http *s)
{
    unsigned n;

    pthread_mutex_lock(&s->lock);
    n = s->n_connections;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* How many requests had a path that begins so? */
static unsigned fake_asked(struct fake_http *s, const char *path)
{
    unsigned n = 0;

    pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < s->n_requests && i < FAKE_LOG; i++)
        n += strncmp(s->log[i].path, path, strlen(path)) == 0;
    pthread_mutex_unlock(&s->lock);
    return n;
}
