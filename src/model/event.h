#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

/* What happened, as it is kept and told: {id, topic, sandboxId, data, timestamp}. */

/* The place of an event among all of this data folder: only grows, and its upper bits are the
 * milliseconds of its time, so that it goes on growing also when the database was lost. */
#define EVENT_SEQ_OF_MS(ms) ((int64_t)(ms) << 16)

/* "evt_", 16 hex digits of seq and 8 of salt, which is random: ids sort as what they name. */
void event_id(char ret[ID_SIZE], int64_t seq, uint32_t salt);
/* False when it is not such an id. */
bool event_id_seq(const char *id, int64_t *ret);

#define TOPIC_MAX    128  /* bytes of a topic */
#define TOPICS_MAX   1024 /* of a list of topics */
#define TOPIC_CHARS  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/-"
#define TOPIC_REGEX  "^[A-Za-z0-9._:/-]{1,128}$"
#define TOPICS_REGEX "^[A-Za-z0-9._:/*,-]+$"
#define EVENT_DATA   (64u << 10) /* bytes of data, as JSON */

bool topic_valid(const char *topic);
/* A list with commas of topics and of beginnings of topics: "sandbox.created,exec.*", "*". */
bool topics_valid(const char *topics);
/* NULL is every topic. */
bool topics_match(const char *topics, const char *topic);

/* Which of those that are kept. */
struct event_query {
    const char *sandbox_id, *topics; /* NULL = any */
    int64_t since_ms, until_ms;      /* both included; 0 = any */
    unsigned limit, offset;
};
