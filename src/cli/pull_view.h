#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* What a pull or an import is doing, from the daemon's events (image/image.h, image_progress), as
 * lines of text for a terminal. Nothing here writes anywhere, and time is always given. */

/* How fast a counter grows, over the last few seconds. */
#define RATE_SAMPLES 8

struct rate {
    struct {
        int64_t ns, bytes;
    } samples[RATE_SAMPLES]; /* the oldest first */
    size_t n;
};

void rate_add(struct rate *r, int64_t now_ns, int64_t bytes);
double rate_per_second(const struct rate *r);

enum pull_state {
    PULL_WAITING,
    PULL_DOWNLOADING,
    PULL_UNPACKING,
    PULL_DONE,
    PULL_PRESENT, /* was here before */
};

struct pull_layer {
    char digest[13]; /* the first 12 digits */
    enum pull_state state;
    int64_t downloaded, total, unpacked;
    struct rate rate;
};

#define PULL_LAYERS_MAX 256

struct pull_view {
    char *name; /* what is pulled, made safe for a terminal */
    bool resolved, storing;
    int64_t bytes;             /* to be downloaded; 0 = not known */
    struct pull_layer *layers; /* NULL until the first is heard of */
    size_t n_layers;
    struct rate rate;
};

void pull_view_init(struct pull_view *v, const char *name);
void pull_view_done(struct pull_view *v);

/* Takes one event in; those it does not know, and what makes no sense in them, are passed over. */
void pull_view_event(struct pull_view *v, const json_t *event);

/* Measures: once for each time it is shown. */
void pull_view_tick(struct pull_view *v, int64_t now_ns);

/* At most rows lines (at least one) of less than cols columns, each ended by a newline; the last
 * one is about the whole. Layers that do not fit are counted instead, idle ones first. */
void pull_view_render(const struct pull_view *v, size_t rows, size_t cols, struct buf *out);

/* Of those that are not here yet. */
int64_t pull_view_downloaded(const struct pull_view *v);
