#pragma once

#include <stdint.h>

/* What the daemon and cay-courier say to each other, on a stream that is the courier's descriptor
 * COURIER_FD; its end is the courier's. Both are of one build and one machine, so numbers are as
 * they are in memory. The daemon takes nothing of what the courier says on trust: it reads what
 * strangers answer. */

#define COURIER_FD          3
#define COURIER_URL_MAX     2048u
#define COURIER_HEADERS_MAX (16u << 10)
#define COURIER_BODY_MAX    (4u << 20)
#define COURIER_AT_ONCE     640 /* asked and not yet told of */
#define COURIER_TIMEOUT_MAX 60000u

/* A POST; its id is not 0. After it come the URL, the headers (lines that end with \n), the body.
 */
struct courier_ask {
    uint64_t id;
    uint32_t trusted; /* 1 = the operator's own target, which is not judged */
    uint32_t timeout_ms;
    uint32_t url_bytes, header_bytes, body_bytes;
    uint32_t unused;
};

/* What became of it. */
enum courier_outcome {
    COURIER_ANSWERED,      /* status says how */
    COURIER_REFUSED,       /* the address is none that may be connected to */
    COURIER_NO_NAME,       /* there is no address for the name */
    COURIER_NO_CONNECTION, /* nobody listens there */
    COURIER_NO_TRUST,      /* its certificate is not good */
    COURIER_TIMED_OUT,
    COURIER_BROKEN, /* it ended in the middle, or is no HTTP */
    COURIER_BAD_URL,
    COURIER_DIED, /* said by the daemon only: the courier ended before it could tell */
    COURIER_OUTCOMES,
};

#define COURIER_ADDRESS 48
#define COURIER_WHY     160

struct courier_told {
    uint64_t id; /* 0 = of none: why it cannot work at all */
    int32_t outcome;
    int32_t status;         /* 200 to 599, or 0 */
    uint32_t retry_after_s; /* as it asked for; 0 = it did not */
    uint32_t took_ms;
    char address[COURIER_ADDRESS]; /* that was connected to, or refused; "" = none */
    char why[COURIER_WHY];         /* for people, when there was no answer */
};
