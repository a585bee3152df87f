#pragma once

#include <stdbool.h>

struct box_stats;
struct cgroup;
struct err;
struct sandbox_limits;

/* Resource limits of boxes, on cgroup v1 or v2. Each box has a workload part with the limits and a
 * small agent part beside it. Names derive from the sandbox's id, below one parent a daemon. */

struct cgroup_ops {
    bool v2;
    /* Makes the groups of id with these limits; fails, naming the file, if one cannot be set. */
    int (*make)(const struct cgroup *c, const char *id, const struct sandbox_limits *limits,
                struct err *err);
    int (*limit)(const struct cgroup *c, const char *id, const struct sandbox_limits *limits,
                 struct err *err);
    /* The directories to join, NULL-terminated, owned by the caller. */
    char **(*work_dirs)(const struct cgroup *c, const char *id);
    char **(*agent_dirs)(const struct cgroup *c, const char *id);
    int (*freeze)(const struct cgroup *c, const char *id, bool frozen, struct err *err);
    int (*stats)(const struct cgroup *c, const char *id, struct box_stats *ret, struct err *err);
    /* Signals every process of the box, also those of a box that nobody remembers. */
    void (*kill)(const struct cgroup *c, const char *id);
    /* Fine if they are gone; waits a little while members are still leaving. */
    int (*remove)(const struct cgroup *c, const char *id, struct err *err);
    /* Every id that has a group. */
    void (*each)(const struct cgroup *c, void (*found)(const char *id, void *arg), void *arg);
    /* The parent itself, when it is empty. */
    void (*close)(const struct cgroup *c);
};

enum cgroup_v1_controller { V1_MEMORY, V1_PIDS, V1_CPU, V1_CPUACCT, V1_FREEZER, V1_CONTROLLERS };

struct cgroup {
    const struct cgroup_ops *ops;
    char *dirs[V1_CONTROLLERS]; /* our parent below each controller; v2 uses the first only */
};

/* Looks what this machine has and makes the parents. name: one path component. */
int cgroup_open(struct cgroup *ret, const char *name, struct err *err);
void cgroup_done(struct cgroup *c);

extern const struct cgroup_ops cgroup_v1_ops, cgroup_v2_ops;

/* A process must run to stop, and on a busy machine one with little cpu waits for that. */
#define FREEZE_LIMIT_MS 10000

#define AGENT_MEMORY_BYTES (128u << 20) /* 96 handlers that all send a file take half of it */
#define AGENT_PIDS         128

/* For both: a value into a file of a directory; rmdir that waits for the last members to go. */
int cgroup_write(const char *dir, const char *file, const char *value, struct err *err);
int cgroup_read(const char *dir, const char *file, unsigned long long *ret);
/* The number after `key ` in a file of lines. */
int cgroup_read_key(const char *dir, const char *file, const char *key, unsigned long long *ret);
/* Made with mode 0755 whatever the umask, so that a box can look at its own; fine if it exists. */
int cgroup_mkdir(const char *dir, struct err *err);
int cgroup_rmdir(const char *dir, struct err *err);
