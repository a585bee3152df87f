#pragma once

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where a program of the build is: as the environment says, or in the build folder that this test
 * is in (<build>/tests/unit/test_x). NULL when it is not there. */
static inline const char *built_program(const char *variable, const char *below_build)
{
    static char path[PATH_MAX];
    const char *told = getenv(variable);
    ssize_t n;

    if (told)
        return told;
    n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n <= 0)
        return NULL;
    path[n] = '\0';
    for (int up = 0; up < 3; up++)
        if (strrchr(path, '/'))
            *strrchr(path, '/') = '\0';
    n = (ssize_t)strlen(path);
    (void)snprintf(path + n, sizeof(path) - (size_t)n, "/%s", below_build);
    return access(path, X_OK) == 0 ? path : NULL;
}
