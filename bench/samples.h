#pragma once

#include <stddef.h>

/* The measurements of one row. Programs of the bench print one JSON line for each row, and the
 * runner (bench/run.py) puts rounds and columns together. */
struct samples {
    const char *name; /* a string literal: "create" */
    const char *unit; /* a string literal: "us" */
    double *v;
    size_t n, cap;
};

void samples_add(struct samples *s, double value);

/* Adds the time since start (mono_ns) in microseconds, and returns it. */
double samples_since(struct samples *s, long long start_ns);

/* Prints {"name", "unit", "samples": […]} and empties it. A row without samples prints nothing. */
void samples_print(struct samples *s);

/* The rows that the floor and cay are measured on side by side, one sandbox after the other. RUN is
 * what a one-shot run costs: create, the first exec, kill. */
enum row { CREATE, EXEC, WRITE, READ, PAUSE, RESUME, KILL, RUN, ROWS };

extern struct samples rows[ROWS];

void rows_print(void);

/* Between two sandboxes, in the floor and in cay alike: what the last one left to be cleaned up in
 * the background, by the kernel or by the daemon, is not to be measured as part of the next. */
void rest(void);

#define EXECS_PER_SANDBOX 5 /* as in peers.py; the others happen once in each sandbox */
#define FILE_SIZE         1024
