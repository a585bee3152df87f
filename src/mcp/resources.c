#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "mcp/face_internal.h"
#include "mcp/uri.h"
#include "mcp/watching.h"

/* Sandboxes and the files in them as resources. Each is read by a function of the table, so that
 * nobody reads here what he may not read there. */

#define LIST_MAX 200

static const char *text_in(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

/* ---- one call of a function that does not wait ---- */

/* What it gave, or NULL with *ret_row as it failed; the caller frees the row. */
static json_t *call_row(const struct mcp_face *face, struct mcp_op *op, const char *id, json_t *in,
                        struct mcp_row **ret_row)
{
    *ret_row = mcp_row_new(face, op, function_find(id), in, face->config.output);
    return mcp_row_begin(*ret_row) == TASK_DONE ? mcp_row_value(*ret_row) : NULL;
}

static json_t *ask(const struct mcp_face *face, struct mcp_op *op, const char *id, json_t *in)
{
    struct mcp_row *row;
    json_t *value = call_row(face, op, id, in, &row);

    mcp_row_free(row);
    return value;
}

/* ---- lists ---- */

static void list(void *arg, struct mcp_op *op, json_t *ret)
{
    json_t *all = ask(arg, op, "sandbox::list", json_pack("{s:i}", "pageSize", LIST_MAX)), *one;
    size_t i;

    json_array_foreach(json_object_get(all, "items"), i, one)
    {
        (void)json_array_append_new(
            ret, json_pack("{s:s+, s:s, s:o, s:s}", "uri", "sandbox://", text_in(one, "id"), "name",
                           text_in(one, "name"), "description",
                           json_sprintf(
                               "sandbox from %s, %s; its files are at sandbox://%s/workspace",
                               text_in(one, "image"), text_in(one, "status"), text_in(one, "id")),
                           "mimeType", "application/json"));
    }
    json_decref(all);
}

static void templates(void *arg, struct mcp_op *op, json_t *ret)
{
    (void)arg;
    (void)op;
    (void)json_array_append_new(ret, json_pack("{s:s, s:s, s:s}", "uriTemplate",
                                               "sandbox://{sandboxId}", "name", "sandbox",
                                               "description", "what a sandbox is and how it is"));
    (void)json_array_append_new(
        ret, json_pack("{s:s, s:s, s:s}", "uriTemplate", "sandbox://{sandboxId}/{+path}", "name",
                       "file", "description",
                       "a file in a sandbox, or what is in a folder: path is its whole path, as "
                       "workspace/notes.txt"));
}

/* ---- reading ---- */

static void refuse(struct mcp_op *op, const char *uri, struct mcp_row *row)
{
    int status;
    json_t *body = mcp_row_error(row, &status);

    (void)json_object_set_new(body, "uri", json_string(uri));
    mcp_fail(op, status == 404 ? RPC_NO_RESOURCE : RPC_REFUSED, body, "%s", row->err.text);
}

static json_t *content(const char *uri, const char *mime, const char *key, json_t *value)
{
    return json_pack("{s:s, s:s, s:o}", "uri", uri, "mimeType", mime, key, value);
}

static void answer_json(const struct mcp_face *face, struct mcp_op *op, const char *uri,
                        json_t *value)
{
    json_t *copy = json_deep_copy(value), *contents = json_array();
    auto_free char *text = NULL;
    struct cut cut = {0};

    buf_init(&cut.words, 64u << 10);
    cut_value(copy, face->config.output, &cut);
    text = json_dumps(copy, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    (void)json_array_append_new(contents,
                                content(uri, "application/json", "text", json_string(text)));
    if (cut.words.len > 0)
        (void)json_array_append_new(contents, content(uri, "text/plain", "text",
                                                      json_sprintf("[cut: %s]", cut.words.data)));
    mcp_answer(op, json_pack("{s:o}", "contents", contents));
    json_decref(copy);
    json_decref(value);
    buf_done(&cut.words);
}

/* As text where it is one; a cut must not make it something else. */
static void answer_file(struct mcp_op *op, const char *uri, struct mcp_row *row)
{
    const char *data = row->bytes.data ? row->bytes.data : "";
    size_t len = mcp_row_shown(row);
    json_t *contents = json_array();
    auto_buf struct buf encoded = {0};

    if (utf8_valid(data, len) && !memchr(data, '\0', len)) {
        (void)json_array_append_new(
            contents, content(uri, "text/plain", "text", json_stringn_nocheck(data, len)));
    } else {
        buf_init(&encoded, 2 * row->bytes.len + 8);
        (void)base64_encode(&encoded, data, row->bytes.len);
        (void)json_array_append_new(
            contents, content(uri, "application/octet-stream", "blob",
                              json_stringn(encoded.data ? encoded.data : "", encoded.len)));
    }
    if (row->is_full)
        (void)json_array_append_new(
            contents, content(uri, "text/plain", "text",
                              json_sprintf("[cut: of %llu bytes %zu are shown; sandbox_read_file "
                                           "with offset reads on]",
                                           (unsigned long long)row->size, row->bytes.len)));
    mcp_answer(op, json_pack("{s:o}", "contents", contents));
}

static void read_path(const struct mcp_face *face, struct mcp_op *op, const char *uri,
                      const char *sandbox, const char *path)
{
    json_t *in = json_pack("{s:s, s:s, s:b}", "sandboxId", sandbox, "path", path, "anywhere", 1);
    struct mcp_row *row;
    json_t *value = call_row(face, op, "fs::download", json_deep_copy(in), &row);

    json_decref(value); /* there is none: it has bytes */
    if (!row->err.text[0] || row->is_full) {
        answer_file(op, uri, row);
    } else if (row->err.code && strcmp(row->err.code, "is_a_directory") == 0) {
        mcp_row_free(row);
        value = call_row(face, op, "fs::list", json_incref(in), &row);
        if (value)
            answer_json(face, op, uri, value);
    }
    if (!op->answer)
        refuse(op, uri, row);
    mcp_row_free(row);
    json_decref(in);
}

static void read_resource(void *arg, struct mcp_op *op, const char *uri)
{
    auto_free char *sandbox = NULL, *path = NULL;
    struct mcp_row *row;
    json_t *value;

    if (!sandbox_uri_read(uri, &sandbox, &path)) {
        mcp_fail(op, RPC_NO_RESOURCE, json_pack("{s:s}", "uri", uri),
                 "Resource not found: a URI is sandbox://ID or sandbox://ID/path");
        return;
    }
    if (*path) {
        read_path(arg, op, uri, sandbox, path);
        return;
    }
    value = call_row(arg, op, "sandbox::get", json_pack("{s:s}", "sandboxId", sandbox), &row);
    if (value)
        answer_json(arg, op, uri, value);
    else
        refuse(op, uri, row);
    mcp_row_free(row);
}

const struct mcp_resources mcp_face_resources = {.list = list,
                                                 .templates = templates,
                                                 .read = read_resource,
                                                 .subscribe = mcp_watch_begin,
                                                 .unsubscribe = mcp_watch_end};

/* ---- what could be meant ---- */

static void complete_sandbox(struct mcp_face *face, struct mcp_op *op, const char *value,
                             json_t *ret)
{
    json_t *all = ask(face, op, "sandbox::list", json_pack("{s:i}", "pageSize", LIST_MAX)), *one;
    size_t i;

    json_array_foreach(json_object_get(all, "items"), i, one)
    {
        if (str_starts(text_in(one, "id"), value) || str_starts(text_in(one, "name"), value))
            (void)json_array_append(ret, json_object_get(one, "id"));
    }
    json_decref(all);
}

/* Of a path as templates have it, without its first slash. */
static void complete_path(struct mcp_face *face, struct mcp_op *op, const char *sandbox,
                          const char *value, json_t *ret)
{
    const char *slash = strrchr(value, '/'), *name = slash ? slash + 1 : value;
    auto_free char *folder = xasprintf("/%.*s", (int)(slash ? slash - value : 0), value);
    json_t *all =
        ask(face, op, "fs::list",
            json_pack("{s:s, s:s, s:b}", "sandboxId", sandbox, "path", folder, "anywhere", 1));
    json_t *one;
    size_t i;

    json_array_foreach(all, i, one)
    {
        if (str_starts(text_in(one, "name"), name))
            (void)json_array_append_new(
                ret, json_sprintf("%.*s%s", (int)(name - value), value, text_in(one, "name")));
    }
    json_decref(all);
}

void mcp_face_complete(void *arg, struct mcp_op *op, const json_t *ref, const char *name,
                       const char *value, const json_t *others, json_t *ret)
{
    const char *sandbox = text_in(others, "sandboxId");

    (void)ref;
    if (strcmp(name, "sandboxId") == 0)
        complete_sandbox(arg, op, value, ret);
    else if (strcmp(name, "path") == 0 && *sandbox)
        complete_path(arg, op, sandbox, value, ret);
}
