#pragma once

/* The half of the gateway that reads what strangers wrote: DNS messages, the first bytes of
 * connections. It has no rights and makes no sockets; whatever it uses was given to it. */

enum { WORKER_V4, WORKER_V6, WORKER_FAMILIES };

/* All of these are the worker's from now on. Listeners are made in the crossroads; -1 where a
 * family is not used. Whether they block does not matter: the worker makes them nonblocking. */
struct worker_start {
    int warden; /* one end of a SEQPACKET pair: see worker_wire.h */
    int dns_udp[WORKER_FAMILIES];
    int dns_tcp[WORKER_FAMILIES];
    int inspect[WORKER_FAMILIES]; /* TCP; what a connection was meant for is SO_ORIGINAL_DST's */
};

/* Serves until the warden's end closes. The caller is a process of one thread that has given up its
 * rights already (ids, capabilities, namespaces) and set RLIMIT_NOFILE, of which the number of
 * connections follows; the filter of system calls is put up in here. */
_Noreturn void worker_run(const struct worker_start *start);
