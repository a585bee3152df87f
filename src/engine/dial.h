#pragma once

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct err;

enum dial_kind { DIAL_TCP, DIAL_UDP };

/* A connection to a port on the loopback of a sandbox that runs, whether it has a network or not.
 *
 * The socket is in the sandbox's network and whoever took its agent over may hold it too, so it is
 * hostile: use it with MSG_DONTWAIT and poll() only. O_NONBLOCK and the socket's timeouts are not
 * ours alone; read(), write() and splice() could be made to wait for ever, and so could close():
 * use dial_close(). Of a sandbox with an
 * agent of before it is a unix stream that ends like a connection.
 *
 * ERR_UNAVAILABLE "port_closed" when nothing listens (DIAL_UDP does not know), ERR_TIMEOUT
 * "port_busy" when its server takes nobody in; ERR_CONFLICT "sandbox_not_running" and the rest as
 * any call on a sandbox. It waits for the sandbox as other calls do. */
int engine_dial(struct engine *e, const char *id, uint16_t port, enum dial_kind kind, int *ret_fd,
                struct err *err);
/* With reset the other end hears of it at once, and what is on its way is lost. */
void dial_close(int fd, bool reset);
