#include <microhttpd.h>
#include <string.h>

#include "hello.h"

static enum MHD_Result hello(void *cls, struct MHD_Connection *c, const char *url,
                             const char *method, const char *version, const char *data,
                             size_t *size, void **con)
{
    static int seen;
    struct MHD_Response *r;
    enum MHD_Result ok;

    (void)cls, (void)url, (void)method, (void)version, (void)data, (void)size;
    /* The first call is for the head alone: an answer to it would close the connection. */
    if (!*con) {
        *con = &seen;
        return MHD_YES;
    }
    r = MHD_create_response_from_buffer(strlen(HELLO), (void *)HELLO, MHD_RESPMEM_PERSISTENT);
    (void)MHD_add_response_header(r, "Content-Type", "application/json");
    ok = MHD_queue_response(c, 200, r);
    MHD_destroy_response(r);
    return ok;
}

int hello_microhttpd_pool(int listen_fd)
{
    return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, hello, NULL,
                            MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_THREAD_POOL_SIZE, 2u,
                            MHD_OPTION_CONNECTION_LIMIT, 10000u, MHD_OPTION_END)
               ? 0
               : -1;
}

int hello_microhttpd_threads(int listen_fd)
{
    return MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                                MHD_USE_POLL,
                            0, NULL, NULL, hello, NULL, MHD_OPTION_LISTEN_SOCKET, listen_fd,
                            MHD_OPTION_CONNECTION_LIMIT, 10000u, MHD_OPTION_END)
               ? 0
               : -1;
}
