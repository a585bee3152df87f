#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct iii_hub;
struct iii_link;

/* A link to a genuine engine, for which we are a worker: our functions are its, and whoever is
 * connected to it may call them. It is dialled again for ever; what runs for it goes on while it is
 * away, and so do sandboxes, but results of calls from before are of no use to it and are dropped.
 * No answer of an engine ends the link: while another worker has our name or functions there, the
 * link tries again every standby_ms, and every 5 minutes while the engine is this daemon itself.
 * Any thread may call anything here. */

#define III_ENGINE_URL  "ws://127.0.0.1:49134"
#define III_WORKER_NAME "iii-sandbox"

#define III_LINK_FILE "iii-worker.json"

struct iii_link_config {
    const char *url;        /* ws://host:port; as websocket_url_parse() says */
    char *const *headers;   /* "Name: value", for the main socket; NULL = none */
    const char *name;       /* NULL = III_WORKER_NAME */
    const char *namespace;  /* NULL = the engine's default */
    const char *isolation;  /* of ourselves; NULL = nothing to say */
    bool extra;             /* register cay's other functions too, beside iii's own */
    bool standby;           /* another worker with our functions is expected: no error is logged */
    unsigned in_flight_max; /* calls at once; 0 = III_IN_FLIGHT_MAX */
    unsigned back_off_ms;   /* until it is dialled again, at first; 0 = a second */
    unsigned standby_ms;    /* ms between two checks which worker owns our functions; 0 = 5000 */
    unsigned ask_ms;        /* for an answer to such a look; 0 = LINK_ASK_MS */
    unsigned ping_ms;       /* 0 = 20 seconds; three of them in silence are the end */
    unsigned stall_ms;      /* that a channel's reader may take nothing; 0 = five minutes */
    const char *memory_dir; /* where what a later process needs to take our place is kept (in
                             * III_LINK_FILE); NULL = nowhere */
};

/* The configuration is copied. ERR_INVALID, ERR_UNSUPPORTED: the address
 * cannot be one of an engine. */
int iii_link_new(struct iii_hub *hub, const struct iii_link_config *config, struct iii_link **ret,
                 struct err *err);
int iii_link_start(struct iii_link *l, struct err *err);
/* New calls are refused, and those that run have so long to end and be answered. */
void iii_link_drain(struct iii_link *l, int ms);
/* Hangs up, and nobody is told anything any more: before the hub stops, which ends what runs. */
void iii_link_stop(struct iii_link *l);
/* After the hub has stopped. */
void iii_link_free(struct iii_link *l);

/* Has the engine taken all that we offer, and is it still there? */
bool iii_link_is_up(struct iii_link *l);
