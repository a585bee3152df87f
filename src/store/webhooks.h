#pragma once

#include <stdint.h>

#include "base/id.h"

struct err;
struct webhook_store;

/* How far each webhook has come, and its last deliveries, in <data>/webhooks.db. The webhooks
 * themselves are documents. What is written outlives this process; a power cut may take the last of
 * it, and then what was delivered is delivered again. */

#define WEBHOOK_DELIVERIES 100 /* that are kept of a webhook */

enum delivery_state { DELIVERY_RETRYING, DELIVERY_DELIVERED, DELIVERY_FAILED };

/* One event for one webhook, and its last attempt. */
struct delivery {
    char id[ID_SIZE], webhook[ID_SIZE], event[ID_SIZE];
    char topic[132];
    enum delivery_state state;
    unsigned attempts;
    int status;        /* 0 = there was no answer: */
    char error[16];    /* why, a word of courier.h */
    char message[164]; /* and for people */
    char address[48];
    unsigned took_ms;
    int64_t at_ms, next_ms; /* next: 0 = there is no other */
};

/* All up to this place are done (model/event.h). */
struct webhook_place {
    char webhook[ID_SIZE];
    int64_t place;
};

int webhook_store_open(const char *data_dir, struct webhook_store **ret, struct err *err);
void webhook_store_close(struct webhook_store *s);

/* All or none; a delivery with an id that is there replaces it. */
int webhook_store_write(struct webhook_store *s, const struct delivery *deliveries, size_t n,
                        const struct webhook_place *places, size_t n_places, struct err *err);

/* 0 = none is kept. */
int webhook_store_place(struct webhook_store *s, const char *webhook, int64_t *ret,
                        struct err *err);
/* How often it was tried; 0 = never. */
int webhook_store_attempts(struct webhook_store *s, const char *delivery, unsigned *ret,
                           struct err *err);

typedef void (*delivery_each)(const struct delivery *d, void *arg);

/* The newest first. */
int webhook_store_deliveries(struct webhook_store *s, const char *webhook, unsigned limit,
                             delivery_each each, void *arg, struct err *err);
/* All that is kept of one. */
int webhook_store_forget(struct webhook_store *s, const char *webhook, struct err *err);
