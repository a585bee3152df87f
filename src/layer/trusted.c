#include "layer/trusted.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

#define OPAQUE   "trusted.overlay.opaque"
#define REDIRECT "trusted.overlay.redirect"
#define METACOPY "trusted.overlay.metacopy"
#define BYTES    "trusted.cay.bytes"
#define ENTRIES  "trusted.cay.entries"

enum op { OP_LOOK, OP_MAKE_OPAQUE, OP_SET_NOTE, OP_GET_NOTE };

/* The same there and back. */
struct message {
    int32_t op, result;
    struct layer_note note;
};

static int asked = -1; /* the socket; -1 = this process may itself */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- by this process ---- */

static int look(int fd)
{
    char value[2];
    int found = 0;

    if (fgetxattr(fd, OPAQUE, value, sizeof(value)) == 1 && value[0] == 'y')
        found |= TRUSTED_OPAQUE;
    if (fgetxattr(fd, REDIRECT, NULL, 0) >= 0)
        found |= TRUSTED_REDIRECT;
    if (fgetxattr(fd, METACOPY, NULL, 0) >= 0)
        found |= TRUSTED_METACOPY;
    return found;
}

static int set_number(int fd, const char *name, uint64_t number)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    return fsetxattr(fd, name, text, strlen(text), 0) < 0 ? -errno : 0;
}

static uint64_t get_number(int fd, const char *name)
{
    char text[32] = "";
    uint64_t number = 0;

    if (fgetxattr(fd, name, text, sizeof(text) - 1) > 0)
        (void)str_u64(text, &number);
    return number;
}

static int change(int dirfd, const struct message *m)
{
    struct stat st;
    int r;

    if (fstat(dirfd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return -ENOTDIR;
    if (m->op == OP_MAKE_OPAQUE)
        return fsetxattr(dirfd, OPAQUE, "y", 1, 0) < 0 ? -errno : 0;
    r = set_number(dirfd, BYTES, m->note.bytes);
    return r < 0 ? r : set_number(dirfd, ENTRIES, m->note.entries);
}

static void do_it(int fd, struct message *m)
{
    switch ((enum op)m->op) {
    case OP_LOOK:
        m->result = look(fd);
        return;
    case OP_MAKE_OPAQUE:
    case OP_SET_NOTE:
        m->result = change(fd, m);
        return;
    case OP_GET_NOTE:
        m->note = (struct layer_note){get_number(fd, BYTES), get_number(fd, ENTRIES)};
        m->result = 0;
        return;
    default:
        m->result = -EINVAL;
    }
}

/* ---- by another ---- */

void trusted_ask(int sock)
{
    asked = sock;
}

void trusted_serve(int sock)
{
    struct message m;

    for (;;) {
        size_t nfds = 1;
        int fd = -1;
        ssize_t n = recv_fds(sock, &m, sizeof(m), &fd, &nfds);

        if (n != (ssize_t)sizeof(m) || nfds != 1) { /* the end, or nonsense */
            close_fd(&fd);
            return;
        }
        do_it(fd, &m);
        close_fd(&fd);
        if (send_fds(sock, &m, sizeof(m), NULL, 0) < 0)
            return;
    }
}

static int ask_other(int fd, struct message *m)
{
    size_t nfds = 0;
    ssize_t n;
    int r;

    (void)pthread_mutex_lock(&lock);
    r = send_fds(asked, m, sizeof(*m), &fd, 1);
    n = r < 0 ? r : recv_fds(asked, m, sizeof(*m), NULL, &nfds);
    (void)pthread_mutex_unlock(&lock);
    return n == (ssize_t)sizeof(*m) ? m->result : -EPIPE;
}

static int ask(int fd, struct message *m)
{
    if (asked >= 0)
        return ask_other(fd, m);
    do_it(fd, m);
    return m->result;
}

int trusted_look(int fd)
{
    struct message m = {.op = OP_LOOK};

    return ask(fd, &m);
}

int trusted_make_opaque(int dirfd)
{
    struct message m = {.op = OP_MAKE_OPAQUE};

    return ask(dirfd, &m);
}

int trusted_set_note(int root, const struct layer_note *note)
{
    struct message m = {.op = OP_SET_NOTE, .note = *note};

    return ask(root, &m);
}

int trusted_get_note(int root, struct layer_note *ret)
{
    struct message m = {.op = OP_GET_NOTE};
    int r = ask(root, &m);

    if (r == 0)
        *ret = m.note;
    return r;
}
