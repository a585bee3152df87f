#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "functions/call.h"
#include "functions/function.h"
#include "mcp/face.h"
#include "mcp/provider.h"

struct mcp_face {
    struct mcp_face_config config;
    struct mcp_providers providers;
    struct mcp_tool *tools; /* ended by one without a row */
    struct mcp_watcher *watcher;
};

/* ---- row.c: one call of a function for a request ---- */

/* Its answer is collected here, up to a bound. */
struct mcp_row {
    struct sink sink; /* first: the sink's functions get it */
    struct call call;
    struct caller caller;
    struct mcp_op *op;
    const struct function *function;
    struct err err; /* why it failed */
    char *path;     /* of the same call over REST, for errors */
    bool ended;

    json_t *items;    /* of a list, or events; the first MCP_ITEMS_MAX */
    size_t n_items;   /* how many there were */
    struct buf bytes; /* of a text or a file; at most bytes_max */
    size_t bytes_max;
    bool is_full;  /* there was more */
    uint64_t size; /* of the file, where it is known; else 0 */
};

#define MCP_ITEMS_MAX 2000

/* Takes in: an object with what the path and the body of the same call over REST have. */
struct mcp_row *mcp_row_new(const struct mcp_face *face, struct mcp_op *op,
                            const struct function *f, json_t *in, size_t bytes_max);
/* Both: TASK_DONE, TASK_WAITS, TASK_AGAIN, or -1 when it failed: then row->err says why. */
int mcp_row_begin(struct mcp_row *row);
int mcp_row_step(struct mcp_row *row);
/* For the work that waits for it. */
void mcp_row_wait(const struct mcp_row *row, struct mcp_work *work);
/* The answer of one that is done, as its shape says; of a list or of events an array, of bytes
 * NULL. */
json_t *mcp_row_value(struct mcp_row *row);
/* How many of its bytes are shown as text: where there are more, none that are a part of a
 * character. */
size_t mcp_row_shown(const struct mcp_row *row);
/* {error, code, …} and its status. */
json_t *mcp_row_error(struct mcp_row *row, int *ret_status);
/* One that is not done is cancelled. */
void mcp_row_free(struct mcp_row *row);

/* ---- tools.c ---- */

/* The data of a picture that is content of its own. */
#define PICTURE_TAKEN "(this picture is in the content)"

extern const struct mcp_tools mcp_function_tools;

void mcp_tools_make(struct mcp_face *face);
void mcp_tools_free(struct mcp_face *face);

/* ---- resources.c, prompts.c ---- */

extern const struct mcp_resources mcp_face_resources;
extern const struct mcp_prompts mcp_face_prompts;

void mcp_face_complete(void *arg, struct mcp_op *op, const json_t *ref, const char *name,
                       const char *value, const json_t *others, json_t *ret);

/* ---- tool_table.c: how functions look as tools ---- */

enum tool_effect { TOOL_READS, TOOL_ADDS, TOOL_DESTROYS };

struct tool_look {
    const char *name, *title;
    bool core; /* what most work needs */
    enum tool_effect effect;
    bool idempotent;
    bool open_world;  /* what it does may reach beyond the sandbox */
    bool takes_image; /* or a template: else the face's own image is taken */
    bool can_fail;    /* a good answer may tell of a failure: of the command that it ran */
    /* The text of a good answer; NULL = the value as JSON. in has the short ones of the arguments.
     */
    void (*text)(const json_t *value, const json_t *in, struct buf *out);
    const char *inner;      /* the member that is shown as JSON; NULL = all */
    const char *with;       /* the id of another function that is called when it gets … */
    const char *with_param; /* … this argument */
    const char *forced;     /* arguments that are always these, as JSON */
    const char *read_on;    /* how to get at what was cut */
};

extern const struct tool_look tool_looks[];

/* Is what it ran a failure? */
bool tool_failed(const struct tool_look *look, const json_t *value);

/* ---- tool_schema.c ---- */

/* What it takes, and what it gives: JSON Schemas without references. with: NULL = none. */
json_t *tool_input(const struct function *f, const struct function *with, const json_t *forced);
json_t *tool_output(const struct function *f, const struct function *with);
/* The value as an object of that schema; takes it. */
json_t *tool_wrap(const struct function *f, json_t *value);

/* ---- cut.c ---- */

struct cut {
    bool head_only; /* of a text keep the beginning only; else its end too */

    struct buf words; /* what was cut; "" = nothing */
    unsigned n;       /* how many things were cut */
    size_t head;      /* bytes that are left of the beginning of the last text that was */
};

/* Makes a value so short that it has about max bytes as JSON: long texts lose their middle or end,
 * arrays and objects with many members their end. */
void cut_value(json_t *value, size_t max, struct cut *c);
