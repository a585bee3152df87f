#pragma once

#include <pthread.h>
#include <stdbool.h>

/* Ends a daemon that is told to stop while it starts. A step of the start may wait for long (for a
 * disk, for a daemon that it replaces), and nobody reads the signals yet. The start looks between
 * its steps whether it is told to stop, and ends in order then. When a step takes longer than
 * STARTING_GRACE_MS, a thread ends the process; that is what kill -9 does, and the next start goes
 * on from there. A daemon that is to end its sandboxes, and perhaps to remove its folder, comes to
 * the end of its start first, for which it has STARTING_WHOLE_MS. */
#define STARTING_GRACE_MS 500
#define STARTING_WHOLE_MS 10000

struct starting {
    int signal_fd, end_fd, grace_ms;
    int parents[2]; /* descriptors whose other end closes when the daemon is to stop; -1 = none */
    pthread_t thread;
    bool runs;
};

/* After the launcher was forked: it makes a thread. Without one the start cannot be ended early. */
void starting_begin(struct starting *s, int signal_fd, int parent_fd, int lifeline_fd,
                    int grace_ms);
/* Was the daemon told to stop? The signal stays pending. */
bool starting_is_to_end(const struct starting *s);
void starting_end(struct starting *s);
