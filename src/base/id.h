#pragma once

#include <stdbool.h>

/* Ids are "<prefix>_" and 24 lower-case hex digits of 12 random bytes; the names of kernel objects
 * (cgroups, sockets, folders) derive from them. */
#define ID_SIZE 40

void id_new(char ret[ID_SIZE], const char *prefix);

/* The host name of what has the id: with a dash, since host names have no underscore (RFC 1123). */
void id_hostname(const char *id, char ret[ID_SIZE]);

/* Has s that exact form? What passes is safe as a file name. */
bool id_valid(const char *s, const char *prefix);
