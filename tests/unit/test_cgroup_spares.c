/* Groups of boxes that are gone and get another's name; on real ones, where there is cgroup v1. */

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "model/sandbox.h"
#include "runtime/native/cgroup.h"
#include "tap.h"

#define FIRST  "sbx_000000000000000000000001"
#define SECOND "sbx_000000000000000000000002"

static const struct sandbox_limits small = {.memory_mb = 64, .cpu_millis = 500, .pids = 32};
static const struct sandbox_limits large = {.memory_mb = 128, .cpu_millis = 1000, .pids = 64};

static bool open_groups(struct cgroup *c)
{
    const struct cgroup_caps caps = {0};
    struct err err = {0};
    char name[32];

    (void)snprintf(name, sizeof(name), "cay-test-%d", (int)getpid());
    return cgroup_open(c, name, NULL, &caps, &err) == 0 && !c->ops->v2;
}

static void close_groups(struct cgroup *c)
{
    c->ops->close(c);
    CHECK_INT(access(c->dirs[V1_MEMORY], F_OK), -1);
    cgroup_done(c);
}

static char *group(const struct cgroup *c, int controller, const char *id)
{
    return xasprintf("%s/%s", c->dirs[controller], id);
}

static ino_t inode(const struct cgroup *c, int controller, const char *id)
{
    auto_free char *dir = group(c, controller, id);
    struct stat st = {0};

    return stat(dir, &st) == 0 ? st.st_ino : 0;
}

static unsigned long long value(const struct cgroup *c, int controller, const char *id,
                                const char *file)
{
    auto_free char *dir = group(c, controller, id);
    unsigned long long v = 0;

    CHECK_INT(cgroup_read(dir, file, &v), 0);
    return v;
}

static size_t spares(const struct cgroup *c)
{
    auto_free char *pattern = group(c, V1_MEMORY, "spare.*");
    glob_t found = {0};
    size_t n = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;

    globfree(&found);
    return n;
}

/* Whether the groups of a box, of which `spoil` was done, are used again. */
static bool used_again(struct cgroup *c, void (*spoil)(struct cgroup *c))
{
    struct err err = {0};
    ino_t before;
    bool same;

    CHECK_INT(c->ops->make(c, FIRST, &small, &err), 0);
    before = inode(c, V1_MEMORY, FIRST);
    if (spoil)
        spoil(c);
    CHECK_INT(c->ops->remove(c, FIRST, &err), 0);
    CHECK_INT(inode(c, V1_MEMORY, FIRST), 0);
    CHECK_INT(c->ops->make(c, SECOND, &large, &err), 0);
    same = inode(c, V1_MEMORY, SECOND) == before;
    return same;
}

static void do_work(struct cgroup *c)
{
    auto_free char *cpuacct = group(c, V1_CPUACCT, FIRST);
    pid_t pid = fork();

    if (pid == 0) {
        (void)cgroup_write_number(cpuacct, "cgroup.procs", (unsigned)getpid(), NULL);
        for (volatile unsigned i = 0; i < 1000000; i++)
            ;
        _exit(0);
    }
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK(value(c, V1_CPUACCT, FIRST, "cpuacct.usage") > 0);
}

TEST(a_set_that_is_used_again_has_the_limits_and_counts_of_a_new_one)
{
    struct err err = {0};
    struct cgroup c;

    if (!open_groups(&c))
        SKIP("needs root and the controllers of cgroup v1");
    CHECK(used_again(&c, do_work));
    CHECK_INT(spares(&c), 0);
    CHECK_INT(value(&c, V1_MEMORY, SECOND, "memory.limit_in_bytes"), 128 << 20);
    CHECK_INT(value(&c, V1_PIDS, SECOND, "pids.max"), 64);
    CHECK_INT(value(&c, V1_CPU, SECOND, "cpu.cfs_quota_us"), 100000);
    CHECK_INT(value(&c, V1_CPUACCT, SECOND, "cpuacct.usage"), 0);
    CHECK_INT(value(&c, V1_MEMORY, SECOND ".agent", "memory.limit_in_bytes"), AGENT_MEMORY_BYTES);
    CHECK_INT(value(&c, V1_PIDS, SECOND ".agent", "pids.max"), AGENT_PIDS);
    CHECK_INT(c.ops->remove(&c, SECOND, &err), 0);
    CHECK_INT(spares(&c), 2); /* the workload's group and the agent's */
    close_groups(&c);
}

static void freeze(struct cgroup *c)
{
    CHECK_INT(c->ops->freeze(c, FIRST, true, NULL), 0);
}

TEST(a_frozen_set_is_thrown_away)
{
    struct cgroup c;

    if (!open_groups(&c))
        SKIP("needs root and the controllers of cgroup v1");
    CHECK(!used_again(&c, freeze));
    CHECK_INT(c.ops->remove(&c, SECOND, NULL), 0);
    close_groups(&c);
}

static int shared = -1;

/* A process of the box fills a file in memory that outlives it. */
static void hold_memory(struct cgroup *c)
{
    static char text[1 << 20];
    auto_free char *dir = group(c, V1_MEMORY, FIRST);
    pid_t pid = fork();

    if (pid == 0) {
        bool ok = cgroup_write_number(dir, "cgroup.procs", (unsigned)getpid(), NULL) == 0 &&
                  write_all(shared, text, sizeof(text)) == 0;

        _exit(ok ? 0 : 1);
    }
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK(value(c, V1_MEMORY, FIRST, "memory.usage_in_bytes") >= sizeof(text));
}

TEST(a_set_with_memory_of_its_last_box_is_not_used)
{
    struct cgroup c;

    if (!open_groups(&c))
        SKIP("needs root and the controllers of cgroup v1");
    shared = memfd_create("shared", MFD_CLOEXEC);
    CHECK(shared >= 0);
    CHECK(!used_again(&c, hold_memory));
    CHECK_INT(c.ops->remove(&c, SECOND, NULL), 0);
    close_groups(&c);
    (void)close(shared);
}

static void hit_pids(struct cgroup *c)
{
    auto_free char *dir = group(c, V1_PIDS, FIRST);
    pid_t pid;

    CHECK_INT(cgroup_write(dir, "pids.max", "1", NULL), 0);
    pid = fork();
    if (pid == 0) {
        pid_t more;

        (void)cgroup_write_number(dir, "cgroup.procs", (unsigned)getpid(), NULL);
        more = fork();
        if (more == 0)
            _exit(0);
        _exit(more < 0 ? 0 : 1);
    }
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

TEST(a_set_that_came_to_its_limit_is_thrown_away)
{
    struct cgroup c;

    if (!open_groups(&c))
        SKIP("needs root and the controllers of cgroup v1");
    CHECK(!used_again(&c, hit_pids));
    CHECK_INT(c.ops->remove(&c, SECOND, NULL), 0);
    close_groups(&c);
}

static void half_gone(struct cgroup *c)
{
    auto_free char *dir = group(c, V1_FREEZER, FIRST);

    CHECK_INT(rmdir(dir), 0);
}

TEST(a_set_of_which_some_is_gone_is_thrown_away)
{
    struct cgroup c;

    if (!open_groups(&c))
        SKIP("needs root and the controllers of cgroup v1");
    CHECK(!used_again(&c, half_gone));
    CHECK_INT(c.ops->remove(&c, SECOND, NULL), 0);
    close_groups(&c);
}

TEST(a_start_removes_the_spares_of_a_daemon_that_was_killed)
{
    struct cgroup killed, c;

    if (!open_groups(&killed))
        SKIP("needs root and the controllers of cgroup v1");
    CHECK(used_again(&killed, NULL));
    CHECK_INT(killed.ops->remove(&killed, SECOND, NULL), 0);
    CHECK_INT(spares(&killed), 2);
    CHECK(open_groups(&c));
    CHECK_INT(spares(&c), 0);
    /* One that takes its time to die finds none of them, and makes its own. */
    CHECK(used_again(&killed, NULL));
    CHECK_INT(killed.ops->remove(&killed, SECOND, NULL), 0);
    killed.ops->close(&killed);
    cgroup_done(&killed);
    cgroup_done(&c);
}

TAP_MAIN
