#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct args;
struct err;
struct websocket_client;

/* A client of iii's protocol, for one question after the other: of a cay daemon or of a genuine
 * engine. It offers nothing, so that it needs not say who it is. */

#define III_PORT      49134
#define III_CREATE_MS 300000 /* for a create, which may pull its image */
#define III_CALL_MS   30000  /* for calls of which nobody says how long they take */
#define III_STALL_MS  60000  /* without a byte that moves */
#define III_UUID_SIZE 37

struct iii_client {
    struct websocket_client *ws;
    char *url;                /* ws://host:port, without a slash at its end */
    int stop_fd;              /* what waits ends when it can be read: "cancelled"; -1 = none */
    char call[III_UUID_SIZE]; /* of the question that is not answered yet; "" = none */
    bool more;                /* the last that came was not the answer, and there may be others */
    json_t *error;    /* {code, message, stacktrace?} of the last one that failed; NULL = none */
    json_t *envelope; /* what its message holds of a sandbox's: {type, code: "S002", message, …} */
};

/* ws://HOST:PORT by --host, else --address and --port, else III_URL, else the machine of CAY_HOST
 * or CAY_WS_HOST, and CAY_WS_PORT. The caller frees it. */
int iii_client_address(const struct args *args, char **ret, struct err *err);
/* The same for what was written as HOST, HOST:PORT, ws://… or http://…; port 0 = the usual one. */
int iii_client_address_of(const char *host, unsigned port, char **ret, struct err *err);

/* Connects to where the flags say: STATUS_OK, or the exit status after it has said why not. */
int iii_client_start(struct iii_client *c, const struct args *args, int stop_fd);
int iii_client_open(struct iii_client *c, const char *url, int stop_fd, struct err *err);
void iii_client_close(struct iii_client *c);
#define auto_iii __attribute__((cleanup(iii_client_close)))

/* Asks, and waits for the answer. Takes data; namespace NULL = the usual one. *ret is the result,
 * NULL for none, and may be left out. A failure that was told is in c->error. */
int iii_client_call(struct iii_client *c, const char *function, const char *namespace, json_t *data,
                    int64_t timeout_ms, json_t **ret, struct err *err);

/* The same in two parts: iii_client_answer() gives 1 with the result, 0 when none has come in time,
 * -1. */
int iii_client_ask(struct iii_client *c, const char *function, const char *namespace, json_t *data,
                   struct err *err);
int iii_client_answer(struct iii_client *c, int64_t timeout_ms, json_t **ret, struct err *err);

/* A new channel: {writer, reader}. */
int iii_client_channel_new(struct iii_client *c, json_t **ret, struct err *err);
/* The end of one that a ref is for. NULL on failure. */
struct websocket_client *iii_client_channel_open(struct iii_client *c, const json_t *ref,
                                                 struct err *err);

/* What the message of an error holds from its first brace on; NULL = nothing that is of a sandbox.
 */
json_t *iii_client_envelope(const char *message);

/* Forgets the error of the last call that failed: the caller goes on without that call. */
void iii_client_forget_error(struct iii_client *c);

/* "error: [S002] …" on stderr, with what to do when nobody listens. Returns the exit status. */
int iii_client_fail(const struct iii_client *c, const struct err *err);
