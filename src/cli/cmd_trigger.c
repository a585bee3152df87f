#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/escape.h"
#include "cli/help.h"
#include "cli/iii_client.h"
#include "cli/trigger_args.h"
#include "cli/ui.h"

#define PAYLOAD_MAX (16u << 20)
#define READ_ROOM   65536

/* ---- what is sent ---- */

static json_t *value_of(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

    return value ? value : json_string(text);
}

int trigger_payload(const char *json, char *const *pairs, size_t n, json_t **ret, struct err *err)
{
    json_error_t why;
    json_t *payload = json ? json_loads(json, JSON_DECODE_ANY, &why) : json_object();

    if (!payload)
        return err_set(err, ERR_INVALID, "--json is no JSON: %s", why.text);
    if (n > 0 && !json_is_object(payload)) {
        json_decref(payload);
        return err_set(err, ERR_INVALID, "--json must be an object when there are KEY=VALUE too");
    }
    for (size_t i = 0; i < n; i++) {
        const char *equals = strchr(pairs[i], '=');
        auto_free char *key = equals ? xstrndup(pairs[i], (size_t)(equals - pairs[i])) : NULL;

        if (!key || !*key || json_object_set_new(payload, key, value_of(equals + 1)) < 0) {
            json_decref(payload);
            return err_set(err, ERR_INVALID,
                           "\"%.80s\" must be KEY=VALUE; a JSON object is given with --json",
                           pairs[i]);
        }
    }
    *ret = payload;
    return 0;
}

/* All of stdin, as text; NULL when it is too much, or cannot be read. */
static char *read_stdin(void)
{
    struct buf in;

    buf_init(&in, PAYLOAD_MAX);
    for (;;) {
        char *room = buf_room(&in, READ_ROOM);
        ssize_t n = room ? read_some(STDIN_FILENO, room, READ_ROOM) : -1;

        if (n < 0) {
            buf_done(&in);
            return NULL;
        }
        if (n == 0)
            return buf_steal(&in);
        in.len += (size_t)n;
        in.data[in.len] = '\0';
    }
}

static int read_payload(const struct args *args, json_t **ret)
{
    const char *json = args_text(args, "json");
    auto_free char *piped = NULL;
    struct err err = {0};

    if (json && strcmp(json, "-") == 0) {
        piped = read_stdin();
        if (!piped)
            return ui_usage(args, "stdin cannot be read, or is larger than %u MiB",
                            PAYLOAD_MAX >> 20);
        json = piped;
    }
    if (trigger_payload(json, args->words + 1, args->n_words - 1, ret, &err) < 0)
        return ui_usage(args, "%s", err.text);
    return STATUS_OK;
}

/* ---- what a function takes ---- */

/* "string", "integer or null" */
static void add_type(struct buf *out, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *one;
    size_t i;

    if (json_is_string(type))
        (void)buf_add_str(out, json_string_value(type));
    json_array_foreach(type, i, one)(void)
        buf_addf(out, "%s%s", i ? " or " : "", json_string_value(one));
}

static bool is_required(const json_t *schema, const char *name)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(schema, "required"), i,
                       one) if (json_is_string(one) &&
                                strcmp(json_string_value(one), name) == 0) return true;
    return false;
}

static void add_fields(struct buf *out, const json_t *schema)
{
    json_t *field;
    const char *name;

    json_object_foreach(json_object_get(schema, "properties"), name, field)
    {
        (void)buf_addf(out, "  %s", name);
        if (json_object_get(field, "type")) {
            (void)buf_add_str(out, "  ");
            add_type(out, field);
        }
        (void)buf_add_str(out, is_required(schema, name) ? ", needed\n" : "\n");
        if (*json_text(field, "description"))
            (void)buf_addf(out, "      %s\n", json_text(field, "description"));
    }
}

void trigger_help(struct buf *out, const json_t *info)
{
    const char *id = json_text(info, "function_id");

    (void)buf_addf(out, "Usage: cay trigger %s [KEY=VALUE...] [--json JSON]\n", id);
    if (*json_text(info, "description"))
        (void)buf_addf(out, "\n%s\n", json_text(info, "description"));
    if (json_object_size(json_object_get(json_object_get(info, "request_schema"), "properties"))) {
        (void)buf_add_str(out, "\nTakes:\n");
        add_fields(out, json_object_get(info, "request_schema"));
    }
    if (json_object_size(json_object_get(json_object_get(info, "response_schema"), "properties"))) {
        (void)buf_add_str(out, "\nGives:\n");
        add_fields(out, json_object_get(info, "response_schema"));
    }
    if (*json_text(info, "worker_name"))
        (void)buf_addf(out, "\nOffered by %s.\n", json_text(info, "worker_name"));
}

static int show_help(struct args *args)
{
    auto_iii struct iii_client c = {.stop_fd = -1};
    auto_buf struct buf text = {0};
    auto_free char *shown = NULL;
    json_t *info = NULL;
    struct err err = {0};
    int status = iii_client_start(&c, args, -1);
    json_t *data;

    if (status != STATUS_OK)
        return status;
    data = json_object();
    json_put_text(data, "function_id", args->words[0]);
    json_put_text(data, "namespace", args_text(args, "namespace"));
    if (iii_client_call(&c, "engine::functions::info", NULL, data, III_CALL_MS, &info, &err) < 0)
        return iii_client_fail(&c, &err);
    buf_init(&text, HELP_MAX);
    trigger_help(&text, info);
    json_decref(info);
    shown = escape_text(ESCAPE_LINES, text.data ? text.data : "");
    (void)fputs(shown, stdout);
    return STATUS_OK;
}

/* ---- the call ---- */

/* As it was told, for programs; what was not told at all is for people. */
static int fail(const struct iii_client *c, const struct err *err)
{
    if (!c->error)
        return iii_client_fail(c, err);
    (void)json_dumpf(c->error, stderr,
                     JSON_INDENT(2) | (isatty(STDERR_FILENO) == 1 ? JSON_ENSURE_ASCII : 0));
    (void)fputc('\n', stderr);
    return STATUS_FAILED;
}

int cmd_trigger(struct args *args)
{
    auto_iii struct iii_client c = {.stop_fd = -1};
    json_t *payload = NULL, *result = NULL;
    struct err err = {0};
    int status;

    if (args_has(args, "help"))
        return show_help(args);
    status = read_payload(args, &payload);
    if (status != STATUS_OK)
        return status;
    status = iii_client_start(&c, args, -1);
    if (status != STATUS_OK) {
        json_decref(payload);
        return status;
    }
    if (iii_client_call(&c, args->words[0], args_text(args, "namespace"), payload,
                        (int64_t)args_number(args, "timeout-ms", III_CALL_MS), &result, &err) < 0)
        return fail(&c, &err);
    if (result)
        ui_json(result);
    json_decref(result);
    return STATUS_OK;
}
