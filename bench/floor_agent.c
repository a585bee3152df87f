/* PID 1 in a box of the floor: static, on musl, as cay's agent is. Serves each connection with a
 * process of its own, so that requests on several connections run side by side. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "floor.h"

extern char **environ;

static char data[FLOOR_DATA_MAX + 1];

/* Output of both pipes into data, until both ended. Returns how much. */
static size_t collect(int out, int err)
{
    struct pollfd p[] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    size_t len = 0;

    while (p[0].fd >= 0 || p[1].fd >= 0) {
        if (poll(p, 2, -1) < 0)
            continue;
        for (int i = 0; i < 2; i++) {
            ssize_t n;

            if (p[i].fd < 0 || !p[i].revents)
                continue;
            n = read_some(p[i].fd, data + len, FLOOR_DATA_MAX - len);
            if (n <= 0)
                close_fd(&p[i].fd);
            else
                len += (size_t)n;
        }
    }
    return len;
}

/* data holds the command. */
static int serve_exec(uint32_t *len)
{
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, data, NULL};
    posix_spawn_file_actions_t actions;
    int out[2], err[2], status, r;
    pid_t pid;

    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
        return errno;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    (void)posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    r = posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(out[1]);
    (void)close(err[1]);
    if (r != 0) {
        (void)close(out[0]);
        (void)close(err[0]);
        return r;
    }
    *len = (uint32_t)collect(out[0], err[0]);
    if (waitpid(pid, &status, 0) < 0)
        return errno;
    return status == 0 ? 0 : ECHILD;
}

/* Beside the old file and renamed, as cay does it: a reader sees the old file or the new one. */
static int serve_write(const void *bytes, size_t len)
{
    auto_close int fd = open("/workspace/.file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    int r;

    if (fd < 0)
        return errno;
    r = write_all(fd, bytes, len);
    if (r == 0 && rename("/workspace/.file", "/workspace/file") < 0)
        r = -errno;
    return -r;
}

static int serve_read(uint32_t *len)
{
    ssize_t n = read_file_at(AT_FDCWD, "/workspace/file", data, sizeof(data));

    *len = n < 0 ? 0 : (uint32_t)n;
    return n < 0 ? (int)-n : 0;
}

static void serve(int sock)
{
    struct {
        struct floor_head head;
        char data[FLOOR_DATA_MAX];
    } answer;
    struct floor_head head;

    while (read_exact(sock, &head, sizeof(head)) == 0) {
        uint32_t len = 0;
        int r = EINVAL;

        if (head.len > FLOOR_DATA_MAX || read_exact(sock, data, head.len) < 0)
            return;
        data[head.len] = '\0';
        if (head.op == FLOOR_EXEC)
            r = serve_exec(&len);
        else if (head.op == FLOOR_WRITE)
            r = serve_write(data, head.len);
        else if (head.op == FLOOR_READ)
            r = serve_read(&len);
        answer.head = (struct floor_head){.op = (uint32_t)r, .len = len};
        memcpy(answer.data, data, len);
        if (write_all(sock, &answer, sizeof(answer.head) + len) < 0)
            return;
    }
}

int main(void)
{
    (void)signal(SIGCHLD, SIG_IGN); /* the processes of ended connections reap themselves */
    (void)close(FLOOR_FD_STATUS);
    for (;;) {
        int sock = accept4(FLOOR_FD_LISTEN, NULL, NULL, SOCK_CLOEXEC);

        if (sock < 0)
            continue;
        if (fork() == 0) {
            (void)signal(SIGCHLD, SIG_DFL);
            (void)close(FLOOR_FD_LISTEN);
            serve(sock);
            _exit(0);
        }
        (void)close(sock);
    }
}
