#include "samples.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

struct samples rows[ROWS] = {
    [CREATE] = {"create", "us"}, [EXEC] = {"exec", "us"},   [WRITE] = {"write", "us"},
    [READ] = {"read", "us"},     [PAUSE] = {"pause", "us"}, [RESUME] = {"resume", "us"},
    [KILL] = {"kill", "us"},     [RUN] = {"run", "us"},
};

void samples_add(struct samples *s, double value)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 64;
        s->v = xrealloc(s->v, s->cap * sizeof(*s->v));
    }
    s->v[s->n++] = value;
}

double samples_since(struct samples *s, long long start_ns)
{
    double us = (double)(mono_ns() - start_ns) / 1000;

    samples_add(s, us);
    return us;
}

void samples_print(struct samples *s)
{
    if (s->n > 0) {
        (void)printf("{\"name\": \"%s\", \"unit\": \"%s\", \"samples\": [", s->name, s->unit);
        for (size_t i = 0; i < s->n; i++)
            (void)printf("%s%.3f", i ? ", " : "", s->v[i]);
        (void)printf("]}\n");
        (void)fflush(stdout);
    }
    free(s->v);
    s->v = NULL;
    s->n = s->cap = 0;
}

void rows_print(void)
{
    for (int i = 0; i < ROWS; i++)
        samples_print(&rows[i]);
}

void rest(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
}
