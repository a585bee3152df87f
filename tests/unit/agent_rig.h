#pragma once

/* A cay-agent as an ordinary child of the test, with its two sockets and its logs in a folder that
 * is removed at the end together with every process that is left. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "built_program.h"
#include "frame_recv.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/plan.h"
#include "proto/wire.h"
#include "tap.h"
#include "tmpdir.h"

static struct {
    pid_t agent;
    char dir[64], ctl[96], exec[96], files[96];
} rig;

/* Memory that a test may use until its end; here it is not a leak. */
static inline void *rig_keep(void *p)
{
    static void **kept;
    static size_t n, max;

    if (n == max) {
        max = max ? 2 * max : 64;
        kept = xrealloc(kept, max * sizeof(*kept));
    }
    return kept[n++] = p;
}

static int rig_unlink(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

/* We are the subreaper: when the agent is dead, what it left is our child. */
static void rig_kill(void)
{
    (void)kill(rig.agent, SIGKILL);
    for (;;) {
        char text[4096], *p = text;
        long pid;

        if (read_file_at(-1, "/proc/thread-self/children", text, sizeof(text)) <= 0)
            text[0] = '\0';
        while ((pid = strtol(p, &p, 10)) > 0)
            (void)kill((pid_t)pid, SIGKILL);
        if (waitpid(-1, NULL, 0) < 0)
            break;
    }
}

static void rig_stop(void)
{
    rig_kill();
    (void)nftw(rig.dir, rig_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

/* It runs commands as an ordinary process: without AGENT_FD_USERS. */
static void rig_exec_agent(const char *path, const int fds[4])
{
    /* It must not outlive a test that crashes. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < 4; i++)
        if (dup2(fds[i], i < 3 ? AGENT_FD_CTL + i : AGENT_FD_STATUS) < 0)
            _exit(1);
    (void)execl(path, "cay-agent", "0", "0", NULL);
    _exit(1);
}

/* Descriptors far from those the agent expects, so that none is overwritten before it is moved. */
static int rig_high(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 50);

    CHECK(fd >= 0 && high >= 0);
    (void)close(fd);
    return high;
}

/* An agent in the folder that there is. */
static inline void rig_start_agent(void)
{
    const char *path = built_program("CAY_AGENT", "src/agent/cay-agent");
    struct launch_report f = {0};
    int fds[4], status[2];

    CHECK_INT(pipe2(status, O_CLOEXEC), 0);
    fds[0] = rig_high(unix_listen(rig.ctl, 64));
    fds[1] = rig_high(unix_listen(rig.exec, 64));
    fds[2] = rig_high(open(rig.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    fds[3] = rig_high(status[1]);
    rig.agent = fork();
    CHECK(rig.agent >= 0);
    if (rig.agent == 0)
        rig_exec_agent(path, fds);
    for (int i = 0; i < 4; i++)
        (void)close(fds[i]);
    if (read_some(status[0], &f, sizeof(f)) != sizeof(f) || f.error)
        TAP_FAIL("the agent failed: %s: %s", f.step, strerror(f.error));
    (void)close(status[0]);
}

static inline void rig_start(void)
{
    if (!built_program("CAY_AGENT", "src/agent/cay-agent"))
        SKIP_WITHOUT_PROGRAM("CAY_AGENT does not name the agent");
    snprintf(rig.dir, sizeof(rig.dir), "%s/cay-test-agent-XXXXXX", dir_parent(true));
    CHECK(mkdtemp(rig.dir));
    snprintf(rig.ctl, sizeof(rig.ctl), "%s/ctl", rig.dir);
    snprintf(rig.exec, sizeof(rig.exec), "%s/exec", rig.dir);
    snprintf(rig.files, sizeof(rig.files), "%s/files", rig.dir);
    CHECK_INT(mkdir(rig.files, 0755), 0);
    CHECK_INT(chmod(rig.dir, 0755), 0);
    CHECK_INT(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    atexit(rig_stop);
    rig_start_agent();
}

/* Another agent, with what the one before has left in the folder of logs: as after a stop and a
 * start. */
static inline void rig_start_again(void)
{
    rig_kill();
    (void)unlink(rig.ctl);
    (void)unlink(rig.exec);
    rig_start_agent();
}

/* A path in the test's own folder; a few can be in use at a time. */
static inline char *in_files(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s", rig.files, name);
    return path;
}

static inline int rig_connect(const char *path)
{
    int fd = unix_connect(path);

    CHECK(fd >= 0);
    return fd;
}

/* A ctl call with its arguments: s string, u u32, U u64, l list. */
static inline int ctl(enum call_op op, const char *types, ...)
{
    int fd = rig_connect(rig.ctl);
    struct buf b;
    va_list ap;

    buf_init(&b, FRAME_MAX);
    va_start(ap, types);
    for (; *types; types++) {
        if (*types == 's')
            wire_put_str(&b, va_arg(ap, const char *));
        else if (*types == 'u')
            wire_put_u32(&b, va_arg(ap, uint32_t));
        else if (*types == 'U')
            wire_put_u64(&b, va_arg(ap, uint64_t));
        else
            wire_put_list(&b, va_arg(ap, char **));
    }
    va_end(ap);
    CHECK_INT(frame_send(fd, FRAME_CALL + op, b.data, b.len), 0);
    buf_done(&b);
    return fd;
}

/* The next frame must be of this type; its payload is left in *ret (may be NULL). */
static inline void expect(int fd, unsigned type, struct buf *ret)
{
    struct buf b = {0};
    unsigned got = 0;
    struct err err = {0};
    int r = frame_recv(fd, &got, &b);

    if (r == 1 && got == FRAME_ERROR && type != FRAME_ERROR)
        (void)call_error_get(b.data, b.len, &err);
    if (r != 1 || got != type)
        TAP_FAIL("frame %u (%d) instead of %u: %s", got, r, type, err.text);
    if (ret)
        *ret = b;
    else
        buf_done(&b);
}

static inline void expect_error(int fd, enum err_kind kind, const char *code)
{
    struct err err = {0};
    struct buf b;

    expect(fd, FRAME_ERROR, &b);
    (void)call_error_get(b.data, b.len, &err);
    buf_done(&b);
    if (err.kind != kind || strcmp(err.code ? err.code : "", code) != 0)
        TAP_FAIL("error %u \"%s\" (%s) instead of %u \"%s\"", err.kind, err.code ? err.code : "",
                 err.text, kind, code);
    (void)close(fd);
}

static inline void expect_ok(int fd)
{
    expect(fd, FRAME_OK, NULL);
    (void)close(fd);
}

/* ---- execs */

static char *rig_env[] = {"PATH=/usr/bin:/bin", "HOME=/", NULL};

/* One `sh -c script`, to be changed before it is sent. */
static inline struct call_exec shell(char *argv[4], const char *script)
{
    argv[0] = "sh", argv[1] = "-c", argv[2] = (char *)(uintptr_t)script, argv[3] = NULL;
    return (struct call_exec){.id = "", .argv = argv, .env = rig_env, .cwd = "/", .user = ""};
}

static inline int send_exec(const struct call_exec *e)
{
    int fd = rig_connect(rig.exec);
    struct buf b;

    buf_init(&b, FRAME_MAX);
    call_exec_put(&b, e);
    CHECK_INT(frame_send(fd, FRAME_CALL + CALL_EXEC, b.data, b.len), 0);
    buf_done(&b);
    return fd;
}

static inline pid_t expect_started(int fd)
{
    struct buf b;
    struct wire w;
    pid_t pid;

    expect(fd, FRAME_STARTED, &b);
    wire_init(&w, b.data, b.len);
    pid = (pid_t)wire_get_u32(&w);
    CHECK(wire_ok(&w) && pid > 0);
    buf_done(&b);
    return pid;
}

struct result {
    struct buf out, err;
    struct call_exit exit;
};

/* Everything until the end. */
static inline struct result collect(int fd)
{
    struct result r = {0};
    struct buf b = {0};
    unsigned type = 0;

    buf_init(&r.out, 64 << 20);
    buf_init(&r.err, 64 << 20);
    (void)buf_add_str(&r.out, "");
    (void)buf_add_str(&r.err, "");
    while (type != FRAME_EXIT) {
        CHECK_INT(frame_recv(fd, &type, &b), 1);
        if (type == FRAME_STDOUT)
            CHECK_INT(buf_add(&r.out, b.data, b.len), 0);
        else if (type == FRAME_STDERR)
            CHECK_INT(buf_add(&r.err, b.data, b.len), 0);
        else if (type != FRAME_EXIT)
            TAP_FAIL("frame %u in the output", type);
    }
    {
        struct wire w;

        wire_init(&w, b.data, b.len);
        call_exit_get(&w, &r.exit);
        CHECK(wire_ok(&w));
    }
    buf_done(&b);
    (void)rig_keep(r.out.data);
    (void)rig_keep(r.err.data);
    (void)close(fd);
    return r;
}

static inline struct result run_exec(const struct call_exec *e)
{
    int fd = send_exec(e);

    (void)expect_started(fd);
    return collect(fd);
}

static inline struct result run_shell(const char *script)
{
    char *argv[4];
    struct call_exec e = shell(argv, script);

    return run_exec(&e);
}

/* Waits for the end of a process that is not our child. */
static inline void expect_dead(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (fd < 0 && errno == ESRCH)
        return;
    CHECK(fd >= 0);
    CHECK_INT(poll(&p, 1, PATIENCE_MS), 1);
    (void)close(fd);
}

/* Waits for a frame of output and reads a number from it. */
static inline pid_t expect_pid(int fd)
{
    struct buf b;
    long pid;

    expect(fd, FRAME_STDOUT, &b);
    pid = strtol(b.data, NULL, 10);
    CHECK(pid > 1);
    buf_done(&b);
    return (pid_t)pid;
}
