#pragma once

#include <stdint.h>

struct engine;
struct err;

#define SIGNING_KEY_BYTES 32

/* Reads the key that signatures are made with from the data folder, or makes one. */
int signing_open(struct engine *e, struct err *err);
