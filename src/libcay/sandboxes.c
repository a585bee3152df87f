#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "libcay/libcay_internal.h"

#define LIST_MAX    100000
#define RENEW_MAX_S (100ll * 365 * 86400)

/* ---- what they are ---- */

static void copy(char *to, size_t size, const json_t *from, const char *key)
{
    (void)snprintf(to, size, "%s", json_text(from, key));
}

static void fill(struct cay_sandbox *s, const json_t *from)
{
    *s = (struct cay_sandbox){.created_ms = json_int(from, "createdAt"),
                              .expires_ms = json_int(from, "expiresAt"),
                              .json = json_dumps(from, JSON_COMPACT)};
    copy(s->id, sizeof(s->id), from, "id");
    copy(s->name, sizeof(s->name), from, "name");
    copy(s->image, sizeof(s->image), from, "image");
    copy(s->status, sizeof(s->status), from, "status");
}

void cay_sandbox_done(struct cay_sandbox *sandbox)
{
    if (!sandbox)
        return;
    free(sandbox->json);
    *sandbox = (struct cay_sandbox){0};
}

void cay_list_free(struct cay_sandbox *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cay_sandbox_done(&list[i]);
    free(list);
}

/* A call below /sandbox/sandboxes/ID that answers with the sandbox; takes body. */
static int act(struct cay *client, const char *method, const char *sandbox, const char *what,
               json_t *body, struct cay_sandbox *ret, struct cay_error *err)
{
    auto_free char *word = url_encoded(sandbox);
    json_t *answer = NULL;

    if (client_call(client, method, body, &answer, err, "/sandboxes/%s%s", word, what) < 0)
        return -1;
    if (ret)
        fill(ret, answer);
    json_decref(answer);
    return 0;
}

/* ---- making one ---- */

static void put_number(json_t *body, const char *key, int64_t value)
{
    if (value)
        (void)json_object_set_new(body, key, json_integer(value));
}

static int create_body(json_t *body, const struct cay_create *create)
{
    const char *image = create->image || create->template_name ? create->image : "host";

    if (put_text(body, "image", image) < 0 || put_text(body, "name", create->name) < 0 ||
        put_text(body, "template", create->template_name) < 0 ||
        put_text(body, "workdir", create->workdir) < 0 ||
        put_text(body, "network", create->network) < 0)
        return -1;
    put_number(body, "memory", create->memory_mb);
    put_number(body, "pids", create->pids);
    put_number(body, "disk", create->disk_mb);
    put_number(body, "timeout", create->timeout_s);
    if (create->cpu != 0)
        (void)json_object_set_new(body, "cpu", json_real(create->cpu));
    if (put_pairs(body, "env", create->env) < 0 ||
        put_pairs(body, "metadata", create->metadata) < 0)
        return -1;
    return add_more(body, create->more);
}

int cay_create(struct cay *client, const struct cay_create *create, struct cay_sandbox *ret,
               struct cay_error *err)
{
    static const struct cay_create none;
    json_t *body = json_object(), *answer = NULL;

    if (create_body(body, create ? create : &none) < 0) {
        json_decref(body);
        return bad_argument(
            err, "texts are UTF-8, env and metadata KEY=value, and more is a JSON object");
    }
    if (client_call(client, "POST", body, &answer, err, "/sandboxes") < 0)
        return -1;
    if (ret)
        fill(ret, answer);
    json_decref(answer);
    return 0;
}

/* ---- those that there are ---- */

int cay_get(struct cay *client, const char *sandbox, struct cay_sandbox *ret, struct cay_error *err)
{
    return act(client, "GET", sandbox, "", NULL, ret, err);
}

static int list_all(struct cay *client, const char *query, json_t *all, struct cay_error *err)
{
    int64_t cursor = 0;

    do {
        auto_free char *from = cursor ? xasprintf("&cursor=%lld", (long long)cursor) : xstrdup("");
        json_t *page = NULL;

        if (client_call(client, "GET", NULL, &page, err, "/sandboxes?pageSize=200%s%s%s", from,
                        query ? "&" : "", query ? query : "") < 0)
            return -1;
        (void)json_array_extend(all, json_object_get(page, "items"));
        cursor = json_int(page, "nextCursor");
        json_decref(page);
    } while (cursor && json_array_size(all) < LIST_MAX);
    return 0;
}

int cay_list(struct cay *client, const char *query, struct cay_sandbox **ret, size_t *ret_count,
             struct cay_error *err)
{
    json_t *all = json_array();
    int r = list_all(client, query, all, err);

    if (r == 0) {
        size_t n = json_array_size(all);

        n = n < LIST_MAX ? n : LIST_MAX;
        *ret = xcalloc(n + 1, sizeof(**ret));
        for (size_t i = 0; i < n; i++)
            fill(&(*ret)[i], json_array_get(all, i));
        *ret_count = n;
    }
    json_decref(all);
    return r;
}

int cay_kill(struct cay *client, const char *sandbox, struct cay_error *err)
{
    return act(client, "DELETE", sandbox, "", NULL, NULL, err);
}

int cay_pause(struct cay *client, const char *sandbox, struct cay_sandbox *ret,
              struct cay_error *err)
{
    return act(client, "POST", sandbox, "/pause", NULL, ret, err);
}

int cay_resume(struct cay *client, const char *sandbox, struct cay_sandbox *ret,
               struct cay_error *err)
{
    return act(client, "POST", sandbox, "/resume", NULL, ret, err);
}

int cay_stop(struct cay *client, const char *sandbox, struct cay_sandbox *ret,
             struct cay_error *err)
{
    return act(client, "POST", sandbox, "/stop", NULL, ret, err);
}

int cay_start(struct cay *client, const char *sandbox, struct cay_sandbox *ret,
              struct cay_error *err)
{
    return act(client, "POST", sandbox, "/start", NULL, ret, err);
}

int cay_renew(struct cay *client, const char *sandbox, int64_t timeout_s, struct cay_sandbox *ret,
              struct cay_error *err)
{
    int64_t at;

    if (timeout_s < 0 || timeout_s > RENEW_MAX_S)
        return bad_argument(err, "so many seconds a sandbox cannot be renewed for");
    at = now_ms() + timeout_s * 1000;
    return act(client, "POST", sandbox, "/renew", json_pack("{s:I}", "expiresAt", (json_int_t)at),
               ret, err);
}

/* ---- environment and snapshots ---- */

int cay_env_set(struct cay *client, const char *sandbox, const char *const *env,
                struct cay_error *err)
{
    json_t *vars = pairs_json(env);

    if (!vars)
        return bad_argument(err, "variables are KEY=value in UTF-8");
    return act(client, "POST", sandbox, "/env", json_pack("{s:o}", "vars", vars), NULL, err);
}

/* {key: …}; NULL when it is no UTF-8. */
static json_t *key_json(const char *key)
{
    return json_pack("{s:s}", "key", key);
}

int cay_env_get(struct cay *client, const char *sandbox, const char *key, char **ret,
                struct cay_error *err)
{
    auto_free char *word = url_encoded(sandbox);
    json_t *body = key_json(key), *answer = NULL;
    const char *value;
    int r;

    if (!body)
        return bad_argument(err, "names of variables are UTF-8");
    if (client_call(client, "POST", body, &answer, err, "/sandboxes/%s/env/get", word) < 0)
        return -1;
    value = json_string_value(json_object_get(answer, "value"));
    r = value != NULL;
    if (value)
        *ret = xstrdup(value);
    json_decref(answer);
    return r;
}

int cay_env_delete(struct cay *client, const char *sandbox, const char *key, struct cay_error *err)
{
    json_t *body = key_json(key);

    if (!body)
        return bad_argument(err, "names of variables are UTF-8");
    return act(client, "POST", sandbox, "/env/delete", body, NULL, err);
}

int cay_snapshot(struct cay *client, const char *sandbox, const char *name, char ret[40],
                 struct cay_error *err)
{
    auto_free char *word = url_encoded(sandbox);
    json_t *body = json_object(), *answer = NULL;

    if (put_text(body, "name", name) < 0) {
        json_decref(body);
        return bad_argument(err, "names of snapshots are UTF-8");
    }
    if (client_call(client, "POST", body, &answer, err, "/sandboxes/%s/snapshots", word) < 0)
        return -1;
    copy(ret, 40, answer, "id");
    json_decref(answer);
    return 0;
}

int cay_restore(struct cay *client, const char *sandbox, const char *snapshot,
                struct cay_error *err)
{
    json_t *body = json_pack("{s:s}", "snapshotId", snapshot);

    if (!body)
        return bad_argument(err, "names of snapshots are UTF-8");
    return act(client, "POST", sandbox, "/snapshots/restore", body, NULL, err);
}

/* ---- ports ---- */

int cay_dial(struct cay *client, const char *sandbox, uint16_t port, int *ret_fd,
             struct cay_error *err)
{
    auto_free char *word = url_encoded(sandbox);
    struct call_asked asked = {.method = "POST",
                               .path = "/sandbox/sandboxes/{sandboxId}/dial/{port}"};
    struct err why = {0};
    struct line *line = line_take(client, client->timeout_ms, &why);
    int r = line ? api_dial(&line->api, word, port, ret_fd, &why) : -1;

    if (r < 0)
        (void)report(line, &why, &asked, err);
    line_give(client, line);
    return r;
}
