#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Does a command that failed say, at the end of its output, that it could not reach the network? Of
 * long output only the last bytes count. */
bool output_lacks_network(const char *output, size_t len);

/* Or that somebody on the way refused it? */
bool output_was_refused(const char *output, size_t len);

#define NO_NETWORK_TAIL 4096
