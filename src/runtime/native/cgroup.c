#include "runtime/native/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

int cgroup_write(const char *dir, const char *file, const char *value, struct err *err)
{
    auto_free char *path = xasprintf("%s/%s", dir, file);
    int r = write_file_at(AT_FDCWD, path, value);

    return r < 0 ? err_sys(err, -r, "set the cgroup limit %s to %s", file, value) : 0;
}

int cgroup_write_number(const char *dir, const char *file, unsigned long long value,
                        struct err *err)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%llu", value);
    return cgroup_write(dir, file, text, err);
}

bool cgroup_has(const char *dir, const char *file)
{
    auto_free char *path = xasprintf("%s/%s", dir, file);

    return access(path, F_OK) == 0;
}

int cgroup_read(const char *dir, const char *file, unsigned long long *ret)
{
    auto_free char *path = xasprintf("%s/%s", dir, file);
    char text[64];
    ssize_t n = read_file_at(AT_FDCWD, path, text, sizeof(text));

    if (n < 0)
        return (int)n;
    *ret = strtoull(text, NULL, 10);
    return 0;
}

int cgroup_find_key(const char *text, const char *key, unsigned long long *ret)
{
    size_t len = strlen(key);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == ' ') {
            *ret = strtoull(line + len + 1, NULL, 10);
            return 0;
        }
    }
    return -ENOENT;
}

int cgroup_read_key(const char *dir, const char *file, const char *key, unsigned long long *ret)
{
    auto_free char *path = xasprintf("%s/%s", dir, file);
    char text[8192];
    ssize_t n = read_file_at(AT_FDCWD, path, text, sizeof(text));

    return n < 0 ? (int)n : cgroup_find_key(text, key, ret);
}

int cgroup_read_held(const char *dir, const char *usage, const char *active, const char *inactive,
                     unsigned long long *ret)
{
    auto_free char *path = xasprintf("%s/memory.stat", dir);
    unsigned long long used, warm, cold;
    char text[8192];

    if (cgroup_read(dir, usage, &used) < 0 ||
        read_file_at(AT_FDCWD, path, text, sizeof(text)) < 0 ||
        cgroup_find_key(text, active, &warm) < 0 || cgroup_find_key(text, inactive, &cold) < 0)
        return -1;
    *ret = used > warm + cold ? used - warm - cold : 0;
    return 0;
}

int cgroup_mkdir(const char *dir, struct err *err)
{
    if ((mkdir(dir, 0755) < 0 && errno != EEXIST) || chmod(dir, 0755) < 0)
        return err_sys(err, errno, "make the cgroup %s", strrchr(dir, '/') + 1);
    return 0;
}

int cgroup_rmdir(const char *dir, struct err *err)
{
    /* A process that has ended leaves its group a moment later; one second is ample. */
    for (int tries = 0; rmdir(dir) < 0; tries++) {
        struct timespec ts = {.tv_nsec = 1000000};

        if (errno == ENOENT)
            return 0;
        if (errno != EBUSY || tries == 1000)
            return err_sys(err, errno, "remove the cgroup %s", strrchr(dir, '/') + 1);
        (void)nanosleep(&ts, NULL);
    }
    return 0;
}
