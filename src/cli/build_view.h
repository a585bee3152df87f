#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "cli/escape.h"

/* What a build does, line by line on stderr: its steps, and what their commands print, with control
 * bytes made visible. Start with {0}. */
struct build_view {
    struct escape escape;
    bool open;    /* a line has no end yet */
    bool on_step; /* and it is that of a step */
    bool said;    /* output was shown */
};

bool build_view_knows(const json_t *event);
void build_view_show(struct build_view *v, const json_t *event);
/* Ends a line that was begun. */
void build_view_end(struct build_view *v);

/* Output of a command that nobody has seen. */
void build_view_output(const char *text);
