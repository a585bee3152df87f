#include "model/no_network.h"

#include <string.h>

#include "base/mem.h"

/* What the C library says, and programs that say it in their own way. */
static const char *const phrases[] = {
    "Temporary failure in name resolution", /* glibc: Python, pip, ssh */
    "Temporary failure resolving",          /* apt */
    "Unable to locate package",             /* apt, whose lists never came */
    /* apt in the host image, which has no database of packages either, though it says "are you
     * root?" */
    "/var/lib/dpkg/lock-frontend - open (2: ",
    "temporary error (try again later)", /* apk */
    "Name or service not known",
    "Could not resolve host",         /* curl, git */
    "unable to resolve host address", /* wget */
    "bad address '",                  /* busybox */
    "EAI_AGAIN",                      /* node, npm */
    "ENOTFOUND",
    "dial tcp: lookup ",        /* Go */
    "failed to lookup address", /* Rust */
    "UnknownHostException",     /* Java */
    "Network is unreachable",
    "ENETUNREACH",
};

bool output_lacks_network(const char *output, size_t len)
{
    size_t skip = len > NO_NETWORK_TAIL ? len - NO_NETWORK_TAIL : 0;

    if (len == 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(phrases); i++)
        if (memmem(output + skip, len - skip, phrases[i], strlen(phrases[i])))
            return true;
    return false;
}
