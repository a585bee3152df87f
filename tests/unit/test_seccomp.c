/* The filter as the kernel applies it: each test loads it into its own process. */
#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "base/mem.h"
#include "launch/launch_internal.h"
#include "tap.h"

static void load(void)
{
    struct sock_fprog filter;

    CHECK_INT(seccomp_build(&filter, NULL), 0);
    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_INT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter), 0);
    free(filter.filter);
}

#define CHECK_ERRNO(call, want)                                                                    \
    do {                                                                                           \
        errno = 0;                                                                                 \
        CHECK_INT((call), -1);                                                                     \
        CHECK_INT(errno, want);                                                                    \
    } while (0)

TEST(ordinary_calls_pass)
{
    int p[2];
    pid_t pid;
    int status;

    load();
    CHECK_INT(pipe(p), 0);
    pid = fork();
    if (pid == 0)
        _exit(write(p[1], "x", 1) == 1 ? 7 : 1);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(WEXITSTATUS(status), 7);
}

TEST(namespaces_cannot_be_made)
{
    /* The control: without the filter root may. */
    CHECK_INT(unshare(CLONE_NEWUTS), 0);
    load();
    CHECK_ERRNO(unshare(CLONE_NEWUTS), EPERM);
    CHECK_ERRNO(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), EPERM);
    CHECK_ERRNO(syscall(SYS_clone3, NULL, 0), ENOSYS);
    CHECK_ERRNO(syscall(SYS_setns, -1, 0), EPERM);
}

TEST(only_plain_socket_families_pass)
{
    static const int refused[] = {AF_ALG, AF_VSOCK,     AF_PACKET, AF_RDS, AF_TIPC,
                                  AF_XDP, AF_BLUETOOTH, AF_CAN,    AF_KEY};

    load();
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        CHECK_ERRNO(socket(refused[i], SOCK_RAW, 0), EPERM);
    CHECK_ERRNO(socket(AF_NETLINK, SOCK_RAW, 12), EPERM);
    CHECK(socket(AF_NETLINK, SOCK_RAW, 0) >= 0);
    CHECK(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    CHECK(socket(AF_INET, SOCK_STREAM, 0) >= 0);
    CHECK_ERRNO(socketpair(AF_TIPC, SOCK_STREAM, 0, (int[2]){0}), EPERM);
}

TEST(terminal_injection_is_refused_whatever_the_high_bits)
{
    char c = 'x';

    load();
    CHECK_ERRNO(syscall(SYS_ioctl, 0, TIOCSTI, &c), EPERM);
    CHECK_ERRNO(syscall(SYS_ioctl, 0, 0x100000000ul | TIOCSTI, &c), EPERM);
    CHECK_ERRNO(syscall(SYS_ioctl, 0, TIOCLINUX, &c), EPERM);
    CHECK_ERRNO(syscall(SYS_ioctl, 0, TIOCSETD, &c), EPERM);
    CHECK_ERRNO(syscall(SYS_ioctl, -1, TIOCGWINSZ, &c), EBADF);
}

TEST(the_core_limit_cannot_be_changed)
{
    struct rlimit limit = {1, 1}, now;

    CHECK_INT(setrlimit(RLIMIT_CORE, &limit), 0);
    load();
    limit.rlim_cur = 0;
    CHECK_INT(syscall(SYS_prlimit64, 0, RLIMIT_CORE, &limit, NULL), 0);
    CHECK_INT(syscall(SYS_setrlimit, RLIMIT_CORE, &limit), 0);
    CHECK_INT(syscall(SYS_prlimit64, 0, RLIMIT_CORE, NULL, &now), 0);
    CHECK_INT(now.rlim_cur, 1);
    limit = (struct rlimit){100, 100};
    CHECK_INT(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, NULL), 0);
    CHECK_INT(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &now), 0);
    CHECK_INT(now.rlim_cur, 100);
}

TEST(limits_of_others_can_be_looked_at_but_not_set)
{
    struct rlimit limit = {100, 100}, now;
    pid_t self = getpid(), parent = getppid();

    /* The control: without the filter it may. */
    CHECK_INT(prlimit(self, RLIMIT_NOFILE, &limit, NULL), 0);
    load();
    limit = (struct rlimit){50, 50};
    CHECK_ERRNO(syscall(SYS_prlimit64, self, RLIMIT_NOFILE, &limit, NULL), EPERM);
    CHECK_ERRNO(syscall(SYS_prlimit64, parent, RLIMIT_CORE, &limit, NULL), EPERM);
    CHECK_INT(syscall(SYS_prlimit64, self, RLIMIT_NOFILE, NULL, &now), 0);
    CHECK_INT(now.rlim_cur, 100);
    CHECK_INT(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, &now), 0);
    CHECK_INT(now.rlim_cur, 100);
}

TEST(dangerous_calls_are_refused_and_unknown_ones_do_not_exist)
{
    static const long refused[] = {
        SYS_bpf,
        SYS_perf_event_open,
        SYS_userfaultfd,
        SYS_io_uring_setup,
        SYS_keyctl,
        SYS_add_key,
        SYS_request_key,
        SYS_kexec_load,
        SYS_init_module,
        SYS_finit_module,
        SYS_open_by_handle_at,
        SYS_name_to_handle_at,
        SYS_process_vm_writev,
        SYS_pidfd_getfd,
        SYS_acct,
        SYS_swapon,
        SYS_quotactl,
        SYS_mount,
        SYS_umount2,
        SYS_pivot_root,
        SYS_fsopen,
        SYS_fsconfig,
        SYS_open_tree,
        SYS_move_mount,
        SYS_mount_setattr,
        SYS_reboot,
        SYS_syslog,
        SYS_sethostname,
        SYS_clock_settime,
        SYS_vmsplice,
        SYS_chroot,
    };

    load();
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        errno = 0;
        if (syscall(refused[i], -1, -1, -1, -1, -1, -1) != -1 || errno != EPERM)
            TAP_FAIL("call %ld gave %s", refused[i], strerror(errno));
    }
    CHECK_ERRNO(syscall(1000), ENOSYS);
    CHECK_ERRNO(syscall(0x40000000 | 39), ENOSYS); /* getpid of x32 */
    CHECK_ERRNO(personality(ADDR_NO_RANDOMIZE), EPERM);
    CHECK_INT(personality(0xffffffff), 0);
}

#if defined(__x86_64__)
TEST(the_32_bit_gate_kills)
{
    pid_t pid;
    int status;

    load();
    pid = fork();
    if (pid == 0) {
        long r;

        __asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory"); /* getpid */
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    CHECK_INT(WTERMSIG(status), SIGSYS);
}
#endif

TAP_MAIN
