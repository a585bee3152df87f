#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* Who waits for something that takes time. progress is called from the calling thread with what
 * image/image.h lists, and with NULL now and then while nothing happens; -1 ends the wait, as does
 * cancelled(arg) once cancel_fd (-1 = none) has POLLRDHUP, and the time until_ns. Each of them may
 * be NULL. */
struct engine_watch {
    int (*progress)(const json_t *event, void *arg);
    bool (*cancelled)(void *arg);
    void *arg;
    int cancel_fd;
    int64_t until_ns; /* mono_ns; 0 = no time */
    /* Is told the id of a sandbox before there is anything of it; -1 with err, and there will be
     * none. */
    int (*makes)(const char *id, void *arg, struct err *err);
};

/* Does nobody wait any more? Never so of NULL. */
bool engine_watch_is_over(const struct engine_watch *watch);
