#include "base/ended.h"

struct ended ended_swap(struct ended *last)
{
    struct ended before = *last;

    *last = (struct ended){.thread = pthread_self(), .any = true};
    return before;
}

void ended_join(struct ended last)
{
    if (last.any)
        (void)pthread_join(last.thread, NULL);
}
