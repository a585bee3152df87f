#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "http/http_internal.h"

/* A request that is passed on to another server: its body is taken as it comes and its answer
 * written byte by byte by the handler, in steps of which none waits, on a worker or parked. */

#define PEER_MAX INET6_ADDRSTRLEN

const struct http_field *http_req_field(const struct http_req *req, unsigned i)
{
    return i < req->head.count ? &req->head.headers[i] : NULL;
}

bool http_req_is_http10(const struct http_req *req)
{
    return req->head.http10;
}

int64_t http_req_length(const struct http_req *req)
{
    return req->head.chunked ? -1 : req->head.length;
}

bool http_req_wants_upgrade(const struct http_req *req)
{
    return req->head.upgrade && !req->head.http10;
}

void http_req_peer(const struct http_req *req, char *ret, size_t size)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof(a);
    char text[PEER_MAX] = "";

    if (getpeername(req->conn->watched.fd, (struct sockaddr *)&a, &len) == 0) {
        if (a.ss_family == AF_INET)
            (void)inet_ntop(AF_INET, &((struct sockaddr_in *)&a)->sin_addr, text, sizeof(text));
        else if (a.ss_family == AF_INET6)
            (void)inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&a)->sin6_addr, text, sizeof(text));
    }
    (void)snprintf(ret, size, "%s", text);
}

void http_pass(struct http_req *req)
{
    req->passed = true;
    req->chunked.trailers = &req->trailers;
}

const struct buf *http_pass_trailers(const struct http_req *req)
{
    return &req->trailers;
}

/* ---- the answer ---- */

int http_pass_write(struct http_req *req, struct iovec *v, size_t count)
{
    return reply_send(req, v, count);
}

bool http_pass_begin(struct http_req *req, int status)
{
    (void)http_client_gone(req); /* while the interim answer can be sent that tells */
    req->status = status;
    req->reply = REPLY_UNTIL_CLOSE;
    req->expects_continue = false; /* it is too late to ask for the body */
    if (atomic_load(&req->worker->server->stopping))
        req->keep_alive = false;
    return req->keep_alive;
}

void http_pass_end(struct http_req *req, bool keep)
{
    req->reply = REPLY_DONE;
    if (!keep || !req->body_done)
        req->keep_alive = false;
}

void http_pass_upgraded(struct http_req *req)
{
    req->status = 101;
    req->reply = REPLY_UPGRADED;
}
