/* What the native runtime keeps of its boxes, without any. */

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "proto/plan.h"
#include "runtime/native/id_ranges.h"
#include "runtime/native/native.h"
#include "runtime/native/native_internal.h"
#include "tap.h"

#define ID "sbx_000000000000000000000001"

static struct native *bare(void)
{
    struct native *n = xcalloc(1, sizeof(*n));

    n->launcher = -1;
    pthread_mutex_init(&n->lock, NULL);
    pthread_mutex_init(&n->launcher_lock, NULL);
    pthread_cond_init(&n->launcher_back, NULL);
    return n;
}

static void bare_free(struct native *n)
{
    berths_done(n);
    pthread_mutex_destroy(&n->lock);
    pthread_mutex_destroy(&n->launcher_lock);
    pthread_cond_destroy(&n->launcher_back);
    free(n);
}

TEST(a_box_lives_while_its_process_does)
{
    struct native *n = bare();
    struct berth *b = berth_add(n, ID);
    pid_t pid = fork();

    if (pid == 0) {
        (void)pause();
        _exit(0);
    }
    CHECK(!berth_lives(n, ID)); /* nobody has said which */
    berth_set_process(n, b, pidfd_open(pid, 0));
    CHECK(berth_lives(n, ID));
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK(!berth_lives(n, ID));
    (void)berth_drop(n, ID, BOX_NO_SLOT);
    CHECK(!berth_lives(n, ID));
    bare_free(n);
}

TEST(of_boxes_with_one_range_the_last_to_go_gives_it_back)
{
    static const char *const ids[] = {ID, "sbx_000000000000000000000002",
                                      "sbx_000000000000000000000003"};
    struct native *n = bare();

    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        berth_set_range(n, berth_add(n, ids[i]), i < 2 ? 7 : 8);
    CHECK(!berth_drop(n, ids[0], 7));
    CHECK(berth_drop(n, ids[1], 7));
    CHECK(!berth_drop(n, ids[2], BOX_NO_SLOT));
    bare_free(n);
}

struct asker {
    struct native *n;
    atomic_bool stop;
    atomic_uint asked;
};

static void *ask_on(void *arg)
{
    struct asker *a = arg;

    while (!atomic_load(&a->stop)) {
        (void)berth_lives(a->n, ID);
        atomic_fetch_add(&a->asked, 1);
    }
    return NULL;
}

/* What the sanitizers see: nothing is read after it was freed, no descriptor asked that is closed.
 */
TEST(a_box_can_be_asked_for_while_another_thread_destroys_it)
{
    struct asker a = {.n = bare()};
    pthread_t thread;

    CHECK_INT(pthread_create(&thread, NULL, ask_on, &a), 0);
    for (int i = 0; i < 2000 || atomic_load(&a.asked) < 2000; i++) {
        struct berth *b = berth_add(a.n, ID);

        berth_set_process(a.n, b, pidfd_open(getpid(), 0));
        (void)berth_drop(a.n, ID, BOX_NO_SLOT);
    }
    atomic_store(&a.stop, true);
    pthread_join(thread, NULL);
    bare_free(a.n);
}

/* ---- a launcher that hangs ---- */

#define PID_OF_PLAN 7 /* what the launcher of these tests answers */

/* The part of the daemon: 0 = it got the answer, 1 = it gave the launcher up. */
static int send_a_plan(int launcher)
{
    struct native *n = bare();
    struct plan plan = {.op = PLAN_FORGET, .id = (char[]){ID}};
    eventfd_t hung;
    int64_t pid;

    n->launcher = launcher;
    n->launcher_hung_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&n->launcher_ms, 1001); /* two looks */
    pid = send_plan(n, &plan, NULL, 0, 0, NULL, NULL);
    return pid == PID_OF_PLAN && eventfd_read(n->launcher_hung_fd, &hung) < 0 ? 0 : 1;
}

/* Ctrl-Z stops both, and a machine that is paused. */
TEST(a_launcher_is_not_given_up_for_time_in_which_the_daemon_stood_still)
{
    const struct plan_answer answer = {.pid = PID_OF_PLAN};
    static char plan[PLAN_MAX];
    int pair[2], status;
    pid_t daemon;

    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    daemon = fork();
    if (daemon == 0)
        _exit(send_a_plan(pair[0]));
    (void)close(pair[0]);
    CHECK(recv(pair[1], plan, sizeof(plan), 0) > 0);
    CHECK_INT(kill(daemon, SIGSTOP), 0);
    CHECK_INT(waitpid(daemon, &status, WUNTRACED), daemon);
    (void)poll(NULL, 0, 1100); /* longer than a launcher may take */
    CHECK_INT(kill(daemon, SIGCONT), 0);
    CHECK_INT(waitpid(daemon, &status, WCONTINUED), daemon);
    (void)poll(NULL, 0, 20);
    CHECK_INT(send(pair[1], &answer, sizeof(answer), MSG_NOSIGNAL), sizeof(answer));
    CHECK_INT(waitpid(daemon, &status, 0), daemon);
    CHECK_INT(status, 0);
    (void)close(pair[1]);
}

static void *bring_launcher(void *arg)
{
    native_set_launcher(arg, -1); /* as when the first try of the daemon's fails */
    return NULL;
}

TEST(without_a_launcher_a_forgotten_child_costs_no_wait)
{
    struct native *n = bare();
    struct berth *b = berth_add(n, ID);
    pthread_t thread;

    CHECK_INT(pthread_create(&thread, NULL, bring_launcher, n), 0);
    box_forget(n, b);
    pthread_join(thread, NULL);
    bare_free(n);
}

/* ---- id ranges ---- */

struct found {
    uint32_t slots[4];
    unsigned n;
};

static void note_range(uint32_t slot, void *arg)
{
    struct found *f = arg;

    CHECK(f->n < ARRAY_LEN(f->slots));
    f->slots[f->n++] = slot;
}

static unsigned ranges_of(const char *owner)
{
    struct found f = {0};

    id_range_each(owner, note_range, &f);
    return f.n;
}

TEST(a_range_is_its_owners_until_it_is_given_back)
{
    auto_free char *mine = xasprintf("/nowhere/%d/a", getpid());
    auto_free char *others = xasprintf("/nowhere/%d/b", getpid());
    uint32_t a, b, c;

    if (getuid() != 0)
        SKIP("needs root");
    CHECK_INT(id_range_take(mine, &a, NULL), 0);
    CHECK_INT(id_range_take(mine, &b, NULL), 0);
    CHECK_INT(id_range_take(others, &c, NULL), 0);
    CHECK(a != b && b != c && a != c);
    CHECK_INT(ranges_of(mine), 2);
    CHECK_INT(ranges_of(others), 1);
    id_range_release(others, a); /* not theirs */
    id_range_retake(others, a);
    CHECK_INT(ranges_of(mine), 2);
    id_ranges_done(mine);
    CHECK_INT(ranges_of(mine), 2); /* who comes after us finds them */
    id_range_release(mine, a);
    id_range_retake(others, a);
    CHECK_INT(ranges_of(mine), 1);
    CHECK_INT(ranges_of(others), 2);
    id_range_release(mine, b);
    id_range_release(others, a);
    id_range_release(others, c);
    id_ranges_done(others);
    CHECK_INT(ranges_of(mine) + ranges_of(others), 0);
}

TAP_MAIN
