#pragma once

#include <stdbool.h>
#include <stddef.h>

/* .dockerignore, with Docker's rules: a pattern a line, '#' begins a comment, '!' takes back what
 * an earlier line left out; '*' and '?' match within a name, "**" matches any folders, [a-z] one of
 * these, a backslash makes the next one plain. What matches a folder matches all in it; the last
 * line that matches decides. */

struct ignore_rule {
    char *pattern; /* clean, without a slash at its ends */
    bool back;     /* '!' */
};

struct ignore {
    struct ignore_rule *rules;
    size_t n;
};

void ignore_parse(struct ignore *ret, const char *text, size_t len);
void ignore_done(struct ignore *i);

/* Is the path, relative to the folder and without a slash at its ends, left out? */
bool ignore_has(const struct ignore *i, const char *path);
/* May something in a folder that is left out be taken back? */
bool ignore_may_take_back(const struct ignore *i, const char *dir);
