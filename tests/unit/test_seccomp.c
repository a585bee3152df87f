/* The filter as the kernel applies it: each test loads it into its own process. */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "base/fd.h"
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
    /* The agent's way into the commands' namespace, and nothing like it. */
    CHECK_ERRNO(syscall(SYS_setns, AGENT_FD_USERS, CLONE_NEWUSER), EBADF);
    CHECK_ERRNO(syscall(SYS_setns, AGENT_FD_USERS, CLONE_NEWUSER | CLONE_NEWNS), EPERM);
    CHECK_ERRNO(syscall(SYS_setns, AGENT_FD_USERS, 0), EPERM);
    CHECK_ERRNO(syscall(SYS_setns, AGENT_FD_USERS + 1, CLONE_NEWUSER), EPERM);
}

TEST(only_plain_socket_families_pass)
{
    static const int refused[] = {AF_ALG, AF_VSOCK,     AF_PACKET, AF_RDS, AF_TIPC,
                                  AF_XDP, AF_BLUETOOTH, AF_CAN,    AF_KEY};

    load();
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        CHECK_ERRNO(socket(refused[i], SOCK_RAW, 0), EPERM);
    CHECK_ERRNO(socket(AF_NETLINK, SOCK_RAW, 12), EPROTONOSUPPORT);
    CHECK(socket(AF_NETLINK, SOCK_RAW, 0) >= 0);
    CHECK(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    CHECK(socket(AF_INET, SOCK_STREAM, 0) >= 0);
    CHECK_ERRNO(socketpair(AF_TIPC, SOCK_STREAM, 0, (int[2]){0}), EPERM);
}

#define DCCP  33
#define MPTCP 262
#define FLAGS (SOCK_CLOEXEC | SOCK_NONBLOCK)

TEST(of_the_internet_tcp_udp_and_ping_pass)
{
    static const struct {
        int family, type, protocol;
        bool passes;
    } cases[] = {
        {AF_INET, SOCK_STREAM, 0, true},
        {AF_INET, SOCK_STREAM | FLAGS, IPPROTO_TCP, true},
        {AF_INET6, SOCK_STREAM, IPPROTO_TCP, true},
        {AF_INET, SOCK_DGRAM, 0, true},
        {AF_INET6, SOCK_DGRAM | FLAGS, IPPROTO_UDP, true},
        {AF_INET, SOCK_DGRAM, IPPROTO_ICMP, true},
        {AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMPV6, true},
        {AF_INET, SOCK_STREAM, IPPROTO_SCTP, false},
        {AF_INET, SOCK_SEQPACKET, 0, false},
        {AF_INET6, SOCK_SEQPACKET, IPPROTO_SCTP, false},
        {AF_INET, SOCK_DCCP, 0, false},
        {AF_INET, SOCK_DCCP | FLAGS, DCCP, false},
        {AF_INET6, SOCK_STREAM, MPTCP, false},
        {AF_INET, SOCK_STREAM, IPPROTO_UDP, false},
        {AF_INET, SOCK_DGRAM, IPPROTO_TCP, false},
        {AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE, false},
        {AF_INET, SOCK_DGRAM, 115 /* l2tp */, false},
        {AF_INET, SOCK_DGRAM, IPPROTO_ICMPV6, false},
        {AF_INET6, SOCK_DGRAM, IPPROTO_ICMP, false},
        {AF_INET, SOCK_STREAM, IPPROTO_ICMP, false},
        {AF_INET, SOCK_RAW, IPPROTO_ICMP, false},
        {AF_INET6, SOCK_RAW, IPPROTO_TCP, false},
        {AF_INET, SOCK_PACKET, 0, false},
    };

    /* Ping is for groups in this range; the box's own namespace has all. */
    CHECK_INT(unshare(CLONE_NEWNET), 0);
    CHECK_INT(write_file_at(AT_FDCWD, "/proc/sys/net/ipv4/ping_group_range", "0 0"), 0);
    /* The control: the kernel has this one built in, or knows of none. */
    CHECK(socket(AF_INET6, SOCK_STREAM, MPTCP) >= 0 || errno != EPERM);
    CHECK(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0);
    load();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int fd = socket(cases[i].family, cases[i].type, cases[i].protocol);

        if (cases[i].passes ? fd < 0 : fd >= 0 || errno != EPERM)
            TAP_FAIL("case %zu: %d, %s", i, fd, strerror(errno));
    }
}

TEST(leases_and_dnotify_are_refused_and_other_fcntls_pass)
{
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int folder = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)signal(SIGIO, SIG_IGN); /* what dnotify sends */
    /* The control: without the filter they are given. */
    CHECK_INT(fcntl(file, F_SETLEASE, F_RDLCK), 0);
    CHECK_INT(fcntl(file, F_SETLEASE, F_UNLCK), 0);
    CHECK_INT(fcntl(folder, F_NOTIFY, DN_CREATE), 0);
    load();
    CHECK_ERRNO(fcntl(file, F_SETLEASE, F_RDLCK), EPERM);
    CHECK_ERRNO(fcntl(folder, F_NOTIFY, DN_CREATE), EPERM);
    CHECK_ERRNO(syscall(SYS_fcntl, file, 0x100000000ul | F_SETLEASE, F_RDLCK), EPERM);
    CHECK_ERRNO(fcntl(folder, 1040 /* F_SETDELEG */, 0), EPERM);
    CHECK_INT(fcntl(file, F_GETFD), FD_CLOEXEC);
    CHECK(fcntl(file, F_DUPFD_CLOEXEC, 10) >= 10);
}

/* What a child's call gives when the one who is told of it says `error`; 1000 more if nobody was
 * told. */
static int answered(long nr, long arg, long word, int error)
{
    struct seccomp_notif call = {0};
    struct seccomp_notif_resp answer = {.error = -error};
    struct pollfd p = {.events = POLLIN};
    struct sock_fprog filter;
    int status, told = 0;
    pid_t pid;

    CHECK_INT(seccomp_build(&filter, NULL), 0);
    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    p.fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &filter);
    CHECK(p.fd >= 0);
    pid = fork();
    if (pid == 0)
        _exit(syscall(nr, arg, word) < 0 ? errno : 0);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (poll(&p, 1, 10) == 0)
            continue;
        CHECK_INT(ioctl(p.fd, SECCOMP_IOCTL_NOTIF_RECV, &call), 0);
        CHECK_INT(call.data.nr, nr);
        answer.id = call.id;
        CHECK_INT(ioctl(p.fd, SECCOMP_IOCTL_NOTIF_SEND, &answer), 0);
        told++;
    }
    free(filter.filter);
    return told == 1 ? WEXITSTATUS(status) : told == 0 ? 1000 + WEXITSTATUS(status) : -1;
}

TEST(sync_is_told_to_the_agent)
{
    CHECK_INT(answered(SYS_sync, 0, 0, EIO), EIO);
}

TEST(syncfs_goes_to_the_kernel)
{
    CHECK_INT(answered(SYS_syncfs, -1, 0, 0), 1000 + EBADF);
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

TEST(sockets_have_no_filters)
{
    struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, 0xffff}};
    struct sock_fprog filter = {1, all};
    int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;

    /* The control: without ours it has. */
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), 0);
    load();
    CHECK_ERRNO(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), EPERM);
    CHECK_ERRNO(setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &filter, sizeof(filter)),
                EPERM);
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    /* The same number at another level is another thing. */
    CHECK_INT(setsockopt(fd, IPPROTO_IP, SO_ATTACH_FILTER, &on, sizeof(on)), 0);
}

TEST(aio_does_not_exist)
{
    unsigned long context = 0;

    /* The control: without the filter it does. */
    CHECK_INT(syscall(SYS_io_setup, 1, &context), 0);
    load();
    context = 0;
    CHECK_ERRNO(syscall(SYS_io_setup, 1, &context), ENOSYS);
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
