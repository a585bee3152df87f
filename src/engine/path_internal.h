#pragma once

#include <stdbool.h>

struct err;

/* The absolute, normal form of a path that the rule lets pass; free it. */
int path_resolve(const char *workspace, const char *path, bool anywhere, char **ret,
                 struct err *err);
