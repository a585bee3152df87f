#include "launch/launch_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/ptrace.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "base/mem.h"

/* The filter, in its order:
 *
 *  - Another architecture (int $0x80, x32): killed, or ENOSYS.
 *  - A number newer than the profile: ENOSYS, so that libc falls back to what it did before.
 *  - What is always allowed, as a binary tree of ranges of numbers. It comes early and is short
 *    because every box loads the filter: the kernel compiles it, and walks through it once for
 *    every number there is, to know which need no filter at all.
 *  - What depends on arguments.
 *  - Everything else: EPERM. */

/* Newest number looked at when the list was made (futex_requeue). */
#define NEWEST_SYSCALL 456

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "the seccomp profile knows x86_64 and aarch64"
#endif

#define NAMESPACE_FLAGS  0x7e020000u /* every CLONE_NEW* that clone() takes */
#define SOCKET_TYPE_BITS 0xf         /* the rest of a socket's type are flags such as CLOEXEC */
#define OLD_SETOPTIONS   21          /* the kernel's other number for PTRACE_SETOPTIONS */
#define SET_DELEGATION   1040        /* fcntl's F_SETDELEG, of kernels after 6.18 */

/* clang-format off */
static const char *const allowed[] = {
    "accept", "accept4", "access", "alarm", "arch_prctl", "bind", "brk", "cachestat", "capget",
    "capset", "chdir", "chmod", "chown", "clock_getres", "clock_gettime", "clock_nanosleep",
    "close", "close_range", "connect", "copy_file_range", "creat", "dup", "dup2", "dup3",
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait",
    "eventfd", "eventfd2", "execve", "execveat", "exit", "exit_group", "faccessat",
    "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2",
    "fchown", "fchownat", "fdatasync", "fgetxattr", "flistxattr", "flock", "fork",
    "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync", "ftruncate", "futex",
    "futex_requeue", "futex_wait", "futex_waitv", "futex_wake", "futimesat", "get_robust_list",
    "get_thread_area", "getcpu", "getcwd", "getdents", "getdents64", "getegid", "geteuid",
    "getgid", "getgroups", "getitimer", "getpeername", "getpgid", "getpgrp", "getpid",
    "getppid", "getpriority", "getrandom", "getresgid", "getresuid", "getrlimit", "getrusage",
    "getsid", "getsockname", "getsockopt", "gettid", "gettimeofday", "getuid", "getxattr",
    "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "ioprio_get",
    "ioprio_set", "kill", "landlock_add_rule", "landlock_create_ruleset",
    "landlock_restrict_self", "lchown", "lgetxattr", "link", "linkat", "listen", "listxattr",
    "llistxattr", "lremovexattr", "lseek", "lsetxattr", "lstat", "madvise", "map_shadow_stack",
    "membarrier", "memfd_create", "mincore", "mkdir", "mkdirat", "mknod", "mknodat", "mlock",
    "mlock2", "mlockall", "mmap", "mprotect", "mq_getsetattr", "mq_notify", "mq_open",
    "mq_timedreceive", "mq_timedsend", "mq_unlink", "mremap", "msgctl", "msgget", "msgrcv",
    "msgsnd", "msync", "munlock", "munlockall", "munmap", "nanosleep", "newfstatat", "open",
    "openat", "openat2", "pause", "pidfd_open", "pidfd_send_signal", "pipe", "pipe2",
    "pkey_alloc", "pkey_free", "pkey_mprotect", "poll", "ppoll", "prctl", "pread64", "preadv",
    "preadv2", "process_mrelease", "process_vm_readv", "pselect6", "pwrite64",
    "pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv", "recvfrom",
    "recvmmsg", "recvmsg", "remap_file_pages", "removexattr", "rename", "renameat", "renameat2",
    "restart_syscall", "rmdir", "rseq", "rt_sigaction", "rt_sigpending", "rt_sigprocmask",
    "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
    "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr",
    "sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity",
    "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield", "seccomp", "select",
    "semctl", "semget", "semop", "semtimedop", "sendfile", "sendmmsg", "sendmsg", "sendto",
    "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid", "setfsuid", "setgid",
    "setgroups", "setitimer", "setpgid", "setpriority", "setregid", "setresgid", "setresuid",
    "setreuid", "setsid", "setuid", "setxattr", "shmat", "shmctl", "shmdt",
    "shmget", "shutdown", "sigaltstack", "signalfd", "signalfd4", "splice", "stat", "statfs",
    "statx", "symlink", "symlinkat", "sync_file_range", "syncfs", "sysinfo", "tee",
    "tgkill", "time", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime",
    "timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime", "times", "tkill",
    "truncate", "umask", "uname", "unlink", "unlinkat", "utime", "utimensat", "utimes", "vfork",
    "wait4", "waitid", "write", "writev",
};
/* clang-format on */

#define LOAD(member)    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define LOAD_ARG_LOW(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]))
#define LOAD_ARG_HIGH(n)                                                                           \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]) + 4)
#define IF_EQ(v, t, f)   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (v), (t), (f))
#define IF_SET(v, t, f)  BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (v), (t), (f))
#define IF_OVER(v, t, f) BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (v), (t), (f))
#define KEEP_BITS(v)     BPF_STMT(BPF_ALU | BPF_AND | BPF_K, (v))
#define RETURN(v)        BPF_STMT(BPF_RET | BPF_K, (v))
#define ALLOW            RETURN(SECCOMP_RET_ALLOW)
#define REFUSE(e)        RETURN(SECCOMP_RET_ERRNO | (e))
#define ASK_AGENT        RETURN(SECCOMP_RET_USER_NOTIF)

static const struct sock_filter prologue[] = {
    LOAD(arch),     IF_EQ(NATIVE_ARCH, 1, 0),      RETURN(SECCOMP_RET_KILL_PROCESS),
    LOAD(nr),       IF_OVER(NEWEST_SYSCALL, 0, 1), /* x32 numbers too: they have bit 30 set */
    REFUSE(ENOSYS),
};

/* Each block begins with the number in the accumulator and is jumped over when it is another one.
 */
static const struct sock_filter by_arguments[] = {
    IF_EQ(__NR_clone3, 0, 1), /* its flags are behind a pointer */
    REFUSE(ENOSYS),

    /* Its contexts are counted for the machine as a whole. Programs do without on kernels that were
     * built without it. */
    IF_EQ(__NR_io_setup, 0, 1),
    REFUSE(ENOSYS),

    IF_EQ(__NR_clone, 0, 4),
    LOAD_ARG_LOW(0),
    IF_SET(NAMESPACE_FLAGS, 1, 0),
    ALLOW,
    REFUSE(EPERM),

    /* The kernel looks at 32 bits of the request, so the filter does too. */
    IF_EQ(__NR_ioctl, 0, 6),
    LOAD_ARG_LOW(1),
    IF_EQ(TIOCSTI, 3, 0),
    IF_EQ(TIOCLINUX, 2, 0),
    IF_EQ(TIOCSETD, 1, 0),
    ALLOW,
    REFUSE(EPERM),

    /* Leases and dnotify act on files that others have open too: a lease on a program makes whoever
     * runs it wait. Delegations are leases of folders. The agent has a key (agent/meminfo.c). */
    IF_EQ(__NR_fcntl, 0, 11),
    LOAD_ARG_LOW(1),
    IF_EQ(F_SETLEASE, 3, 0),
    IF_EQ(F_NOTIFY, 7, 0),
    IF_EQ(SET_DELEGATION, 6, 0),
    ALLOW,
    LOAD_ARG_LOW(3),
    IF_EQ(AGENT_LEASE_LOW, 0, 3),
    LOAD_ARG_LOW(4),
    IF_EQ(AGENT_LEASE_HIGH, 0, 1),
    ALLOW,
    REFUSE(EPERM),

    /* Unix; netlink for routes; of the internet TCP, UDP and ping. Type and protocol choose the
     * module that serves a socket, and the kernel loads it: nothing may ask for sctp, dccp, l2tp or
     * mptcp. Protocol 0 is the type's own, TCP or UDP. Other netlink is refused as by a kernel that
     * was built without it: useradd, su and all of PAM do without audit then, and end on EPERM. */
    IF_EQ(__NR_socket, 0, 27),
    LOAD_ARG_LOW(0),
    IF_EQ(AF_UNIX, 22, 0),
    IF_EQ(AF_NETLINK, 0, 2),
    LOAD_ARG_LOW(2),
    IF_EQ(0 /* NETLINK_ROUTE */, 19, 21),
    IF_EQ(AF_INET, 3, 0),
    IF_EQ(AF_INET6, 0, 18),
    LOAD_ARG_LOW(2),
    IF_EQ(IPPROTO_ICMPV6, 2, 5),
    LOAD_ARG_LOW(2),
    IF_EQ(IPPROTO_ICMP, 0, 3),
    LOAD_ARG_LOW(1), /* ping */
    KEEP_BITS(SOCKET_TYPE_BITS),
    IF_EQ(SOCK_DGRAM, 10, 11),
    LOAD_ARG_LOW(1), /* anything else */
    KEEP_BITS(SOCKET_TYPE_BITS),
    IF_EQ(SOCK_STREAM, 0, 3),
    LOAD_ARG_LOW(2),
    IF_EQ(0, 5, 0),
    IF_EQ(IPPROTO_TCP, 4, 5),
    IF_EQ(SOCK_DGRAM, 0, 4),
    LOAD_ARG_LOW(2),
    IF_EQ(0, 1, 0),
    IF_EQ(IPPROTO_UDP, 0, 1),
    ALLOW,
    REFUSE(EPERM),
    REFUSE(EPROTONOSUPPORT),

    IF_EQ(__NR_socketpair, 0, 4),
    LOAD_ARG_LOW(0),
    IF_EQ(AF_UNIX, 0, 1),
    ALLOW,
    REFUSE(EPERM),

    /* Told to the agent, which writes the box's own disk (agent/sync.c). */
    IF_EQ(__NR_sync, 0, 1),
    ASK_AGENT,

    /* Filters of sockets are compiled into memory that is charged to nobody and has one bound for
     * the machine: past it no filter can be loaded, and so no sandbox be made. */
    IF_EQ(__NR_setsockopt, 0, 7),
    LOAD_ARG_LOW(1),
    IF_EQ(SOL_SOCKET, 0, 3),
    LOAD_ARG_LOW(2),
    IF_EQ(SO_ATTACH_FILTER, 2, 0),
    IF_EQ(SO_ATTACH_REUSEPORT_CBPF, 1, 0),
    ALLOW,
    REFUSE(EPERM),

    /* For the agent, which puts commands into their namespace. They have none to enter. */
    IF_EQ(__NR_setns, 0, 6),
    LOAD_ARG_LOW(0),
    IF_EQ(AGENT_FD_USERS, 0, 3),
    LOAD_ARG_LOW(1),
    IF_EQ(CLONE_NEWUSER, 0, 1),
    ALLOW,
    REFUSE(EPERM),

    /* A process that is killed waits for the tracer that asked to be told of its end, and no second
     * kill wakes it. Two that trace each other like that stay for ever, with their memory, and
     * nothing can remove them. The agent lets those do it that trace what they started. */
    IF_EQ(__NR_ptrace, 0, 8),
    LOAD_ARG_LOW(0),
    IF_EQ(PTRACE_SETOPTIONS, 2, 0),
    IF_EQ(OLD_SETOPTIONS, 1, 0),
    IF_EQ(PTRACE_SEIZE, 0, 3),
    LOAD_ARG_LOW(3),
    IF_SET(PTRACE_O_TRACEEXIT, 0, 1),
    ASK_AGENT,
    ALLOW,

    IF_EQ(__NR_personality, 0, 5),
    LOAD_ARG_LOW(0),
    IF_EQ(PER_LINUX, 1, 0),
    IF_EQ(0xffffffff, 0, 1),
    ALLOW,
    REFUSE(EPERM),

    /* Looking at limits is free. The core limit stays as it is, and says it was set: 1 means that
     * no handler is piped to. */
    IF_EQ(__NR_prlimit64, 0, 9),
    LOAD_ARG_LOW(2),
    IF_EQ(0, 0, 3),
    LOAD_ARG_HIGH(2),
    IF_EQ(0, 0, 1),
    ALLOW,
    LOAD_ARG_LOW(1),
    IF_EQ(RLIMIT_CORE, 1, 0),
    ALLOW,
    REFUSE(0),

    IF_EQ(__NR_setrlimit, 0, 4),
    LOAD_ARG_LOW(0),
    IF_EQ(RLIMIT_CORE, 1, 0),
    ALLOW,
    REFUSE(0),

    REFUSE(EPERM),
};

/* ---- the allow-list ---- */

/* Numbers at which "allowed" begins or ends, in order: below the first nothing is. */
struct edges {
    uint32_t at[2 * ARRAY_LEN(allowed)];
    size_t n;
};

static void find_edges(struct edges *ret)
{
    bool listed[NEWEST_SYSCALL + 2] = {false};

    for (size_t i = 0; i < ARRAY_LEN(allowed); i++) {
        int nr = seccomp_syscall_resolve_name(allowed[i]);

        /* Negative: a name that this architecture or this libseccomp does not know. */
        if (nr >= 0 && nr <= NEWEST_SYSCALL)
            listed[nr] = true;
    }
    ret->n = 0;
    for (uint32_t nr = 0; nr < ARRAY_LEN(listed); nr++)
        if (listed[nr] != (nr > 0 && listed[nr - 1]))
            ret->at[ret->n++] = nr;
}

/* How many instructions a tree over so many ranges has: a leaf for each, and a node between two. */
static size_t tree_size(size_t ranges)
{
    return 2 * ranges - 1;
}

/* Writes the tree over the ranges from first to last, of which the odd ones are allowed. What is
 * not goes on at end. False if a jump would be too far for one instruction. */
static bool put_tree(struct sock_filter *code, struct sock_filter *end, const struct edges *e,
                     size_t first, size_t last)
{
    size_t middle = (first + last + 1) / 2, left = tree_size(middle - first);

    if (first == last) {
        *code = first % 2
                    ? (struct sock_filter)ALLOW
                    : (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)(end - code - 1));
        return true;
    }
    *code = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, e->at[middle - 1],
                                         (uint8_t)left, 0);
    return left <= UINT8_MAX && put_tree(code + 1, end, e, first, middle - 1) &&
           put_tree(code + 1 + left, end, e, middle, last);
}

int seccomp_build(struct sock_fprog *ret, struct err *err)
{
    struct edges edges;
    struct sock_filter *all, *tree, *rest;
    size_t n;

    find_edges(&edges);
    n = ARRAY_LEN(prologue) + tree_size(edges.n + 1) + ARRAY_LEN(by_arguments);
    all = xmalloc(n * sizeof(*all));
    tree = all + ARRAY_LEN(prologue);
    rest = tree + tree_size(edges.n + 1);
    memcpy(all, prologue, sizeof(prologue));
    memcpy(rest, by_arguments, sizeof(by_arguments));
    if (!put_tree(tree, rest, &edges, 0, edges.n)) {
        free(all);
        return err_set(err, ERR_INTERNAL, "the seccomp filter is too long");
    }
    *ret = (struct sock_fprog){.len = (unsigned short)n, .filter = all};
    return 0;
}
