#pragma once

/* What a client is told whose connection is not let through. */

#include <stddef.h>
#include <stdint.h>

/* The alert that TLS clients show as "access denied". */
#define REFUSAL_ALERT_BYTES 7
extern const uint8_t refusal_alert[REFUSAL_ALERT_BYTES];

#define REFUSAL_PAGE_MAX 1536

/* A whole answer of HTTP: 403, naming the rule and how to change it. box is the sandbox's id, name
 * whom the request was for ("" = not told). Bytes. */
size_t refusal_page(const char *box, const char *name, const char *why, char ret[REFUSAL_PAGE_MAX]);
/* 400: the request has more than one reading. */
size_t refusal_bad_request(char ret[REFUSAL_PAGE_MAX]);
/* 502: what was allowed could not be reached. */
size_t refusal_unreachable(const char *name, int error, char ret[REFUSAL_PAGE_MAX]);

/* Closes the connection so that the other end sees it broken at once (RST), not ended. */
void refusal_reset(int fd);
