#pragma once

#include <signal.h>
#include <stdint.h>

struct err;

/* The rows of the floor that several processes make together. Each prints its own. */
int measure_parallel(uint64_t n, struct err *err);
int measure_warm(uint64_t n, struct err *err); /* floor_warm.c: by one, of boxes that wait */
int measure_burst(uint64_t n, struct err *err);
int measure_lives(uint64_t clients, uint64_t seconds, struct err *err);
int fill(uint64_t n, struct err *err);

/* floor.c: set when the program is to end; where it may write; one exec with its answer checked,
 * and one call that does nothing. */
extern volatile sig_atomic_t floor_stopping;
extern const char *floor_dir;
int floor_echo(int sock, struct err *err);
int floor_hello(int sock, struct err *err);
