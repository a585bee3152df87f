#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "model/sandbox.h"

struct err;
struct runtime;

/* What of an image a box is built from; owned by the caller. */
struct box_root {
    char *const *layers; /* directories on the host, topmost first; shown with the box's own ids */
    char *const *binds;  /* host paths shown read-only at the same path (the host image's /usr) */
    /* Directories that the box has from the start, root's: absolute, without . and .., and no layer
     * has anything by the name of their first part. */
    struct box_dir {
        const char *path;
        uint32_t mode;
    } dirs[2];
    unsigned n_dirs;
    /* What is mounted in it beside its root, in this order. */
    const struct box_mount *mounts;
    unsigned n_mounts;
};

/* Something that a box has beside its own disk. nosuid and nodev hold for all. */
struct box_mount {
    int fd;           /* a detached mount, which is used up; -1 = a new tmpfs of size_mb */
    const char *path; /* in the box: absolute, without . and .. */
    const char *sub;  /* the folder of it that is shown; NULL = all */
    bool read_only, noexec;
    uint32_t size_mb; /* what it can hold: files there may become as long */
    /* Else the box's own ids are those in the mount. */
    bool owned; /* uid and gid there are the box's root's, and nobody has other ids */
    uint32_t uid, gid;
};

/* What a backend must be told to find a box again after a restart; stored with the sandbox. */
struct box {
    char id[ID_SIZE];
    int64_t pid;        /* of the agent, on the host; 0 = never started */
    uint64_t pid_start; /* its start time in clock ticks since boot, so that a reused pid is seen */
    uint32_t slot;      /* of the 65,536-id ranges, or BOX_NO_SLOT */
};

#define BOX_NO_SLOT                                                                                \
    UINT32_MAX /* not known, or already another box's: destroy must leave it alone */

struct box_stats {
    uint64_t cpu_ns;
    uint64_t memory_bytes, memory_limit;
    uint64_t pids;
    uint64_t oom_kills;
    uint64_t disk_bytes;
};

/* What its interfaces but loopback have counted. */
struct box_traffic {
    uint64_t rx_bytes, tx_bytes;
};

/* What its processes have read from disks and written to them since it was started. */
struct box_io {
    uint64_t read_bytes, written_bytes;
};

/* What an id has on this host, whoever knows of it. */
struct box_trace {
    struct box box;     /* as far as that can be told; pid 0 = no process is known */
    bool running;       /* that process lives */
    uint64_t processes; /* in its cgroups */
    bool has_disk;
    uint64_t disk_bytes; /* that it takes on the host */
    char path[512];      /* of the disk; "" = none */
};

/* The filesystem of the host that holds the boxes' disks, in bytes. */
struct host_room {
    uint64_t free, total;
};

/* What programs wrote, anywhere on this host, and what is in memory only yet; in bytes. */
struct unwritten {
    uint64_t now;
    uint64_t max; /* about what it can become before they have to wait */
};

/* A box's disk, in bytes. */
struct disk_room {
    uint64_t used;   /* as the box sees it: what it wrote and what it was promised */
    uint64_t backed; /* what the host has given for it so far */
    uint64_t size;   /* of a volume: what its file can become */
};

#define LEASE_ANY UINT64_MAX

/* What a volume's file says of it. */
enum volume_stage {
    VOLUME_NEW,  /* made, and not given to anybody yet */
    VOLUME_KEPT, /* somebody's */
    VOLUME_DOOMED,
};

/* A process of a box that has a file open. */
struct box_holder {
    int64_t pid; /* as the box knows it */
    char command[64];
    char path[256];
};

enum box_channel { BOX_EXEC, BOX_CTL }; /* see proto/call.h */

/* What a look at a box finds whose agent does not answer. */
enum box_look {
    BOX_QUIET, /* nothing holds it up that would pass: it should have answered */
    BOX_BUSY, /* it waits for a processor, a disk or memory, or is frozen; or that cannot be told */
    BOX_WOKEN, /* a signal had stopped it, and it goes on from now */
};

/* One kind of box. Every op blocks and may be called from any thread, for one id by one thread at a
 * time. What a failed prepare or create has left on the host is destroy's. Ops may be NULL; callers
 * use the runtime_*() wrappers, which refuse those with ERR_UNSUPPORTED. */
struct runtime_ops {
    const char *name;     /* as in config and API: "native" */
    const char *boundary; /* for people: "shared kernel, hardened" */

    /* Can this host run it? Says why not, and what to do, in err. */
    int (*probe)(struct runtime *rt, struct err *err);

    /* Fills box->slot with an id range that is this box's from now on. A daemon that ends before it
     * has stored that gives it back at its next start (keep_ranges). */
    int (*reserve)(struct runtime *rt, struct box *box, struct err *err);

    /* Makes what does not depend on the spec (disk, cgroups, sockets) for box->id. limits are a
     * guess that create() corrects. */
    int (*prepare)(struct runtime *rt, struct box *box, const struct sandbox_limits *limits,
                   struct err *err);

    /* Turns a prepared id, or one that was stopped, into a running box: its agent answers when this
     * returns. */
    int (*create)(struct runtime *rt, struct box *box, const struct box_root *root,
                  const struct sandbox_limits *limits, struct err *err);

    /* Ends every process of the box, and returns when they are gone. Fine if they are already. */
    int (*kill)(struct runtime *rt, const struct box *box, struct err *err);

    /* Ends every process of the box, and gives back all that it has but its disk and its id range:
     * create() brings up another over what this one wrote. Returns when that is on the host's disk.
     * Fine if there is nothing else already. */
    int (*stop)(struct runtime *rt, const struct box *box, struct err *err);

    /* Makes ahead what create() needs of a box that was stopped, as prepare() does for a new one;
     * stop() gives it back. */
    int (*ready)(struct runtime *rt, struct box *box, const struct sandbox_limits *limits,
                 struct err *err);

    /* Removes all that prepare and create made, after kill. Fine if it is gone already. May take
     * longer (a full disk); call it off the request path. */
    int (*destroy)(struct runtime *rt, const struct box *box, struct err *err);

    /* After a restart of the daemon: is this box (still) running, and is it ours? Takes its id
     * range back either way. pid 0 = the daemon ended before it stored it: the backend finds it,
     * and fills pid and pid_start when the box runs. 1 = running, 0 = not, -1 = cannot tell. */
    int (*adopt)(struct runtime *rt, struct box *box, struct err *err);

    /* Becomes readable when the box ends; owned by the runtime until destroy, so only for who sees
     * to it that none comes meanwhile. -1 = not running. */
    int (*watch_fd)(struct runtime *rt, const struct box *box);

    /* Does the box run now? Also while another thread destroys it. */
    bool (*lives)(struct runtime *rt, const struct box *box);

    /* Gives a connected stream to the agent inside; the caller closes it. Exec, files, terminals
     * and ports ride on it, so no backend implements them. Never waits: ERR_UNAVAILABLE
     * "sandbox_busy" while the agent does not take connections. */
    int (*connect)(struct runtime *rt, const struct box *box, enum box_channel channel, int *ret_fd,
                   struct err *err);

    /* Is there a reason why the agent does not answer? One that was stopped by a signal, which only
     * somebody outside can have sent, is sent on. */
    enum box_look (*look)(struct runtime *rt, const struct box *box);

    /* Other limits for a box that runs; its disk stays as it is. */
    int (*limit)(struct runtime *rt, const struct box *box, const struct sandbox_limits *limits,
                 struct err *err);
    int (*pause)(struct runtime *rt, const struct box *box, bool paused, struct err *err);
    /* Asks all that runs in the box to stand still, and does not wait until it does: pause() is
     * called then, and finds it done, or on its way. It fails where that would have failed. */
    void (*begin_pause)(struct runtime *rt, const struct box *box);
    int (*stats)(struct runtime *rt, const struct box *box, struct box_stats *ret, struct err *err);

    /* The network namespace of a box that runs, or will when create() is called now; the caller
     * closes it. ERR_UNAVAILABLE when there is none yet. */
    int (*net)(struct runtime *rt, const struct box *box, int *ret_fd, struct err *err);
    int (*traffic)(struct runtime *rt, const struct box *box, struct box_traffic *ret,
                   struct err *err);
    void (*io)(struct runtime *rt, const struct box *box, struct box_io *ret);

    /* Quick. ERR_UNSUPPORTED where the disks of boxes are not this host's. */
    int (*room)(struct runtime *rt, struct host_room *ret, struct err *err);
    void (*unwritten)(struct runtime *rt, struct unwritten *ret);
    /* What the disk of a box takes on the host; needs no turn. 0 = cannot be told. */
    uint64_t (*disk_bytes)(struct runtime *rt, const struct box *box);
    int (*disk_room)(struct runtime *rt, const struct box *box, struct disk_room *ret,
                     struct err *err);
    /* From now on the box can take so many bytes more of its disk; past that it is told that the
     * disk is full, at once and not when it is too late. LEASE_ANY = all that its disk has. */
    int (*disk_lease)(struct runtime *rt, const struct box *box, uint64_t more, struct err *err);

    /* The root of the box's own filesystem, read-only, as the box sees it now: upper/ is what it
     * wrote on top of its layers, with owners counted from *ret_ids_base. The caller closes it, and
     * sees to it that nothing runs meanwhile. brief: it stays in this process, is closed before the
     * box is destroyed, and nothing is written to it though it may not be read-only. */
    int (*disk_open)(struct runtime *rt, const struct box *box, bool brief, int *ret_fd,
                     uint32_t *ret_ids_base, struct err *err);

    /* Volumes: filesystems of a fixed size that no box owns. Made under a name that says that
     * nobody has it yet, until volume_keep. */
    int (*volume_make)(struct runtime *rt, const char *id, uint32_t mb, struct err *err);
    int (*volume_keep)(struct runtime *rt, const char *id, struct err *err);
    /* Makes it nobody's again: what is left is removed by volume_remove. Fine if it is gone. */
    int (*volume_doom)(struct runtime *rt, const char *id, struct err *err);
    /* Whatever its name says. Fine if it is gone. */
    int (*volume_remove)(struct runtime *rt, const char *id, struct err *err);
    /* What is there of volumes, once each. */
    void (*volume_each)(struct runtime *rt,
                        void (*found)(const char *id, enum volume_stage stage, void *arg),
                        void *arg);
    /* A detached mount of it, of the one filesystem that all have however many there are; base
     * (-1 = none) is another of it that the caller has. */
    int (*volume_open)(struct runtime *rt, const char *id, int base, int *ret_fd, struct err *err);
    /* As disk_room and disk_lease; without fd what is used is what is backed. */
    int (*volume_room)(struct runtime *rt, const char *id, int fd, struct disk_room *ret,
                       struct err *err);
    int (*volume_lease)(struct runtime *rt, const char *id, int fd, uint64_t more, struct err *err);

    /* Mounts in a box that runs, or takes away what has that device (as st_dev has it) at that
     * path. ERR_CONFLICT "volume_busy" while somebody uses it. */
    int (*attach)(struct runtime *rt, const struct box *box, const struct box_mount *mount,
                  struct err *err);
    int (*detach)(struct runtime *rt, const struct box *box, const char *path, uint64_t device,
                  struct err *err);
    /* Where a box has that device mounted now, of which sub (NULL = all) is shown, or that was put
     * at path (NULL = any that it has); free it. NULL with errno 0 = nowhere, else it could not be
     * looked at. */
    char *(*find_mount)(struct runtime *rt, const struct box *box, uint64_t device, const char *sub,
                        const char *path);
    /* The box's processes that have something of that device open: at most max. */
    size_t (*holders)(struct runtime *rt, const struct box *box, uint64_t device,
                      struct box_holder *ret, size_t max);

    /* From the next stop on nobody wants what is on its disk, and nothing is written out for it;
     * false takes that back. */
    void (*disk_abandon)(struct runtime *rt, const struct box *box, bool abandoned);
    /* Of a box that was stopped: what is on its disk goes, and it has an empty one of that many MB.
     * Fine if the old one is gone. */
    int (*disk_replace)(struct runtime *rt, const struct box *box, uint32_t mb, struct err *err);

    /* Every id that has anything on this host, once each. */
    void (*each)(struct runtime *rt, void (*found)(const char *id, void *arg), void *arg);
    /* What that is. destroy() removes it. */
    void (*trace)(struct runtime *rt, const char *id, struct box_trace *ret);
    /* Gives back the id ranges that are ours and none of these. */
    void (*keep_ranges)(struct runtime *rt, const uint32_t *slots, size_t n);

    void (*free)(struct runtime *rt);
};

struct runtime {
    const struct runtime_ops *ops; /* first member of each backend's own struct */
};

int runtime_probe(struct runtime *rt, struct err *err);
int runtime_reserve(struct runtime *rt, struct box *box, struct err *err);
int runtime_prepare(struct runtime *rt, struct box *box, const struct sandbox_limits *limits,
                    struct err *err);
int runtime_create(struct runtime *rt, struct box *box, const struct box_root *root,
                   const struct sandbox_limits *limits, struct err *err);
int runtime_kill(struct runtime *rt, const struct box *box, struct err *err);
int runtime_stop(struct runtime *rt, const struct box *box, struct err *err);
int runtime_ready(struct runtime *rt, struct box *box, const struct sandbox_limits *limits,
                  struct err *err);
int runtime_destroy(struct runtime *rt, const struct box *box, struct err *err);
int runtime_adopt(struct runtime *rt, struct box *box, struct err *err);
int runtime_watch_fd(struct runtime *rt, const struct box *box);
bool runtime_lives(struct runtime *rt, const struct box *box);
int runtime_connect(struct runtime *rt, const struct box *box, enum box_channel channel,
                    int *ret_fd, struct err *err);
enum box_look runtime_look(struct runtime *rt, const struct box *box);
int runtime_limit(struct runtime *rt, const struct box *box, const struct sandbox_limits *limits,
                  struct err *err);
int runtime_pause(struct runtime *rt, const struct box *box, bool paused, struct err *err);
void runtime_begin_pause(struct runtime *rt, const struct box *box);
int runtime_stats(struct runtime *rt, const struct box *box, struct box_stats *ret,
                  struct err *err);
int runtime_net(struct runtime *rt, const struct box *box, int *ret_fd, struct err *err);
int runtime_traffic(struct runtime *rt, const struct box *box, struct box_traffic *ret,
                    struct err *err);
/* All 0 where that is not counted. */
void runtime_io(struct runtime *rt, const struct box *box, struct box_io *ret);
int runtime_room(struct runtime *rt, struct host_room *ret, struct err *err);
void runtime_unwritten(struct runtime *rt, struct unwritten *ret);
uint64_t runtime_disk_bytes(struct runtime *rt, const struct box *box);
int runtime_disk_room(struct runtime *rt, const struct box *box, struct disk_room *ret,
                      struct err *err);
int runtime_disk_lease(struct runtime *rt, const struct box *box, uint64_t more, struct err *err);
int runtime_disk_open(struct runtime *rt, const struct box *box, bool brief, int *ret_fd,
                      uint32_t *ret_ids_base, struct err *err);
int runtime_volume_make(struct runtime *rt, const char *id, uint32_t mb, struct err *err);
int runtime_volume_keep(struct runtime *rt, const char *id, struct err *err);
int runtime_volume_doom(struct runtime *rt, const char *id, struct err *err);
int runtime_volume_remove(struct runtime *rt, const char *id, struct err *err);
void runtime_volume_each(struct runtime *rt,
                         void (*found)(const char *id, enum volume_stage stage, void *arg),
                         void *arg);
int runtime_volume_open(struct runtime *rt, const char *id, int base, int *ret_fd, struct err *err);
int runtime_volume_room(struct runtime *rt, const char *id, int fd, struct disk_room *ret,
                        struct err *err);
int runtime_volume_lease(struct runtime *rt, const char *id, int fd, uint64_t more,
                         struct err *err);
int runtime_attach(struct runtime *rt, const struct box *box, const struct box_mount *mount,
                   struct err *err);
int runtime_detach(struct runtime *rt, const struct box *box, const char *path, uint64_t device,
                   struct err *err);
char *runtime_find_mount(struct runtime *rt, const struct box *box, uint64_t device,
                         const char *sub, const char *path);
size_t runtime_holders(struct runtime *rt, const struct box *box, uint64_t device,
                       struct box_holder *ret, size_t max);
void runtime_disk_abandon(struct runtime *rt, const struct box *box, bool abandoned);
int runtime_disk_replace(struct runtime *rt, const struct box *box, uint32_t mb, struct err *err);
void runtime_each(struct runtime *rt, void (*found)(const char *id, void *arg), void *arg);
void runtime_trace(struct runtime *rt, const char *id, struct box_trace *ret);
void runtime_keep_ranges(struct runtime *rt, const uint32_t *slots, size_t n);
void runtime_free(struct runtime *rt);
