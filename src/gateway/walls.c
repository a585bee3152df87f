/* What the two halves of cay-gateway may do. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/fd.h"
#include "base/mem.h"
#include "gateway/warden.h"

#define WORKER_ID    0xfffe6379u /* nobody's: above all ranges of boxes */
#define WORKER_FILES 65536u
#define WORKER_DATA  (1024u << 20)
#define HARMLESS     (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY)

/* Namespaces and networks; ids for the worker, and its end. */
#define WARDEN_CAPS                                                                                \
    (CAP_BIT(CAP_SYS_ADMIN) | CAP_BIT(CAP_NET_ADMIN) | CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) | \
     CAP_BIT(CAP_SETPCAP) | CAP_BIT(CAP_KILL))

/* clang-format off */
/* Sockets, namespaces, its own memory; a worker; files below /proc/sys/net and the resolver's. */
static const char *const warden_calls[] = {
    "accept4", "bind", "brk", "capget", "capset", "chdir", "clock_gettime", "clock_nanosleep", "close",
    "close_range", "connect", "dup2", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_wait",
    "exit", "exit_group", "fchdir", "fcntl", "fsconfig", "fsmount", "fsopen", "fstat", "futex", "getegid", "geteuid",
    "getgid", "getpid", "getrandom", "getsockname", "getsockopt", "gettid", "gettimeofday", "getuid", "ioctl",
    "kill", "listen", "lseek", "madvise", "mount_setattr", "move_mount", "mremap", "munmap", "mount", "nanosleep",
    "newfstatat", "openat", "pidfd_open", "pivot_root", "poll", "ppoll", "prctl", "pread64", "prlimit64", "read", "readv", "recvfrom",
    "recvmmsg", "recvmsg", "restart_syscall", "rseq", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "seccomp",
    "sched_yield", "select", "pselect6", "sendmmsg", "sendmsg", "sendto", "set_robust_list", "setgroups", "setns", "setresgid", "setresuid",
    "setsockopt", "shutdown", "socket", "socketpair", "splice", "statx", "sysinfo", "tee", "tgkill", "timerfd_create", "timerfd_settime", "time", "umount2", "uname",
    "unlink", "unlinkat", "wait4", "write", "writev", "accept", "getpeername", "pipe2", "eventfd2", "setrlimit", "getrlimit",
};
/* clang-format on */

static int limit(int what, rlim_t most)
{
    struct rlimit now;

    if (getrlimit((__rlimit_resource_t)what, &now) < 0)
        return -1;
    if (now.rlim_max == RLIM_INFINITY || now.rlim_max > most)
        now.rlim_max = most;
    now.rlim_cur = now.rlim_max;
    return setrlimit((__rlimit_resource_t)what, &now);
}

/* ---- the warden ---- */

/* All boxes share them, however few the shell gave that the daemon was started from. Who may not
 * have more goes on with what there is. */
static void want_files(void)
{
    const struct rlimit wanted = {.rlim_cur = WORKER_FILES, .rlim_max = WORKER_FILES};
    struct rlimit now;

    if (getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max < WORKER_FILES)
        (void)setrlimit(RLIMIT_NOFILE, &wanted);
}

static int allow(scmp_filter_ctx ctx)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(warden_calls); i++) {
        int nr = seccomp_syscall_resolve_name(warden_calls[i]);

        if (nr != __NR_SCMP_ERROR)
            r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
    }
    /* A process like itself, never another program; and no memory that becomes code. */
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWUSER | CLONE_VM, 0));
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                             SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                             SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    return r;
}

int walls_warden(struct err *err)
{
    uint64_t had;
    int r;

    want_files(); /* while we have the right to */
    r = caps_bound(WARDEN_CAPS);
    if (r == 0)
        r = caps_get(&had);
    if (r == 0)
        r = caps_set(had & WARDEN_CAPS);
    if (r < 0)
        return err_sys(err, -r, "give up capabilities");
    if (limit(RLIMIT_CORE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_sys(err, errno, "limit the gateway");
#ifndef CAY_SANITIZED
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));

    if (!ctx)
        return err_set(err, ERR_INTERNAL, "make the gateway's filter");
    r = allow(ctx);
    if (r == 0)
        r = seccomp_load(ctx);
    seccomp_release(ctx);
    if (r < 0)
        return err_sys(err, -r, "load the gateway's filter");
#else
    (void)allow;
#endif
    return 0;
}

/* ---- the worker ---- */

/* Nothing: an empty folder that nobody can write to. */
static int empty_root(void)
{
    auto_close int fs = fsopen("tmpfs", FSOPEN_CLOEXEC), root = -1;

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || fs < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0555", 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    root = fsmount(fs, FSMOUNT_CLOEXEC, HARMLESS);
    if (root < 0 || move_mount(root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
        fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0)
        return -1;
    return 0;
}

int walls_worker(struct err *err)
{
    int r;

    (void)prctl(PR_SET_NAME, "cay-gateway-w");
    if (empty_root() < 0)
        return err_sys(err, errno, "make a root for the network worker");
    if (limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_NOFILE, WORKER_FILES) < 0)
        return err_sys(err, errno, "limit the network worker");
#ifndef CAY_SANITIZED
    if (limit(RLIMIT_DATA, WORKER_DATA) < 0) /* a sanitizer's shadow is far larger */
        return err_sys(err, errno, "limit the network worker");
#endif
    r = caps_bound(0);
    if (r < 0 || setgroups(0, NULL) < 0 || setresgid(WORKER_ID, WORKER_ID, WORKER_ID) < 0 ||
        setresuid(WORKER_ID, WORKER_ID, WORKER_ID) < 0)
        return err_sys(err, r < 0 ? -r : errno, "take an id for the network worker");
    r = caps_set(0);
    if (r < 0)
        return err_sys(err, -r, "give up capabilities");
    /* Not readable by others of its id, of which there are none. PDEATHSIG is lost with the id. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    return 0;
}
