#pragma once

#include <stdint.h>

struct call;
struct err;

/* The port that the path names. */
int in_port(const struct call *call, uint16_t *ret, struct err *err);
