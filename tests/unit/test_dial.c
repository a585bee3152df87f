#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "agent_runtime.h"
#include "base/clock.h"
#include "base/err.h"
#include "engine/dial.h"
#include "engine/engine.h"
#include "engine/engine_internal.h"
#include "engine/ports.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "fake_images.h"
#include "sandbox_request.h"
#include "store/store.h"
#include "tmpdir.h"

/* Dialling ports of a sandbox: through the real agent, and through one that somebody took over. */

static struct store *store;
static struct engine *engine;
static char *data_dir;
static char id[ID_SIZE];

/* What the agent that was taken over says to each call; NULL = the real one is asked. */
static void (*hostile)(int fd);

static int open_either(struct runtime *rt, const struct box *box, enum box_channel channel,
                       int *ret_fd, struct err *err)
{
    int pair[2];

    if (!hostile)
        return rig_open(rt, box, channel, ret_fd, err);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    hostile(pair[1]);
    *ret_fd = pair[0];
    return 0;
}

static void up(void)
{
    static struct runtime_ops ops;
    struct engine_config config = {
        .default_image = "host",
        .default_timeout_s = 3600,
        .default_limits = {512, 1000, 256, 4096},
        .ceilings = {4096, 4000, 4096, 86400},
        .max_sandboxes = 2,
        .allowed_images = "*",
        .workspace = rig.files,
        .max_command_s = 20,
        .sweep_s = 3600,
    };
    struct err err = {0};
    json_t *out;
    int rebuilt;

    ops = rig_ops;
    ops.connect = open_either;
    rig_runtime.ops = &ops;
    rig_start();
    data_dir = dir_new();
    config.data_dir = data_dir;
    if (store_open(data_dir, &store, &rebuilt, &err) < 0 ||
        engine_new(&config, store, NULL, &rig_runtime, &engine, &err) < 0 ||
        engine_start(engine, &err) < 0 ||
        create_from(engine, "{\"image\": \"host\"}", NULL, &out, &err) < 0)
        TAP_FAIL("%s", err.text);
    snprintf(id, sizeof(id), "%s", json_string_value(json_object_get(out, "id")));
    json_decref(out);
}

static void down(void)
{
    hostile = NULL;
    engine_stop(engine, true);
    engine_free(engine);
    store_close(store);
    dir_remove(&data_dir);
    fake_volumes_remove();
}

/* A socket of this test on a free port of the loopback. */
static int server(int family, int type, uint16_t *ret_port)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *sa = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t len = family == AF_INET ? sizeof(v4) : sizeof(v6);
    int fd = socket(family, type | SOCK_CLOEXEC, 0);

    CHECK_INT(bind(fd, sa, len), 0);
    CHECK_INT(getsockname(fd, sa, &len), 0);
    *ret_port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
    return fd;
}

static int dial(uint16_t port, enum dial_kind kind)
{
    struct err err = {0};
    int fd = -1;

    if (engine_dial(engine, id, port, kind, &fd, &err) < 0)
        TAP_FAIL("%s", err.text);
    return fd;
}

static void dial_fails(uint16_t port, enum dial_kind kind, enum err_kind want, const char *code)
{
    struct err err = {0};
    int fd = -1;

    CHECK_INT(engine_dial(engine, id, port, kind, &fd, &err), -1);
    CHECK_INT(fd, -1);
    CHECK_INT(err.kind, want);
    CHECK_STR(err.code ? err.code : "", code);
}

static int wait_recv(int fd, char *text, size_t size)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    CHECK_INT(poll(&p, 1, PATIENCE_MS), 1);
    return (int)recv(fd, text, size, MSG_DONTWAIT);
}

static void talk(int family)
{
    char text[8] = "";
    uint16_t port;
    int s, fd, conn;

    s = server(family, SOCK_STREAM, &port);
    dial_fails(port, DIAL_TCP, ERR_UNAVAILABLE, "port_closed");
    CHECK_INT(listen(s, 5), 0);
    fd = dial(port, DIAL_TCP);
    conn = accept(s, NULL, NULL);
    CHECK(conn >= 0);
    CHECK_INT(send(fd, "hello", 5, MSG_DONTWAIT), 5);
    CHECK_INT(wait_recv(conn, text, sizeof(text)), 5);
    CHECK_STR(text, "hello");
    CHECK_INT(shutdown(fd, SHUT_WR), 0);
    CHECK_INT(wait_recv(conn, text, sizeof(text)), 0);
    CHECK_INT(send(conn, "bye", 4, 0), 4);
    CHECK_INT(wait_recv(fd, text, sizeof(text)), 4);
    (void)close(fd);
    (void)close(conn);
    (void)close(s);
}

TEST(a_tcp_port_can_be_dialled)
{
    up();
    talk(AF_INET);
    down();
}

TEST(a_port_that_listens_on_ipv6_only_can_be_dialled)
{
    up();
    talk(AF_INET6);
    down();
}

TEST(a_udp_port_can_be_dialled)
{
    char text[8] = "";
    uint16_t port;
    int s, fd;

    up();
    s = server(AF_INET, SOCK_DGRAM, &port);
    fd = dial(port, DIAL_UDP);
    CHECK_INT(send(fd, "ping", 4, MSG_DONTWAIT), 4);
    CHECK_INT(wait_recv(s, text, sizeof(text)), 4);
    CHECK_STR(text, "ping");
    (void)close(fd);
    (void)close(s);
    down();
}

#define WAITERS 16 /* no more may wait for the servers of one sandbox */

static void *wait_for_server(void *port)
{
    struct err err = {0};
    int fd = -1;

    CHECK_INT(engine_dial(engine, id, *(uint16_t *)port, DIAL_TCP, &fd, &err), -1);
    CHECK_STR(err.code ? err.code : "", "port_closed");
    return NULL;
}

/* Ends every connection of this process that is about to be made: the engine's are its own. */
static void end_connects(void)
{
    for (int fd = 0; fd < 256; fd++) {
        struct tcp_info info = {0};
        socklen_t len = sizeof(info);

        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
            info.tcpi_state == TCP_SYN_SENT)
            (void)shutdown(fd, SHUT_RDWR);
    }
}

/* Each holds a thread of the daemon's, so not many may. */
static void many_wait(uint16_t port)
{
    struct sandbox *sb = roster_find(engine, id);
    pthread_t threads[WAITERS];

    for (int i = 0; i < WAITERS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, wait_for_server, &port), 0);
    while (atomic_load(&sb->waits.connects) < WAITERS)
        (void)poll(NULL, 0, 1);
    for (int i = 0; i < WAITERS; i++)
        dial_fails(port, DIAL_TCP, ERR_UNAVAILABLE, "sandbox_busy");
    end_connects();
    for (int i = 0; i < WAITERS; i++)
        (void)pthread_join(threads[i], NULL);
    CHECK_INT(atomic_load(&sb->waits.connects), 0);
    sandbox_unref(sb);
}

TEST(a_server_that_takes_nobody_in_is_given_up)
{
    int s, fill[8], n = 0;
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint16_t port;

    up();
    s = server(AF_INET, SOCK_STREAM, &port);
    sa.sin_port = htons(port);
    CHECK_INT(listen(s, 0), 0);
    for (; n < 8; n++) { /* until there is no room for more */
        struct pollfd p = {.events = POLLOUT};

        fill[n] = p.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(p.fd, (struct sockaddr *)&sa, sizeof(sa));
        if (poll(&p, 1, 200) == 0)
            break;
    }
    CHECK(n < 8);
    CHECK_INT(engine->config.waits.server, 5000);
    engine->config.waits.server = 10;
    dial_fails(port, DIAL_TCP, ERR_TIMEOUT, "port_busy");
    engine->config.waits.server = 3600 * 1000;
    many_wait(port);
    engine->config.waits.server = 10;
    dial_fails(port, DIAL_TCP, ERR_TIMEOUT, "port_busy"); /* there is room again */
    for (; n >= 0; n--)
        (void)close(fill[n]);
    (void)close(s);
    down();
}

/* ---- an agent of before, and hostile ones */

static void answer(int fd, unsigned type, uint32_t value, const int *fds, size_t n)
{
    struct buf payload = {0}, frame = {0};

    buf_init(&payload, 16);
    wire_put_u32(&payload, value);
    buf_init(&frame, 64);
    CHECK_INT(frame_put(&frame, type, payload.data, payload.len), 0);
    CHECK_INT(send_fds(fd, frame.data, frame.len, fds, n), 0);
    buf_done(&payload);
    buf_done(&frame);
    (void)close(fd);
}

static int asked;

static void of_before(int fd)
{
    struct err err = {0};
    struct buf payload;

    if (asked++ > 0) {
        CHECK_INT(frame_send(fd, FRAME_OK, NULL, 0), 0);
        CHECK_INT(write_all(fd, "early", 5), 0);
        return;
    }
    buf_init(&payload, 4096);
    (void)err_set(&err, ERR_INVALID, "this socket of the agent does not serve call 52");
    call_error_put(&payload, &err);
    CHECK_INT(frame_send(fd, FRAME_ERROR, payload.data, payload.len), 0);
    buf_done(&payload);
    (void)close(fd);
}

TEST(an_agent_of_before_carries_the_connection_itself)
{
    char text[8] = "";
    int fd;

    up();
    hostile = of_before;
    fd = dial(80, DIAL_TCP);
    CHECK_INT(wait_recv(fd, text, sizeof(text)), 5);
    CHECK_STR(text, "early");
    (void)close(fd);
    asked = 0;
    dial_fails(80, DIAL_UDP, ERR_UNSUPPORTED, "");
    down();
}

static void without_a_socket(int fd)
{
    answer(fd, FRAME_OK, 1, NULL, 0);
}

static void with_a_file(int fd)
{
    int file = open("/dev/null", O_RDWR | O_CLOEXEC);

    answer(fd, FRAME_OK, 1, &file, 1);
    (void)close(file);
}

static void with_a_unix_socket(int fd)
{
    answer(fd, FRAME_OK, 1, &fd, 1);
}

static void with_a_datagram_socket(int fd)
{
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    answer(fd, FRAME_OK, 1, &s, 1);
    (void)close(s);
}

static void with_a_listener(int fd)
{
    uint16_t port;
    int s = server(AF_INET, SOCK_STREAM, &port);

    CHECK_INT(listen(s, 1), 0);
    answer(fd, FRAME_OK, 1, &s, 1);
    (void)close(s);
}

static void with_two_sockets(int fd)
{
    int s[2] = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

    answer(fd, FRAME_OK, 1, s, 2);
    (void)close(s[0]);
    (void)close(s[1]);
}

static void with_another_frame(int fd)
{
    answer(fd, FRAME_DATA, 1, NULL, 0);
}

static void with_a_long_frame(int fd)
{
    unsigned char head[FRAME_HEADER] = {0xff, 0xff, 1, 0, FRAME_OK};

    CHECK_INT(write_all(fd, head, sizeof(head)), 0);
    (void)close(fd);
}

static int count_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

TEST(what_a_hostile_agent_passes_is_refused_and_closed)
{
    void (*const ways[])(int) = {without_a_socket,       with_a_file,      with_a_unix_socket,
                                 with_a_datagram_socket, with_a_listener,  with_two_sockets,
                                 with_another_frame,     with_a_long_frame};

    up();
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        int before = count_fds();

        hostile = ways[i];
        dial_fails(80, DIAL_TCP, ERR_INTERNAL, "agent_protocol");
        CHECK_INT(count_fds(), before);
    }
    down();
}

static void hung_up(int fd)
{
    CHECK_INT(write_all(fd, "\4", 1), 0);
    (void)close(fd);
}

TEST(an_agent_that_hangs_up_in_the_answer_is_lost)
{
    up();
    hostile = hung_up;
    dial_fails(80, DIAL_TCP, ERR_UNAVAILABLE, "agent_lost");
    down();
}

/* ---- a socket that somebody in the sandbox holds too */

static uint16_t held_port;
static pthread_mutex_t held_lock =
    PTHREAD_MUTEX_INITIALIZER; /* one thread makes it, one closes it */
static int held = -1;

static void with_a_held_socket(int fd)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(held_port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    (void)pthread_mutex_lock(&held_lock);
    held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(held, (struct sockaddr *)&to, sizeof(to)), 0);
    answer(fd, FRAME_OK, 1, &held, 1);
    (void)pthread_mutex_unlock(&held_lock);
}

/* Entries of all epoll sets of this process. */
static int count_watched(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++) {
        char path[64], line[256];
        FILE *f;

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
        f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f))
            n += strncmp(line, "tfd:", 4) == 0;
        if (f)
            (void)fclose(f);
    }
    return n;
}

static uint16_t expose(void)
{
    json_t *in = json_pack("{s:i, s:i}", "containerPort", 80, "hostPort", 0), *out = NULL;
    struct err err = {0};
    uint16_t port;

    if (engine_port_expose(engine, id, in, &out, &err) < 0)
        TAP_FAIL("%s", err.text);
    port = (uint16_t)json_integer_value(json_object_get(out, "hostPort"));
    json_decref(in);
    json_decref(out);
    return port;
}

TEST(what_the_sandbox_still_holds_is_not_waited_for_after_its_connection)
{
    struct linger reset = {.l_onoff = 1};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s, client, accepted, before;
    char text[8];

    up();
    s = server(AF_INET, SOCK_STREAM, &held_port);
    CHECK_INT(listen(s, 4), 0);
    to.sin_port = htons(expose());
    hostile = with_a_held_socket;
    before = count_watched();
    client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(client, (struct sockaddr *)&to, sizeof(to)), 0);
    accepted = accept(s, NULL, NULL);
    CHECK_INT(send(client, "x", 1, MSG_NOSIGNAL), 1);
    CHECK_INT(wait_recv(accepted, text, sizeof(text)), 1);
    CHECK_INT(setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    (void)close(client);
    for (int64_t until = mono_ns() + PATIENCE_NS; mono_ns() < until && count_watched() != before;)
        (void)poll(NULL, 0, 1);
    CHECK_INT(count_watched(), before);
    (void)pthread_mutex_lock(&held_lock);
    (void)close(held);
    (void)pthread_mutex_unlock(&held_lock);
    (void)close(accepted);
    (void)close(s);
    down();
}

TEST(port_zero_is_none)
{
    up();
    dial_fails(0, DIAL_TCP, ERR_INVALID, "");
    down();
}

TAP_MAIN
