#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* All return 0 (or a count) or -errno, and go on after EINTR. */

int write_all(int fd, const void *data, size_t len);

/* Reads exactly len bytes; -EPIPE when the stream ends before. */
int read_exact(int fd, void *data, size_t len);

/* read() that goes on after EINTR: bytes, 0 at the end, or -errno. */
ssize_t read_some(int fd, void *data, size_t len);

int fd_set_cloexec(int fd, bool on);
int fd_set_nonblock(int fd, bool on);

/* One datagram or stream chunk with descriptors. recv_fds returns the byte count (0 = end); *nfds
 * is the room on entry and the number received on return; received ones are CLOEXEC. More
 * descriptors than there is room for are closed and give -EMSGSIZE. */
int send_fds(int sock, const void *data, size_t len, const int *fds, size_t nfds);
ssize_t recv_fds(int sock, void *data, size_t len, int *fds, size_t *nfds);
/* As recv_fds(), but it never waits: -EAGAIN. */
ssize_t recv_fds_now(int sock, void *data, size_t len, int *fds, size_t *nfds);
/* As recv_fds(), of a message that is there and stays there. */
ssize_t peek_fds(int sock, void *data, size_t len, int *fds, size_t *nfds);

/* A unix stream socket, listening at path (replacing a stale one), or connected to it. Paths longer
 * than sun_path work through /proc/self/fd. */
int unix_listen(const char *path, int backlog);
int unix_connect(const char *path);
/* The same of sockets that keep messages apart (SOCK_SEQPACKET). */
int unix_listen_packets(const char *path, int backlog);
int unix_connect_packets(const char *path);
/* As unix_connect, but it never waits: -EAGAIN when so many wait to be accepted that there is no
 * room for another. The descriptor it gives is a blocking one. */
int unix_connect_now(const char *path);

/* Did a TCP connection come to the address that the other socket listens on? */
bool fd_came_to(int fd, int listening);

/* A memfd with that content, which nobody can change any more: the descriptor, CLOEXEC. */
int fd_sealed(const char *name, const void *data, size_t len, mode_t mode);

/* Writes a short string to an existing file (sysfs, cgroupfs, procfs): 0 or -errno. */
int write_file_at(int dirfd, const char *path, const char *text);

/* Reads a short file into text (NUL-terminated, at most size - 1 bytes): bytes or -errno. */
ssize_t read_file_at(int dirfd, const char *path, char *text, size_t size);
