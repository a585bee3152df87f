#include "base/signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/str.h"

const char *const signal_words[] = {"TERM", "KILL", "INT",  "HUP", "USR1",
                                    "USR2", "STOP", "CONT", NULL};

int signal_of_word(const char *word)
{
    for (const char *const *w = signal_words; *w; w++)
        if (strcmp(*w, word) == 0)
            return signal_parse(word);
    return -EINVAL;
}

static int real_time_signal(const char *name)
{
    uint64_t n = 0;

    if (str_starts(name, "RTMIN") &&
        (!name[5] || (name[5] == '+' && str_u64(name + 6, &n) == 0 && n <= 30)))
        return SIGRTMIN + (int)n;
    if (str_starts(name, "RTMAX") &&
        (!name[5] || (name[5] == '-' && str_u64(name + 6, &n) == 0 && n <= 30)))
        return SIGRTMAX - (int)n;
    return -EINVAL;
}

int signal_parse(const char *text)
{
    uint64_t n;

    if (str_u64(text, &n) == 0)
        return n > 0 && n < NSIG ? (int)n : -EINVAL;
    if (str_starts(text, "SIG"))
        text += 3;
    for (int sig = 1; sig < 32; sig++) {
        const char *name = sigabbrev_np(sig);

        if (name && strcmp(name, text) == 0)
            return sig;
    }
    return real_time_signal(text);
}
