#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/config.h"

struct err;

/* How a daemon takes over from one that runs (`cay serve --replace`), through the socket
 * <run>/replace.sock, at which only the daemon's own user is heard:
 *
 *   the new one                            the old one
 *   connects                          ──▶
 *                                     ◀──  LISTENERS, and goes on serving
 *   looks whether it can serve, and
 *   binds what it wants elsewhere
 *   GO                                ──▶
 *                                     ◀──  a CONNECTION for each that waits for a request
 *                                          lets calls end, gives up database and sandboxes
 *                                     ◀──  DONE
 *   opens the database, adopts the
 *   sandboxes, serves
 *   SERVES                            ──▶  ends
 *
 * Who connects meanwhile waits to be accepted. If the new one ends before its SERVES, the old one
 * starts over with the same sockets; if the old one ends, its database is free. */

/* Connections of clients. */
struct conns {
    struct {
        int fd;
        bool is_tcp;
    } * list;
    size_t n;
};

/* ---- the old one ---- */

struct handover {
    int listen_fd;      /* -1 = not yet */
    int peer;           /* who wants to replace us; -1 = nobody */
    int64_t until_ns;   /* so long it may take to say GO */
    struct conns given; /* our copies, in case we have to go on */
    char *path;
};

enum handover_news { HANDOVER_NOTHING, HANDOVER_GO };

int handover_listen(struct handover *h, const char *run, struct err *err);
/* The sockets that are listened on; -1 = not at that. */
struct listeners {
    int unix_fd, tcp_fd;
    int ws_fd;               /* of iii's protocol */
    int more[LISTENERS_MAX]; /* of it too; of those that another had in any order */
};

#define NO_LISTENERS ((struct listeners){-1, -1, -1, {[0 ... LISTENERS_MAX - 1] = -1}})

void listeners_close(struct listeners *at);

/* Somebody connects: gets the listening sockets, or is told that another is at it. */
void handover_accept(struct handover *h, const char *data, const struct listeners *listeners);
enum handover_news handover_hear(struct handover *h);
/* Until the peer has had time enough to say GO; -1 = there is none. */
int handover_wait_ms(const struct handover *h);
void handover_drop_peer(struct handover *h);
/* One connection; takes the descriptor. */
void handover_give(int fd, bool is_tcp, void *handover);
/* All is given up. True when the new one serves, or a signal says that we are to end; false when it
 * has gone. */
bool handover_finish(struct handover *h, int signal_fd);
/* With unlink, nobody finds the socket any more. */
void handover_close(struct handover *h, bool unlink_path);

/* ---- the new one ---- */

struct heir {
    int fd;    /* -1 = there was no daemon */
    int pidfd; /* of that daemon */
    struct listeners listeners;
    struct conns conns;
};

/* 0 also when there is none to replace. */
int heir_join(struct heir *h, const char *run, const char *data, struct err *err);
/* Says GO and waits until all is given up; connections come meanwhile. */
int heir_go(struct heir *h, struct err *err);
void heir_serves(struct heir *h);
void heir_done(struct heir *h);
