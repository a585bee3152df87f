#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/escape.h"
#include "cli/odd_files.h"
#include "cli/repair.h"
#include "cli/ui.h"

enum level { LEVEL_OK, LEVEL_WARN, LEVEL_FAIL };

struct finding {
    enum level level;
    char text[1000];  /* what was found */
    char advice[240]; /* what to do; "" when all is well */
};

static void __attribute__((format(printf, 4, 5)))
found(struct finding *f, enum level level, const char *advice, const char *fmt, ...)
{
    va_list ap;

    f->level = level;
    (void)snprintf(f->advice, sizeof(f->advice), "%s", level == LEVEL_OK ? "" : advice);
    va_start(ap, fmt);
    (void)vsnprintf(f->text, sizeof(f->text), fmt, ap);
    va_end(ap);
}

/* A whole file of /proc or /sys, cut at size; "" when it cannot be read. */
static const char *slurp(const char *path, char *text, size_t size)
{
    if (read_file_at(AT_FDCWD, path, text, size) < 0)
        text[0] = '\0';
    return text;
}

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = text; (p = strstr(p, word)); p += n) {
        bool starts = p == text || strchr(" ,\t\n", p[-1]);

        if (starts && (!p[n] || strchr(" ,\t\n", p[n])))
            return true;
    }
    return false;
}

static void kernel_version(unsigned *ret_major, unsigned *ret_minor, struct utsname *u)
{
    *ret_major = *ret_minor = 0;
    if (uname(u) == 0)
        (void)sscanf(u->release, "%u.%u", ret_major, ret_minor);
}

static void check_root(struct finding *f)
{
    if (geteuid() == 0)
        found(f, LEVEL_OK, "", "running as root");
    else
        found(f, LEVEL_FAIL,
              "run `cay serve` as root (sudo cay serve): making namespaces with their own ids, "
              "cgroups and mounts needs it; other commands can then be used by anyone with access "
              "to its socket or token",
              "running as uid %u, not root", (unsigned)geteuid());
}

static void check_kernel(struct finding *f)
{
    struct utsname u = {0};
    unsigned major, minor;

    kernel_version(&major, &minor, &u);
    if (major > 6 || (major == 6 && minor >= 1))
        found(f, LEVEL_OK, "", "Linux %s", u.release);
    else
        found(f, LEVEL_FAIL, "install Linux 6.1 or newer (Debian 12 has it)", "Linux %s is too old",
              u.release);
}

static void check_user_namespaces(struct finding *f)
{
    char text[64];
    uint64_t max = 0;

    slurp("/proc/sys/user/max_user_namespaces", text, sizeof(text));
    text[strcspn(text, "\n")] = '\0';
    if (access("/proc/self/ns/user", F_OK) < 0)
        found(f, LEVEL_FAIL, "use a kernel built with CONFIG_USER_NS", "no user namespaces");
    else if (str_u64(text, &max) < 0 || max == 0)
        found(f, LEVEL_FAIL, "run: sysctl user.max_user_namespaces=10000",
              "user namespaces are switched off");
    else
        found(f, LEVEL_OK, "", "up to %s user namespaces", text);
}

/* Which of the controllers are mounted as v1 hierarchies, from the lines of /proc/mounts. */
static bool v1_has(const char *mounts, const char *controller)
{
    for (const char *line = mounts; line && *line;) {
        size_t n = strcspn(line, "\n");
        auto_free char *one = xstrndup(line, n);

        if (strstr(one, " cgroup ") && has_word(one, controller))
            return true;
        line += n + (line[n] == '\n');
    }
    return false;
}

static void check_cgroups(struct finding *f)
{
    static const char *const wanted[] = {"memory", "pids", "cpu", "freezer"};
    char v2[512];
    auto_free char *mounts = xcalloc(1, 256u << 10);
    char missing[100] = "";
    bool is_v2 = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;

    slurp("/sys/fs/cgroup/cgroup.controllers", v2, sizeof(v2));
    slurp("/proc/mounts", mounts, 256u << 10);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        /* In v2 every cgroup can be frozen; it is no controller there. */
        bool has = is_v2 ? i == 3 || has_word(v2, wanted[i]) : v1_has(mounts, wanted[i]);
        size_t n = strlen(missing);

        if (!has)
            (void)snprintf(missing + n, sizeof(missing) - n, " %s", wanted[i]);
    }
    if (*missing)
        found(f, LEVEL_FAIL,
              is_v2 ? "enable them at boot (for memory: cgroup_enable=memory) or in the container "
                      "that this runs in"
                    : "mount cgroup2 at /sys/fs/cgroup, or the v1 controllers below it",
              "cgroup controllers are missing:%s", missing);
    else
        found(f, LEVEL_OK, "", "cgroup %s with memory, pids, cpu and freezer", is_v2 ? "v2" : "v1");
}

static void check_overlay(struct finding *f)
{
    char text[4096];

    if (has_word(slurp("/proc/filesystems", text, sizeof(text)), "overlay"))
        found(f, LEVEL_OK, "", "overlayfs is there");
    else
        found(f, LEVEL_WARN, "run: modprobe overlay (and see that it is loaded at boot)",
              "overlayfs is not loaded");
}

static void check_idmap(struct finding *f)
{
    struct utsname u = {0};
    unsigned major, minor;

    kernel_version(&major, &minor, &u);
    if (major > 5 || (major == 5 && minor >= 19))
        found(f, LEVEL_OK, "", "idmapped mounts work below overlayfs");
    else
        found(f, LEVEL_FAIL, "install Linux 6.1 or newer", "no idmapped mounts below overlayfs");
}

static void check_loop(struct finding *f)
{
    if (access("/dev/loop-control", R_OK | W_OK) == 0)
        found(f, LEVEL_OK, "", "loop devices can be made");
    else
        found(f, LEVEL_WARN,
              "run: modprobe loop; without it, disk limits need a data folder on a filesystem with "
              "project quotas",
              "/dev/loop-control cannot be used");
}

static void check_mke2fs(struct finding *f)
{
    static const char *const places[] = {"/sbin/mke2fs", "/usr/sbin/mke2fs", "/usr/bin/mke2fs",
                                         "/usr/local/sbin/mke2fs"};

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (access(places[i], X_OK) == 0) {
            found(f, LEVEL_OK, "", "%s", places[i]);
            return;
        }
    }
    found(f, LEVEL_WARN, "install e2fsprogs: it makes the filesystems that limit a sandbox's disk",
          "mke2fs was not found");
}

static void check_seccomp(struct finding *f)
{
    char text[256];

    if (has_word(slurp("/proc/sys/kernel/seccomp/actions_avail", text, sizeof(text)), "errno"))
        found(f, LEVEL_OK, "", "seccomp filters are there");
    else
        found(f, LEVEL_FAIL, "use a kernel built with CONFIG_SECCOMP_FILTER", "no seccomp filters");
}

static void check_core_pattern(struct finding *f)
{
    char text[256];

    slurp("/proc/sys/kernel/core_pattern", text, sizeof(text));
    text[strcspn(text, "\n")] = '\0';
    if (text[0] == '|')
        found(f, LEVEL_WARN,
              "cay forbids core files in sandboxes; to be sure, run: sysctl "
              "kernel.core_pattern=core",
              "crashes are handed to a program on the host: %.100s", text + 1);
    else
        found(f, LEVEL_OK, "", "core files stay where they are written");
}

/* The data folder, or where it will be: it may not be there yet. */
static char *data_folder(void)
{
    const char *data = getenv("CAY_DATA");
    char *path = xstrdup(data && *data == '/' ? data : "/var/lib/cay");

    while (access(path, F_OK) < 0 && path[1]) {
        char *slash = strrchr(path, '/');

        slash[slash == path] = '\0';
    }
    return path;
}

static void check_disk(struct finding *f)
{
    auto_free char *path = data_folder();
    struct statvfs st = {0};
    char size[24];

    (void)statvfs(path, &st);
    ui_size((double)st.f_bavail * (double)st.f_frsize, size);
    if ((double)st.f_bavail * (double)st.f_frsize < (double)(1u << 30))
        found(f, LEVEL_WARN,
              "free some space (`cay image prune` removes unused images), or point CAY_DATA to a "
              "larger filesystem",
              "only %s free at %.80s", size, path);
    else
        found(f, LEVEL_OK, "", "%s free at %.80s", size, path);
}

static void check_files(struct finding *f)
{
    auto_free char *data = data_folder();
    const char *run = getenv("CAY_RUN");
    auto_buf struct buf odd = {0};
    unsigned n;

    buf_init(&odd, sizeof(f->text) - 100);
    n = odd_files_find(data, run && *run == '/' ? run : "/run/cay", &odd);
    if (n > 0)
        found(f, LEVEL_WARN,
              "move them away and restart the daemon; put back what stood there, if it was kept",
              "%u odd file%s: %s%s", n, n == 1 ? "" : "s", odd.data ? odd.data : "",
              n > ODD_FILES_TOLD ? ", …" : "");
    else
        found(f, LEVEL_OK, "", "every file of the daemon is one");
}

/* Layers of images keep file capabilities and overlayfs's own marks as extended attributes. */
static void check_layers(struct finding *f)
{
    auto_free char *path = data_folder();
    auto_close int fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (geteuid() != 0)
        found(f, LEVEL_WARN, "run `cay doctor` as root", "only root can tell what %.80s can hold",
              path);
    else if (fd < 0)
        found(f, LEVEL_WARN, "point CAY_DATA to a folder on a local disk (ext4, xfs, btrfs)",
              "no file can be made in %.80s: %s", path, strerror(errno));
    else if (fsetxattr(fd, "trusted.overlay.cay", "y", 1, 0) < 0)
        found(f, LEVEL_WARN, "point CAY_DATA to a folder on a local disk (ext4, xfs, btrfs)",
              "%.80s holds no extended attributes, which images with several layers need (%s)",
              path, strerror(errno));
    else
        found(f, LEVEL_OK, "", "%.80s can hold the layers of images", path);
}

/* Nothing is asked over the network here: only whether a pull has what it needs. */
static void check_pulls(struct finding *f)
{
    char text[4096];

    if (access("/etc/ssl/certs/ca-certificates.crt", R_OK) < 0)
        found(f, LEVEL_WARN, "install ca-certificates, or name your own CA (docs/images.md)",
              "there are no certificates to check registries by");
    else if (!has_word(slurp("/etc/resolv.conf", text, sizeof(text)), "nameserver"))
        found(f, LEVEL_WARN, "name one in /etc/resolv.conf, or import images from files",
              "no name server is configured: registries cannot be found");
    else
        found(f, LEVEL_OK, "", "certificates and a name server for registries are there");
}

/* Whether sandboxes can have a network. Docker drops what the host forwards for others, and only
 * its own tables can allow it. */
static void check_networks(struct finding *f)
{
    auto_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

    if (fd < 0)
        found(f, LEVEL_WARN, "load nf_tables, or use a kernel that has it",
              "sandboxes can have no network: the kernel has no nf_tables (%s)", strerror(errno));
    else if (access("/sys/class/net/docker0", F_OK) == 0)
        found(f, LEVEL_WARN,
              "let it pass: iptables -I DOCKER-USER -i cay-+ -j ACCEPT; iptables -I DOCKER-USER -o "
              "cay-+ -j ACCEPT (docs/troubleshooting.md)",
              "Docker may drop what sandboxes with a network send");
    else
        found(f, LEVEL_OK, "", "the kernel has nf_tables, for sandboxes with a network");
}

static void check_memory(struct finding *f)
{
    char text[2048];
    const char *line;
    unsigned long long kb = 0;
    char size[24];

    line = strstr(slurp("/proc/meminfo", text, sizeof(text)), "MemAvailable:");
    if (line)
        (void)sscanf(line, "MemAvailable: %llu", &kb);
    ui_size((double)kb * 1024, size);
    if (kb < 512 * 1024)
        found(f, LEVEL_WARN, "a sandbox may use 512 MB unless it is made with less (--memory)",
              "only %s of memory available", size);
    else
        found(f, LEVEL_OK, "", "%s of memory available", size);
}

struct check {
    const char *name;
    void (*run)(struct finding *f);
};

static const struct check checks[] = {
    {"root", check_root},
    {"kernel", check_kernel},
    {"user-namespaces", check_user_namespaces},
    {"cgroups", check_cgroups},
    {"overlayfs", check_overlay},
    {"idmapped-mounts", check_idmap},
    {"loop-devices", check_loop},
    {"mke2fs", check_mke2fs},
    {"seccomp", check_seccomp},
    {"core-pattern", check_core_pattern},
    {"disk", check_disk},
    {"files", check_files},
    {"image-layers", check_layers},
    {"image-pulls", check_pulls},
    {"networks", check_networks},
    {"memory", check_memory},
};

/* The first of them: they are few, and /health has the others. */
static void tell_problems(const json_t *problems, const struct api *api, struct finding *f)
{
    const json_t *first = json_array_get(problems, 0);
    const char *text = json_text(first, "text"), *id = json_text(first, "sandboxId");
    char more[48] = "";

    if (json_array_size(problems) > 1)
        (void)snprintf(more, sizeof(more), ", and %zu more", json_array_size(problems) - 1);
    found(f, LEVEL_WARN, "`problems` of GET /sandbox/health has all, and its log says more",
          "the daemon at %s has a problem: %.40s%s%.40s%s%.100s%s", api->target,
          json_text(first, "what"), *id ? " " : "", id, *text ? ": " : "", text, more);
}

static void check_daemon(const struct args *args, struct finding *f)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *health = NULL;
    const char *version;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "GET", NULL, &health, &err, "/health") < 0) {
        if (api_no_daemon() && api.target)
            (void)err_set(&err, ERR_UNAVAILABLE, "no daemon answers at %s", api.target);
        found(f, LEVEL_WARN, "start one with `cay serve`; `cay run` also works without", "%s",
              err.text);
        return;
    }
    version = json_text(health, "version");
    if (*version && strcmp(version, CAY_VERSION) != 0)
        found(f, LEVEL_WARN, "restart the daemon, so that both are the same; sandboxes go on",
              "the daemon at %s is %.40s, this is " CAY_VERSION, api.target, version);
    else if (json_array_size(json_object_get(health, "problems")) > 0)
        tell_problems(json_object_get(health, "problems"), &api, f);
    else
        found(f, LEVEL_OK, "", "a daemon answers at %s%s%.40s", api.target,
              *version ? ", version " : "", version);
    json_decref(health);
}

static void put_life(const json_t *limits, char text[48])
{
    if (json_object_get(limits, "timeoutMax"))
        (void)snprintf(text, 48, "%.10g seconds", json_num(limits, "timeoutMax"));
    else
        (void)snprintf(text, 48, "any time");
}

/* What callers may ask for, as the operator has set it. */
static void check_limits(const struct args *args, struct finding *f)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *info = NULL;
    const json_t *limits;
    char life[48];

    if (api_open(&api, args, &err) < 0 || api_call(&api, "GET", NULL, &info, &err, "/info") < 0) {
        found(f, LEVEL_WARN, "ask a daemon, as root or with its token",
              "cannot tell what a sandbox may have");
        return;
    }
    limits = json_object_get(info, "limits");
    put_life(limits, life);
    found(
        f, LEVEL_OK, "",
        "a sandbox may have %.10g MB, %.10g cores, %.10g processes and %s (CAY_MAX_…); %.10g at a "
        "time",
        json_num(limits, "memoryMaxMb"), json_num(limits, "cpuMax"), json_num(limits, "pidsMax"),
        life, json_num(limits, "maxSandboxes"));
    json_decref(info);
}

/* Tokens keep nobody out while others need none. */
static void check_tokens(const struct args *args, struct finding *f)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL;
    size_t n;

    if (api_open(&api, args, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/tokens") < 0) {
        found(f, LEVEL_WARN, "ask a daemon of this version, as root or with its token",
              "cannot tell who has a token");
        return;
    }
    n = json_array_size(json_object_get(answer, "tokens"));
    if (n > 0 && *json_text(answer, "warning"))
        found(f, LEVEL_WARN, "", "%zu token%s of `cay token create`, but %s", n, n == 1 ? "" : "s",
              json_text(answer, "warning"));
    else
        found(f, LEVEL_OK, "", "%zu token%s of `cay token create`", n, n == 1 ? "" : "s");
    json_decref(answer);
}

static void check_strays(const struct args *args, struct finding *f)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL;
    const json_t *strays;
    char size[24];

    if (api_open(&api, args, &err) < 0 || strays_ask(&api, &answer, &err) < 0) {
        found(f, LEVEL_WARN, "ask a daemon of this version, as root or with its token",
              "cannot tell which disks belong to no sandbox");
        return;
    }
    strays = json_object_get(answer, "strays");
    ui_size(json_num(answer, "bytes"), size);
    if (json_array_size(strays) == 0)
        found(f, LEVEL_OK, "", "every disk belongs to a sandbox");
    else
        found(f, LEVEL_WARN,
              "`cay doctor --repair adopt` makes stopped sandboxes of them, `cay doctor --repair "
              "remove` removes them; both show them first",
              "%zu with %s belong to no sandbox, as %s", json_array_size(strays), size,
              json_text(json_array_get(strays, 0), "path"));
    json_decref(answer);
}

static void print_finding(const char *name, const struct finding *f)
{
    static const char *const words[] = {"ok", "warn", "fail"};
    static const char *const colors[] = {"\033[32m", "\033[33m", "\033[31m"};
    auto_free char *text = escape_text(ESCAPE_CELL, f->text);
    bool color = ui_has_color(STDOUT_FILENO);

    printf("%s%-4s%s  %-16s  %s\n", color ? colors[f->level] : "", words[f->level],
           color ? "\033[0m" : "", name, text);
    if (*f->advice)
        printf("%24s%s\n", "", f->advice);
}

static void add_json(json_t *all, const char *name, const struct finding *f)
{
    static const char *const words[] = {"ok", "warn", "fail"};

    (void)json_array_append_new(all,
                                json_pack("{s:s, s:s, s:s, s:s}", "check", name, "level",
                                          words[f->level], "text", f->text, "advice", f->advice));
}

int cmd_doctor(struct args *args)
{
    /* Those of the daemon come last. */
    static const struct {
        const char *name;
        void (*run)(const struct args *args, struct finding *f);
    } asked[] = {{"daemon", check_daemon},
                 {"limits", check_limits},
                 {"tokens", check_tokens},
                 {"strays", check_strays}};
    json_t *all;
    bool failed = false;

    if (args_has(args, "repair"))
        return repair(args);
    all = json_array();
    for (size_t i = 0; i < ARRAY_LEN(checks) + ARRAY_LEN(asked); i++) {
        bool here = i < ARRAY_LEN(checks);
        size_t at = here ? i : i - ARRAY_LEN(checks);
        const char *name = here ? checks[at].name : asked[at].name;
        struct finding f = {0};

        if (here)
            checks[at].run(&f);
        else
            asked[at].run(args, &f);
        failed |= f.level == LEVEL_FAIL;
        if (args_has(args, "json"))
            add_json(all, name, &f);
        else
            print_finding(name, &f);
    }
    if (args_has(args, "json"))
        ui_json(all);
    json_decref(all);
    return failed ? STATUS_FAILED : STATUS_OK;
}
