#pragma once

struct args;

/* What the daemon gives at that path below /sandbox, an archive of name, into the file that the
 * second word names; to stdout without one. An exit status. */
int archive_save(struct args *args, const char *name, const char *url);
