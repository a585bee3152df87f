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
#include "runtime/native/native_internal.h"

/* Who in a box has something of a mount open, read from the host's /proc. What the box's processes
 * call themselves and their files is theirs to choose: only printable characters are told. */

#define LOOKS_MAX 100000

struct search {
    uint64_t device;
    unsigned looks; /* at files and mappings so far: a box can have millions of them */
    struct box_holder *found;
    size_t n, max;
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

static void read_command(int proc, char *ret, size_t size)
{
    char text[256];
    ssize_t n = read_file_at(proc, "cmdline", text, sizeof(text));

    for (ssize_t i = 0; i + 1 < n; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    if (n <= 0 && read_file_at(proc, "comm", text, sizeof(text)) > 0)
        text[strcspn(text, "\n")] = '\0';
    else if (n <= 0)
        text[0] = '\0';
    copy_clean(ret, size, text);
}

static void tell(struct search *s, int proc, const char *path)
{
    struct box_holder *h = &s->found[s->n++];

    h->pid = pid_inside(proc);
    read_command(proc, h->command, sizeof(h->command));
    copy_clean(h->path, sizeof(h->path), path);
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

/* A process is told once, with the first that is found. */
static void look_at(int64_t pid, void *arg)
{
    struct search *s = arg;
    static const char *const links[] = {"cwd", "root", "exe"};
    auto_close int proc = -1;
    char path[4096];
    bool holds = false;

    (void)snprintf(path, sizeof(path), "/proc/%lld", (long long)pid);
    proc = s->n < s->max ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (proc < 0)
        return;
    for (size_t i = 0; !holds && i < ARRAY_LEN(links); i++)
        holds = link_holds(s, proc, links[i], path, sizeof(path));
    if (holds || file_holds(s, proc, path, sizeof(path)) ||
        mapping_holds(s, proc, path, sizeof(path)))
        tell(s, proc, path);
}

static void each_in(char *const *groups, void (*found)(int64_t pid, void *arg), void *arg)
{
    auto_free char *path = groups && groups[0] ? xasprintf("%s/cgroup.procs", groups[0]) : NULL;
    FILE *f = path ? fopen(path, "re") : NULL;
    long long pid;

    while (f && fscanf(f, "%lld", &pid) == 1)
        found(pid, arg);
    if (f)
        (void)fclose(f);
}

void box_each_process(struct native *n, const char *id, void (*found)(int64_t pid, void *arg),
                      void *arg)
{
    auto_strv char **work = n->cgroup.ops->work_dirs(&n->cgroup, id);
    auto_strv char **agent = n->cgroup.ops->agent_dirs(&n->cgroup, id);

    each_in(agent, found, arg);
    each_in(work, found, arg);
}

size_t native_holders(struct runtime *rt, const struct box *box, uint64_t device,
                      struct box_holder *ret, size_t max)
{
    struct search s = {.device = device, .found = ret, .max = max};

    box_each_process(native_of(rt), box->id, look_at, &s);
    return s.n;
}
