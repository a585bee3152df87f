#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/handover.h"

struct daemon_config;
struct err;
struct http_server;

/* All that the daemon listens on, by its configuration. What is open already, since another daemon
 * had it or a start before this one, stays open where it is where it should be, and is closed
 * otherwise. */

int listeners_open_tcp(struct listeners *at, const struct daemon_config *c, uint32_t *ret_port,
                       struct err *err);
/* Those of iii's protocol. */
int listeners_open_iii(struct listeners *at, const struct daemon_config *c, struct err *err);
/* *ret_path is replaced, and to be freed. */
int listeners_open_unix(struct listeners *at, const char *run, gid_t group, char **ret_path,
                        struct err *err);

/* The server gets copies. */
int listeners_serve(const struct listeners *at, const struct daemon_config *c,
                    struct http_server *http, struct err *err);
/* Did that TCP connection come to one of them? */
bool listeners_have(const struct listeners *at, int fd);
/* Names by which requests may call the daemon; free with strv_free(). */
char **listeners_hosts(const struct daemon_config *c);
/* "ws://127.0.0.1:49134 …", or NULL. */
char *listeners_iii(const struct listeners *at, const struct daemon_config *c);
