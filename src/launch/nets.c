#include "launch/launch_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "launch/mount_calls.h"

/* Network namespaces. Making one and taking it down is a tenth of the work of a short life, and
 * most boxes never send a packet. So one whose box is gone becomes the next box's, if nothing shows
 * that it was ever used.
 *
 *  1. It is the launcher's, made with the host's privileges: a box has no power over it at all, not
 *     even by the capabilities that it has before it becomes the agent.
 *  2. When PID 1 of a box has ended, so have all its processes. Only then is it looked at.
 *  3. What a box can do to it without privileges are sockets, and what they leave behind: counters,
 *     connections, flow labels. All that /proc/net tells of these must be word for word what it
 *     tells of a new one; there is nothing that we could set back. Otherwise it is thrown away.
 *  4. A sysfs of it does not outlive its box: each of its files has the time at which somebody
 *     first looked at it.
 *  5. /dev goes with it, as a clone that is read-only and has the box's ids: nothing can be changed
 *     there but a time, which is set back.
 *  6. Those of NETS_MAX boxes are remembered, the last ones. What is forgotten goes with its box.
 */

#define NETS_MAX  64
#define PRINT_MAX (24u << 10)

struct net {
    struct net *next;
    int ns;
    int dev;   /* what the /dev of each box is a clone of; -1 = this kernel makes no such clones */
    int pidfd; /* of the box that has it */
};

/* What /proc/net tells of a namespace. */
static const char *const told[] = {"dev", "snmp", "netstat", "snmp6", "rt6_stats", "ip6_flowlabel"};

struct nets {
    int home;                  /* the launcher's own */
    int told;                  /* /proc/net, always of the one that we are in */
    struct net *first, **last; /* the oldest first */
    unsigned n;
    char fresh[PRINT_MAX]; /* what was told of the last one that was made */
    size_t fresh_len;
};

static void net_free(struct net *net)
{
    close_fd(&net->ns);
    close_fd(&net->dev);
    close_fd(&net->pidfd);
    free(net);
}

/* Of the namespace that we are in. A file that the kernel does not have tells nothing. */
static int read_print(const struct nets *nets, char *print, size_t *ret_len)
{
    size_t len = 0;

    for (size_t i = 0; i < ARRAY_LEN(told); i++) {
        ssize_t n = read_file_at(nets->told, told[i], print + len, PRINT_MAX - len);

        if (n < 0 && n != -ENOENT)
            return (int)n;
        len += n > 0 ? (size_t)n : 0;
    }
    *ret_len = len;
    return len + 1 < PRINT_MAX ? 0 : -E2BIG;
}

/* Sockets of all kinds are counted together, in the first line; what follows is of the whole
 * machine. The groups that a socket was in go with it. */
static bool has_sockets(const struct nets *nets)
{
    char text[512];

    return read_file_at(nets->told, "sockstat", text, sizeof(text)) < 0 ||
           strncmp(text, "sockets: used 0\n", 16) != 0;
}

/* Rule 3, of the namespace that we are in. */
static bool is_like_new(const struct nets *nets)
{
    static char print[PRINT_MAX];
    size_t len;

    return nets->fresh_len > 0 && !has_sockets(nets) && read_print(nets, print, &len) == 0 &&
           len == nets->fresh_len && memcmp(print, nets->fresh, len) == 0;
}

static int raise_loopback(void)
{
    struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

/* Any port and ping for everybody inside. Where the kernel has no such setting, nobody inside has
 * them.
 *
 * A receive buffer of TCP grows to 1 MiB, in place of the host's 6 MiB or more. The windows that
 * the kernel announces for large ones exceed what the box may hold in all its sockets
 * (SOCKET_PART): with tens of connections that are read slowly it then drops what it had announced
 * room for, and the senders wait for their retransmission timers, up to seconds each. */
static void set_sysctls(void)
{
    (void)write_file_at(AT_FDCWD, "/proc/sys/net/ipv4/tcp_rmem", "4096 131072 1048576");
    (void)write_file_at(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    (void)write_file_at(AT_FDCWD, "/proc/sys/net/ipv4/ping_group_range", "0 4294967294");
}

/* Leaves us in the new one. */
static int make_net(struct launcher *l, struct net *net, const char **step)
{
    struct nets *nets = l->nets;
    int r;

    *step = "make a network namespace";
    r = launch_fault(l, *step);
    if (r == 0 && unshare(CLONE_NEWNET) < 0)
        r = -errno;
    if (r < 0)
        return r;
    net->ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (net->ns < 0)
        return -errno;
    *step = "raise the loopback interface";
    r = launch_fault(l, *step);
    if (r == 0)
        r = raise_loopback();
    if (r < 0)
        return r;
    set_sysctls();
    if (read_print(nets, nets->fresh, &nets->fresh_len) < 0)
        nets->fresh_len = 0; /* and nothing is like it */
    return 0;
}

/* ---- those of boxes ---- */

static struct net *take_first(struct nets *nets)
{
    struct net *net = nets->first;

    nets->first = net->next;
    if (!nets->first)
        nets->last = &nets->first;
    nets->n--;
    return net;
}

/* One of a box that is gone, or NULL. Boxes end in any order. */
static struct net *take_left(struct nets *nets)
{
    struct pollfd ends[NETS_MAX];
    struct net **at = &nets->first, *net;
    unsigned n = 0;

    for (net = nets->first; net; net = net->next)
        ends[n++] = (struct pollfd){.fd = net->pidfd, .events = POLLIN};
    if (n == 0 || poll(ends, n, 0) <= 0)
        return NULL;
    for (n = 0; !ends[n].revents; n++)
        at = &(*at)->next;
    net = *at;
    *at = net->next;
    if (!*at)
        nets->last = at;
    nets->n--;
    return net;
}

/* Into one that can be used again; NULL when there is none. */
static struct net *enter_left(struct nets *nets)
{
    struct net *net;

    while ((net = take_left(nets))) {
        close_fd(&net->pidfd);
        if (setns(net->ns, CLONE_NEWNET) == 0 && is_like_new(nets))
            return net;
        net_free(net);
    }
    return NULL;
}

int nets_enter(struct launcher *l, struct net **ret, const char **step)
{
    struct net *net;
    int r = 0;

    *step = "enter a network namespace";
    net = enter_left(l->nets);
    if (!net) {
        net = xcalloc(1, sizeof(*net));
        net->ns = net->dev = net->pidfd = -1;
        r = make_net(l, net, step);
    }
    if (r < 0) {
        nets_leave(l);
        net_free(net);
        return r;
    }
    *ret = net;
    return 0;
}

/* Before 6.15 only what is mounted somewhere can be cloned: there each box gets a new one. */
int nets_dev(struct net *net)
{
    int dev;

    if (net->dev < 0)
        net->dev = dev_make();
    if (net->dev < 0)
        return net->dev;
    /* When somebody last typed or read, the kernel writes to the node whatever the mount is. */
    if (utimensat(net->dev, "tty", NULL, 0) < 0)
        return -errno;
    dev = open_tree(net->dev, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    return dev < 0 ? steal_fd(net->dev) : dev;
}

void nets_leave(const struct launcher *l)
{
    if (setns(l->nets->home, CLONE_NEWNET) < 0)
        abort(); /* or the next box would be in the network of this one */
}

void nets_keep(struct launcher *l, struct net *net, int pidfd)
{
    struct nets *nets = l->nets;

    net->pidfd = pidfd < 0 ? -1 : fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
    if (net->pidfd < 0) {
        net_free(net);
        return;
    }
    if (nets->n == NETS_MAX)
        net_free(take_first(nets));
    net->next = NULL;
    *nets->last = net;
    nets->last = &net->next;
    nets->n++;
}

int nets_setup(struct launcher *l)
{
    l->nets = xcalloc(1, sizeof(*l->nets));
    l->nets->last = &l->nets->first;
    l->nets->home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    l->nets->told = open("/proc/self/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return l->nets->home < 0 || l->nets->told < 0 ? -errno : 0;
}
