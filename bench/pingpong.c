/* How long a byte takes to another machine and back, by TCP.
 *
 *   pingpong serve PORT                 answers for ever
 *   pingpong ask ADDRESS PORT COUNT     one connection, COUNT bytes there and back
 *   pingpong connect ADDRESS PORT COUNT COUNT connections, each with one byte there and back
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "samples.h"

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static struct sockaddr_in address_of(const char *host, const char *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};

    if (inet_pton(AF_INET, host, &a.sin_addr) != 1) {
        fprintf(stderr, "pingpong: %s is no address\n", host);
        exit(2);
    }
    return a;
}

static void answer(int fd)
{
    char byte;
    int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    while (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1) {
    }
    _exit(0);
}

/* A process for each connection, so that answers need no loop around them. */
static void serve(const char *port)
{
    struct sockaddr_in a = address_of("0.0.0.0", port);
    int on = 1, fd, listener = socket(AF_INET, SOCK_STREAM, 0);

    (void)signal(SIGCHLD, SIG_IGN);
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(listener, 1024) < 0)
        die("listen");
    printf("listens\n");
    (void)fflush(stdout);
    for (;;) {
        if ((fd = accept(listener, NULL, NULL)) < 0)
            die("accept");
        if (fork() == 0)
            answer(fd);
        close(fd);
    }
}

static int reach(const struct sockaddr_in *a)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0)
        die("connect");
    return fd;
}

static void exchange(int fd)
{
    char byte = 'x';

    if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
        die("exchange");
}

static void ask(const struct sockaddr_in *a, long count)
{
    struct samples rtt = {"rtt", "us"};
    int fd = reach(a);

    for (int i = 0; i < 200; i++)
        exchange(fd); /* warms */
    for (long i = 0; i < count; i++) {
        long long start = mono_ns();

        exchange(fd);
        (void)samples_since(&rtt, start);
    }
    close(fd);
    samples_print(&rtt);
}

static void connect_often(const struct sockaddr_in *a, long count)
{
    struct samples first = {"connect", "us"};

    for (long i = 0; i < count; i++) {
        long long start = mono_ns();
        int fd = reach(a);

        exchange(fd);
        (void)samples_since(&first, start);
        close(fd);
    }
    samples_print(&first);
}

int main(int argc, char **argv)
{
    struct sockaddr_in a;

    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        serve(argv[2]);
    if (argc != 5) {
        fprintf(stderr,
                "pingpong: serve PORT | ask ADDRESS PORT COUNT | connect ADDRESS PORT COUNT\n");
        return 2;
    }
    a = address_of(argv[2], argv[3]);
    if (strcmp(argv[1], "ask") == 0)
        ask(&a, strtol(argv[4], NULL, 10));
    else
        connect_often(&a, strtol(argv[4], NULL, 10));
    return 0;
}
