#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/escape.h"
#include "cli/ui.h"
#include "http/client.h"
#include "libcay/sse.h"

/* `cay file watch`: a line a change, until the path or the sandbox is gone. */

static json_t *request_of(const struct args *args)
{
    json_t *body = json_object(), *ignore = json_of_strings(args_list(args, "ignore"));

    if (args->n_words > 1)
        (void)json_object_set_new(body, "path", json_string(args->words[1]));
    (void)json_object_set_new(body, "anywhere", json_boolean(args_has(args, "anywhere")));
    (void)json_object_set_new(body, "recursive", json_boolean(args_has(args, "recursive")));
    (void)json_object_set_new(body, "publish", json_boolean(args_has(args, "publish")));
    (void)json_object_set_new(body, "ignore", ignore);
    return body;
}

static int open_stream(struct sse_reader *s, struct api *api, const char *id, json_t *body,
                       struct err *err)
{
    auto_free char *path = xasprintf("/sandbox/sandboxes/%s/files/watch", id);
    auto_free char *text = json_dumps(body, JSON_COMPACT);
    struct http_response response;

    json_decref(body);
    sse_attach(s, api);
    if (http_client_send(api->http, "POST", path, "application/json", text, strlen(text), &response,
                         err) < 0)
        return api_explain(api, err);
    return api_check(api, &response, err);
}

/* Names are the sandbox's. */
static void print_change(const json_t *change)
{
    const char *from = json_string_value(json_object_get(change, "from"));
    auto_free char *path = escape_text(ESCAPE_CELL, json_text(change, "path"));
    auto_free char *source = escape_text(ESCAPE_CELL, from ? from : "");
    bool is_dir = json_is_true(json_object_get(change, "isDirectory"));

    printf("%-8s %s%s%s%s\n", json_text(change, "type"), source, from ? " -> " : "", path,
           is_dir ? "/" : "");
}

static void print_event(const struct args *args, const json_t *event)
{
    const char *type = json_text(event, "type");

    if (args_has(args, "json"))
        ui_json_line(event);
    else if (strcmp(type, "ready") == 0)
        fprintf(stderr, "watching %lld director%s\n", (long long)json_int(event, "directories"),
                json_int(event, "directories") == 1 ? "y" : "ies");
    else if (strcmp(type, "overflow") == 0)
        ui_warn("%s", json_object_get(event, "path")
                          ? "there are more directories than can be watched: not all is told"
                          : "there were more changes than could be told; look at the files anew");
    else if (strcmp(type, "end") == 0)
        ui_warn("%s", json_text(event, "reason"));
    else
        print_change(event);
    (void)fflush(stdout);
}

int cmd_file_watch(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct sse_reader events = {0};
    struct err err = {0};
    json_t *event;
    int r = 1;

    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0 ||
        open_stream(&events, &api, id, request_of(args), &err) < 0)
        r = -1;
    while (r > 0 && !ui_output_failed() && (r = sse_next(&events, &event, &err)) > 0) {
        print_event(args, event);
        json_decref(event);
    }
    sse_close(&events);
    return r < 0 ? ui_fail_path(args, &err) : STATUS_OK;
}
