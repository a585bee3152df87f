#pragma once

struct call;
struct caller;
struct err;
struct services;

/* What of calls goes into the audit log (service/audit.h): those that need more than read, and
 * those that were refused. */

/* Keeps what the call was asked, without secrets: the input is gone when it ends. */
void audited_begin(struct call *call);
void audited_end(struct call *call, int r, const struct err *err);
/* A request that became no call: its sender could not prove who it is, or was too quick. function:
 * what it asked for, or its path. */
void audited_refusal(struct services *services, const struct caller *caller, const char *function,
                     const struct err *err);

/* The text with what looks like a secret taken out, at most AUDITED_TEXT_MAX bytes of it; free it.
 */
#define AUDITED_TEXT_MAX 200
char *audited_text(const char *text);
