#pragma once

/* What the first bytes of a connection say about whom the client means to reach. No I/O: tests and
 * fuzzers call these. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEEK_BYTES_MAX (16 * 1024) /* of a ClientHello, of a head of HTTP */
#define PEEK_NAME_MAX  253

/* ---- peek.c ---- */

enum peek_kind {
    PEEK_MORE, /* cannot be told yet */
    PEEK_TLS,
    PEEK_HTTP, /* or what a generous server could take for it */
    PEEK_OTHER,
};

enum peek_kind peek_classify(const uint8_t *data, size_t len);

/* A host name, or an address, as it is said: lower case, the last dot gone, no brackets. False: it
 * has bytes that no name has. */
bool peek_name(const char *text, size_t len, char ret[PEEK_NAME_MAX + 1]);

/* ---- client_hello.c ---- */

struct client_hello {
    char name[PEEK_NAME_MAX + 1]; /* "" = none said */
    bool encrypted;               /* it has ECH: who is meant may be another behind that name */
};

enum hello_result { HELLO_MORE, HELLO_DONE, HELLO_BAD };

/* Reads a ClientHello from the start of a stream, however many records it is spread over. */
enum hello_result client_hello_parse(const uint8_t *data, size_t len, struct client_hello *ret);

/* ---- http_peek.c: every request of a connection ---- */

enum http_state {
    HTTP_IN_HEAD,
    HTTP_IN_BODY,
    HTTP_CHUNK_SIZE,
    HTTP_CHUNK_SIZE_LF,
    HTTP_CHUNK_DATA,
    HTTP_CHUNK_CR,
    HTTP_CHUNK_LF,
    HTTP_CHUNK_END_CR,
    HTTP_CHUNK_END_LF,
};

/* Zero is a connection's start. */
struct http_peek {
    enum http_state state;
    uint64_t left;   /* of the body or chunk */
    unsigned digits; /* of a chunk's size */
    unsigned requests;
    /* of the last head */
    char host[PEEK_NAME_MAX + 1];   /* its Host, "" = none */
    char target[PEEK_NAME_MAX + 1]; /* the host of its target, when that is a whole URL */
    bool websocket;                 /* asks to go on as a WebSocket */
};

enum http_step {
    HTTP_MORE, /* the head is not whole */
    HTTP_HEAD, /* *ret_n bytes are a head: they may pass if its names may */
    HTTP_PASS, /* *ret_n bytes are of a body whose head has passed */
    HTTP_BAD,  /* could be read in two ways, or is no request */
};

/* Looks at what comes next; data begins where the last step ended. Only requests with exactly one
 * reading are known here: who takes bytes for the rest of a body that a server takes for the next
 * request lets that pass unseen. */
enum http_step http_peek_step(struct http_peek *h, const uint8_t *data, size_t len, size_t *ret_n);
