#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/hostfs.h"
#include "cli/iii_client.h"
#include "cli/meter.h"
#include "cli/ui.h"
#include "http/websocket_client.h"

/* Files in and out of a sandbox, through a channel: bytes go beside the call that wants them. */

#define PIECE      65536
#define UNSENT_MAX (4 * PIECE)
#define CLOSE_MS   1000

static void channel_done(struct websocket_client **channel)
{
    websocket_client_free(*channel);
}
#define auto_channel __attribute__((cleanup(channel_done)))

static bool is_dash(const char *word)
{
    return strcmp(word, "-") == 0;
}

static int tell_bytes(const struct args *args, const json_t *answer, int64_t bytes)
{
    if (args_has(args, "json"))
        ui_json(answer);
    else
        printf("%lld bytes\n", (long long)bytes);
    return STATUS_OK;
}

/* ---- upload ---- */

struct upload {
    struct iii_client *client;
    struct websocket_client *channel;
    int fd;
    bool ended; /* all of it is on its way */
    struct meter meter;
    json_t *answer; /* NULL = there is none yet */
};

/* One more piece, when there is room for it. */
static int read_piece(struct upload *u, struct err *err)
{
    char piece[PIECE];
    ssize_t n = read_some(u->fd, piece, sizeof(piece));

    if (n < 0)
        return err_sys(err, (int)-n, "read the file");
    if (n == 0) {
        u->ended = true;
        websocket_close(websocket_client_socket(u->channel), WEBSOCKET_NORMAL, "stream_complete");
        return 0;
    }
    meter_add(&u->meter, n);
    /* Whoever reads has gone: the answer says why. */
    if (websocket_send(websocket_client_socket(u->channel), false, piece, (size_t)n) < 0)
        u->ended = true;
    return 0;
}

/* Waits until something can go on: 0, or -1 when nothing has for too long. */
static int await(struct upload *u, struct err *err)
{
    bool room = !u->ended && websocket_client_unsent(u->channel) < UNSENT_MAX;
    struct pollfd p[3] = {
        {.fd = websocket_client_fd(u->client->ws),
         .events = websocket_client_events(u->client->ws)},
        {.fd = websocket_client_fd(u->channel), .events = websocket_client_events(u->channel)},
        {.fd = room ? u->fd : -1, .events = POLLIN},
    };
    /* What comes from a pipe may take its time. */
    int n = poll(p, 3, u->client->more ? 0 : room ? -1 : III_STALL_MS);

    if (n < 0 && errno != EINTR)
        return err_sys(err, errno, "wait");
    if (n == 0 && !u->client->more)
        return err_code(err, ERR_TIMEOUT, "timeout", "nothing has moved for %d s",
                        III_STALL_MS / 1000);
    if (p[2].revents && read_piece(u, err) < 0)
        return -1;
    (void)websocket_client_flush(u->client->ws);
    return 0;
}

/* Sends until the call is answered, be it before the end. */
static int stream(struct upload *u, struct err *err)
{
    for (;;) {
        struct websocket_message m;
        int r = iii_client_answer(u->client, 0, &u->answer, err);

        if (r != 0)
            return r < 0 ? -1 : 0;
        /* Its pings and its Close are dealt with there. */
        if (websocket_next(websocket_client_socket(u->channel), &m) < 0 ||
            websocket_client_flush(u->channel) < 0)
            u->ended = true;
        if (u->ended && websocket_is_closed(websocket_client_socket(u->channel)) &&
            !websocket_client_wants_write(u->channel)) {
            r = iii_client_answer(u->client, III_STALL_MS, &u->answer, err);
            return r > 0   ? 0
                   : r < 0 ? -1
                           : err_code(err, ERR_TIMEOUT, "timeout",
                                      "sandbox::fs::write has not answered");
        }
        if (await(u, err) < 0)
            return -1;
    }
}

static json_t *write_data(const struct args *args, const json_t *channel)
{
    json_t *data = json_pack("{s:s, s:s, s:O}", "sandbox_id", args->words[0], "path",
                             args->words[2], "content", json_object_get(channel, "reader"));

    if (!data)
        return NULL;
    json_put_text(data, "mode", args_text(args, "mode"));
    if (args_has(args, "parents"))
        (void)json_object_set_new(data, "parents", json_true());
    return data;
}

static int upload(struct upload *u, const struct args *args, struct err *err)
{
    json_t *channel = NULL, *data;
    int r;

    if (iii_client_channel_new(u->client, &channel, err) < 0)
        return -1;
    u->channel = iii_client_channel_open(u->client, json_object_get(channel, "writer"), err);
    data = u->channel ? write_data(args, channel) : NULL;
    json_decref(channel);
    if (!u->channel)
        return -1;
    if (!data)
        return err_set(err, ERR_INVALID, "the id or the path is not valid UTF-8 text");
    if (iii_client_ask(u->client, "sandbox::fs::write", NULL, data, err) < 0)
        return -1;
    r = stream(u, err);
    meter_end(&u->meter);
    return r;
}

/* Here first: what is not there must leave nothing in the sandbox. */
static int open_local(const char *path, int64_t *ret_size, struct err *err)
{
    int fd =
        is_dash(path) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return err_sys(err, errno, "open %.120s", path);
    if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode)) {
        (void)close(fd);
        return err_set(err, ERR_INVALID, "%.120s is a folder: a file is needed", path);
    }
    *ret_size = S_ISREG(st.st_mode) ? st.st_size : -1;
    return fd;
}

int cmd_sandbox_upload(struct args *args)
{
    auto_iii struct iii_client c = {.stop_fd = -1};
    const char *mode = args_text(args, "mode");
    struct upload u = {.client = &c};
    auto_close int fd = -1;
    struct err err = {0};
    uint32_t bits;
    int64_t size = -1;
    int status;

    if (mode && (str_octal(mode, &bits) < 0 || bits > 07777))
        return ui_usage(args, "--mode must be octal, as 0644, not \"%.20s\"", mode);
    fd = open_local(args->words[1], &size, &err);
    if (fd < 0)
        return iii_client_fail(&c, &err);
    status = iii_client_start(&c, args, -1);
    if (status != STATUS_OK)
        return status;
    u.fd = fd;
    meter_begin(&u.meter, size);
    status = upload(&u, args, &err) < 0
                 ? iii_client_fail(&c, &err)
                 : tell_bytes(args, u.answer, json_int(u.answer, "bytes_written"));
    json_decref(u.answer);
    websocket_client_free(u.channel);
    return status;
}

/* ---- download ---- */

/* What a text in between says went wrong; NULL = nothing. The caller frees it. */
static char *trouble(const struct websocket_message *m)
{
    json_t *o = json_loadb(m->data, m->len, 0, NULL);
    char *text = *json_text(o, "error") ? xstrdup(json_text(o, "error")) : NULL;

    json_decref(o);
    return text;
}

static int receive(struct websocket_client *channel, int fd, int64_t size, struct err *err)
{
    struct meter meter;
    int r;

    meter_begin(&meter, size);
    for (;;) {
        struct websocket_message m;

        r = websocket_client_next(channel, III_STALL_MS, &m, err);
        if (r <= 0)
            break;
        if (m.is_text) {
            auto_free char *why = trouble(&m);

            if (!why)
                continue;
            meter_end(&meter);
            return err_set(err, ERR_INTERNAL, "%s", why);
        }
        meter_add(&meter, (int64_t)m.len);
        r = write_all(fd, m.data, m.len);
        if (r < 0) {
            meter_end(&meter);
            return err_sys(err, -r, "write");
        }
    }
    meter_end(&meter);
    if (r == 0)
        return err_code(err, ERR_TIMEOUT, "timeout", "nothing has come for %d s",
                        III_STALL_MS / 1000);
    /* The end does not tell whether it is one. */
    if (meter.done != size)
        return err_set(err, ERR_UNAVAILABLE, "only %lld of %lld bytes have come",
                       (long long)meter.done, (long long)size);
    return 0;
}

static int fetch(struct iii_client *c, const struct args *args, json_t **ret, struct err *err)
{
    json_t *data = json_pack("{s:s, s:s}", "sandbox_id", args->words[0], "path", args->words[1]);

    if (!data)
        return err_set(err, ERR_INVALID, "the id or the path is not valid UTF-8 text");
    return iii_client_call(c, "sandbox::fs::read", NULL, data, III_STALL_MS, ret, err);
}

static int download_to(struct iii_client *c, const json_t *answer, int fd, struct err *err)
{
    auto_channel struct websocket_client *channel =
        iii_client_channel_open(c, json_object_get(answer, "content"), err);

    if (!channel)
        return -1;
    return receive(channel, fd, json_int(answer, "size"), err);
}

/* The file that is written: in a folder that was named, as it is called there. */
static int begin_local(const char *local, const char *remote, struct host_file *f, int *ret_dir,
                       struct err *err)
{
    auto_free char *dir = NULL, *name = NULL, *there = NULL, *theirs = NULL;
    struct stat st;
    bool in_folder = stat(local, &st) == 0 && S_ISDIR(st.st_mode);

    host_split(in_folder ? remote : local, in_folder ? &there : &dir, in_folder ? &theirs : &name);
    *ret_dir = open(in_folder ? local : dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_dir < 0)
        return err_sys(err, errno, "open the folder of %.120s", local);
    if (!host_name_ok(in_folder ? theirs : name))
        return err_set(err, ERR_INVALID, "%.120s names no file", local);
    return host_file_begin(f, *ret_dir, in_folder ? theirs : name, err);
}

static int download_file(struct iii_client *c, const struct args *args, json_t **ret,
                         struct err *err)
{
    struct host_file f = {.dirfd = -1, .fd = -1};
    auto_close int dirfd = -1;
    uint32_t mode = 0644;
    int r = begin_local(args->words[2], args->words[1], &f, &dirfd, err);

    if (r < 0)
        return -1;
    r = fetch(c, args, ret, err);
    if (r == 0)
        r = download_to(c, *ret, f.fd, err);
    if (r == 0) {
        (void)str_octal(json_text(*ret, "mode"), &mode);
        r = host_file_commit(&f, mode & 0777, json_int(*ret, "mtime"), err);
    }
    host_file_done(&f);
    return r;
}

int cmd_sandbox_download(struct args *args)
{
    auto_iii struct iii_client c = {.stop_fd = -1};
    bool to_stdout = is_dash(args->words[2]);
    json_t *answer = NULL;
    struct err err = {0};
    int status = iii_client_start(&c, args, -1), r;

    if (status != STATUS_OK)
        return status;
    if (to_stdout)
        r = fetch(&c, args, &answer, &err) < 0 ? -1 : download_to(&c, answer, STDOUT_FILENO, &err);
    else
        r = download_file(&c, args, &answer, &err);
    if (r < 0) {
        status =
            to_stdout && err.sys == EPIPE ? STATUS_SIGNAL + SIGPIPE : iii_client_fail(&c, &err);
    } else if (!to_stdout) {
        (void)json_object_del(answer, "content");
        (void)json_object_del(answer, "body");
        status = tell_bytes(args, answer, json_int(answer, "size"));
    }
    json_decref(answer);
    return status;
}
