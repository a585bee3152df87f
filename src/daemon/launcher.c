#include "daemon/launcher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "launch/launch.h"

#define END_MS      2000                /* that a launcher may take to end by itself */
#define LEAVE_NS    1000000000ll        /* and once it was killed */
#define STEADY_NS   (10 * 1000000000ll) /* one that ran for so long may be replaced at once */
#define DELAY_S_MAX 30

/* Programs that are linked in as they are. */
extern const unsigned char _binary_cay_agent_start[], _binary_cay_agent_end[];
extern const unsigned char _binary_cay_launch_start[], _binary_cay_launch_end[];

/* Reaps the one that was left behind, if it has ended. */
static void reap_left(struct launcher_keeper *k)
{
    struct pollfd p = {.fd = k->left_fd, .events = POLLIN};

    if (k->left_fd < 0 || poll(&p, 1, 0) != 1)
        return;
    (void)waitpid(k->left, NULL, 0);
    close_fd(&k->left_fd);
}

/* Makes the eventfd, or forgets what the runtime wrote about an earlier launcher. */
static int reset_hung(struct launcher_keeper *k, struct err *err)
{
    eventfd_t n;

    if (k->hung_fd < 0)
        k->hung_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    else
        (void)eventfd_read(k->hung_fd, &n);
    return k->hung_fd < 0 ? err_sys(err, errno, "make an eventfd") : 0;
}

int keeper_start(struct launcher_keeper *k, int *ret_fd, struct err *err)
{
    const struct program launcher = {_binary_cay_launch_start,
                                     (size_t)(_binary_cay_launch_end - _binary_cay_launch_start)};
    const struct program agent = {_binary_cay_agent_start,
                                  (size_t)(_binary_cay_agent_end - _binary_cay_agent_start)};
    int fd;

    reap_left(k);
    if (reset_hung(k, err) < 0 || launcher_start(&launcher, &agent, &fd, &k->pid, err) < 0)
        return -1;
    k->pidfd = pidfd_open(k->pid, 0);
    if (k->pidfd < 0) {
        (void)err_sys(err, errno, "watch the launcher");
        (void)close(fd);
        return -1;
    }
    k->started_ns = mono_ns();
    k->again_ns = k->killed_ns = 0;
    *ret_fd = fd;
    return 0;
}

/* The first comes at once, the second after a second, and so on. */
static void put_off(struct launcher_keeper *k)
{
    int64_t delay_s = k->failures == 0 ? 0 : k->failures > 5 ? DELAY_S_MAX : 1 << (k->failures - 1);

    k->failures++;
    k->again_ns = mono_ns() + delay_s * 1000000000;
}

void keeper_ended(struct launcher_keeper *k, char ret_how[PROGRAM_ENDED_MAX])
{
    int status = 0;

    (void)waitpid(k->pid, &status, 0);
    program_ended_words(status, ret_how);
    close_fd(&k->pidfd);
    put_off(k);
}

bool keeper_hung(struct launcher_keeper *k)
{
    eventfd_t n;

    if (eventfd_read(k->hung_fd, &n) < 0 || k->again_ns != 0 || k->killed_ns != 0)
        return false;
    (void)pidfd_send_signal(k->pidfd, SIGKILL, NULL, 0);
    k->killed_ns = mono_ns();
    return true;
}

static bool is_stuck(const struct launcher_keeper *k)
{
    return k->again_ns == 0 && k->killed_ns != 0 && k->left_fd < 0;
}

bool keeper_leave(struct launcher_keeper *k)
{
    reap_left(k);
    if (!is_stuck(k) || k->killed_ns + LEAVE_NS > mono_ns())
        return false;
    k->left = k->pid;
    k->left_fd = k->pidfd;
    k->pidfd = -1;
    put_off(k);
    return true;
}

static int64_t next_ns(const struct launcher_keeper *k)
{
    if (k->again_ns != 0)
        return k->again_ns;
    return k->killed_ns ? k->killed_ns + LEAVE_NS : k->started_ns + STEADY_NS;
}

int keeper_wait_ms(const struct launcher_keeper *k)
{
    int64_t left = next_ns(k) - mono_ns();

    if (k->again_ns == 0 && !is_stuck(k) && (k->failures == 0 || k->killed_ns != 0))
        return -1;
    return left > 0 ? (int)(left / 1000000) + 1 : 0;
}

bool keeper_is_due(const struct launcher_keeper *k)
{
    return k->again_ns != 0 && k->again_ns <= mono_ns();
}

bool keeper_recovered(struct launcher_keeper *k)
{
    if (k->again_ns != 0 || k->killed_ns != 0 || k->failures == 0 ||
        k->started_ns + STEADY_NS > mono_ns())
        return false;
    k->failures = 0;
    return true;
}

int keeper_again(struct launcher_keeper *k, int *ret_fd, struct err *err)
{
    if (keeper_start(k, ret_fd, err) == 0)
        return 0;
    put_off(k);
    return -1;
}

void keeper_end(struct launcher_keeper *k)
{
    struct pollfd p = {.fd = k->pidfd, .events = POLLIN};

    (void)keeper_hung(k);
    if (k->pidfd >= 0 && poll(&p, 1, END_MS) == 0)
        (void)pidfd_send_signal(k->pidfd, SIGKILL, NULL, 0);
    if (k->pidfd >= 0 && poll(&p, 1, END_MS) == 1)
        (void)waitpid(k->pid, NULL, 0);
    reap_left(k);
    close_fd(&k->pidfd);
    close_fd(&k->hung_fd);
    close_fd(&k->left_fd);
}
