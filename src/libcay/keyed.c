#include <string.h>

#include "base/mem.h"
#include "libcay/libcay_internal.h"

/* POSTs that make something, once for a key; '*' is one part of a path. A test holds them against
 * the daemon's table. */
static const char *const keyed[] = {
    "/sandboxes",
    "/sandboxes/*/exec/background",
    "/sandboxes/*/exec/queue",
    "/sandboxes/*/interpret/contexts",
    "/sandboxes/*/alerts",
    "/sandboxes/*/commit",
    "/sandboxes/*/snapshots",
    "/sandboxes/*/clone",
    "/sandboxes/*/fork",
    "/sandboxes/*/terminal",
    "/sandboxes/*/ports",
    "/templates",
    "/snapshots/import",
    "/snapshots/*/clone",
    "/volumes",
    "/volumes/*/attach",
    "/pool/profiles",
    "/networks",
    "/networks/*/connect",
    "/events/publish",
    "/tokens",
    "/webhooks",
};

static bool matches(const char *pattern, const char *path)
{
    for (; *pattern; pattern++) {
        if (*pattern == '*')
            path += strcspn(path, "/?");
        else if (*path++ != *pattern)
            return false;
    }
    return *path == '\0' || *path == '?';
}

bool path_takes_key(const char *path)
{
    static const char prefix[] = "/sandbox";

    if (strncmp(path, prefix, sizeof(prefix) - 1) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(keyed); i++)
        if (matches(keyed[i], path + sizeof(prefix) - 1))
            return true;
    return false;
}
