#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/xattr.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "runtime/native/cgroup.h"
#include "scratch.h"
#include "tap.h"

#define GIB (1ull << 30)

TEST(a_machine_keeps_a_reserve_for_all_that_is_no_sandbox)
{
    CHECK_INT(cgroup_caps_of(16 * GIB, 1000).memory, 14 * GIB);
    CHECK_INT(cgroup_caps_of(2 * GIB, 1000).memory, GIB + GIB / 2);
    CHECK_INT(cgroup_caps_of(GIB, 1000).memory, GIB - GIB / 4);
    CHECK_INT(cgroup_caps_of(GIB, 32768).pids, 24576);
}

TEST(a_cap_that_was_named_stays_and_one_that_was_not_comes_from_the_machine)
{
    struct cgroup_caps caps = {.memory = 77};

    cgroup_caps_complete(&caps);
    CHECK_INT(caps.memory, 77);
    CHECK(caps.pids > 0);
    caps = (struct cgroup_caps){.pids = 5};
    cgroup_caps_complete(&caps);
    CHECK_INT(caps.pids, 5);
    CHECK(caps.memory > 0);
}

TEST(on_each_processor_sandboxes_weigh_as_much_as_a_process)
{
    unsigned n = (unsigned)get_nprocs();

    CHECK_INT(cgroup_cpu_weight(1024, 262144), n < 256 ? n * 1024 : 262144);
    CHECK_INT(cgroup_cpu_weight(100, 100), 100);
}

static char *made(const char *name)
{
    CHECK_INT(mkdir(in_base(name), 0755), 0);
    return xstrdup(in_base(name));
}

static void check_place(const char *own, const char *place, const char *want)
{
    auto_free char *got = cgroup_v2_place(base, own, place);

    CHECK_STR(got, want);
}

TEST(a_group_that_was_delegated_is_used_and_the_root_only_without_one)
{
    auto_free char *service = NULL, *leaf = NULL;

    scratch_make();
    service = made("cay.service");
    leaf = made("cay.service/daemon");
    check_place("/cay.service", NULL, base);
    check_place("/cay.service/daemon", NULL, base);
    check_place("/", NULL, base);
    if (setxattr(service, "trusted.delegate", "1", 1, 0) < 0)
        SKIP("this file system has no trusted attributes");
    check_place("/cay.service", NULL, service);
    check_place("/cay.service/daemon", NULL, service);
    check_place("/", NULL, base);
    CHECK_INT(setxattr(service, "trusted.delegate", "0", 1, 0), 0);
    check_place("/cay.service", NULL, base);
}

TEST(a_group_that_was_named_is_used_whatever_was_delegated)
{
    auto_free char *service = NULL, *other = NULL;

    scratch_make();
    service = made("a.service");
    other = made("b.service");
    if (setxattr(service, "trusted.delegate", "1", 1, 0) < 0)
        SKIP("this file system has no trusted attributes");
    check_place("/a.service", "/b.service", other);
    check_place("/a.service", "b.service", other);
}

/* The files of a group, as far as they matter here. */
static struct cgroup fake_parent(const char *usage, const char *stat, const char *pids)
{
    struct cgroup c = {.ops = &cgroup_v2_ops, .caps = {.memory = GIB, .pids = 100}};
    static const char *const names[] = {"memory.current", "memory.stat", "pids.current"};
    const char *const texts[] = {usage, stat, pids};

    for (int i = 0; i < 3; i++) {
        int fd = open(in_base(names[i]), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        CHECK(fd >= 0);
        CHECK_INT(write_all(fd, texts[i], strlen(texts[i])), 0);
        (void)close(fd);
    }
    c.dirs[0] = base;
    return c;
}

TEST(a_box_more_is_refused_by_name_when_all_are_at_their_cap)
{
    struct err err = {0};
    struct cgroup c;

    scratch_make();
    c = fake_parent("1000", "inactive_file 0\nactive_file 0\n", "10");
    CHECK_INT(cgroup_room(&c, &err), 0);
    c = fake_parent("1073000000", "inactive_file 500000000\nactive_file 0\n", "10");
    CHECK_INT(cgroup_room(&c, &err), 0); /* most of it is cache */
    c = fake_parent("1073000000", "inactive_file 5000\nactive_file 0\n", "10");
    CHECK_INT(cgroup_room(&c, &err), -1);
    CHECK_STR(err.code, "machine_full");
    CHECK_INT(err.kind, ERR_UNAVAILABLE);
    err = (struct err){0};
    c = fake_parent("1000", "inactive_file 0\nactive_file 0\n", "98");
    CHECK_INT(cgroup_room(&c, &err), -1);
    CHECK_STR(err.code, "machine_full");
}

TAP_MAIN
