#include "cli/pull_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/escape.h"
#include "cli/ui.h"

#define SAMPLE_NS  500000000
#define SECOND_NS  1e9
#define BAR_MIN    8
#define BAR_MAX    40
#define LINE_MAX   512
#define SIZES_COLS 21 /* "1023.9 MiB/1023.9 MiB" */
#define RATE_COLS  12 /* "1023.9 MiB/s" */

/* ---- rates ---- */

void rate_add(struct rate *r, int64_t now_ns, int64_t bytes)
{
    if (r->n > 0 && now_ns - r->samples[r->n - 1].ns < SAMPLE_NS)
        return;
    if (r->n == RATE_SAMPLES) {
        memmove(r->samples, r->samples + 1, (RATE_SAMPLES - 1) * sizeof(r->samples[0]));
        r->n--;
    }
    r->samples[r->n].ns = now_ns;
    r->samples[r->n].bytes = bytes;
    r->n++;
}

double rate_per_second(const struct rate *r)
{
    int64_t bytes, ns;

    if (r->n < 2)
        return 0;
    bytes = r->samples[r->n - 1].bytes - r->samples[0].bytes;
    ns = r->samples[r->n - 1].ns - r->samples[0].ns;
    return bytes > 0 && ns > 0 ? (double)bytes * SECOND_NS / (double)ns : 0;
}

/* ---- events ---- */

void pull_view_init(struct pull_view *v, const char *name)
{
    *v = (struct pull_view){.name = escape_text(ESCAPE_CELL, name)};
}

void pull_view_done(struct pull_view *v)
{
    free(v->name);
    free(v->layers);
    *v = (struct pull_view){0};
}

static int64_t not_negative(const json_t *event, const char *key)
{
    int64_t n = json_int(event, key);

    return n > 0 ? n : 0;
}

static void make_room(struct pull_view *v, size_t n)
{
    if (n > PULL_LAYERS_MAX)
        n = PULL_LAYERS_MAX;
    if (n <= v->n_layers)
        return;
    v->layers = xrealloc(v->layers, n * sizeof(*v->layers));
    memset(v->layers + v->n_layers, 0, (n - v->n_layers) * sizeof(*v->layers));
    v->n_layers = n;
}

static enum pull_state state_of(const char *word, enum pull_state before)
{
    static const char *const words[] = {
        [PULL_WAITING] = "waiting",     [PULL_DOWNLOADING] = "downloading",
        [PULL_UNPACKING] = "unpacking", [PULL_DONE] = "done",
        [PULL_PRESENT] = "present",
    };

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(word, words[i]) == 0)
            return (enum pull_state)i;
    }
    return before;
}

static void short_digest(const char *digest, char ret[13])
{
    const char *colon = strchr(digest, ':');
    const char *digits = colon ? colon + 1 : digest;
    size_t n = strspn(digits, "0123456789abcdef"); /* nothing else: it goes to a terminal */

    (void)snprintf(ret, 13, "%.*s", n < 12 ? (int)n : 12, digits);
}

static void layer_event(struct pull_view *v, const json_t *event)
{
    int64_t index = json_int(event, "index");
    struct pull_layer *layer;

    if (index < 0 || index >= PULL_LAYERS_MAX)
        return;
    make_room(v, (size_t)index + 1);
    layer = &v->layers[index];
    if (*json_text(event, "digest"))
        short_digest(json_text(event, "digest"), layer->digest);
    layer->state = state_of(json_text(event, "state"), layer->state);
    layer->downloaded = not_negative(event, "downloaded");
    layer->total = not_negative(event, "total");
    layer->unpacked = not_negative(event, "unpacked");
}

void pull_view_event(struct pull_view *v, const json_t *event)
{
    const char *what = json_text(event, "event");

    if (strcmp(what, "resolved") == 0) {
        v->resolved = true;
        v->bytes = not_negative(event, "bytes");
        make_room(v, (size_t)not_negative(event, "layers"));
    } else if (strcmp(what, "layer") == 0) {
        layer_event(v, event);
    } else if (strcmp(what, "storing") == 0) {
        v->storing = true;
    }
}

int64_t pull_view_downloaded(const struct pull_view *v)
{
    int64_t sum = 0;

    for (size_t i = 0; i < v->n_layers; i++) {
        if (v->layers[i].state != PULL_PRESENT)
            sum += v->layers[i].downloaded;
    }
    return sum;
}

void pull_view_tick(struct pull_view *v, int64_t now_ns)
{
    rate_add(&v->rate, now_ns, pull_view_downloaded(v));
    for (size_t i = 0; i < v->n_layers; i++) {
        struct pull_layer *layer = &v->layers[i];

        rate_add(&layer->rate, now_ns, layer->total > 0 ? layer->downloaded : layer->unpacked);
    }
}

/* ---- text ---- */

/* Everything here is one column a byte, but for the name. */
static void add_line(struct buf *out, const char *line, size_t cols)
{
    size_t n = 0, shown = 0;

    for (; line[n]; n++) {
        bool starts = ((unsigned char)line[n] & 0xc0) != 0x80;

        if (starts && ++shown >= cols)
            break;
    }
    while (n > 0 && line[n - 1] == ' ')
        n--;
    (void)buf_add(out, line, n);
    (void)buf_add_str(out, "\n");
}

/* More may come than was announced. */
static int percent(int64_t done, int64_t total)
{
    return done < total ? (int)(100 * ((double)done / (double)total)) : 100;
}

static void rate_text(double rate, char ret[32])
{
    char size[24];

    ui_size(rate, size);
    (void)snprintf(ret, 32, "%s/s", size);
}

/* "[=====>    ]" with inner (at most BAR_MAX) columns between the brackets. */
static void bar_text(double share, size_t inner, char ret[BAR_MAX + 3])
{
    size_t full = share >= 1 ? inner : (size_t)(share * (double)inner);

    ret[0] = '[';
    memset(ret + 1, '=', full);
    memset(ret + 1 + full, ' ', inner - full);
    if (full > 0 && full < inner)
        ret[full] = '>';
    ret[inner + 1] = ']';
    ret[inner + 2] = '\0';
}

static bool is_active(const struct pull_layer *layer)
{
    return layer->state == PULL_DOWNLOADING || layer->state == PULL_UNPACKING;
}

static void sizes_text(const struct pull_layer *layer, char ret[64])
{
    char done[24], total[24];

    ui_size((double)layer->downloaded, done);
    ui_size((double)layer->total, total);
    if (layer->total > 0)
        (void)snprintf(ret, 64, "%s/%s", done, total);
    else if (layer->downloaded > 0)
        (void)snprintf(ret, 64, "%s", done);
    else
        ui_size((double)layer->unpacked, ret);
}

/* a1b2c3d4e5f6  downloading  [=====>    ]  12.3 MiB/48.1 MiB  5.2 MiB/s; on a narrow terminal
 * the bar is left out, and then all but the share. */
static void active_line(const struct pull_layer *layer, size_t cols, char ret[LINE_MAX])
{
    size_t fixed = 12 + 2 + 11 + 2 + SIZES_COLS + 2 + RATE_COLS + 2 + 2;
    size_t inner = cols > fixed + 1 ? cols - fixed - 1 : 0;
    const char *state = layer->state == PULL_UNPACKING ? "unpacking" : "downloading";
    char sizes[64], rate[32], bar[BAR_MAX + 3];

    sizes_text(layer, sizes);
    rate_text(rate_per_second(&layer->rate), rate);
    if (inner > BAR_MAX)
        inner = BAR_MAX;
    if (inner >= BAR_MIN && layer->total > 0) {
        bar_text((double)layer->downloaded / (double)layer->total, inner, bar);
        (void)snprintf(ret, LINE_MAX, "%-12s  %-11s  %s  %*s  %*s", layer->digest, state, bar,
                       SIZES_COLS, sizes, RATE_COLS, rate);
    } else if (cols > fixed - 4) {
        (void)snprintf(ret, LINE_MAX, "%-12s  %-11s  %*s  %*s", layer->digest, state, SIZES_COLS,
                       sizes, RATE_COLS, rate);
    } else if (layer->total > 0) {
        (void)snprintf(ret, LINE_MAX, "%-12s  %-11s  %3d%%", layer->digest, state,
                       percent(layer->downloaded, layer->total));
    } else {
        (void)snprintf(ret, LINE_MAX, "%-12s  %-11s  %s", layer->digest, state, sizes);
    }
}

static void layer_line(const struct pull_layer *layer, size_t cols, struct buf *out)
{
    char line[LINE_MAX], size[24];

    if (is_active(layer)) {
        active_line(layer, cols, line);
    } else if (layer->state == PULL_DONE) {
        ui_size((double)(layer->downloaded > 0 ? layer->downloaded : layer->unpacked), size);
        (void)snprintf(line, sizeof(line), "%-12s  done         %s", layer->digest, size);
    } else {
        (void)snprintf(line, sizeof(line), "%-12s  %s", layer->digest,
                       layer->state == PULL_PRESENT ? "already here" : "waiting");
    }
    add_line(out, line, cols);
}

static size_t count(const struct pull_view *v, enum pull_state state)
{
    size_t n = 0;

    for (size_t i = 0; i < v->n_layers; i++)
        n += v->layers[i].state == state;
    return n;
}

static void time_left(const struct pull_view *v, int64_t downloaded, char ret[48])
{
    double rate = rate_per_second(&v->rate);
    char left[24];

    ret[0] = '\0';
    if (rate <= 0 || v->bytes <= downloaded)
        return;
    ui_duration((int64_t)((double)(v->bytes - downloaded) / rate * 1000) + 999, left);
    (void)snprintf(ret, 48, "  %s left", left);
}

/* The part of the total line that follows the name. */
static void whole_text(const struct pull_view *v, char ret[256])
{
    int64_t downloaded = pull_view_downloaded(v);
    size_t here = count(v, PULL_DONE) + count(v, PULL_PRESENT);
    char done[24], total[24], rate[32], left[48];

    if (v->storing) {
        (void)snprintf(ret, 256, "writing to disk");
        return;
    }
    if (v->n_layers == 0) {
        (void)snprintf(ret, 256, v->resolved ? "starting" : "resolving");
        return;
    }
    ui_size((double)downloaded, done);
    ui_size((double)v->bytes, total);
    rate_text(rate_per_second(&v->rate), rate);
    time_left(v, downloaded, left);
    if (v->bytes > 0)
        (void)snprintf(ret, 256, "%d%%  %s of %s  %s%s  %zu of %zu layers",
                       percent(downloaded, v->bytes), done, total, rate, left, here, v->n_layers);
    else
        (void)snprintf(ret, 256, "%zu of %zu layers", here, v->n_layers);
}

/* On a narrow terminal the name gives way to the numbers. */
static void whole_line(const struct pull_view *v, size_t cols, struct buf *out)
{
    char whole[256];
    auto_free char *line = NULL;

    whole_text(v, whole);
    if (strlen(v->name) + 2 + strlen(whole) < cols)
        line = xasprintf("%s  %s", v->name, whole);
    else
        line = xstrdup(whole);
    add_line(out, line, cols);
}

void pull_view_render(const struct pull_view *v, size_t rows, size_t cols, struct buf *out)
{
    size_t active = count(v, PULL_DOWNLOADING) + count(v, PULL_UNPACKING), shown = 0;
    bool all = v->n_layers < rows;
    /* The last line is about the whole, the one before it about those that are not shown. */
    size_t room = all ? v->n_layers : rows > 2 ? rows - 2 : 0;
    char line[LINE_MAX];

    for (size_t i = 0; i < v->n_layers && shown < room; i++) {
        if (!all && !is_active(&v->layers[i]))
            continue;
        layer_line(&v->layers[i], cols, out);
        shown++;
    }
    if (!all && rows > 1) {
        (void)snprintf(line, sizeof(line),
                       "%zu more: %zu at work, %zu waiting, %zu done, %zu already here",
                       v->n_layers - shown, active - shown, count(v, PULL_WAITING),
                       count(v, PULL_DONE), count(v, PULL_PRESENT));
        add_line(out, line, cols);
    }
    whole_line(v, cols, out);
}
