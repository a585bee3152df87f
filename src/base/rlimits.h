#pragma once

#include <stddef.h>
#include <stdint.h>

/* Limits of one process (setrlimit), by the names that people use for them. */

#define RLIMITS_MAX      16
#define RLIMIT_UNBOUNDED UINT64_MAX

struct rlimit_wish {
    uint32_t resource; /* RLIMIT_… */
    uint64_t soft, hard;
};

/* Their names, by the kernel's number, ended by NULL. */
extern const char *const rlimit_words[RLIMITS_MAX + 1];

/* The number of one of these, or -EINVAL. */
int rlimit_of_word(const char *word);
