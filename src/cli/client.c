#include "cli/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/args.h"
#include "cli/ui.h"
#include "model/sandbox.h"

#define PAGE     200
#define LIST_MAX 100000

/* A process talks to one daemon, one call at a time: what went wrong last is the process's. */
static struct api_failure last;

const char *api_last_output(void)
{
    return last.output ? last.output : "";
}

const char *api_last_code(void)
{
    return last.code;
}

bool api_no_daemon(void)
{
    return last.no_daemon;
}

void api_open_target(struct api *api, const char *target)
{
    api_init(api, target, api_token(), CLIENT_NAME, &last);
}

int api_open(struct api *api, const struct args *args, struct err *err)
{
    auto_free char *target = NULL;
    bool chosen;

    if (api_address(args_text(args, "host"), &target, &chosen, err) < 0)
        return -1;
    api_open_target(api, target);
    return 0;
}

/* One page; *cursor is where it begins (0 = at the newest), then where the next one does (0 = there
 * is none). */
static int add_page(struct api *api, const char *filter, int64_t *cursor, json_t *all,
                    int64_t *ret_total, struct err *err)
{
    auto_free char *from = *cursor ? xasprintf("&cursor=%lld", (long long)*cursor) : xstrdup("");
    json_t *answer = NULL;

    if (api_call(api, "GET", NULL, &answer, err, "/sandboxes?pageSize=%d%s%s", PAGE, from, filter) <
        0)
        return -1;
    (void)json_array_extend(all, json_object_get(answer, "items"));
    *ret_total = json_int(answer, "total");
    *cursor = json_int(answer, "nextCursor");
    json_decref(answer);
    return 0;
}

int api_sandboxes(struct api *api, const char *status, size_t at_most, json_t **ret,
                  int64_t *ret_total, struct err *err)
{
    auto_free char *word = url_encoded(status ? status : "");
    auto_free char *filter = status ? xasprintf("&status=%s", word) : xstrdup("");
    json_t *all = json_array();
    int64_t cursor = 0;

    if (at_most == 0 || at_most > LIST_MAX)
        at_most = LIST_MAX;
    do {
        if (add_page(api, filter, &cursor, all, ret_total, err) < 0) {
            json_decref(all);
            return -1;
        }
    } while (cursor && json_array_size(all) < at_most);
    while (json_array_size(all) > at_most)
        (void)json_array_remove(all, json_array_size(all) - 1);
    *ret = all;
    return 0;
}

static int search_beginning(json_t *all, const char *word, char **ret, struct err *err)
{
    const char *found = NULL;
    size_t i, matches = 0;
    json_t *item;

    json_array_foreach(all, i, item)
    {
        const char *id = json_text(item, "id");

        if (!id_valid(id, "sbx") || !str_starts(id, word))
            continue;
        matches++;
        found = id;
    }
    if (matches == 0)
        return err_set(err, ERR_NOT_FOUND, "no sandbox has the id \"%.80s\": see `cay ls --all`",
                       word);
    if (matches > 1)
        return err_set(err, ERR_INVALID, "%zu sandboxes fit \"%.80s\": give a whole id", matches,
                       word);
    *ret = xstrdup(found);
    return 0;
}

static int id_of_beginning(struct api *api, const char *word, char **ret, struct err *err)
{
    json_t *all = NULL;
    int64_t total;
    int r;

    if (api_sandboxes(api, NULL, 0, &all, &total, err) < 0)
        return -1;
    r = search_beginning(all, word, ret, err);
    json_decref(all);
    return r;
}

/* The daemon knows names; with the id, all calls of a command are about one sandbox. */
static int id_of_name(struct api *api, const char *word, char **ret, struct err *err)
{
    auto_free char *encoded = url_encoded(word);
    auto_free char *id = NULL;
    json_t *sandbox = NULL;

    if (api_call(api, "GET", NULL, &sandbox, err, "/sandboxes/%s", encoded) < 0) {
        if (strcmp(last.code, "sandbox_not_found") == 0)
            return err_set(err, ERR_NOT_FOUND,
                           "no sandbox has the id or name \"%.80s\": see `cay ls --all`", word);
        return -1;
    }
    id = xstrdup(json_text(sandbox, "id"));
    json_decref(sandbox);
    if (!id_valid(id, "sbx"))
        return err_set(err, ERR_INTERNAL,
                       "%s gave a sandbox without a valid id: is it a cay daemon?", api->target);
    *ret = steal_ptr(id);
    return 0;
}

int api_sandbox_id(struct api *api, const char *word, char **ret, struct err *err)
{
    if (id_valid(word, "sbx")) {
        *ret = xstrdup(word);
        return 0;
    }
    if (!*word || !utf8_valid(word, strlen(word)))
        return err_set(err, ERR_INVALID,
                       "an id or name of a sandbox cannot be empty or bytes that "
                       "are not text");
    if (sandbox_name_is_like_id(word))
        return id_of_beginning(api, word, ret, err);
    return id_of_name(api, word, ret, err);
}
