#pragma once

#include <stdbool.h>
#include <stdint.h>

struct box_stats;
struct cgroup;
struct cgroup_spares;
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
    /* Without waiting for it; freeze() does, and tells what is wrong. */
    void (*begin_freeze)(const struct cgroup *c, const char *id);
    int (*stats)(const struct cgroup *c, const char *id, struct box_stats *ret, struct err *err);
    /* Signals every process of the box, also those of a box that nobody remembers. */
    void (*kill)(const struct cgroup *c, const char *id);
    /* Fine if they are gone; waits a little while members are still leaving. */
    int (*remove)(const struct cgroup *c, const char *id, struct err *err);
    /* Every id that has a group. */
    void (*each)(const struct cgroup *c, void (*found)(const char *id, void *arg), void *arg);
    /* What all boxes together may take, at their parent. */
    int (*cap)(const struct cgroup *c, struct err *err);
    /* What they take of memory that the kernel could not take back. */
    int (*held)(const struct cgroup *c, unsigned long long *ret);
    /* The parent itself, when it is empty. */
    void (*close)(const struct cgroup *c);
};

enum cgroup_v1_controller { V1_MEMORY, V1_PIDS, V1_CPU, V1_CPUACCT, V1_FREEZER, V1_CONTROLLERS };

/* What all boxes of a daemon together may take. */
struct cgroup_caps {
    uint64_t memory; /* bytes */
    uint32_t pids;
};

struct cgroup {
    const struct cgroup_ops *ops;
    char *dirs[V1_CONTROLLERS]; /* our parent below each controller; v2 uses the first only */
    struct cgroup_caps caps;
    struct cgroup_spares *spares; /* v1 only */
};

/* ---- cgroup_place.c: where on this machine ---- */

/* Looks what this machine has, makes the parents and sets the caps (0 = what the machine can
 * spare). name: one path component. place: on v2, the group to make it in, as a path below the
 * mount; NULL = the one that was delegated to this process, else the root. */
int cgroup_open(struct cgroup *ret, const char *name, const char *place,
                const struct cgroup_caps *caps, struct err *err);
void cgroup_done(struct cgroup *c);

/* The directory that a v2 parent goes into. own: this process's group, as /proc/self/cgroup has it.
 * Owned by the caller. */
char *cgroup_v2_place(const char *mount, const char *own, const char *place);

/* Gives the groups below dir their controllers. Processes of dir itself, which would be in the way,
 * move into a leaf of it; only a group that is ours has any. */
int cgroup_v2_enable(const char *dir, struct err *err);

#define CGROUP_LEAF "daemon"

/* ---- cgroup_caps.c: all boxes together ---- */

/* Of a machine with so much memory and so many processes: all but a reserve for everything else. */
struct cgroup_caps cgroup_caps_of(uint64_t memory, uint64_t pids);
/* Fills in what is 0 from this machine. */
void cgroup_caps_complete(struct cgroup_caps *caps);
/* The weight of all boxes together, for a controller where one process or group has `one`. */
unsigned cgroup_cpu_weight(unsigned one, unsigned max);
/* Fails with "machine_full" when the boxes have so much that one more could not start. */
int cgroup_room(const struct cgroup *c, struct err *err);

/* ---- cgroup_spares.c: groups that are used again (cgroup_v1_internal.h has the rest) ---- */

void cgroup_spares_free(struct cgroup_spares *s);

extern const struct cgroup_ops cgroup_v1_ops, cgroup_v2_ops;

/* A process must run to stop, and on a busy machine one with little cpu waits for that. */
#define FREEZE_LIMIT_MS 10000

#define AGENT_MEMORY_BYTES (128u << 20) /* 96 handlers that all send a file take half of it */
#define AGENT_PIDS         224          /* each handler can have one child (command_lines.c) */

/* On v1 what the kernel holds for sockets of TCP and UDP is no part of the memory limit. It has a
 * counter of its own, which gets this part of it on top; see v1_limit(). */
#define SOCKET_PART 8

/* For both: a value into a file of a directory; rmdir that waits for the last members to go. */
int cgroup_write(const char *dir, const char *file, const char *value, struct err *err);
int cgroup_write_number(const char *dir, const char *file, unsigned long long value,
                        struct err *err);
bool cgroup_has(const char *dir, const char *file);
int cgroup_read(const char *dir, const char *file, unsigned long long *ret);
/* The number after `key ` in lines of text, and in a file of them. */
int cgroup_find_key(const char *text, const char *key, unsigned long long *ret);
int cgroup_read_key(const char *dir, const char *file, const char *key, unsigned long long *ret);
/* What is used of memory, less the page cache, of which memory.stat has two lines. */
int cgroup_read_held(const char *dir, const char *usage, const char *active, const char *inactive,
                     unsigned long long *ret);
/* Made with mode 0755 whatever the umask, so that a box can look at its own; fine if it exists. */
int cgroup_mkdir(const char *dir, struct err *err);
int cgroup_rmdir(const char *dir, struct err *err);
