#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/agent.h"
#include "agent/command_lines.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/procstat.h"
#include "base/str.h"
#include "proto/frame.h"

static ssize_t read_proc(pid_t pid, const char *name, char *text, size_t size)
{
    char path[48];

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    return read_file_at(-1, path, text, size);
}

static uint32_t proc_uid(pid_t pid)
{
    char text[2048];
    unsigned uid = 0;
    const char *p;

    /* The name comes first and its newlines are escaped, so this is the kernel's line. */
    if (read_proc(pid, "status", text, sizeof(text)) > 0 && (p = strstr(text, "\nUid:")))
        (void)sscanf(p + 5, "%u", &uid);
    return uid;
}

/* Joins the n bytes of arguments by spaces; the name of the process in brackets if there are none.
 * Control characters would let a process draw on the caller's terminal. */
static void proc_command(pid_t pid, char text[COMMAND_MAX], ssize_t n)
{
    while (n > 0 && text[n - 1] == '\0')
        n--;
    if (n <= 0) {
        char comm[64];

        n = read_proc(pid, "comm", comm, sizeof(comm));
        while (n > 0 && comm[n - 1] == '\n')
            n--;
        n = snprintf(text, COMMAND_MAX, "[%.*s]", n > 0 ? (int)n : 0, comm);
    }
    for (ssize_t i = 0; i < n; i++)
        if (text[i] == '\0')
            text[i] = ' ';
        else if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            text[i] = '?';
    text[n] = '\0';
}

static void send_process(struct agent_call *c, const struct proc *p, struct accounts *names,
                         struct command_lines *lines)
{
    uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK), page = (uint64_t)sysconf(_SC_PAGESIZE);
    static char command[COMMAND_MAX];
    char state[2] = {p->state};
    struct call_process out = {.pid = (uint32_t)p->pid, .state = state, .command = command};
    struct proc_stat st;
    struct timespec up;
    auto_buf struct buf b = {0};
    uint64_t age;
    size_t len = command_lines_next(lines, command);

    if (proc_stat_read(p->pid, &st) < 0)
        return; /* it ended meanwhile */
    (void)clock_gettime(CLOCK_BOOTTIME, &up);
    age = (uint64_t)up.tv_sec * 1000 + (uint64_t)up.tv_nsec / 1000000;
    out.age_ms = st.start_ticks * 1000 / hz < age ? age - st.start_ticks * 1000 / hz : 0;
    out.cpu_ms = st.cpu_ticks * 1000 / hz;
    out.rss = st.rss_pages > 0 ? (uint64_t)st.rss_pages * page : 0;
    out.vsz = st.vsz;
    /* The parent of a command is a supervisor, which is not listed. */
    out.ppid = (uint32_t)(agents_has(st.ppid) ? agents->main : st.ppid);
    /* The agent's own id means nothing to anybody. */
    out.uid = p->pid == agents->main ? 0 : proc_uid(p->pid);
    out.user = xstrdup(accounts_user(names, out.uid));
    proc_command(p->pid, command, (ssize_t)len);
    buf_init(&b, FRAME_MAX);
    call_process_put(&b, &out);
    call_reply_buf(c, FRAME_ITEM, &b);
    free(out.user);
}

/* Main stands for all of the agent; the child of a handler reads command lines. */
static bool is_listed(const struct proc *p)
{
    return p->pid == agents->main || !(agents_has(p->pid) || agents_has_handler(p->ppid));
}

int ps_call(struct agent_call *c, struct err *err)
{
    auto_accounts struct accounts names = {0};
    auto_free struct proc *procs = NULL;
    struct command_lines lines;
    size_t n, listed = 0;

    if (call_args_ok(c, err) < 0)
        return -1;
    accounts_load(&names);
    procs = procs_read(&n);
    if (n == 0)
        return err_set(err, ERR_INTERNAL, "the sandbox's /proc cannot be read");
    for (size_t i = 0; i < n; i++)
        if (is_listed(&procs[i]))
            procs[listed++] = procs[i];
    command_lines_begin(&lines, procs, listed);
    for (size_t i = 0; i < listed; i++)
        send_process(c, &procs[i], &names, &lines);
    command_lines_end(&lines);
    call_reply(c, FRAME_END, NULL, 0);
    return 0;
}

/* Everything below the supervisors of the command with that first process; of all commands that
 * have not ended, if it is 0. False if there is none. */
static bool kill_execs(pid_t command, int sig)
{
    pid_t roots[EXECS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < EXECS_MAX; i++) {
        const struct slot *slot = &agents->execs[i];

        if (slot->pid > 0 && slot->mark == SLOT_PLAIN && (command == 0 || slot->command == command))
            roots[n++] = slot->pid;
    }
    if (n > 0)
        tree_signal(roots, n, sig);
    return n > 0;
}

static int kill_one(pid_t pid, int sig, struct err *err)
{
    if (agents_has(pid))
        return err_set(err, ERR_INVALID,
                       "process %d belongs to the sandbox itself; stop the sandbox to end it", pid);
    if (kill(pid, sig) < 0 && errno != ESRCH)
        return err_sys(err, errno, "send signal %d to process %d", sig, pid);
    return 0;
}

int kill_call(struct agent_call *c, struct err *err)
{
    uint32_t pid = wire_get_u32(&c->args), sig = wire_get_u32(&c->args);
    bool whole, done;
    struct frame f;

    if (call_args_ok(c, err) < 0)
        return -1;
    if (sig >= NSIG || pid > INT32_MAX)
        return err_set(err, ERR_INVALID, "no such signal or process number: signal %u, process %u",
                       sig, pid);
    whole = pid == 0 || (call_take(c, &f) == 1 && f.type == FRAME_END);
    done = whole && kill_execs((pid_t)pid, (int)sig);
    if (!done && pid != 0 && kill_one((pid_t)pid, (int)sig, err) < 0)
        return -1;
    call_reply(c, FRAME_OK, NULL, 0);
    return 0;
}
