#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "proto/plan.h"

/* The child shares our memory until it executes, so it makes system calls and nothing else; it has
 * a stack of its own, and tells how far it came in struct spawn. When it leaves our memory the
 * kernel clears `sharing` and wakes us (await_exec()). vfork would wait for that too, but without
 * end: a child that has become the command's user can be stopped from inside. */

enum spawn_step { STEP_FDS, STEP_TTY, STEP_USER, STEP_LIMITS, STEP_CWD, STEP_EXEC };

#define FIRST_NUDGE_MS 20
#define NUDGE_MS       2
#define GIVE_UP_MS     20000

#define STACK_SIZE   (32u << 10)
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static _Atomic int sharing;
static char stack[STACK_SIZE] __attribute__((aligned(16)));

static void limit_files(uint32_t nofile)
{
    struct rlimit lim;

    if (nofile == 0 || getrlimit(RLIMIT_NOFILE, &lim) < 0)
        return;
    lim.rlim_cur = nofile < lim.rlim_max ? nofile : lim.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &lim);
}

/* Into the commands' user namespace: rule 4 of agent.h. Whoever enters one has all capabilities in
 * it, until become() leaves those that a box has. The bounding set is full too and stays so, since
 * 34 calls would cost a short exec a twentieth of its time: no_new_privs gives no program more than
 * what the one before it was permitted. */
static int enter_users(void)
{
    return agents->apart ? (int)syscall(SYS_setns, AGENT_FD_USERS, CLONE_NEWUSER) : 0;
}

/* By system call: the library's versions are for programs with threads. */
static int become(const struct identity *u)
{
    if (syscall(SYS_setgroups, u->ngroups, u->groups) < 0 ||
        syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0 ||
        syscall(SYS_setresuid, u->uid, u->uid, u->uid) < 0)
        return -1;
    if (!agents->apart)
        return 0;
    errno = -caps_set(u->uid == 0 ? BOX_CAPABILITIES : 0);
    return errno ? -1 : 0;
}

/* As the command's user, whom nobody counts as over a limit before it has begun. */
static int limit(struct spawn *s)
{
    for (s->limit = 0; s->limit < s->n_limits; s->limit++) {
        const struct rlimit_wish *w = &s->limits[s->limit];
        uint64_t both[2] = {w->soft, w->hard};

        if (syscall(SYS_prlimit64, 0, w->resource, both, NULL) < 0)
            return -1;
    }
    return 0;
}

/* A directory that cannot be reached from our root (through a descriptor, or one that was moved
 * out) has no path that starts with a slash. */
static int enter(const struct spawn *s)
{
    char path[4096];

    if (s->cwd[0] ? chdir(s->cwd) < 0 : chdir(s->user->home) < 0 && chdir("/") < 0)
        return -1;
    if (syscall(SYS_getcwd, path, sizeof(path)) < 0)
        return -1;
    if (path[0] != '/') {
        errno = ENOENT;
        return -1;
    }
    return 0;
}

/* None is ignored, and the one that has a handler loses it by execve(). */
static void unblock_signals(void)
{
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* As a shell does: the first that runs; a file that may not be run is remembered. */
static void execute(const struct spawn *s)
{
    int found = 0;

    for (char **path = s->paths; *path; path++) {
        (void)execve(*path, s->argv, s->env);
        if (errno == EACCES)
            found = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR)
            return;
    }
    errno = found ? found : ENOENT;
}

static int child(void *arg)
{
    struct spawn *s = arg;

    s->step = STEP_FDS;
    for (int fd = 0; fd < 3; fd++)
        if (s->fds[fd] >= 0 && dup2(s->fds[fd], fd) < 0)
            goto failed;
    if (enter_users() < 0)
        goto failed;
    /* Before any path is looked at: rule 2 of agent.h. */
    if (syscall(SYS_close_range, 3u, ~0u, 0) < 0)
        goto failed;
    (void)setsid();
    s->step = STEP_TTY;
    if (s->tty && ioctl(0, TIOCSCTTY, 0) < 0)
        goto failed;
    limit_files(s->nofile);
    s->step = STEP_USER;
    if (become(s->user) < 0)
        goto failed;
    s->step = STEP_LIMITS;
    if (limit(s) < 0)
        goto failed;
    s->step = STEP_CWD; /* as that user, who must be allowed to be there */
    if (enter(s) < 0)
        goto failed;
    s->step = STEP_EXEC;
    unblock_signals();
    execute(s);
failed:
    s->error = errno;
    _exit(127);
}

static char **candidates(const struct spawn *s)
{
    const char *name = s->argv[0], *path = DEFAULT_PATH;
    char **list = NULL;

    if (strchr(name, '/'))
        return strv_add(NULL, name);
    for (char **e = s->env; *e; e++)
        if (str_starts(*e, "PATH="))
            path = *e + 5;
    for (size_t i = 0; i < 64; i++) {
        size_t n = strcspn(path, ":");
        auto_free char *full =
            n ? xasprintf("%.*s/%s", (int)n, path, name) : xasprintf("./%s", name);

        list = strv_add(list, full);
        if (!path[n])
            break;
        path += n + 1;
    }
    return list;
}

/* What a limit is, in words. */
static const char *amount(uint64_t limit, char text[24])
{
    if (limit == RLIMIT_UNBOUNDED)
        return "unlimited";
    (void)snprintf(text, 24, "%llu", (unsigned long long)limit);
    return text;
}

static void explain_limit(const struct spawn *s, struct err *err)
{
    const struct rlimit_wish *w = &s->limits[s->limit];
    char wanted[24], most[24];
    uint64_t now[2] = {0};

    (void)syscall(SYS_prlimit64, 0, w->resource, NULL, now);
    (void)err_code(err, ERR_INVALID, "bad_rlimit",
                   "the sandbox cannot give %s a hard limit of %s: %s; it has %s",
                   rlimit_words[w->resource], amount(w->hard, wanted), strerror(s->error),
                   amount(now[1], most));
}

static int explain(const struct spawn *s, struct err *err)
{
    const char *name = s->argv[0];
    const struct identity *u = s->user;

    switch ((enum spawn_step)s->step) {
    case STEP_USER:
        (void)err_code(err, ERR_INVALID, "bad_user",
                       "the sandbox cannot run as %u:%u; ids go from 0 to 65535", u->uid, u->gid);
        break;
    case STEP_LIMITS:
        explain_limit(s, err);
        break;
    case STEP_CWD:
        (void)err_code(err, ERR_INVALID, "bad_cwd",
                       "cannot start in \"%.120s\": %s; give a directory inside the sandbox",
                       s->cwd[0] ? s->cwd : u->home, strerror(s->error));
        break;
    case STEP_EXEC:
        if (s->error == ENOENT || s->error == ENOTDIR || s->error == ENAMETOOLONG)
            (void)err_code(err, ERR_INVALID, "command_not_found",
                           "%.120s: command not found in the sandbox", name);
        else if (s->error == E2BIG)
            (void)err_set(err, ERR_TOO_LARGE, "the arguments and environment are too long");
        else
            (void)err_code(err, ERR_INVALID, "not_executable", "%.120s cannot be executed: %s",
                           name, strerror(s->error));
        break;
    case STEP_FDS:
    case STEP_TTY:
        return err_sys(err, s->error, "prepare the command");
    }
    err->sys = s->error;
    return -1;
}

/* The library's errno is the child's too while it shares our memory, and the child reads it: so we
 * leave it alone meanwhile. Returns what the kernel does. */
static long bare_syscall(long number, long a, long b, long c, long d)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;

    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return number;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
#else
#error "how are system calls made here?"
#endif
}

/* clone() with CLONE_CHILD_CLEARTID, which musl's refuses from 1.2.5 on, because of what a thread
 * of the library would make of it; the child is none and only calls start(arg) on its stack. Its
 * pid is in *noted before it begins. Returns what the kernel does. */
static long clone_sharing(int (*start)(void *), void *top, void *arg, _Atomic pid_t *noted,
                          _Atomic int *cleared)
{
    long flags = CLONE_VM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;

#if defined(__x86_64__)
    long r = SYS_clone;
    register _Atomic int *r10 __asm__("r10") = cleared;
    register void *r12 __asm__("r12") = arg;
    register int (*r13)(void *) __asm__("r13") = start;

    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r12, %%rdi\n\t"
                     "call *%%r13\n\t"
                     "mov %%eax, %%edi\n\t"
                     "mov %[exit], %%eax\n\t"
                     "syscall\n"
                     "1:"
                     : "+a"(r)
                     : "D"(flags), "S"(top), "d"(noted), "r"(r10), "r"(r12),
                       "r"(r13), [exit] "i"(SYS_exit)
                     : "rcx", "r11", "memory", "cc");
    return r;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_clone;
    register long x0 __asm__("x0") = flags;
    register void *x1 __asm__("x1") = top;
    register _Atomic pid_t *x2 __asm__("x2") = noted;
    register long x3 __asm__("x3") = 0;
    register _Atomic int *x4 __asm__("x4") = cleared;
    register void *x10 __asm__("x10") = arg;
    register int (*x11)(void *) __asm__("x11") = start;

    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, x10\n\t"
                     "blr x11\n\t"
                     "mov x8, %[exit]\n\t"
                     "svc 0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x10),
                       "r"(x11), [exit] "i"(SYS_exit)
                     : "memory", "cc");
    return x0;
#endif
}

/* Who is stopped meanwhile is continued; who does not come through in the end is killed. */
static void await_exec(pid_t pid)
{
    int wait = FIRST_NUDGE_MS;

    for (int waited = 0; sharing; waited += wait, wait = NUDGE_MS) {
        struct timespec time = {.tv_nsec = wait * 1000000l};

        if (bare_syscall(SYS_futex, (long)&sharing, FUTEX_WAIT, 1, (long)&time) == -ETIMEDOUT)
            (void)bare_syscall(SYS_kill, pid, waited < GIVE_UP_MS ? SIGCONT : SIGKILL, 0, 0);
    }
}

pid_t spawn_run(struct spawn *s, struct err *err)
{
    auto_strv char **paths = candidates(s);
    _Atomic pid_t *noted = agent_command(ticks_now());
    pid_t pid;

    s->paths = paths;
    s->error = 0;
    sharing = 1;
    pid = (pid_t)clone_sharing(child, stack + sizeof(stack), s, noted, &sharing);
    if (pid > 0)
        await_exec(pid);
    if (pid == -EAGAIN || pid == -ENOMEM)
        return err_code(
            err, ERR_LIMIT, "process_limit",
            "the sandbox has as many processes as it may; try again when some have ended");
    if (pid < 0)
        return err_sys(err, -pid, "start a process");
    if (s->error) {
        *noted = 0;
        (void)waitpid(pid, NULL, 0);
        return explain(s, err);
    }
    return pid;
}
