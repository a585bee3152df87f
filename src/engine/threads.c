#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "engine/threads_internal.h"

void thread_gives_way(int nice)
{
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), nice);
}

void thread_is_background(void)
{
    thread_gives_way(10);
}

void cond_init_monotonic(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}
