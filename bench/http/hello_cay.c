#include <string.h>

#include "hello.h"
#include "http/server.h"

static void hello(struct http_req *req, void *arg)
{
    (void)arg;
    http_reply(req, 200, "application/json", HELLO, strlen(HELLO));
}

int hello_cay(int listen_fd)
{
    struct http_limits limits = HTTP_LIMITS_DEFAULT;
    struct http_server *s = http_server_new(&limits, hello, NULL);

    if (http_server_listen(s, listen_fd, true, NULL) < 0)
        return -1;
    return http_server_start(s, NULL);
}
