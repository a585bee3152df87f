#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "launch/attach_internal.h"
#include "launch/launch_internal.h"

/* Finds the processes of a box that have something of a mount open, in the host's /proc. What they
 * call themselves and their files is theirs to choose: only printable characters are sent.
 *
 * For the command line and the mappings of a process the kernel takes its mmap lock, which a
 * sandbox can keep held for minutes (agent/command_lines.h). The kernel ends that wait only when
 * the reader is killed. So the search is a process of its own, which the daemon kills when its time
 * is over, and it first sends what needs no such lock. */

#define LOOKS_MAX 100000 /* at files and mappings: a box can have millions of them */

struct search {
    uint64_t device;
    int to;
    unsigned looks;
    struct plan_holder found[PLAN_HOLDERS_MAX];
    int64_t pids[PLAN_HOLDERS_MAX]; /* of those, on the host */
    size_t n;
};

static void copy_clean(char *to, size_t size, const char *from)
{
    size_t i = 0;

    for (; from[i] && i + 1 < size; i++)
        to[i] = from[i] >= ' ' && from[i] < 127 ? from[i] : '?';
    to[i] = '\0';
}

/* The last number after NSpid is the one in the innermost pid namespace, the box's. */
static int64_t pid_inside(int proc)
{
    char text[8192];
    const char *at, *end;

    if (read_file_at(proc, "status", text, sizeof(text)) <= 0)
        return 0;
    at = strstr(text, "\nNSpid:");
    if (!at)
        return 0;
    end = strchr(at + 1, '\n');
    while (end && end > at && end[-1] != '\t' && end[-1] != ' ')
        end--;
    return end ? strtoll(end, NULL, 10) : 0;
}

static int open_process(int64_t pid)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/%lld", (long long)pid);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Sent again when more of it is known. */
static void send_holder(const struct search *s, size_t i)
{
    if (write_all(s->to, &s->found[i], sizeof(s->found[i])) < 0)
        _exit(0);
}

/* With the name of its program, which needs no lock. */
static void add_holder(struct search *s, int64_t pid, int proc, const char *path)
{
    struct plan_holder *h = &s->found[s->n];
    char name[32] = "", text[40];

    if (read_file_at(proc, "comm", name, sizeof(name)) > 0)
        name[strcspn(name, "\n")] = '\0';
    (void)snprintf(text, sizeof(text), "[%s]", name);
    h->pid = pid_inside(proc);
    copy_clean(h->command, sizeof(h->command), text);
    copy_clean(h->path, sizeof(h->path), path);
    s->pids[s->n] = pid;
    send_holder(s, s->n++);
}

static void read_command(struct search *s, size_t i)
{
    auto_close int proc = open_process(s->pids[i]);
    char text[256];
    ssize_t n = proc < 0 ? 0 : read_file_at(proc, "cmdline", text, sizeof(text));

    if (n <= 0)
        return;
    for (ssize_t k = 0; k + 1 < n; k++)
        if (text[k] == '\0')
            text[k] = ' ';
    copy_clean(s->found[i].command, sizeof(s->found[i].command), text);
    send_holder(s, i);
}

static bool goes_on(struct search *s)
{
    return s->looks++ < LOOKS_MAX;
}

/* One link of /proc: is what it leads to on the device? Nothing is opened. */
static bool link_holds(const struct search *s, int dir, const char *name, char *path, size_t size)
{
    struct stat st;
    ssize_t n;

    if (fstatat(dir, name, &st, 0) < 0 || st.st_dev != s->device)
        return false;
    n = readlinkat(dir, name, path, size - 1);
    path[n > 0 ? n : 0] = '\0';
    return true;
}

static bool file_holds(struct search *s, int proc, char *path, size_t size)
{
    int fd = openat(proc, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    bool holds = false;

    if (!dir && fd >= 0)
        (void)close(fd);
    while (dir && !holds && goes_on(s) && (e = readdir(dir)))
        holds = !str_is_dot(e->d_name) && link_holds(s, dirfd(dir), e->d_name, path, size);
    if (dir)
        (void)closedir(dir);
    return holds;
}

/* "55d0-55d1 r--p 0000 07:05 12   /data/lib.so" */
static bool mapping_holds(struct search *s, int proc, char *path, size_t size)
{
    int fd = openat(proc, "maps", O_RDONLY | O_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    auto_free char *line = NULL;
    size_t room = 0;
    bool holds = false;

    if (!f && fd >= 0)
        (void)close(fd);
    while (f && !holds && goes_on(s) && getline(&line, &room, f) > 0) {
        unsigned major_number, minor_number;
        const char *name = strchr(line, '/');

        holds = sscanf(line, "%*s %*s %*s %x:%x", &major_number, &minor_number) == 2 &&
                makedev(major_number, minor_number) == s->device;
        if (holds) {
            (void)snprintf(path, size, "%s", name ? name : "");
            path[strcspn(path, "\n")] = '\0';
        }
    }
    if (f)
        (void)fclose(f);
    return holds;
}

/* A process is sent with the first file that is found. */
static void look_at_files(struct search *s, int64_t pid)
{
    static const char *const links[] = {"cwd", "root", "exe"};
    auto_close int proc = open_process(pid);
    char path[4096];
    bool holds = false;

    if (proc < 0)
        return;
    for (size_t i = 0; !holds && i < ARRAY_LEN(links); i++)
        holds = link_holds(s, proc, links[i], path, sizeof(path));
    if (holds || file_holds(s, proc, path, sizeof(path)))
        add_holder(s, pid, proc, path);
}

static void look_at_mappings(struct search *s, int64_t pid)
{
    auto_close int proc = -1;
    char path[4096];

    for (size_t i = 0; i < s->n; i++)
        if (s->pids[i] == pid)
            return;
    proc = open_process(pid);
    if (proc >= 0 && mapping_holds(s, proc, path, sizeof(path)))
        add_holder(s, pid, proc, path);
}

static void each_process(struct search *s, char *const *groups,
                         void (*look)(struct search *s, int64_t pid))
{
    auto_free char *path = groups && groups[0] ? xasprintf("%s/cgroup.procs", groups[0]) : NULL;
    FILE *f = path ? fopen(path, "re") : NULL;
    long long pid;

    while (f && s->n < PLAN_HOLDERS_MAX && fscanf(f, "%lld", &pid) == 1)
        look(s, pid);
    if (f)
        (void)fclose(f);
}

static void search(const struct plan *plan, int to)
{
    static struct search s;
    size_t named = 0;

    s.device = plan->mounts[0].device;
    s.to = to;
    each_process(&s, plan->agent, look_at_files);
    each_process(&s, plan->work, look_at_files);
    for (; named < s.n; named++)
        read_command(&s, named);
    each_process(&s, plan->agent, look_at_mappings);
    each_process(&s, plan->work, look_at_mappings);
    for (; named < s.n; named++)
        read_command(&s, named);
}

int launch_find_holders(const struct plan *plan, const int *fds, size_t n_fds, int *ret_pidfd,
                        const char **step)
{
    pid_t pid;

    *step = "read the plan";
    if (plan->n_mounts != 1 || n_fds != 1)
        return -EPROTO;
    *step = "start a process for a search";
    pid = fork_helper(ret_pidfd);
    if (pid != 0)
        return pid < 0 ? (int)pid : 0;
    search(plan, fds[0]);
    _exit(0);
}
