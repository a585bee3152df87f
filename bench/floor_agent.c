/* PID 1 in a box of the floor: static, on musl, as cay's agent is, with an id of its own. It moves
 * to a cgroup of its own and serves files; a second process, which stays in the workload's, serves
 * execs, whose commands run in a user namespace inside the agent's. Each connection has a process,
 * so that requests on several connections run side by side. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "floor.h"
#include "proto/plan.h" /* the capabilities that a box has */

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

/* Shares our memory until it executes: system calls only. Standard input is /dev/null already. */
static pid_t spawn(char *const argv[], const int out[2], const int err[2])
{
    static char path[] = "PATH=/usr/bin:/bin";
    static char *const env[] = {path, NULL};
    pid_t pid = vfork();

    if (pid != 0)
        return pid;
    if (dup2(out[1], 1) < 0 || dup2(err[1], 2) < 0 ||
        syscall(SYS_setns, FLOOR_FD_USERS, CLONE_NEWUSER) < 0)
        _exit(127);
    (void)syscall(SYS_close_range, 3u, ~0u, 0);
    (void)setsid();
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
        syscall(SYS_setresuid, 0, 0, 0) < 0 || caps_set(BOX_CAPABILITIES) < 0 ||
        chdir("/workspace") < 0)
        _exit(127);
    (void)execve("/bin/sh", argv, env);
    _exit(127);
}

/* data holds the command. */
static int serve_exec(uint32_t *len)
{
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, data, NULL};
    int out[2], err[2], status;
    pid_t pid;

    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
        return errno;
    pid = spawn(argv, out, err);
    (void)close(out[1]);
    (void)close(err[1]);
    *len = (uint32_t)collect(out[0], err[0]);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
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
        else if (head.op == FLOOR_HELLO)
            r = 0;
        answer.head = (struct floor_head){.op = (uint32_t)r, .len = len};
        memcpy(answer.data, data, len);
        if (write_all(sock, &answer, sizeof(answer.head) + len) < 0)
            return;
    }
}

static void accept_all(int listening) __attribute__((noreturn));
static void accept_all(int listening)
{
    for (;;) {
        int sock = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

        if (sock < 0)
            continue;
        if (fork() == 0) {
            (void)signal(SIGCHLD, SIG_DFL);
            serve(sock);
            _exit(0);
        }
        (void)close(sock);
    }
}

/* Into an id that is no command's. Capabilities are kept over the change, or it would take them. */
static int leave_root(void)
{
    if (prctl(PR_SET_KEEPCAPS, 1) < 0 ||
        setresuid(FLOOR_AGENT_UID, FLOOR_AGENT_UID, FLOOR_AGENT_UID) < 0 ||
        prctl(PR_SET_KEEPCAPS, 0) < 0 || caps_set(BOX_CAPABILITIES) < 0)
        return -1;
    (void)setfsuid(0);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t groups;

    if (argc != 2 || str_u64(argv[1], &groups) < 0 || groups > FLOOR_AGENTS_MAX)
        return 1;
    (void)signal(SIGCHLD, SIG_IGN); /* the processes of ended connections reap themselves */
    if (leave_root() < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        return 1;
    (void)syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
    if (fork() == 0) /* stays where we were started, inside the workload's limits */
        accept_all(FLOOR_FD_EXEC);
    for (int i = 0; i < (int)groups; i++)
        if (write_all(FLOOR_FD_GROUPS + i, "0", 1) < 0)
            return 1;
    if (write_all(FLOOR_FD_STATUS, (const char[]){FLOOR_AGENT_READY}, 1) < 0)
        return 1;
    (void)close(FLOOR_FD_STATUS);
    accept_all(FLOOR_FD_CTL);
}
