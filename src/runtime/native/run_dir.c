#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/regular.h"
#include "runtime/native/native_internal.h"

/* How many calls may wait until an agent takes them; the next is refused. More than one sandbox can
 * have at a time (engine/agent_wait_internal.h), so only one that takes none fills it. */
#define BACKLOG 640

char *run_path(const struct native *n, const char *id, const char *name)
{
    return xasprintf("%s/%s/%s", n->run_dir, id, name);
}

int run_dir_make(struct native *n, struct berth *b, struct err *err)
{
    auto_free char *dir = xasprintf("%s/%s", n->run_dir, b->id);
    auto_free char *ctl = run_path(n, b->id, "agent.sock");
    auto_free char *exec = run_path(n, b->id, "exec.sock");

    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make %s", dir);
    b->ctl = unix_listen(ctl, BACKLOG);
    if (b->ctl < 0)
        return err_sys(err, -b->ctl, "listen on %s", ctl);
    b->exec = unix_listen(exec, BACKLOG);
    if (b->exec < 0)
        return err_sys(err, -b->exec, "listen on %s", exec);
    return 0;
}

void run_dir_remove(struct native *n, const char *id)
{
    static const char *const names[] = {"agent.sock", "exec.sock", "pid"};
    auto_free char *dir = xasprintf("%s/%s", n->run_dir, id);

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_free char *path = run_path(n, id, names[i]);

        (void)unlink(path);
    }
    (void)rmdir(dir);
}

void note_box(struct native *n, const struct box *box)
{
    auto_free char *path = run_path(n, box->id, "pid");
    auto_free char *text = xasprintf("%lld %llu %u\n", (long long)box->pid,
                                     (unsigned long long)box->pid_start, box->slot);
    auto_close int fd = regular_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600, NULL);

    if (fd >= 0)
        (void)write_all(fd, text, strlen(text));
}

bool recall_box(const struct native *n, struct box *box)
{
    auto_free char *path = run_path(n, box->id, "pid");
    auto_close int fd = regular_open(AT_FDCWD, path, O_RDONLY, 0, NULL);
    char text[64];
    long long pid;
    unsigned long long start;
    ssize_t len = fd < 0 ? fd : read_some(fd, text, sizeof(text) - 1);

    text[len > 0 ? len : 0] = '\0';
    if (sscanf(text, "%lld %llu %u", &pid, &start, &box->slot) != 3)
        return false;
    box->pid = pid;
    box->pid_start = start;
    return true;
}

void run_dir_each(const struct native *n, void (*found)(const char *id, void *arg), void *arg)
{
    DIR *d = opendir(n->run_dir);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (id_valid(e->d_name, "sbx"))
            found(e->d_name, arg);
    if (d)
        (void)closedir(d);
}
