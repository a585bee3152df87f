/* The system calls that each kind needs: what is not listed does not exist for them (ENOSYS, which
 * libraries know how to do without). */
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "wall/wall.h"

#define NEW_NAMESPACES                                                                             \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |     \
     CLONE_NEWCGROUP)

/* clang-format off */
/* Memory, threads, time, and what is open already. */
static const char *const both[] = {
    "brk", "clock_getres", "clock_gettime", "clock_nanosleep", "close", "close_range",
    "exit", "exit_group", "fcntl", "fstat", "futex", "getegid", "geteuid", "getgid", "getpid",
    "getrandom", "getrlimit", "gettid", "gettimeofday", "getuid", "lseek", "madvise", "membarrier",
    "mremap", "munmap", "nanosleep", "newfstatat", "openat", "poll", "ppoll", "read", "readv",
    "recvmsg", "restart_syscall", "rseq", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
    "sched_getaffinity", "sched_yield", "sendmsg", "set_robust_list", "sigaltstack", "statx",
    "sysinfo", "tgkill", "time", "uname", "write", "writev",
};

static const char *const networking[] = {
    "access", "bind", "connect", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_wait",
    "eventfd2", "faccessat", "faccessat2", "getpeername", "getsockname", "getsockopt",
    "pipe2", "recvfrom", "select", "pselect6", "sendmmsg", "sendto", "setsockopt", "shutdown",
};

static const char *const unpacking[] = {
    "fchmod", "fchown", "fchownat", "fgetxattr", "flistxattr", "fsetxattr",
    "fstatfs", "fsync", "ftruncate", "getdents64", "linkat", "mkdirat", "mknodat", "openat2",
    "pread64", "pwrite64", "readlinkat", "renameat", "shutdown", "socketpair", "symlinkat",
    "syncfs", "unlinkat", "utimensat",
};

#ifdef CAY_SANITIZED
/* What the sanitizers' own runtimes call, in builds that nobody installs. */
static const char *const sanitizing[] = {
    "clone3", "getppid", "getrusage", "kill", "mincore", "mlock", "mmap", "mprotect", "open",
    "personality", "pipe2", "prctl", "prlimit64", "readlink", "sched_setaffinity",
    "setrlimit", "stat", "wait4",
};
#endif
/* clang-format on */

static int allow(scmp_filter_ctx ctx, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int nr = seccomp_syscall_resolve_name(names[i]), r;

        if (nr == __NR_SCMP_ERROR)
            continue; /* of another machine */
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Threads, but no processes; and no memory that becomes code: all programs are loaded by now. */
static int allow_threads(scmp_filter_ctx ctx)
{
    int r =
        seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                         SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD | NEW_NAMESPACES, CLONE_THREAD));

#ifndef CAY_SANITIZED
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                             SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                             SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
#else
    if (r == 0)
        r = allow(ctx, sanitizing, ARRAY_LEN(sanitizing));
#endif
    return r;
}

/* To the network, and to libcurl's own threads; not to the host's other sockets. */
static int allow_sockets(scmp_filter_ctx ctx)
{
    static const int families[] = {AF_INET, AF_INET6};
    static const unsigned long requests[] = {FIONBIO, FIONREAD};
    int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
                             SCMP_A0(SCMP_CMP_EQ, AF_UNIX));

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(families); i++)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                             SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(requests); i++)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                             SCMP_A1(SCMP_CMP_EQ, requests[i]));
    return r == 0 ? seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                     SCMP_A0(SCMP_CMP_GT, AF_INET6))
                  : r;
}

int wall_filter(enum filter which, struct err *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int r;

    if (!ctx)
        return err_set(err, ERR_INTERNAL, "make a filter for a walled process");
    r = allow(ctx, both, ARRAY_LEN(both));
    if (r == 0)
        r = allow_threads(ctx);
    if (r == 0 && which == FILTER_NETWORK)
        r = allow(ctx, networking, ARRAY_LEN(networking));
    if (r == 0 && which == FILTER_NETWORK)
        r = allow_sockets(ctx);
    if (r == 0 && which == FILTER_UNPACK)
        r = allow(ctx, unpacking, ARRAY_LEN(unpacking));
    if (r == 0)
        r = seccomp_load(ctx);
    seccomp_release(ctx);
    return r < 0 ? err_sys(err, -r, "load a walled process's filter") : 0;
}
