#pragma once

struct prometheus;
struct services;

/* All that GET /metrics tells. runtime: what makes the boxes, "native". */
void exposition_write(const struct services *s, const char *runtime, struct prometheus *p);
