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

static const char *const v1_names[V1_CONTROLLERS] = {"memory", "pids", "cpu", "cpuacct", "freezer"};

int cgroup_write(const char *dir, const char *file, const char *value, struct err *err)
{
    auto_free char *path = xasprintf("%s/%s", dir, file);
    int r = write_file_at(AT_FDCWD, path, value);

    return r < 0 ? err_sys(err, -r, "set the cgroup limit %s to %s", file, value) : 0;
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

int cgroup_read_key(const char *dir, const char *file, const char *key, unsigned long long *ret)
{
    auto_free char *path = xasprintf("%s/%s", dir, file);
    char text[8192];
    ssize_t n = read_file_at(AT_FDCWD, path, text, sizeof(text));
    size_t len = strlen(key);

    if (n < 0)
        return (int)n;
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == ' ') {
            *ret = strtoull(line + len + 1, NULL, 10);
            return 0;
        }
    }
    return -ENOENT;
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

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ',' || p[-1] == ' ') && (!p[n] || strchr(", \n", p[n])))
            return true;
    return false;
}

/* Fills what one line of /proc/self/mounts tells: device, mount point, type, options. */
static void look_at_mount(struct cgroup *c, char **v2, char *line, const char *name)
{
    char *save = NULL;
    char *point, *type, *options;

    (void)strtok_r(line, " ", &save);
    point = strtok_r(NULL, " ", &save);
    type = strtok_r(NULL, " ", &save);
    options = strtok_r(NULL, " ", &save);
    if (!options)
        return;
    if (strcmp(type, "cgroup2") == 0 && !*v2)
        *v2 = xstrdup(point);
    if (strcmp(type, "cgroup") != 0)
        return;
    for (int i = 0; i < V1_CONTROLLERS; i++)
        if (!c->dirs[i] && has_word(options, v1_names[i]))
            c->dirs[i] = xasprintf("%s/%s", point, name);
}

static int use_v1(struct cgroup *c, struct err *err)
{
    for (int i = 0; i < V1_CONTROLLERS; i++) {
        if (!c->dirs[i])
            return err_set(err, ERR_UNSUPPORTED,
                           "this machine has no cgroup controller \"%s\"; mount it or boot with "
                           "systemd.unified_cgroup_hierarchy=1",
                           v1_names[i]);
        if (cgroup_mkdir(c->dirs[i], err) < 0)
            return -1;
    }
    c->ops = &cgroup_v1_ops;
    return 0;
}

static int use_v2(struct cgroup *c, const char *root, const char *name, struct err *err)
{
    char controllers[512];
    auto_free char *path = xasprintf("%s/cgroup.controllers", root);

    if (read_file_at(AT_FDCWD, path, controllers, sizeof(controllers)) < 0 ||
        !has_word(controllers, "memory") || !has_word(controllers, "pids") ||
        !has_word(controllers, "cpu"))
        return err_set(err, ERR_UNSUPPORTED,
                       "the cgroup v2 root lacks one of the controllers memory, pids and cpu");
    for (int i = 0; i < V1_CONTROLLERS; i++) {
        free(c->dirs[i]);
        c->dirs[i] = NULL;
    }
    c->dirs[0] = xasprintf("%s/%s", root, name);
    if (cgroup_write(root, "cgroup.subtree_control", "+memory +pids +cpu", err) < 0)
        return -1;
    if (cgroup_mkdir(c->dirs[0], err) < 0 ||
        cgroup_write(c->dirs[0], "cgroup.subtree_control", "+memory +pids +cpu", err) < 0)
        return -1;
    c->ops = &cgroup_v2_ops;
    return 0;
}

int cgroup_open(struct cgroup *ret, const char *name, struct err *err)
{
    struct cgroup c = {0};
    auto_free char *v2 = NULL;
    FILE *f = fopen("/proc/self/mounts", "re");
    char line[4096];
    int r;

    if (!f)
        return err_sys(err, errno, "read /proc/self/mounts");
    while (fgets(line, sizeof(line), f))
        look_at_mount(&c, &v2, line, name);
    (void)fclose(f);
    /* Hybrid machines have a v2 mount without the controllers we need; those are on v1 then. */
    if (!c.dirs[V1_MEMORY] && v2)
        r = use_v2(&c, v2, name, err);
    else
        r = use_v1(&c, err);
    if (r < 0)
        cgroup_done(&c);
    else
        *ret = c;
    return r;
}

void cgroup_done(struct cgroup *c)
{
    for (int i = 0; i < V1_CONTROLLERS; i++)
        free(c->dirs[i]);
    *c = (struct cgroup){0};
}
