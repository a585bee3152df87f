/* What a process can do here, as JSON. Static, so that it runs in any root and outside as a
 * control.
 *
 *   probe info                     ids, capabilities, namespaces, descriptors, limits
 *   probe syscalls                 a verdict for each number: allow, EPERM, ENOSYS, killed
 *   probe call NR [ARG...]         one call; an argument is a number or s:text
 *   probe writable DIR...          regular files below that open for writing
 *   probe devices                  mknod of every major with some minors, char and block
 *   probe foreign                  the same calls by int $0x80 and with x32 numbers
 *   probe ioctl REQUEST            on a new pty's slave, with a byte to push
 *   probe setuid FILE              makes FILE a setuid copy of this program, for a later `info`
 *   probe setns                    enters each namespace that a file in /proc leads to
 *   probe unix NAME                connect to an abstract socket
 *   probe lease FILE FOLDER        a lease on one, dnotify on the other
 *   probe hold FILE READY          locks it in two ways, makes the file READY and waits to be
 * killed probe try FILE                 the same locks, without waiting probe watch PATH FOLDER
 * what inotify tells of PATH: from the time that FOLDER/ready is there until somebody makes
 * FOLDER/end
 *   probe swap TARGET NAME COUNT   puts a link in place of NAME0, NAME1 … when they come
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void quote(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 32 || c > 126)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static const char *error_name(int e)
{
    static const struct {
        int value;
        const char *name;
    } names[] = {
        {0, "0"},
        {EPERM, "EPERM"},
        {ENOENT, "ENOENT"},
        {ESRCH, "ESRCH"},
        {EINTR, "EINTR"},
        {EIO, "EIO"},
        {ENXIO, "ENXIO"},
        {EBADF, "EBADF"},
        {EAGAIN, "EAGAIN"},
        {ENOMEM, "ENOMEM"},
        {EACCES, "EACCES"},
        {EFAULT, "EFAULT"},
        {EBUSY, "EBUSY"},
        {EEXIST, "EEXIST"},
        {ENODEV, "ENODEV"},
        {ENOTDIR, "ENOTDIR"},
        {EISDIR, "EISDIR"},
        {EINVAL, "EINVAL"},
        {EMFILE, "EMFILE"},
        {ENOTTY, "ENOTTY"},
        {ETXTBSY, "ETXTBSY"},
        {ENOSPC, "ENOSPC"},
        {EROFS, "EROFS"},
        {ENOSYS, "ENOSYS"},
        {ELOOP, "ELOOP"},
        {ECONNREFUSED, "ECONNREFUSED"},
        {EAFNOSUPPORT, "EAFNOSUPPORT"},
        {EPROTONOSUPPORT, "EPROTONOSUPPORT"},
        {ESOCKTNOSUPPORT, "ESOCKTNOSUPPORT"},
        {EOPNOTSUPP, "EOPNOTSUPP"},
    };
    static char other[16];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].value == e)
            return names[i].name;
    snprintf(other, sizeof(other), "%d", e);
    return other;
}

/* "Key:\tvalue" lines of /proc/self/status that tell about privileges. */
static void print_status(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[4096];

    while (f && fgets(line, sizeof(line), f)) {
        char *value = strchr(line, ':');

        if (!value || (strncmp(line, "Cap", 3) != 0 && strncmp(line, "NoNewPrivs", 10) != 0 &&
                       strncmp(line, "Seccomp", 7) != 0 && strncmp(line, "Groups", 6) != 0))
            continue;
        *value++ = '\0';
        while (*value == '\t' || *value == ' ')
            value++;
        value[strcspn(value, "\n")] = '\0';
        quote(line);
        printf(": ");
        quote(value);
        printf(",\n");
    }
    if (f)
        fclose(f);
}

static void print_links(const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    const char *between = "";

    printf("{");
    while (d && (e = readdir(d))) {
        char path[PATH_MAX], target[PATH_MAX] = "";

        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        if (readlink(path, target, sizeof(target) - 1) < 0)
            snprintf(target, sizeof(target), "!%s", error_name(errno));
        if (atoi(e->d_name) == dirfd(d) && strcmp(folder, "/proc/self/fd") == 0)
            continue;
        printf("%s", between);
        quote(e->d_name);
        printf(": ");
        quote(target);
        between = ", ";
    }
    printf("}");
    if (d)
        closedir(d);
}

static int info(void)
{
    gid_t groups[64];
    int n = getgroups(64, groups);
    uid_t r, e, s;
    gid_t gr, ge, gs;
    char cwd[PATH_MAX] = "";

    getresuid(&r, &e, &s);
    getresgid(&gr, &ge, &gs);
    printf("{\"uids\": [%u, %u, %u], \"gids\": [%u, %u, %u], \"groups\": [", r, e, s, gr, ge, gs);
    for (int i = 0; i < n; i++)
        printf("%s%u", i ? ", " : "", groups[i]);
    printf("],\n");
    print_status();
    printf("\"securebits\": %d, \"dumpable\": %d, \"pid\": %d, \"ppid\": %d,\n",
           prctl(PR_GET_SECUREBITS), prctl(PR_GET_DUMPABLE), getpid(), getppid());
    if (!getcwd(cwd, sizeof(cwd)))
        snprintf(cwd, sizeof(cwd), "!%s", error_name(errno));
    printf("\"cwd\": ");
    quote(cwd);
    printf(",\n\"namespaces\": ");
    print_links("/proc/self/ns");
    printf(",\n\"fds\": ");
    print_links("/proc/self/fd");
    printf(",\n\"limits\": [");
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit l = {0};

        getrlimit(i, &l);
        printf("%s[%lld, %lld]", i ? ", " : "", (long long)l.rlim_cur, (long long)l.rlim_max);
    }
    printf("]}\n");
    return 0;
}

/* Each call in a child of its own with arguments that no call can use. A child that neither returns
 * nor dies was let in and waits: that is an answer too. */
static void verdict(long nr, char *ret, size_t size)
{
    int pipes[2];
    pid_t child;
    int status, e = -1;
    ssize_t n;

    if (nr == SYS_exit || nr == SYS_exit_group || nr == SYS_pause || nr == SYS_rt_sigreturn ||
        nr == SYS_vfork) {
        snprintf(ret, size, "allow");
        return;
    }
    if (pipe(pipes) < 0 || (child = fork()) < 0) {
        snprintf(ret, size, "?%s", error_name(errno));
        return;
    }
    if (child == 0) {
        long r;

        close(pipes[0]);
        alarm(2);
        errno = 0;
        r = syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L);
        e = r == -1 ? errno : 0;
        if (getppid() == 0)
            _exit(0);
        if (write(pipes[1], &e, sizeof(e)) < 0)
            _exit(1);
        _exit(0);
    }
    close(pipes[1]);
    n = read(pipes[0], &e, sizeof(e));
    close(pipes[0]);
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
        snprintf(ret, size, "killed");
    else if (n == sizeof(e) && (e == EPERM || e == ENOSYS))
        snprintf(ret, size, "%s", error_name(e));
    else
        snprintf(ret, size, "allow");
}

static int syscalls(void)
{
    printf("{");
    for (long nr = 0; nr <= 520; nr++) {
        char word[32];

        if (nr >= 335 && nr < 424) /* never used on this architecture */
            continue;
        fflush(stdout);
        verdict(nr, word, sizeof(word));
        printf("%s\"%ld\": \"%s\"", nr ? ", " : "", nr, word);
    }
    printf("}\n");
    return 0;
}

static int call(int argc, char **argv)
{
    long a[7] = {0};
    long r;

    for (int i = 0; i < argc && i < 7; i++)
        a[i] =
            strncmp(argv[i], "s:", 2) == 0 ? (long)(argv[i] + 2) : (long)strtoull(argv[i], NULL, 0);
    errno = 0;
    r = syscall(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
    printf("{\"ret\": %ld, \"errno\": \"%s\"}\n", r, r == -1 ? error_name(errno) : "0");
    return 0;
}

static const char *between_files = "";

static void walk(const char *folder, int depth)
{
    DIR *d = opendir(folder);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        char path[PATH_MAX];
        struct stat st;
        int fd;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        if (lstat(path, &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode) && depth < 12)
            walk(path, depth + 1);
        if (!S_ISREG(st.st_mode))
            continue;
        fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
            continue;
        close(fd);
        printf("%s", between_files);
        quote(path);
        between_files = ", ";
    }
    if (d)
        closedir(d);
}

static int devices(void)
{
    static const unsigned minors[] = {0, 1, 2, 3, 5, 8, 9, 63, 200, 229, 232, 237, 255};
    unsigned made = 0, used = 0, tried = 0;

    for (unsigned type = 0; type < 2; type++)
        for (unsigned major = 1; major <= 255; major++)
            for (size_t i = 0; i < sizeof(minors) / sizeof(minors[0]); i++) {
                int fd;

                tried++;
                unlink("probe-node");
                if (mknod("probe-node", (type ? S_IFBLK : S_IFCHR) | 0600,
                          makedev(major, minors[i])) < 0)
                    continue;
                made++;
                fd = open("probe-node", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
                if (fd >= 0) {
                    used++;
                    close(fd);
                }
            }
    unlink("probe-node");
    printf("{\"tried\": %u, \"made\": %u, \"opened\": %u}\n", tried, made, used);
    return 0;
}

#if defined(__x86_64__)
static long call32(long nr)
{
    long r;

    __asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(1), "c"(0), "d"(0) : "memory");
    return r;
}

static void foreign_one(const char *name, int x32, long nr)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        long r = x32 ? syscall(nr | 0x40000000L) : call32(nr);

        if (x32)
            _exit(r >= 0 ? 0 : (errno & 0x7f));
        _exit(r >= 0 ? 0 : (int)(-r & 0x7f));
    }
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("\"%s\": \"signal %d\"", name, WTERMSIG(status));
    else
        printf("\"%s\": \"%s\"", name, error_name(WEXITSTATUS(status)));
}

static int foreign(void)
{
    printf("{");
    fflush(stdout);
    foreign_one("i386 getpid", 0, 20);
    printf(", ");
    fflush(stdout);
    foreign_one("i386 socketcall", 0, 102);
    printf(", ");
    fflush(stdout);
    foreign_one("x32 getpid", 1, 39);
    printf(", ");
    fflush(stdout);
    foreign_one("x32 socket", 1, 41);
    printf("}\n");
    return 0;
}
#else
static int foreign(void)
{
    printf("{}\n");
    return 0;
}
#endif

/* Pushing a byte into the terminal's input, as a program on a shared terminal would. */
static int terminal(const char *request)
{
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), slave, n = 0, unlock = 0;
    char path[64], c = 'x';
    long r;

    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 || ioctl(master, TIOCGPTN, &n) < 0) {
        printf("{\"errno\": \"no pty: %s\"}\n", error_name(errno));
        return 0;
    }
    snprintf(path, sizeof(path), "/dev/pts/%d", n);
    setsid();
    slave = open(path, O_RDWR | O_CLOEXEC); /* becomes our controlling terminal */
    errno = 0;
    r = syscall(SYS_ioctl, slave, strtoull(request, NULL, 0), &c);
    printf("{\"ret\": %ld, \"errno\": \"%s\"}\n", r, r == -1 ? error_name(errno) : "0");
    return 0;
}

static int copy_setuid(const char *path)
{
    char data[65536];
    int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    ssize_t n;

    while (in >= 0 && out >= 0 && (n = read(in, data, sizeof(data))) > 0)
        if (write(out, data, (size_t)n) != n)
            return 1;
    if (out < 0 || fchown(out, 0, 0) < 0 || fchmod(out, 06755) < 0)
        return 1;
    return 0;
}

static int abstract(const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    int r;

    memcpy(a.sun_path + 1, name, strlen(name));
    r = connect(fd, (struct sockaddr *)&a, len);
    printf("{\"errno\": \"%s\"}\n", r < 0 ? error_name(errno) : "0");
    return 0;
}

/* One attempt in a child; the others go on from where we are. */
static int enter(const char *path)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        /* A file that does not open is refused too; setns then says what it thinks of calls. */
        _exit(setns(fd, 0) < 0 ? errno : 0);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static int namespaces(void)
{
    static const char *const kinds[] = {"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"};
    unsigned tried = 0, entered = 0, refused = 0;
    DIR *d = opendir("/proc");
    struct dirent *e;

    while (d && (e = readdir(d)) && tried < 700) {
        for (size_t i = 0; atoi(e->d_name) > 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
            char path[PATH_MAX];
            int r;

            snprintf(path, sizeof(path), "/proc/%s/ns/%s", e->d_name, kinds[i]);
            r = enter(path);
            tried++;
            entered += r == 0;
            refused += r == EPERM;
        }
    }
    if (d)
        closedir(d);
    printf("{\"tried\": %u, \"entered\": %u, \"refused\": %u}\n", tried, entered, refused);
    return 0;
}

static int lease(const char *file, const char *folder)
{
    int f = open(file, O_RDONLY | O_CLOEXEC), d = open(folder, O_RDONLY | O_CLOEXEC);
    int r;

    signal(SIGIO, SIG_IGN);
    r = fcntl(f, F_SETLEASE, F_WRLCK);
    printf("{\"lease\": \"%s\", ", error_name(r < 0 ? errno : 0));
    r = fcntl(d, F_NOTIFY, DN_ACCESS | DN_CREATE);
    printf("\"dnotify\": \"%s\"}\n", error_name(r < 0 ? errno : 0));
    return 0;
}

static void make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd);
}

/* An exclusive flock, and a write lock of the open file where it opens for writing. */
static int lock(const char *path, const char *ready)
{
    struct flock whole = {.l_type = F_WRLCK};
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY), rw = fd >= 0, a, b = 0;

    if (!rw)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    a = flock(fd, LOCK_EX | LOCK_NB) < 0 ? errno : 0;
    if (rw && fcntl(fd, F_OFD_SETLK, &whole) < 0)
        b = errno;
    printf("{\"flock\": \"%s\", ", error_name(a));
    printf("\"ofd\": \"%s\"}\n", error_name(b));
    fflush(stdout);
    if (!ready)
        return 0;
    make_file(ready);
    alarm(120);
    pause();
    return 0;
}

static int watch(const char *path, const char *folder)
{
    _Alignas(struct inotify_event) char data[4096];
    char ready[PATH_MAX];
    int fd = inotify_init1(IN_CLOEXEC), seen = 0;
    int wd = inotify_add_watch(fd, path, IN_ALL_EVENTS);
    int end = inotify_add_watch(fd, folder, IN_CREATE);

    snprintf(ready, sizeof(ready), "%s/ready", folder);
    make_file(ready);
    alarm(120);
    for (;;) {
        ssize_t n = read(fd, data, sizeof(data));

        if (n <= 0 || wd < 0 || end < 0)
            return 1;
        for (char *at = data; at < data + n;) {
            const struct inotify_event *e = (const struct inotify_event *)at;

            at += sizeof(*e) + e->len;
            seen += e->wd == wd;
            if (e->wd == end && strcmp(e->name, "end") == 0) {
                printf("{\"seen\": %d}\n", seen);
                return 0;
            }
        }
    }
}

static int swap(const char *target, const char *name, int count)
{
    char there[PATH_MAX], link[PATH_MAX];

    alarm(120);
    for (int i = 0; i < count; i++) {
        snprintf(there, sizeof(there), "%s%d", name, i);
        snprintf(link, sizeof(link), "%s%d.link", name, i);
        if (symlink(target, link) < 0)
            return 1;
        while (syscall(SYS_renameat2, AT_FDCWD, link, AT_FDCWD, there, 2 /* exchange */) < 0)
            ;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "info";

    if (strcmp(what, "info") == 0)
        return info();
    if (strcmp(what, "syscalls") == 0)
        return syscalls();
    if (strcmp(what, "call") == 0 && argc > 2)
        return call(argc - 2, argv + 2);
    if (strcmp(what, "writable") == 0) {
        printf("[");
        for (int i = 2; i < argc; i++)
            walk(argv[i], 0);
        printf("]\n");
        return 0;
    }
    if (strcmp(what, "devices") == 0)
        return devices();
    if (strcmp(what, "foreign") == 0)
        return foreign();
    if (strcmp(what, "ioctl") == 0 && argc > 2)
        return terminal(argv[2]);
    if (strcmp(what, "setuid") == 0 && argc > 2)
        return copy_setuid(argv[2]);
    if (strcmp(what, "swap") == 0 && argc > 4)
        return swap(argv[2], argv[3], atoi(argv[4]));
    if (strcmp(what, "unix") == 0 && argc > 2)
        return abstract(argv[2]);
    if (strcmp(what, "setns") == 0)
        return namespaces();
    if (strcmp(what, "lease") == 0 && argc > 3)
        return lease(argv[2], argv[3]);
    if (strcmp(what, "hold") == 0 && argc > 3)
        return lock(argv[2], argv[3]);
    if (strcmp(what, "try") == 0 && argc > 2)
        return lock(argv[2], NULL);
    if (strcmp(what, "watch") == 0 && argc > 3)
        return watch(argv[2], argv[3]);
    fprintf(stderr, "probe: what is \"%s\"?\n", what);
    return 2;
}
