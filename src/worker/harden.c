/* The worker is root because layers have owners. Everything else that root may do goes first. */
#include <errno.h>
#include <linux/capability.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "worker/worker.h"

/* A backstop: the work itself needs about a tenth. Threads and the windows of zstd are in it. */
#define DATA_MAX   (512u << 20)
#define FILES_MAX  4096
#define ARENAS_MAX 2

/* Without CAP_MKNOD: the kernel lets everyone make whiteouts. */
static const int kept[] = {
    CAP_CHOWN,        /* owners */
    CAP_FOWNER,       /* modes and times of what is not ours any more */
    CAP_FSETID,       /* setgid bits, which a change of owner or of content would clear */
    CAP_DAC_OVERRIDE, /* folders of others, and without any rights */
    CAP_SYS_ADMIN,    /* trusted.overlay.opaque */
};

static bool is_kept(int cap)
{
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (kept[i] == cap)
            return true;
    return false;
}

static int drop_capabilities(struct err *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};

    /* What it starts gets no more than it has itself. */
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (!is_kept(cap) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return err_sys(err, errno, "give up capability %d", cap);
    if (syscall(SYS_capget, &header, data) < 0)
        return err_sys(err, errno, "look at the worker's capabilities");
    for (int cap = 0; cap < 64; cap++)
        if (!is_kept(cap))
            data[cap / 32].permitted &= ~(1u << cap % 32);
    for (int i = 0; i < 2; i++) {
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &header, data) < 0)
        return err_sys(err, errno, "give up the worker's capabilities");
    return 0;
}

static int limit(int what, rlim_t most)
{
    struct rlimit now;

    if (getrlimit((__rlimit_resource_t)what, &now) < 0)
        return -1;
    if (now.rlim_max == RLIM_INFINITY || now.rlim_max > most)
        now.rlim_max = most;
    now.rlim_cur = now.rlim_max;
    return setrlimit((__rlimit_resource_t)what, &now);
}

int harden(struct err *err)
{
    (void)umask(0); /* modes are the image's */
    (void)mallopt(M_ARENA_MAX, ARENAS_MAX);
    /* The daemon's are all close-on-exec; should one not be, it ends here. */
    if (close_range(FD_OTHER + 1, ~0u, 0) < 0)
        return err_sys(err, errno, "close what the worker does not need");
    if (limit(RLIMIT_NOFILE, FILES_MAX) < 0 || limit(RLIMIT_CORE, 0) < 0)
        return err_sys(err, errno, "limit the worker");
#ifndef CAY_SANITIZED
    if (limit(RLIMIT_DATA, DATA_MAX) < 0) /* a sanitizer's shadow is far larger */
        return err_sys(err, errno, "limit the worker");
#endif
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, errno, "give up new privileges");
    return drop_capabilities(err);
}
