#include "daemon/launcher.h"

#include <errno.h>
#include <poll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "launch/launch.h"

#define END_MS      2000
#define STEADY_NS   (10 * 1000000000ll) /* one that ran for so long may be replaced at once */
#define DELAY_S_MAX 30

/* Programs that are linked in as they are. */
extern const unsigned char _binary_cay_agent_start[], _binary_cay_agent_end[];
extern const unsigned char _binary_cay_launch_start[], _binary_cay_launch_end[];

int keeper_start(struct launcher_keeper *k, int *ret_fd, struct err *err)
{
    const struct program launcher = {_binary_cay_launch_start,
                                     (size_t)(_binary_cay_launch_end - _binary_cay_launch_start)};
    const struct program agent = {_binary_cay_agent_start,
                                  (size_t)(_binary_cay_agent_end - _binary_cay_agent_start)};
    int fd;

    if (launcher_start(&launcher, &agent, &fd, &k->pid, err) < 0)
        return -1;
    k->pidfd = pidfd_open(k->pid, 0);
    if (k->pidfd < 0) {
        (void)err_sys(err, errno, "watch the launcher");
        (void)close(fd);
        return -1;
    }
    k->started_ns = mono_ns();
    k->again_ns = 0;
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

int keeper_wait_ms(const struct launcher_keeper *k)
{
    int64_t left = (k->again_ns ? k->again_ns : k->started_ns + STEADY_NS) - mono_ns();

    if (k->again_ns == 0 && k->failures == 0)
        return -1;
    return left > 0 ? (int)(left / 1000000) + 1 : 0;
}

bool keeper_is_due(const struct launcher_keeper *k)
{
    return k->again_ns != 0 && k->again_ns <= mono_ns();
}

bool keeper_recovered(struct launcher_keeper *k)
{
    if (k->again_ns != 0 || k->failures == 0 || k->started_ns + STEADY_NS > mono_ns())
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

    if (k->pidfd >= 0 && poll(&p, 1, END_MS) == 1)
        (void)waitpid(k->pid, NULL, 0);
    close_fd(&k->pidfd);
}
