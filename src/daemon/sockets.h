#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* The two places the daemon listens at. Each returns a descriptor, or -1 with err. */

/* host is an address or a name. With beyond false, only loopback is accepted. *ret_port is the port
 * it got; *ret_loopback says whether only this machine can reach it. */
int listen_tcp(const char *host, uint32_t port, bool beyond, uint32_t *ret_port, bool *ret_loopback,
               struct err *err);

/* Is fd, which another daemon listened on, where listen_tcp() would listen? 1 as that fills it in,
 * 0 when it is elsewhere, -1 when it may not be there. */
int listen_tcp_as(int fd, const char *host, uint32_t port, bool beyond, uint32_t *ret_port,
                  bool *ret_loopback, struct err *err);

/* The group whose members may use the unix socket. Without a name it is `cay`, or SOCKET_NO_GROUP
 * where there is no such group; a name that the machine does not know is refused. */
#define SOCKET_NO_GROUP ((gid_t)-1)
int socket_group(const char *name, gid_t *ret, struct err *err);

/* <run>/cay.sock, mode 0660, of that group. Something else at that path, or another daemon that
 * answers there, is refused. *ret_path is allocated. */
int listen_unix(const char *run_dir, gid_t group, char **ret_path, struct err *err);
/* The same for a socket that is there, made by a daemon with another configuration. */
int listen_unix_group(const char *path, gid_t group, struct err *err);
char *listen_unix_path(const char *run_dir);
