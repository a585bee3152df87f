#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/mem.h"

static unsigned short size_of(uint32_t n, unsigned short none)
{
    return n == 0 ? none : n > 0xffff ? 0xffff : (unsigned short)n;
}

void pty_resize(int master, uint32_t rows, uint32_t cols)
{
    struct winsize w = {.ws_row = size_of(rows, 24), .ws_col = size_of(cols, 80)};

    (void)ioctl(master, TIOCSWINSZ, &w);
}

int pty_open(uint32_t rows, uint32_t cols, const struct identity *user, int *ret_master,
             int *ret_slave, struct err *err)
{
    /* Without waiting: inside the box somebody may have put a FIFO there. */
    auto_close int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    auto_close int slave = -1;
    int unlock = 0;

    if (master < 0 && errno == ENOSPC)
        return err_set(err, ERR_LIMIT, "the sandbox has as many terminals as it may; close some");
    if (master < 0)
        return err_sys(err, errno, "open /dev/ptmx for a terminal");
    if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
        return err_sys(err, errno, "unlock a terminal");
    /* By descriptor: no path for anybody to bend. */
    slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return err_sys(err, errno, "open a terminal");
    pty_resize(master, rows, cols);
    if (fchown(slave, user->uid, user->gid) < 0 || fchmod(slave, 0620) < 0)
        return err_sys(err, errno, "give the terminal to the user");
    *ret_master = steal_fd(master);
    *ret_slave = steal_fd(slave);
    return 0;
}
