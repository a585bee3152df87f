#include "daemon/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"

/* From this size on memory is a mapping of its own, which goes back to the kernel when it is freed.
 * Left alone, glibc raises the bound with each large block that is freed, up to 32 MiB: long
 * outputs and bodies then come from its heaps, which keep what lies between other blocks. */
#define MAPPED_FROM (1 << 20)

/* That of Debian 12, on which `make check-vm` runs the tests. */
#define KERNEL_MAJOR 6u
#define KERNEL_MINOR 1u

int process_setup(struct err *err)
{
    struct rlimit files;

    /* A descriptor opened later must not become somebody's stderr. */
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return err_sys(err, errno, "open /dev/null as descriptor %d", fd);
    if (close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
        return err_sys(err, errno, "mark descriptors close-on-exec");
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_FROM);
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    return 0;
}

int process_detach(int *ret_ready_fd, struct err *err)
{
    int ready[2];
    char word;
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid;

    if (nothing < 0 || pipe2(ready, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe, or open /dev/null");
    pid = fork();
    if (pid < 0)
        return err_sys(err, errno, "fork");
    if (pid > 0) {
        (void)close(ready[1]);
        _exit(read_some(ready[0], &word, 1) == 1 ? 0 : 1);
    }
    (void)close(ready[0]);
    (void)setsid();
    /* Who reads the caller's output from a pipe would wait for the daemon's end. */
    (void)dup2(nothing, STDIN_FILENO);
    (void)dup2(nothing, STDOUT_FILENO);
    if (nothing > STDERR_FILENO)
        (void)close(nothing);
    *ret_ready_fd = ready[1];
    return 0;
}

int process_check_root(struct err *err)
{
    if (geteuid() == 0)
        return 0;
    return err_set(err, ERR_FORBIDDEN,
                   "must run as root: it gives each sandbox its own user ids, mounts, cgroups and "
                   "disk limit, which Linux lets only root do. Try sudo cay serve, or the systemd "
                   "unit");
}

int process_check_release(const char *release, struct err *err)
{
    unsigned major, minor;

    if (sscanf(release, "%u.%u", &major, &minor) != 2)
        return 0; /* one that numbers otherwise: what it lacks will show */
    if (major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR))
        return 0;
    return err_set(
        err, ERR_UNAVAILABLE,
        "this machine runs Linux %s, and cay needs %u.%u or newer: older ones cannot put "
        "an overlay over id-mapped layers (5.19), which is how each sandbox gets its own "
        "user ids, and nothing before %u.%u is tested",
        release, KERNEL_MAJOR, KERNEL_MINOR, KERNEL_MAJOR, KERNEL_MINOR);
}

int process_check_kernel(struct err *err)
{
    struct utsname name;

    if (uname(&name) < 0)
        return err_sys(err, errno, "uname");
    return process_check_release(name.release, err);
}

static int make_parents(char *path, struct err *err)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        int r;

        *slash = '\0';
        r = mkdir(path, 0755);
        if (r == 0)
            (void)chmod(path, 0755); /* the umask is stricter than a shared parent should be */
        else if (errno != EEXIST)
            return err_sys(err, errno, "make %s", path);
        *slash = '/';
    }
    return 0;
}

int process_folder(const char *path, unsigned mode, char **ret, bool *ret_made, struct err *err)
{
    auto_free char *copy = xstrdup(path), *real = NULL;
    struct stat st;
    bool made;

    if (!*path)
        return err_set(err, ERR_INVALID, "the name of a folder is empty: see CAY_DATA and CAY_RUN");
    if (make_parents(copy, err) < 0)
        return -1;
    made = mkdir(path, mode) == 0;
    if (made)
        (void)chmod(path, mode);
    else if (errno != EEXIST)
        return err_sys(err, errno, "make %s", path);
    real = realpath(path, NULL);
    if (!real || stat(real, &st) < 0)
        return err_sys(err, errno, "look at %s", path);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
        return err_set(err, ERR_CONFLICT,
                       "%s must be a folder of this user that nobody else may write to: chown and "
                       "chmod it, or choose another with CAY_DATA or CAY_RUN",
                       real);
    *ret = steal_ptr(real);
    *ret_made = made;
    return 0;
}

void process_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    size_t len = path ? strlen(path) : 0;
    auto_close int fd = -1;

    if (len == 0 || len >= sizeof(sa.sun_path))
        return;
    memcpy(sa.sun_path, path, len);
    if (path[0] == '@')
        sa.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&sa,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
}

void process_ready(void)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "MAINPID=%d\nREADY=1", getpid());
    process_notify(text);
}
