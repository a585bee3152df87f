#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/id.h"

struct err;

/* Channels of the contract (/ws/channels/…): two ends of a terminal, one that types and one that
 * reads, each for the first who comes with its own key. They are kept in memory only: what a daemon
 * that ended had told is gone with it, and the terminal is reached by its session instead. */

#define CHANNELS_MAX     1024 /* the oldest go */
#define CHANNEL_LIVES_NS (300 * 1000000000ll)

struct channel_end {
    char sandbox_id[ID_SIZE], exec_id[ID_SIZE];
    char token_id[ID_SIZE]; /* of who made it (caller.token_id), or "": it ends with that */
    bool taken;             /* somebody else has it */
};

/* A new one: {writer, reader}. */
json_t *channel_new(const char *sandbox_id, const char *exec_id, const char *token_id);
/* Takes one of its ends. ERR_NOT_FOUND "channel_not_found" when key is not the key of that end. */
int channel_take(const char *channel_id, const char *key, bool writer, struct channel_end *ret,
                 struct err *err);
