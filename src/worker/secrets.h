#pragma once

#include <jansson.h>

struct credentials;
struct err;

/* Passwords of docker's configuration, and of the helpers that it names: the keeper reads them, and
 * tells the fetcher those of the registry and of the mirrors that this pull asks, by host. */

/* The fetcher's side of the SOCK_SEQPACKET pair. */
int secrets_ask(int sock, const char *host, struct credentials *ret, struct err *err);
/* The keeper's, until the other is gone. */
void secrets_serve(int sock, const json_t *request);
