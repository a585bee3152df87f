/* Credential helpers: docker-credential-NAME get, with the host on its standard input and
 * {"Username":…,"Secret":…} on its output. The name comes from a file, so the program has to be the
 * operator's. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "registry/registry_internal.h"

#define OUTPUT_MAX (64u << 10)
#define TIMEOUT_NS (INT64_C(30) * 1000000000)

/* The name that a helper gives when its secret is a token to get tokens with. */
#define IDENTITY_USER "<token>"

static int bad(struct err *err, const char *name, const char *why)
{
    return err_code(err, ERR_INVALID, "bad_docker_config", "docker-credential-%.40s %s", name, why);
}

static bool name_ok(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

    return name[0] && strlen(name) <= 64 && strspn(name, allowed) == strlen(name);
}

static bool is_roots(int dirfd, const char *name, mode_t type)
{
    struct stat st;

    return fstatat(dirfd, name, &st, 0) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == 0 &&
           !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* Absolute path of the program; free it. NULL when no folder has one that may be run. */
static char *find_program(const char *const *dirs, const char *name)
{
    for (size_t i = 0; dirs[i]; i++) {
        char *path = xasprintf("%s/docker-credential-%s", dirs[i], name);

        if (is_roots(AT_FDCWD, dirs[i], S_IFDIR) && is_roots(AT_FDCWD, path, S_IFREG) &&
            access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

/* A file, not a pipe: the helper may end without reading it. */
static int input_file(const char *host, int *ret_fd)
{
    auto_close int fd = memfd_create("host", MFD_CLOEXEC);

    if (fd < 0 || write_all(fd, host, strlen(host)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    *ret_fd = steal_fd(fd);
    return 0;
}

/* In a process group of its own, so that all it starts can be ended. */
static int spawn(const char *path, int in, int out, pid_t *ret_pid)
{
    static char get[] = "get";
    char *argv[] = {(char *)(uintptr_t)path, get, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    int r;

    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawn_file_actions_adddup2(&files, in, 0);
    (void)posix_spawn_file_actions_adddup2(&files, out, 1);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    (void)posix_spawnattr_setpgroup(&attr, 0);
    r = posix_spawn(ret_pid, path, &files, &attr, argv, environ);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&files);
    return -r;
}

/* Until there is something to read: 0 or -errno. */
static int wait_for(int fd, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    for (;;) {
        int64_t left = (deadline - mono_ns()) / 1000000;
        int n = left > 0 ? poll(&p, 1, (int)left) : 0;

        if (n > 0)
            return 0;
        if (n == 0)
            return -ETIMEDOUT;
        if (errno != EINTR)
            return -errno;
    }
}

/* All that it says, until the end or the deadline: 0 or -errno. */
static int read_output(int fd, int64_t deadline, struct buf *out)
{
    for (;;) {
        char *room = buf_room(out, 4096);
        ssize_t got;
        int r;

        if (!room)
            return -EMSGSIZE;
        r = wait_for(fd, deadline);
        if (r < 0)
            return r;
        got = read_some(fd, room, 4096);
        if (got <= 0)
            return (int)got;
        out->len += (size_t)got;
    }
}

/* 0 and *ret_ok: did it end well? */
static int run(const char *path, const char *host, struct buf *out, bool *ret_ok)
{
    auto_close int in = -1, from = -1, to = -1, process = -1;
    int64_t deadline = mono_ns() + TIMEOUT_NS;
    int pair[2], r, status = 0;
    pid_t pid;

    r = input_file(host, &in);
    if (r < 0)
        return r;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    from = pair[0];
    to = pair[1];
    r = spawn(path, in, to, &pid);
    if (r < 0)
        return r;
    close_fd(&to);
    process = pidfd_open(pid, 0);
    r = read_output(from, deadline, out);
    if (r == 0)
        r = process < 0 ? -EMFILE : wait_for(process, deadline);
    if (r < 0)
        (void)kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    *ret_ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return r;
}

static int take(const char *name, const struct buf *out, struct credentials *ret, struct err *err)
{
    json_t *root = json_loadb(out->data ? out->data : "", out->len, 0, NULL);
    const char *user = json_string_value(json_object_get(root, "Username"));
    const char *secret = json_string_value(json_object_get(root, "Secret"));
    int r = 0;

    if (!user || !secret || strchr(user, ':')) {
        r = bad(err, name, "answered with no user name and secret");
    } else if (strcmp(user, IDENTITY_USER) == 0) {
        ret->identity = xstrdup(secret);
    } else if (user[0]) {
        ret->username = xstrdup(user);
        ret->password = xstrdup(secret);
    }
    json_decref(root);
    return r;
}

int helper_ask(const char *const *dirs, const char *name, const char *host, struct credentials *ret,
               struct err *err)
{
    auto_free char *path = NULL;
    auto_buf struct buf out;
    bool ok = false;
    int r;

    buf_init(&out, OUTPUT_MAX);
    if (!name_ok(name))
        return err_code(err, ERR_INVALID, "bad_docker_config",
                        "a credential helper has a name of letters, digits, '-' and '_'");
    path = find_program(dirs, name);
    if (!path)
        return bad(err, name,
                   "is not in /usr/local/bin or /usr/bin, or is not root's alone: install it, or "
                   "take it out of the file");
    r = run(path, host, &out, &ok);
    if (r == -ETIMEDOUT)
        r = bad(err, name, "did not answer within 30 seconds");
    else if (r < 0)
        r = bad(err, name, strerror(-r));
    else if (ok)
        r = take(name, &out, ret, err);
    else if (!out.data || !memmem(out.data, out.len, "credentials not found", 21))
        r = bad(err, name, "failed: run it by hand to see why");
    if (out.data)
        explicit_bzero(out.data, out.len);
    return r;
}
