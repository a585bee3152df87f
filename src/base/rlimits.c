#include "base/rlimits.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

const char *const rlimit_words[RLIMITS_MAX + 1] = {
    [RLIMIT_CPU] = "cpu",           [RLIMIT_FSIZE] = "fsize",
    [RLIMIT_DATA] = "data",         [RLIMIT_STACK] = "stack",
    [RLIMIT_CORE] = "core",         [RLIMIT_RSS] = "rss",
    [RLIMIT_NPROC] = "nproc",       [RLIMIT_NOFILE] = "nofile",
    [RLIMIT_MEMLOCK] = "memlock",   [RLIMIT_AS] = "as",
    [RLIMIT_LOCKS] = "locks",       [RLIMIT_SIGPENDING] = "sigpending",
    [RLIMIT_MSGQUEUE] = "msgqueue", [RLIMIT_NICE] = "nice",
    [RLIMIT_RTPRIO] = "rtprio",     [RLIMIT_RTTIME] = "rttime",
};

int rlimit_of_word(const char *word)
{
    for (int i = 0; rlimit_words[i]; i++)
        if (strcmp(rlimit_words[i], word) == 0)
            return i;
    return -EINVAL;
}
