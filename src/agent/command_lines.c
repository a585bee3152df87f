#include "agent/command_lines.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define ONE_NS (250ll * 1000 * 1000)      /* for one process */
#define ALL_NS (2ll * 1000 * 1000 * 1000) /* for the whole list */

static _Noreturn void send_lines(const struct command_lines *l, int to)
{
    static char text[COMMAND_MAX];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = l->at; i < l->n; i++) {
        char path[48];
        ssize_t n;
        uint32_t len;

        (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", l->procs[i].pid);
        n = read_file_at(-1, path, text, sizeof(text));
        len = n > 0 ? (uint32_t)n : 0;
        if (write_all(to, &len, sizeof(len)) < 0 || write_all(to, text, len) < 0)
            break;
    }
    _exit(0);
}

static void start_child(struct command_lines *l)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    l->child = fork();
    if (l->child == 0)
        send_lines(l, ends[1]);
    (void)close(ends[1]);
    if (l->child > 0) {
        l->pipe = ends[0];
        return;
    }
    l->child = 0;
    (void)close(ends[0]);
}

static void end_child(struct command_lines *l)
{
    if (l->child == 0)
        return;
    (void)close(l->pipe);
    (void)kill(l->child, SIGKILL);
    (void)waitpid(l->child, NULL, 0);
    l->child = 0;
}

static bool read_in_time(const struct command_lines *l, void *ret, size_t len)
{
    int64_t until = mono_ns() + ONE_NS;
    struct pollfd p = {.fd = l->pipe, .events = POLLIN};

    if (until > l->until)
        until = l->until;
    for (size_t got = 0; got < len;) {
        int64_t left = until - mono_ns();
        ssize_t n;

        if (poll(&p, 1, left > 0 ? (int)(left / 1000000) + 1 : 0) <= 0)
            return false;
        n = read_some(l->pipe, (char *)ret + got, len - got);
        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    return true;
}

void command_lines_begin(struct command_lines *l, const struct proc *procs, size_t n)
{
    *l = (struct command_lines){.procs = procs, .n = n, .until = mono_ns() + ALL_NS};
}

size_t command_lines_next(struct command_lines *l, char ret[COMMAND_MAX])
{
    uint32_t len = 0;

    if (l->child == 0 && mono_ns() < l->until)
        start_child(l);
    if (l->child != 0 &&
        (!read_in_time(l, &len, sizeof(len)) || len >= COMMAND_MAX || !read_in_time(l, ret, len))) {
        end_child(l);
        len = 0;
    }
    l->at++;
    return len;
}

void command_lines_end(struct command_lines *l)
{
    end_child(l);
}
