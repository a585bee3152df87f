#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "functions/function.h"
#include "mcp/face_internal.h"
#include "mcp/server.h"

/* The functions of the table that have a name as a tool. */

#define PICTURES_MAX  4
#define PICTURE_BYTES (2u << 20) /* of its base64 */
#define SHORT_BYTES   4097       /* arguments that are remembered for the text: paths too */

struct mcp_tool {
    const struct function *function, *with;
    const struct tool_look *look;
    json_t *forced;
    json_t *shown; /* as clients see it */
};

/* ---- the list ---- */

static const char *description(const struct function *f)
{
    return f->help;
}

static json_t *annotations(const struct tool_look *look)
{
    bool reads = look->effect == TOOL_READS;

    return json_pack("{s:s, s:b, s:b, s:b, s:b}", "title", look->title, "readOnlyHint", reads,
                     "destructiveHint", look->effect == TOOL_DESTROYS, "idempotentHint",
                     reads || look->idempotent, "openWorldHint", (int)look->open_world);
}

static json_t *input_of(const struct mcp_face *face, const struct mcp_tool *t)
{
    json_t *schema = tool_input(t->function, t->with, t->forced);

    if (t->look->takes_image && face->config.image)
        (void)json_object_set_new(json_object_get(json_object_get(schema, "properties"), "image"),
                                  "default", json_string(face->config.image));
    return schema;
}

static json_t *show(const struct mcp_face *face, const struct mcp_tool *t)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "name", t->look->name, "title",
                     t->look->title, "description", description(t->function), "inputSchema",
                     input_of(face, t), "outputSchema", tool_output(t->function, t->with),
                     "annotations", annotations(t->look));
}

static int find_tool(const struct function *f, void *arg)
{
    struct mcp_tool *t = arg;

    if (!f->tool || strcmp(f->tool, t->look->name) != 0)
        return 0;
    t->function = f;
    return 1;
}

void mcp_tools_make(struct mcp_face *face)
{
    size_t n = 0, made = 0;

    while (tool_looks[n].name)
        n++;
    face->tools = xcalloc(n + 1, sizeof(*face->tools));
    for (size_t i = 0; i < n; i++) {
        struct mcp_tool *t = &face->tools[made];

        t->look = &tool_looks[i];
        if (functions_each(find_tool, t) == 0)
            continue;
        t->with = t->look->with ? function_find(t->look->with) : NULL;
        t->forced = t->look->forced ? json_loads(t->look->forced, 0, NULL) : NULL;
        t->shown = show(face, t);
        made++;
    }
    face->tools[made] = (struct mcp_tool){0};
}

void mcp_tools_free(struct mcp_face *face)
{
    for (struct mcp_tool *t = face->tools; t && t->function; t++) {
        json_decref(t->forced);
        json_decref(t->shown);
    }
    free(face->tools);
}

/* ---- who sees which ---- */

static bool is_chosen(const struct mcp_choice *c, const struct mcp_tool *t)
{
    if (c->read_only && t->look->effect != TOOL_READS)
        return false;
    if (c->core && !t->look->core)
        return false;
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->names[i], t->look->name) == 0)
            return true;
    return c->n == 0;
}

static bool is_seen(const struct mcp_op *op, const struct mcp_tool *t)
{
    return is_chosen(op->client->choice, t) &&
           function_check(t->function, &op->client->caller, NULL) == 0 &&
           reach_may(t->function, &op->client->caller);
}

/* Without what its revision does not know. */
static json_t *shown_to(const struct mcp_op *op, const struct mcp_tool *t)
{
    json_t *copy = json_copy(t->shown);

    if (op->version < MCP_2025_06) {
        (void)json_object_del(copy, "title");
        (void)json_object_del(copy, "outputSchema");
    }
    if (op->version < MCP_2025_03)
        (void)json_object_del(copy, "annotations");
    return copy;
}

static void list(void *arg, struct mcp_op *op, json_t *ret)
{
    const struct mcp_face *face = arg;

    for (const struct mcp_tool *t = face->tools; t->function; t++)
        if (is_seen(op, t))
            (void)json_array_append_new(ret, shown_to(op, t));
}

/* ---- a call ---- */

struct tool_call {
    struct mcp_work work; /* first: the work's functions get it */
    const struct mcp_face *face;
    const struct mcp_tool *tool;
    const struct function *function; /* the tool's, or the other one */
    struct mcp_row *row;
    json_t *in; /* the short ones of the arguments */
};

static void add_text(json_t *content, const char *text, size_t len)
{
    (void)json_array_append_new(
        content, json_pack("{s:s, s:o}", "type", "text", "text", json_stringn_nocheck(text, len)));
}

/* Pictures that code made are content of their own. */
static void take_pictures(json_t *value, json_t *content)
{
    unsigned n = 0;
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(value, "results"), i, one)
    {
        const char *mime = json_string_value(json_object_get(one, "mime"));
        json_t *data = json_object_get(one, "data");

        if (!mime || !str_starts(mime, "image/") || str_starts(mime, "image/svg") ||
            !json_is_string(data) || json_string_length(data) > PICTURE_BYTES || n == PICTURES_MAX)
            continue;
        (void)json_array_append_new(
            content, json_pack("{s:s, s:O, s:s}", "type", "image", "data", data, "mimeType", mime));
        (void)json_object_set_new(one, "data", json_string(PICTURE_TAKEN));
        n++;
    }
}

static void render(const struct tool_call *c, const json_t *value, struct buf *text)
{
    const struct tool_look *look = c->tool->look;
    auto_free char *dump = NULL;

    if (look->text) {
        look->text(value, c->in, text);
        return;
    }
    if (look->inner && json_object_get(value, look->inner))
        value = json_object_get(value, look->inner);
    dump = json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    (void)buf_add_str(text, dump);
}

/* ---- what was cut ---- */

/* A call that reads on, as a model would write it. */
static void add_call(struct buf *out, const char *tool, json_t *arguments)
{
    auto_free char *text = json_dumps(arguments, 0);

    (void)buf_addf(out, "%s %s", tool, text);
    json_decref(arguments);
}

static json_int_t number_in(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

/* How much of a command's output was seen; 0 when its two streams are mixed. */
static json_int_t seen(const struct tool_call *c, const json_t *value, const struct cut *cut)
{
    json_int_t from = number_in(c->in, "cursor");

    if (cut->n != 1 || json_string_length(json_object_get(value, "stderr")) > 0)
        return from;
    return from + (json_int_t)cut->head;
}

static void add_read_on(const struct tool_call *c, const json_t *value, const struct cut *cut,
                        struct buf *out)
{
    const char *exec = json_string_value(json_object_get(value, "execId"));
    const struct tool_look *look = c->tool->look;

    if (!exec)
        exec = json_string_value(json_object_get(c->in, "execId"));
    if (c->row->is_full && field_find(c->function->fields, "offset")) {
        (void)buf_add_str(out, "; to read on: ");
        add_call(out, look->name,
                 json_pack("{s:O, s:O, s:I}", "sandboxId", json_object_get(c->in, "sandboxId"),
                           "path", json_object_get(c->in, "path"), "offset",
                           number_in(c->in, "offset") + (json_int_t)mcp_row_shown(c->row)));
    } else if (exec) {
        (void)buf_add_str(out, "; to read on: ");
        add_call(out, "sandbox_stream_logs",
                 json_pack("{s:s, s:s, s:I}", "sandboxId", c->row->call.sandbox_id, "execId", exec,
                           "cursor", cut->n ? seen(c, value, cut) : number_in(value, "cursor")));
    } else if (look->read_on) {
        (void)buf_addf(out, "; to see the rest %s", look->read_on);
    }
}

static void add_row_cut(const struct tool_call *c, const json_t *value, struct cut *cut)
{
    const struct mcp_row *row = c->row;

    if (row->is_full && row->size > 0)
        (void)buf_addf(&cut->words, "of %llu bytes %zu are shown", (unsigned long long)row->size,
                       mcp_row_shown(row));
    else if (row->is_full)
        (void)buf_addf(&cut->words, "the first %zu bytes are shown", mcp_row_shown(row));
    if (row->n_items > json_array_size(row->items))
        (void)buf_addf(&cut->words, "of %zu the first %d were looked at", row->n_items,
                       MCP_ITEMS_MAX);
    if (json_is_true(json_object_get(value, "more")))
        (void)buf_addf(&cut->words, "there is more");
}

/* ---- answers ---- */

static json_t *result(const struct mcp_op *op, json_t *content, json_t *structured, bool failed)
{
    json_t *r = json_pack("{s:o, s:b}", "content", content, "isError", (int)failed);

    if (structured && op->version >= MCP_2025_06)
        (void)json_object_set_new(r, "structuredContent", structured);
    else
        json_decref(structured);
    return r;
}

static void answer_well(struct tool_call *c, struct mcp_op *op)
{
    json_t *first = mcp_row_value(c->row), *value = json_deep_copy(first);
    json_t *content = json_array(), *pictures = json_array(), *whole;
    struct cut cut = {.head_only = c->function == c->tool->with};
    auto_buf struct buf text = {0};

    json_decref(first);
    buf_init(&cut.words, 64u << 10);
    buf_init(&text, SIZE_MAX / 2); /* the value is cut */
    take_pictures(value, pictures);
    add_row_cut(c, value, &cut);
    cut_value(value, c->face->config.output, &cut);
    render(c, value, &text);
    if (cut.words.len > 0) {
        (void)buf_addf(&text, "%s[cut: %s", text.len ? "\n" : "", cut.words.data);
        add_read_on(c, value, &cut, &text);
        (void)buf_add_str(&text, "]");
    }
    if (text.len > 0 || json_array_size(pictures) == 0)
        add_text(content, text.data ? text.data : "", text.len);
    (void)json_array_extend(content, pictures);
    json_decref(pictures);
    whole = result(op, content, tool_wrap(c->function, json_incref(value)),
                   tool_failed(c->tool->look, value));
    if (cut.words.len > 0)
        (void)json_object_set_new(whole, "_meta",
                                  json_pack("{s:s}", "dev.cay/cut", cut.words.data));
    mcp_answer(op, whole);
    json_decref(value);
    buf_done(&cut.words);
}

/* As the text of who asked the same over REST and was refused; the words are what a model mends its
 * call by. */
static void answer_badly(struct tool_call *c, struct mcp_op *op)
{
    int status;
    json_t *body = mcp_row_error(c->row, &status), *whole;
    struct cut cut = {0};
    auto_free char *text = NULL, *line = NULL;
    json_t *content = json_array();

    buf_init(&cut.words, 64u << 10);
    cut_value(body, c->face->config.output, &cut);
    text = json_dumps(body, MCP_DUMP);
    line = xasprintf("%s %s failed: %d %s", c->function->method, c->row->path ? c->row->path : "",
                     status, text);
    add_text(content, line, strlen(line));
    whole = result(op, content, NULL, true);
    (void)json_object_set_new(whole, "_meta",
                              json_pack("{s:{s:O, s:i}}", "dev.cay/error", "code",
                                        json_object_get(body, "code"), "status", status));
    mcp_answer(op, whole);
    json_decref(body);
    buf_done(&cut.words);
}

static void answer(struct tool_call *c, struct mcp_op *op, int r)
{
    if (r < 0)
        answer_badly(c, op);
    else
        answer_well(c, op);
}

/* ---- going on ---- */

static enum mcp_state step(struct mcp_work *w, struct mcp_op *op)
{
    struct tool_call *c = (struct tool_call *)w;
    int r = mcp_row_step(c->row);

    if (r > 0) {
        mcp_row_wait(c->row, w);
        return r == TASK_AGAIN ? MCP_AGAIN : MCP_WAITS;
    }
    answer(c, op, r);
    return MCP_DONE;
}

static void free_call(struct mcp_work *w, struct mcp_op *op)
{
    struct tool_call *c = (struct tool_call *)w;

    (void)op;
    mcp_row_free(c->row);
    json_decref(c->in);
    free(c);
}

static const struct mcp_work_ops call_ops = {.step = step, .free = free_call};

static json_t *short_ones(const json_t *arguments)
{
    json_t *some = json_object(), *one;
    const char *key;

    json_object_foreach((json_t *)arguments, key, one)
    {
        if (json_is_integer(one) || (json_is_string(one) && json_string_length(one) < SHORT_BYTES))
            (void)json_object_set(some, key, one);
    }
    return some;
}

static bool given(const json_t *arguments, const char *name)
{
    const json_t *value = json_object_get(arguments, name);

    return value && !json_is_null(value);
}

static void begin(const struct mcp_face *face, const struct mcp_tool *t, struct mcp_op *op,
                  json_t *arguments)
{
    struct tool_call *c = xcalloc(1, sizeof(*c));
    bool other = t->with && given(arguments, t->look->with_param);
    int r;

    c->work = (struct mcp_work){.ops = &call_ops, .fd = -1};
    c->face = face;
    c->tool = t;
    c->function = other ? t->with : t->function;
    c->in = short_ones(arguments);
    if (t->forced)
        (void)json_object_update(arguments, t->forced);
    if (t->look->takes_image && face->config.image && !given(arguments, "image") &&
        !given(arguments, "template"))
        (void)json_object_set_new(arguments, "image", json_string(face->config.image));
    c->row = mcp_row_new(face, op, c->function, json_incref(arguments), face->config.output);
    (void)json_object_del(op->params, "arguments"); /* it is the call's now */
    r = mcp_row_begin(c->row);
    if (r > 0) {
        op->work = &c->work;
        return;
    }
    answer(c, op, r);
    free_call(&c->work, op);
}

static void call(void *arg, struct mcp_op *op, const char *name, json_t *arguments)
{
    const struct mcp_face *face = arg;

    for (const struct mcp_tool *t = face->tools; t->function; t++)
        if (strcmp(t->look->name, name) == 0 && is_seen(op, t)) {
            begin(face, t, op, arguments);
            return;
        }
    mcp_fail(op, RPC_INVALID_PARAMS, NULL, "Unknown tool: %.100s", name);
}

const struct mcp_tools mcp_function_tools = {.list = list, .call = call};
