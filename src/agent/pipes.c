#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/fd.h"
#include "base/mem.h"

/* What a command puts out goes through two pipes, and making them takes a hundredth of a short
 * exec: a supervisor makes those of its next command when it has told how the last one ended. */

struct ends {
    int ours, theirs;
};

static struct ends ahead[2] = {{-1, -1}, {-1, -1}};

static int make(struct ends *ret, int our_end)
{
    int p[2];

    if (pipe2(p, O_CLOEXEC) < 0)
        return -errno;
    /* Ours alone: the command can open the other side of a pipe and take data from under us. */
    if (fcntl(p[our_end], F_SETFL, O_NONBLOCK) < 0) {
        int r = -errno;

        close_fd(&p[0]);
        close_fd(&p[1]);
        return r;
    }
    *ret = (struct ends){.ours = p[our_end], .theirs = p[!our_end]};
    return 0;
}

int pipe_for_output(int *ret_ours, int *ret_theirs)
{
    struct ends ends = {-1, -1};
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(ahead) && ends.ours < 0; i++) {
        ends = ahead[i];
        ahead[i] = (struct ends){-1, -1};
    }
    if (ends.ours < 0)
        r = make(&ends, 0);
    *ret_ours = ends.ours;
    *ret_theirs = ends.theirs;
    return r;
}

int pipe_for_input(int *ret_ours, int *ret_theirs)
{
    struct ends ends = {-1, -1};
    int r = make(&ends, 1);

    *ret_ours = ends.ours;
    *ret_theirs = ends.theirs;
    return r;
}

void pipes_make_ahead(void)
{
    for (size_t i = 0; i < ARRAY_LEN(ahead); i++)
        if (ahead[i].ours < 0 && make(&ahead[i], 0) < 0)
            return; /* then it is tried when it is needed */
}
