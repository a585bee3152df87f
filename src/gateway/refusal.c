#include "gateway/refusal.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

#define TEXT_MAX 1024

/* alert, TLS 1.2 as all records say, 2 bytes: fatal, access_denied */
const uint8_t refusal_alert[REFUSAL_ALERT_BYTES] = {21, 3, 3, 0, 2, 2, 49};

static size_t page(const char *status, const char *text, char ret[REFUSAL_PAGE_MAX])
{
    int n = snprintf(ret, REFUSAL_PAGE_MAX,
                     "HTTP/1.1 %s\r\n"
                     "Content-Type: text/plain; charset=utf-8\r\n"
                     "Content-Length: %zu\r\n"
                     "Cache-Control: no-store\r\n"
                     "X-Cay-Refused: network-policy\r\n"
                     "Connection: close\r\n\r\n%s",
                     status, strlen(text), text);

    return n < REFUSAL_PAGE_MAX ? (size_t)n : REFUSAL_PAGE_MAX - 1;
}

size_t refusal_page(const char *box, const char *name, const char *why, char ret[REFUSAL_PAGE_MAX])
{
    const char *whom = name[0] ? name : "a host that was not named";
    char text[TEXT_MAX];

    (void)snprintf(text, sizeof(text),
                   "cay: the network policy of this sandbox does not allow %s.\n\n"
                   "Decided by: %s\n\n"
                   "To see what would be allowed:  cay net explain %s %s\n"
                   "To change the policy:  cay net set %s … --allow %s\n"
                   "(or PUT /sandbox/sandboxes/%s/network)\n",
                   whom, why, box, name[0] ? name : "HOST", box, name[0] ? name : "HOST", box);
    return page("403 Forbidden", text, ret);
}

size_t refusal_bad_request(char ret[REFUSAL_PAGE_MAX])
{
    return page("400 Bad Request",
                "cay: this request cannot be checked against the network policy of this sandbox:\n"
                "it is not exactly HTTP/1.1 (or it asks for a tunnel), so that it could mean one\n"
                "host to the gateway and another to the server.\n",
                ret);
}

size_t refusal_unreachable(const char *name, int error, char ret[REFUSAL_PAGE_MAX])
{
    char text[TEXT_MAX];

    (void)snprintf(text, sizeof(text),
                   "cay: the network policy allows %s, but it cannot be reached: %s.\n",
                   name[0] ? name : "this host", strerror(error));
    return page("502 Bad Gateway", text, ret);
}

void refusal_reset(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    if (fd < 0)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    (void)close(fd);
}
