#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A line on stderr that grows, for transfers of more than 1 MiB on a terminal; total -1 = not
 * known.
 */
struct meter {
    int64_t total, done, shown_ns;
    bool enabled;
};

void meter_begin(struct meter *m, int64_t total);
void meter_add(struct meter *m, int64_t bytes);
void meter_end(struct meter *m);
