#pragma once

/* Moving bytes from one socket to another without looking at them: through a pipe, so that they
 * stay in the kernel. What a lane holds is bounded by its pipe, and it has one only while it holds
 * something, so that thousands of quiet connections cost two descriptors each. */

#include <stdbool.h>
#include <stddef.h>

struct lane {
    int pipe[2];  /* while held > 0; else -1 */
    size_t held;  /* bytes in the pipe */
    size_t moved; /* in all */
    bool ended;   /* the reader has been told that nothing follows */
};

enum lane_state {
    LANE_EMPTY,  /* waits for the sender */
    LANE_FULL,   /* waits for the reader */
    LANE_ENDED,  /* all is said, and the reader was told */
    LANE_BROKEN, /* one of the two is gone */
};

void lane_init(struct lane *l);
void lane_done(struct lane *l);
/* Moves what can be moved now, up to a bound, so that one connection does not keep the others
 * waiting. Both descriptors are nonblocking sockets. */
enum lane_state lane_move(struct lane *l, int from, int to);
/* Tells the reader that nothing follows. */
void lane_end(struct lane *l, int to);
