#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "proto/plan.h"

/* The kernel counts what it kills in the workload's cgroup when memory runs out. It does not say
 * which process that was, so the exec that ends badly after the count has grown is taken for it;
 * a kill that ended one exec is not taken for the end of another. */

#define KEY "oom_kill "

uint64_t oom_kills(void)
{
    char text[512];
    ssize_t n = agents->apart ? pread(AGENT_FD_OOM, text, sizeof(text) - 1, 0) : 0;
    const char *line = text;

    text[n > 0 ? n : 0] = '\0';
    while (line && strncmp(line, KEY, strlen(KEY)) != 0) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return line ? strtoull(line + strlen(KEY), NULL, 10) : 0;
}

static bool happened(uint64_t before)
{
    uint64_t now = oom_kills(), told = agents->oom_told, from;

    do {
        from = told > before ? told : before;
        if (now <= from)
            return false;
    } while (!atomic_compare_exchange_weak(&agents->oom_told, &told, from + 1));
    return true;
}

uint32_t oom_bits(uint64_t before, bool badly)
{
    if (!agents->apart)
        return 0;
    return EXIT_MEMORY_SEEN | (badly && happened(before) ? EXIT_MEMORY : 0);
}
