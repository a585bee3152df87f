#pragma once

#include <stdbool.h>

/* sandbox://ID/path: a file or a folder in a sandbox; sandbox://ID is the sandbox itself. What is
 * not plain in a path is percent-encoded. */

/* Both are new strings; *ret_path is "" for the sandbox itself, else it begins with '/'. False when
 * it is no such URI. */
bool sandbox_uri_read(const char *uri, char **ret_sandbox, char **ret_path);
