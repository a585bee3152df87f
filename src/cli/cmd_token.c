#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/env_args.h"
#include "cli/objects.h"
#include "cli/table.h"
#include "cli/ui.h"

/* Tokens for others: their text is shown once, alone on stdout. */

static json_t *scopes_of(char **list)
{
    json_t *scopes = json_array();

    for (; list && *list; list++) {
        const char *word = *list;

        while (*word) {
            size_t len = strcspn(word, ", ");

            if (len > 0)
                (void)json_array_append_new(scopes, json_stringn(word, len));
            word += len;
            word += strspn(word, ", ");
        }
    }
    return scopes;
}

static int body_of(const struct args *args, json_t **ret, struct err *err)
{
    json_t *label = NULL, *body;
    char *one[2] = {(char *)(uintptr_t)args_text(args, "label"), NULL};

    if (one[0] && pairs_to_json(one, "--label", &label, err) < 0)
        return -1;
    body = json_pack("{s:o}", "scopes", scopes_of(args_list(args, "scope")));
    if (label)
        (void)json_object_set_new(body, "label", label);
    json_put_text(body, "name", args->n_words > 0 ? args->words[0] : NULL);
    json_put_text(body, "sandboxId", args_text(args, "sandbox"));
    if (args_has(args, "expires"))
        (void)json_object_set_new(body, "expiresIn",
                                  json_integer((json_int_t)(args_number(args, "expires", 0) + .5)));
    *ret = body;
    return 0;
}

int cmd_token_create(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *body = NULL, *token = NULL;

    if (!args_list(args, "scope"))
        return ui_usage(args, "what may it do? --scope read,exec,write or --scope admin");
    if (args->n_words > 0 && !utf8_valid(args->words[0], strlen(args->words[0])))
        return ui_usage(args, "the name is not valid UTF-8 text");
    if (args_has(args, "expires") && args_number(args, "expires", 0) < 1)
        return ui_usage(args, "--expires must be at least 1s");
    if (body_of(args, &body, &err) < 0)
        return ui_usage(args, "%s", err.text);
    if (api_open(&api, args, &err) < 0) {
        json_decref(body);
        return ui_fail(&err);
    }
    if (api_call(&api, "POST", body, &token, &err, "/tokens") < 0)
        return ui_fail(&err);
    if (*json_text(token, "warning"))
        ui_warn("%s", json_text(token, "warning"));
    if (args_has(args, "json")) {
        ui_json(token);
    } else {
        if (ui_stdout_is_terminal())
            ui_warn("%s: keep it now, it is not shown again", json_text(token, "id"));
        printf("%s\n", json_text(token, "token"));
    }
    json_decref(token);
    return STATUS_OK;
}

static void add_for(struct table *t, const json_t *token)
{
    json_t *label = json_object_get(token, "label");
    void *one = json_object_iter(label);

    if (one)
        table_cellf(t, "%s=%s", json_object_iter_key(one),
                    json_string_value(json_object_iter_value(one)));
    else if (*json_text(token, "sandboxId"))
        table_cell(t, json_text(token, "sandboxId"));
    else
        table_cell(t, "all");
}

static void add_time(struct table *t, int64_t ms, int64_t now, const char *none)
{
    char text[24];

    if (!ms) {
        table_cell(t, none);
        return;
    }
    ui_duration(ms > now ? ms - now : now - ms, text);
    table_cellf(t, ms > now ? "in %s" : "%s ago", text);
}

static void add_scopes(struct table *t, const json_t *scopes)
{
    char text[64] = "";
    json_t *word;
    size_t i;

    json_array_foreach(scopes, i, word)
    {
        size_t len = strlen(text);

        (void)snprintf(text + len, sizeof(text) - len, "%s%s", i ? "," : "",
                       json_string_value(word));
    }
    table_cell(t, text);
}

static void print_table(const json_t *tokens)
{
    auto_table struct table t;
    int64_t now = now_ms();
    json_t *k;
    size_t i;

    table_init(&t, "ID|NAME|SCOPES|FOR|EXPIRES|USED|BY");
    json_array_foreach(tokens, i, k)
    {
        table_cell(&t, json_text(k, "id"));
        table_cell(&t, ui_name(json_text(k, "id"), json_text(k, "name")));
        add_scopes(&t, json_object_get(k, "scopes"));
        add_for(&t, k);
        add_time(&t, json_int(k, "expiresAt"), now, "never");
        add_time(&t, json_int(k, "lastUsedAt"), now, "-");
        table_cell(&t, json_text(k, "createdBy"));
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

int cmd_token_ls(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL, *tokens, *k;
    size_t i;

    if (api_open(&api, args, &err) < 0 || api_call(&api, "GET", NULL, &answer, &err, "/tokens") < 0)
        return ui_fail(&err);
    tokens = json_object_get(answer, "tokens");
    if (args_has(args, "json")) {
        ui_json(tokens);
    } else if (args_has(args, "quiet")) {
        json_array_foreach(tokens, i, k)
        {
            printf("%s\n", json_text(k, "id"));
        }
    } else {
        print_table(tokens);
    }
    json_decref(answer);
    return STATUS_OK;
}

int cmd_token_revoke(struct args *args)
{
    return objects_rm(args, "tokens");
}
