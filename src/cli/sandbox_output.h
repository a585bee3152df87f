#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;
struct iii_client;
struct sandbox_output;

/* Prints the output of sandbox::exec while the command runs. Each stream has a channel: the sandbox
 * writes to it, and we read it beside the call. A worker that knows nothing of channels leaves them
 * empty and puts the whole output into its answer. */

enum { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_STREAMS };

/* Makes the channels, connects to them, and puts their other ends into data as `stdout` and
 * `stderr`. raw: also a terminal gets the bytes as they are. NULL with ERR_NONE: the engine gives
 * no channels. NULL with an error: the connection is lost, or the wait was cancelled. */
struct sandbox_output *sandbox_output_open(struct iii_client *c, bool raw, json_t *data,
                                           struct err *err);

/* Waits for the answer of the call that was asked, and prints what comes until the streams have
 * ended: 1 with the result, or -1. Returns -1 also when the output cannot be written. */
int sandbox_output_wait(struct sandbox_output *o, const char *function, int64_t timeout_ms,
                        json_t **ret, struct err *err);

/* Did the channel of that stream carry anything? If not, the text in the answer is the output. */
bool sandbox_output_came(const struct sandbox_output *o, int stream);
/* Is some of the output missing, because a channel broke off or did not end in time? */
bool sandbox_output_is_cut(const struct sandbox_output *o);
/* Why the output could not be written: an errno; 0 = it could. */
int sandbox_output_error(const struct sandbox_output *o);

/* How long the streams are read after the answer if they do not end. */
struct output_drain {
    int64_t round_ns;  /* when the last round began */
    int64_t silent_ns; /* deadline while no byte comes */
    int64_t end_ns;    /* deadline in any case */
    size_t total;
};

/* expects: the channels will send an end. */
void output_drain_begin(struct output_drain *d, int64_t now_ns, bool expects);
/* To be called in each round, with the number of bytes that the round read. slow: the reader of our
 * own output has not taken all of it; the time of such a round does not count. */
bool output_drain_is_over(struct output_drain *d, int64_t now_ns, size_t taken, bool slow);

void sandbox_output_free(struct sandbox_output *o);
