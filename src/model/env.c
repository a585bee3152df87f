#include "model/env.h"
#include "model/limits.h"

#include <string.h>

bool env_key_valid(const char *key)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    size_t len = strspn(key, letters);

    return len > 0 && len <= ENV_KEY_MAX && !key[len] && !(*key >= '0' && *key <= '9');
}
