#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/native/cgroup_v1_internal.h"

/* Where the groups of this daemon are.
 *
 * v1: below the root of each hierarchy. v2: a service manager owns the tree and hands out parts of
 * it, so the parent goes into a part that is ours: the one that was named, or our own group if it
 * was delegated, or the root of our cgroup namespace. Only where nobody has delegated anything is
 * it the root. */

#define CONTROLLERS  "+memory +pids +cpu"
#define ENABLE_TRIES 10 /* somebody may start a process meanwhile */

static const char *const v1_names[V1_CONTROLLERS] = {"memory", "pids", "cpu", "cpuacct", "freezer"};

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
    cgroup_spares_open(c);
    c->ops = &cgroup_v1_ops;
    return 0;
}

/* ---- v2 ---- */

/* systemd's mark on a group that it leaves to the service in it; the second is that of old ones. */
static bool is_delegated(const char *dir)
{
    static const char *const marks[] = {"user.delegate", "trusted.delegate"};
    char value;

    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (getxattr(dir, marks[i], &value, 1) == 1 && value == '1')
            return true;
    return false;
}

char *cgroup_v2_place(const char *mount, const char *own, const char *place)
{
    auto_free char *dir = NULL;

    if (place)
        return xasprintf("%s%s%s", mount, *place == '/' ? "" : "/", place);
    dir = xasprintf("%s%s", mount, strcmp(own, "/") == 0 ? "" : own);
    /* A daemon before us, or a manager that was told to, may have put us into the leaf already. */
    if (str_ends(dir, "/" CGROUP_LEAF))
        dir[strlen(dir) - strlen("/" CGROUP_LEAF)] = '\0';
    return is_delegated(dir) ? steal_ptr(dir) : xstrdup(mount);
}

/* Every process of dir goes into its leaf. */
static int step_aside(const char *dir, struct err *err)
{
    auto_free char *leaf = xasprintf("%s/" CGROUP_LEAF, dir);
    auto_free char *procs = xasprintf("%s/cgroup.procs", dir);
    FILE *f;
    int pid, r = 0;

    if (cgroup_mkdir(leaf, err) < 0)
        return -1;
    f = fopen(procs, "re");
    if (!f)
        return err_sys(err, errno, "read %s", procs);
    while (r == 0 && fscanf(f, "%d", &pid) == 1) {
        struct err why = {0};

        if (cgroup_write_number(leaf, "cgroup.procs", (unsigned)pid, &why) < 0 &&
            why.sys != ESRCH) {
            *err = why;
            r = err_wrap(err, "move process %d into the cgroup %s", pid, leaf);
        }
    }
    (void)fclose(f);
    return r;
}

int cgroup_v2_enable(const char *dir, struct err *err)
{
    for (int tries = 0;; tries++) {
        struct err why = {0};

        if (cgroup_write(dir, "cgroup.subtree_control", CONTROLLERS, &why) == 0)
            return 0;
        if (why.sys != EBUSY || tries == ENABLE_TRIES) {
            *err = why;
            return err_wrap(err, "the cgroup %s", dir);
        }
        if (step_aside(dir, err) < 0)
            return -1;
    }
}

/* Our own group on v2, as the line of hierarchy 0 has it. */
static char *own_group(void)
{
    char text[4096];
    char *line;

    if (read_file_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) < 0)
        return xstrdup("/");
    line = str_starts(text, "0::") ? text : strstr(text, "\n0::");
    if (!line)
        return xstrdup("/");
    line = strchr(line, '/');
    line[strcspn(line, "\n")] = '\0';
    return xstrdup(line);
}

/* Sandboxes of a version before, which knew the root only, stay where they are until the last has
 * gone. */
static bool is_at_root(const char *mount, const char *name)
{
    auto_free char *dir = xasprintf("%s/%s", mount, name);

    return access(dir, F_OK) == 0;
}

static int use_v2(struct cgroup *c, const char *mount, const char *name, const char *place,
                  struct err *err)
{
    auto_free char *own = own_group();
    auto_free char *dir =
        is_at_root(mount, name) ? xstrdup(mount) : cgroup_v2_place(mount, own, place);
    auto_free char *path = xasprintf("%s/cgroup.controllers", dir);
    char controllers[512];

    if (read_file_at(AT_FDCWD, path, controllers, sizeof(controllers)) < 0)
        return err_set(err, ERR_UNSUPPORTED, "there is no cgroup %s; see CAY_CGROUP", dir);
    if (!has_word(controllers, "memory") || !has_word(controllers, "pids") ||
        !has_word(controllers, "cpu"))
        return err_set(err, ERR_UNSUPPORTED,
                       "the cgroup %s lacks one of the controllers memory, pids and cpu", dir);
    for (int i = 0; i < V1_CONTROLLERS; i++) {
        free(c->dirs[i]);
        c->dirs[i] = NULL;
    }
    c->dirs[0] = xasprintf("%s/%s", dir, name);
    if (cgroup_v2_enable(dir, err) < 0 || cgroup_mkdir(c->dirs[0], err) < 0 ||
        cgroup_write(c->dirs[0], "cgroup.subtree_control", CONTROLLERS, err) < 0)
        return -1;
    c->ops = &cgroup_v2_ops;
    return 0;
}

/* For an operator who wonders: where they are, and what they may take. */
static void tell(const struct cgroup *c)
{
    char memory[24], pids[16];

    (void)snprintf(memory, sizeof(memory), "%llu", (unsigned long long)c->caps.memory >> 20);
    (void)snprintf(pids, sizeof(pids), "%u", c->caps.pids);
    log_info("all sandboxes together", "cgroup", c->dirs[0], "memory_mb", memory, "pids", pids);
}

int cgroup_open(struct cgroup *ret, const char *name, const char *place,
                const struct cgroup_caps *caps, struct err *err)
{
    struct cgroup c = {.caps = *caps};
    auto_free char *v2 = NULL;
    FILE *f = fopen("/proc/self/mounts", "re");
    char line[4096];
    int r;

    if (!f)
        return err_sys(err, errno, "read /proc/self/mounts");
    while (fgets(line, sizeof(line), f))
        look_at_mount(&c, &v2, line, name);
    (void)fclose(f);
    cgroup_caps_complete(&c.caps);
    /* Hybrid machines have a v2 mount without the controllers we need; those are on v1 then. */
    if (!c.dirs[V1_MEMORY] && v2)
        r = use_v2(&c, v2, name, place, err);
    else
        r = use_v1(&c, err);
    if (r == 0)
        r = c.ops->cap(&c, err);
    if (r < 0) {
        cgroup_done(&c);
        return r;
    }
    tell(&c);
    *ret = c;
    return 0;
}

void cgroup_done(struct cgroup *c)
{
    for (int i = 0; i < V1_CONTROLLERS; i++)
        free(c->dirs[i]);
    cgroup_spares_free(c->spares);
    *c = (struct cgroup){0};
}
