#pragma once

#include <jansson.h>
#include <sys/types.h>

struct err;

/* What main.c and give.c share. */

struct keeper {
    json_t *request;
    pid_t unpacker;
    int work;       /* to the unpacker: its request, and our end */
    int trusted;    /* layer/trusted.h */
    int ask, asker; /* what the unpacker asks the fetcher: the one's end, and the other's */
    int secrets;    /* -1 = nothing is fetched */
};

/* Gives the unpacker its ids, its descriptors and its request, and gives up what only that needs.
 */
int keeper_give(struct keeper *k, struct err *err);
