#include "cli/next_worker.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"

#define NAME    "iii-worker"
#define MANAGER "worker-manager-daemon"

/* ---- programs that were tried ---- */

/* Copies of cay have other inodes than this one and would pass a command on to each other for ever.
 * This variable holds the process id, how often a command was passed on, and the programs that this
 * process has been: "1234 2 fe01:77 fe01:78". exec keeps the process id, so that a child of a
 * genuine iii-worker, which has another, begins a new list; the count is that of all together and
 * ends a chain of scripts that start one another. */
#define MARKER   "CAY_PASSED_ON"
#define PASS_MAX 16

struct tried {
    unsigned count;
    char **programs; /* "dev:inode" */
};

static char *program_id(const struct stat *st)
{
    return xasprintf("%" PRIxMAX ":%" PRIxMAX, (uintmax_t)st->st_dev, (uintmax_t)st->st_ino);
}

static bool is_tried(const struct tried *t, const struct stat *st)
{
    auto_free char *id = program_id(st);

    for (char **p = t->programs; p && *p; p++)
        if (strcmp(*p, id) == 0)
            return true;
    return false;
}

static void add_tried(struct tried *t, const struct stat *st)
{
    auto_free char *id = program_id(st);

    if (!is_tried(t, st))
        t->programs = strv_add(t->programs, id);
}

static void read_marker(struct tried *t)
{
    const char *text = getenv(MARKER);
    auto_free char *words = xstrdup(text ? text : "");
    char *rest = NULL, *word = strtok_r(words, " ", &rest);
    uint64_t pid = 0, count = 0;
    struct stat self;

    if (word && str_u64(word, &pid) == 0 && (word = strtok_r(NULL, " ", &rest)))
        (void)str_u64(word, &count);
    t->count = count > PASS_MAX ? PASS_MAX : (unsigned)count;
    while (pid == (uint64_t)getpid() && word && (word = strtok_r(NULL, " ", &rest)))
        t->programs = strv_add(t->programs, word);
    if (stat("/proc/self/exe", &self) == 0)
        add_tried(t, &self);
}

static void write_marker(const struct tried *t)
{
    auto_free char *text = xasprintf("%d %u", (int)getpid(), t->count + 1);

    for (char **p = t->programs; p && *p; p++) {
        char *longer = xasprintf("%s %s", text, *p);

        free(text);
        text = longer;
    }
    (void)setenv(MARKER, text, 1);
}

/* ---- the next one ---- */

/* The first on PATH that was not tried yet; NULL when there is none. A relative entry of PATH is
 * passed over: the engine's working directory decides what is there. Free it. */
static char *find_next(struct tried *t)
{
    const char *at = getenv("PATH");

    while (at && *at) {
        size_t len = strcspn(at, ":");
        auto_free char *path = xasprintf("%.*s/" NAME, (int)len, at);
        struct stat st;

        if (*at == '/' && stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0 &&
            !is_tried(t, &st)) {
            add_tried(t, &st);
            return steal_ptr(path);
        }
        at += len + (at[len] == ':');
    }
    return NULL;
}

/* Returns only when there is none that can be run. */
static void run_next(char **argv)
{
    struct tried t = {0};
    char *path;

    read_marker(&t);
    while (t.count < PASS_MAX && (path = find_next(&t))) {
        write_marker(&t);
        (void)execv(path, argv);
        (void)fprintf(stderr, NAME ": cannot run %s: %s\n", path, strerror(errno));
        free(path);
    }
    strv_free(t.programs);
}

/* ---- without a next one ---- */

/* The reading end of the engine's pipe; -1 = none. */
static int lifeline(void)
{
    const char *text = getenv("III_LIFELINE_FD");
    struct stat st;
    uint64_t fd;

    if (text && str_u64(text, &fd) == 0 && fd > 2 && fd <= INT_MAX && fstat((int)fd, &st) == 0 &&
        S_ISFIFO(st.st_mode))
        return (int)fd;
    return -1;
}

static bool is_at_end(int fd)
{
    char bytes[64];
    ssize_t n = read(fd, bytes, sizeof(bytes));

    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

/* Until a signal ends it, or the engine's pipe does. */
static int wait_for_end(void)
{
    struct pollfd fds[] = {{.events = POLLIN}, {.events = POLLIN, .fd = lifeline()}};
    auto_close int signals = -1;
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (signals < 0) {
        (void)fprintf(stderr, NAME ": signalfd: %s\n", strerror(errno));
        return STATUS_FAILED;
    }
    fds[0].fd = signals;
    (void)fprintf(stderr, NAME " is cay here: " MANAGER
                               " does nothing, because there is no other " NAME " on PATH\n");
    for (;;) {
        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
            return STATUS_FAILED;
        if (fds[0].revents || (fds[1].revents && is_at_end(fds[1].fd)))
            return STATUS_OK;
    }
}

int next_worker_run(int argc, char **argv, const struct err *why)
{
    run_next(argv);
    if (argc > 1 && strcmp(argv[1], MANAGER) == 0)
        return wait_for_end();
    (void)fprintf(stderr, "%s, and there is no other " NAME " on PATH\n", why->text);
    return STATUS_USAGE;
}
