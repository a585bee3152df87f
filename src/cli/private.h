#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct err;

/* A daemon of one's own for one `cay run`, when none is running: in temporary folders, without TCP,
 * ended (with its sandboxes) when this process closes its end or dies. */
struct private_daemon {
    pid_t pid;
    int alive; /* closing it ends the daemon */
    bool has_served;
    char *folder; /* holds data/ and run/ */
    char *target; /* unix:… */
};

#define PRIVATE_DAEMON_NONE                                                                        \
    {                                                                                              \
        .alive = -1                                                                                \
    }

/* private_stop() is due also after a failure. */
int private_start(struct private_daemon *d, struct err *err);
/* Waits for its end and removes the folders. */
void private_stop(struct private_daemon *d);
