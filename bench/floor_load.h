#pragma once

#include <signal.h>
#include <stdint.h>

struct err;

/* The rows of the floor that several processes make together. Each prints its own. */
int measure_parallel(uint64_t n, struct err *err);
int measure_burst(uint64_t n, struct err *err);
int measure_lives(uint64_t clients, uint64_t seconds, struct err *err);
int fill(uint64_t n, struct err *err);

/* floor.c: set when the program is to end, and one exec with its answer checked. */
extern volatile sig_atomic_t floor_stopping;
int floor_echo(int sock, struct err *err);
