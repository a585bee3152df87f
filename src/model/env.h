#pragma once

#include <stdbool.h>

/* The name of a variable of a sandbox's environment, as callers may set it: letters, digits and _,
 * no digit first, 1 to ENV_KEY_MAX bytes. What an image brings along may have other names. */
bool env_key_valid(const char *key);
