#pragma once

#include <pthread.h>
#include <stdbool.h>

struct engine;
struct err;
struct sandbox;

/* Three threads: one destroys what was removed, one looks for expired sandboxes, one waits for
 * boxes that end by themselves. */
struct reaper {
    pthread_mutex_t lock;
    pthread_cond_t more, tick;
    struct sandbox *head, *tail;
    bool stop, drain, running;
    int epoll_fd, wake_fd;
    pthread_t destroyer, sweeper, watcher;
};

void reaper_init(struct reaper *r);
void reaper_done(struct reaper *r);
int reaper_start(struct engine *e, struct err *err);
void reaper_stop(struct engine *e); /* after the queue is empty */
/* Destroys the box and deletes the row, later. Takes a reference. */
void reaper_doom(struct engine *e, struct sandbox *sb);
/* From here on the watcher sees when the box ends, until reaper_unwatch(). */
void reaper_watch(struct engine *e, struct sandbox *sb);
void reaper_unwatch(struct engine *e, struct sandbox *sb);
