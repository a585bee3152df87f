#pragma once

#include <stdint.h>

struct err;

/* One connection of this machine that goes on to a port of a sandbox, through the daemon. */

/* Asks the daemon at target for a connection to the port, on a connection of its own: *ret is the
 * stream. Thread-safe. ret_code: the daemon's word for what is wrong, "" = none. */
#define TUNNEL_CODE_SIZE 64
int tunnel_dial(const char *target, const char *id, uint16_t port, int *ret,
                char ret_code[TUNNEL_CODE_SIZE], struct err *err);

/* Carries bytes between the two until both halves have ended or one side has broken, and closes
 * both, the local one with a reset if something broke. */
void tunnel_carry(int local, int stream);

/* Closes it so that its peer sees that it was not wanted. */
void tunnel_refuse(int local);
