/* The system calls of the worker. It makes no sockets, opens no files and starts nothing: what is
 * not listed fails with ENOSYS. */
#include <errno.h>
#include <seccomp.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "gateway/worker_internal.h"

/* clang-format off */
static const char *const needed[] = {
    "accept4", "brk", "clock_gettime", "close", "epoll_create1", "epoll_ctl", "epoll_pwait",
    "epoll_wait", "exit", "exit_group", "fcntl", "futex", "getpeername", "getpid", "getrandom",
    "getsockname", "getsockopt", "gettid", "gettimeofday", "madvise", "mremap", "munmap", "pipe2",
    "prlimit64", "read", "recvfrom", "recvmsg", "restart_syscall", "rt_sigaction",
    "rt_sigprocmask", "rt_sigreturn", "sendmsg", "sendto", "setsockopt", "shutdown", "splice",
    "tgkill", "time", "write", "writev",
};

#ifdef CAY_SANITIZED
/* What the sanitizers' own runtimes call, in builds that nobody installs. */
static const char *const sanitizing[] = {
    "clone", "fstat", "getppid", "getrusage", "kill", "mincore", "mlock", "mmap", "mprotect",
    "newfstatat", "open", "openat", "personality", "prctl", "ptrace", "readlink", "readlinkat",
    "sched_getaffinity", "sched_yield", "set_robust_list", "sigaltstack", "stat", "wait4",
};
#endif
/* clang-format on */

static int allow(scmp_filter_ctx ctx, const char *const *names, size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        int nr = seccomp_syscall_resolve_name(names[i]);

        if (nr != __NR_SCMP_ERROR) /* else of another machine */
            r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
    }
    return r;
}

/* No memory becomes code: all programs are loaded by now. */
static int allow_memory(scmp_filter_ctx ctx)
{
#ifdef CAY_SANITIZED
    return allow(ctx, sanitizing, ARRAY_LEN(sanitizing));
#else
    int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                             SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

    return r < 0 ? r
                 : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                                    SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
#endif
}

int worker_filter(void)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int r;

    if (!ctx)
        return -ENOMEM;
    r = allow(ctx, needed, ARRAY_LEN(needed));
    if (r == 0)
        r = allow_memory(ctx);
    if (r == 0)
        r = seccomp_load(ctx); /* with no_new_privs, which it sets */
    seccomp_release(ctx);
    return r;
}
