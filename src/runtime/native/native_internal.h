#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "model/sandbox.h"
#include "runtime/native/cgroup.h"
#include "runtime/runtime.h"

struct disk;
struct err;
struct plan;

/* What the files of the native runtime share. */

#define BERTH_BUCKETS 1024

/* What this process knows of a box beyond struct box. */
struct berth {
    struct berth *next;
    char id[ID_SIZE];
    uint32_t slot;
    struct sandbox_limits limits;
    int scratch; /* root of its disk; of a box that was adopted only when it was asked for */
    int root;    /* its overlay, from the moment it is told to end: see box_end() */
    unsigned disk_lives; /* how many boxes had its disk before; DISK_ONCE = see retire_disk() */
    bool again;          /* other boxes have written to its disk: it may have anything on it */
    bool abandoned;      /* its disk is replaced when it has been stopped */
    int ctl, exec;       /* until create has handed them on */
    bool parked;         /* the launcher has a child waiting for it */
    int64_t pid;         /* of that child, which becomes the agent */
    uint64_t pid_start;
    int pidfd;
};

struct native {
    struct runtime runtime;
    char *data_dir, *run_dir, *stage;
    char *nameserver; /* NULL = none */
    struct cgroup cgroup;
    struct disk *disk;
    int launcher; /* -1 = it has ended or hung, and another is to come */
    int launcher_hung_fd;
    atomic_int launcher_ms;        /* that it may take to answer */
    pthread_mutex_t launcher_lock; /* one plan and its answer at a time */
    pthread_cond_t launcher_back;
    pthread_mutex_t lock; /* of the berths */
    struct berth *berths[BERTH_BUCKETS];
};

static inline struct native *native_of(struct runtime *rt)
{
    return (struct native *)rt;
}

/* ---- berths.c ---- */

/* NULL = this process knows nothing of it. Good until berth_drop: for one id one thread at a time
 * calls the runtime. */
struct berth *berth_find(struct native *n, const char *id);
/* An empty one, without descriptors. */
struct berth *berth_add(struct native *n, const char *id);
/* Closes its descriptors and forgets it. Fine if there is none. */
/* True if slot is a range that no other berth has: of several that have one, the last to go hears
 * so. */
bool berth_drop(struct native *n, const char *id, uint32_t slot);
/* Gives it the descriptor of another process; -1 = none. */
void berth_set_process(struct native *n, struct berth *b, int pidfd);
/* Does its process live? For any thread at any time, also while another drops it. */
bool berth_lives(struct native *n, const char *id);
/* A file of its process in /proc, for reading; -ESRCH when there is none. */
int berth_open_proc(struct native *n, const char *id, const char *name);
/* Gives it an id range; BOX_NO_SLOT = none. */
void berth_set_range(struct native *n, struct berth *b, uint32_t slot);
/* Has another berth the same? */
bool berth_shares_range(struct native *n, const struct berth *b);
void berths_done(struct native *n);

/* ---- run_dir.c: <run>/<id>, with the sockets of a box and the note of its process ---- */

/* "agent.sock", "exec.sock"; free it. */
char *run_path(const struct native *n, const char *id, const char *name);
/* The sockets that the agent will listen on, into b->ctl and b->exec. */
int run_dir_make(struct native *n, struct berth *b, struct err *err);
void run_dir_remove(struct native *n, const char *id);
void run_dir_each(const struct native *n, void (*found)(const char *id, void *arg), void *arg);
/* What a daemon that comes after us must know of a box whose row is unfinished or lost: pid,
 * pid_start and slot. */
void note_box(struct native *n, const struct box *box);
/* The same back again; false = there is no note. */
bool recall_box(const struct native *n, struct box *box);

/* ---- launching.c: what the launcher does for us ---- */

/* What these two return when the child has gone, or the launcher that knew it: it is nobody's
 * fault, and another child may do. */
#define BOX_LOST (-2)

/* Has the launcher make the child that will become the box, and waits for no more than its pid,
 * which is filled into b and box. */
int box_park(struct native *n, struct berth *b, struct box *box, struct err *err);
/* Lets the parked child become the box, and waits until its agent serves. */
int box_start(struct native *n, struct berth *b, struct box *box, const struct box_root *root,
              struct err *err);
/* Ends the child, whatever has become of it, and waits for that. */
int box_end(struct native *n, struct berth *b, struct err *err);
/* One plan: the pid, -1 or BOX_LOST. A PARK gives the child's pidfd too. */
#define LAUNCHER_WAIT 5000 /* ms that who needs a launcher waits for one that is being started */
int64_t send_plan(struct native *n, const struct plan *plan, const int *fds, size_t n_fds,
                  int wait_ms, int *ret_pidfd, struct err *err);
/* The parked child is not wanted any more. */
void box_forget(struct native *n, const struct berth *b);

/* ---- adopt.c ---- */

/* Start time of a process in clock ticks since boot. 0 = no such process. */
uint64_t process_start_time(int64_t pid);
/* Is it in the cgroups of the box? Start times are whole clock ticks, which others share; nobody
 * else is in there. */
bool process_in_box(int64_t pid, const char *id);
int native_adopt(struct runtime *rt, struct box *box, struct err *err);

/* ---- attach.c ---- */

/* What of root is mounted beside it, for the plan; those with a descriptor into fds, which has room
 * for PLAN_MOUNTS_MAX: how many. */
size_t plan_mounts(const struct box_root *root, struct plan *plan, int *fds);
/* Fills err if a step failed because of what was to be mounted, or where. */
bool mount_explain(const char *step, int error, struct err *err);
int native_attach(struct runtime *rt, const struct box *box, const struct box_mount *mount,
                  struct err *err);
int native_detach(struct runtime *rt, const struct box *box, const char *path, uint64_t device,
                  struct err *err);
char *native_find_mount(struct runtime *rt, const struct box *box, uint64_t device, const char *sub,
                        const char *path);

/* ---- holders.c ---- */

/* Those of the agent first. */
void box_each_process(struct native *n, const char *id, void (*found)(int64_t pid, void *arg),
                      void *arg);
size_t native_holders(struct runtime *rt, const struct box *box, uint64_t device,
                      struct box_holder *ret, size_t max);

/* ---- volumes.c ---- */

int native_volume_make(struct runtime *rt, const char *id, uint32_t mb, struct err *err);
int native_volume_keep(struct runtime *rt, const char *id, struct err *err);
int native_volume_doom(struct runtime *rt, const char *id, struct err *err);
int native_volume_remove(struct runtime *rt, const char *id, struct err *err);
void native_volume_each(struct runtime *rt,
                        void (*found)(const char *id, enum volume_stage stage, void *arg),
                        void *arg);
int native_volume_open(struct runtime *rt, const char *id, int base, int *ret_fd, struct err *err);
int native_volume_room(struct runtime *rt, const char *id, int fd, struct disk_room *ret,
                       struct err *err);
int native_volume_lease(struct runtime *rt, const char *id, int fd, uint64_t more, struct err *err);

/* ---- look.c ---- */

int native_net(struct runtime *rt, const struct box *box, int *ret_fd, struct err *err);
int native_traffic(struct runtime *rt, const struct box *box, struct box_traffic *ret,
                   struct err *err);
/* ---- io.c ---- */

void native_io(struct runtime *rt, const struct box *box, struct box_io *ret);
enum box_look native_look(struct runtime *rt, const struct box *box);

/* ---- room.c ---- */

int native_room(struct runtime *rt, struct host_room *ret, struct err *err);
void native_unwritten(struct runtime *rt, struct unwritten *ret);
uint64_t native_disk_bytes(struct runtime *rt, const struct box *box);
int native_disk_room(struct runtime *rt, const struct box *box, struct disk_room *ret,
                     struct err *err);
int native_disk_lease(struct runtime *rt, const struct box *box, uint64_t more, struct err *err);

/* ---- strays.c ---- */

void native_each(struct runtime *rt, void (*found)(const char *id, void *arg), void *arg);
void native_trace(struct runtime *rt, const char *id, struct box_trace *ret);
void native_keep_ranges(struct runtime *rt, const uint32_t *slots, size_t n);
