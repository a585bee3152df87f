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

/* What a refusal of the gateway's looks like: RST, ICMP, a 403 page, an end in TLS's greeting. */
static const char *const refusals[] = {
    "onnection refused",
    "n't connect to server",       /* curl of Debian 12 */
    "Could not connect to server", /* curl 8 */
    "ECONNREFUSED",
    "onnection reset",
    "ECONNRESET",
    "403 Forbidden",
    "HTTP error 403",
    "returned error: 403",
    "No route to host",
    "EHOSTUNREACH",
    "SSL_ERROR_SYSCALL",
    "UNEXPECTED_EOF_WHILE",
    "unexpected eof",
    "Communication prohibited",
    "TLS handshake",
};

static bool has_one_of(const char *output, size_t len, const char *const *list, size_t n)
{
    size_t skip = len > NO_NETWORK_TAIL ? len - NO_NETWORK_TAIL : 0;

    for (size_t i = 0; len > 0 && i < n; i++)
        if (memmem(output + skip, len - skip, list[i], strlen(list[i])))
            return true;
    return false;
}

bool output_was_refused(const char *output, size_t len)
{
    return output_lacks_network(output, len) ||
           has_one_of(output, len, refusals, ARRAY_LEN(refusals));
}

bool output_lacks_network(const char *output, size_t len)
{
    return has_one_of(output, len, phrases, ARRAY_LEN(phrases));
}
