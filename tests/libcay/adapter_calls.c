#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter.h"
#include "base/buf.h"
#include "base/mem.h"

/* Operations that are one call of the API, through cay_call(): {argument} of a path is that
 * argument, the others go into the query of a GET or DELETE and into the body of a POST. */
struct row {
    const char *op, *method, *path;
    const char *names; /* "argument=field …" where they differ */
    const char *gives; /* "key=pointer …"; '*' is each element of an array */
};

static const struct row rows[] = {
    {"clone", "POST", "/sandboxes/{sandbox}/clone", "",
     "id=/id name=/name image=/image status=/status metadata=/metadata"},
    {"list_files", "POST", "/sandboxes/{sandbox}/files/list", "", "names=/*/name"},
    {"stat", "POST", "/sandboxes/{sandbox}/files/info", "",
     "size=/size permissions=/permissions is_link=/isSymlink is_directory=/isDirectory"},
    {"mkdir", "POST", "/sandboxes/{sandbox}/files/mkdir", "", ""},
    {"remove_file", "POST", "/sandboxes/{sandbox}/files/delete", "", ""},
    {"remove_dir", "POST", "/sandboxes/{sandbox}/files/rmdir", "", ""},
    {"move_file", "POST", "/sandboxes/{sandbox}/files/move", "", ""},
    {"chmod", "POST", "/sandboxes/{sandbox}/files/chmod", "", ""},
    {"search", "POST", "/sandboxes/{sandbox}/files/search", "", "paths="},
    {"env_list", "GET", "/sandboxes/{sandbox}/env", "", "vars=/vars"},
    {"process_list", "GET", "/sandboxes/{sandbox}/processes", "", "processes=/processes"},
    {"process_kill", "POST", "/sandboxes/{sandbox}/processes/kill", "", ""},
    {"run_code", "POST", "/sandboxes/{sandbox}/interpret/execute", "context=contextId",
     "output=/output error=/error"},
    {"context_create", "POST", "/sandboxes/{sandbox}/interpret/contexts", "", "id=/id"},
    {"context_delete", "DELETE", "/sandboxes/{sandbox}/interpret/contexts/{context}", "", ""},
    {"git_clone", "POST", "/sandboxes/{sandbox}/git/clone", "", "exit_code=/exitCode"},
    {"git_status", "GET", "/sandboxes/{sandbox}/git/status", "",
     "branch=/branch clean=/clean files=/files"},
    {"git_commit", "POST", "/sandboxes/{sandbox}/git/commit", "", "exit_code=/exitCode"},
    {"git_log", "GET", "/sandboxes/{sandbox}/git/log", "", "messages=/entries/*/message"},
    {"git_diff", "GET", "/sandboxes/{sandbox}/git/diff", "", "diff=/diff"},
    {"list_snapshots", "GET", "/sandboxes/{sandbox}/snapshots", "", "ids=/snapshots/*/id"},
    {"delete_snapshot", "DELETE", "/snapshots/{snapshot}", "", ""},
    {"queue_submit", "POST", "/sandboxes/{sandbox}/exec/queue", "max_retries=maxRetries",
     "id=/id status=/status"},
    {"queue_status", "GET", "/queue/{job}/status", "",
     "status=/status exit_code=/result/exitCode stdout=/result/stdout stderr=/result/stderr"},
    {"queue_cancel", "POST", "/queue/{job}/cancel", "", ""},
    {"port_expose", "POST", "/sandboxes/{sandbox}/ports", "port=containerPort host_port=hostPort",
     "port=/containerPort host_port=/hostPort"},
    {"port_list", "GET", "/sandboxes/{sandbox}/ports", "", "ports=/ports/*/containerPort"},
    {"port_unexpose", "DELETE", "/sandboxes/{sandbox}/ports", "port=containerPort", ""},
    {"volume_create", "POST", "/volumes", "size_mb=sizeMb", "id=/id name=/name"},
    {"volume_list", "GET", "/volumes", "", "ids=/volumes/*/id"},
    {"volume_attach", "POST", "/volumes/{volume}/attach", "sandbox=sandboxId path=mountPath", ""},
    {"volume_detach", "POST", "/volumes/{volume}/detach", "sandbox=sandboxId", ""},
    {"volume_delete", "DELETE", "/volumes/{volume}", "", ""},
    {"network_create", "POST", "/networks", "", "id=/id name=/name"},
    {"network_list", "GET", "/networks", "", "ids=/networks/*/id"},
    {"network_connect", "POST", "/networks/{network}/connect", "sandbox=sandboxId", ""},
    {"network_disconnect", "POST", "/networks/{network}/disconnect", "sandbox=sandboxId", ""},
    {"network_delete", "DELETE", "/networks/{network}", "", ""},
    {"event_publish", "POST", "/events/publish", "sandbox=sandboxId", "id=/id"},
    {"events", "GET", "/events/history", "sandbox=sandboxId", "topics=/events/*/topic"},
    {"alert_set", "POST", "/sandboxes/{sandbox}/alerts", "", "id=/id"},
    {"alert_list", "GET", "/sandboxes/{sandbox}/alerts", "", "ids=/alerts/*/id"},
    {"alert_delete", "DELETE", "/alerts/{alert}", "", ""},
    {"metrics", "GET", "/sandboxes/{sandbox}/metrics", "",
     "memory_limit_mb=/memoryLimitMb pids=/pids"},
    {"template_list", "GET", "/templates", "", "names=/templates/*/name"},
};

/* The word behind "name=" in a list of such; NULL = it is not there. The caller frees it. */
static char *renamed(const char *names, const char *name)
{
    auto_free char *pattern = xasprintf("%s=", name);

    for (const char *at = names; *at; at += strcspn(at, " ") + (at[strcspn(at, " ")] == ' '))
        if (strncmp(at, pattern, strlen(pattern)) == 0)
            return xstrndup(at + strlen(pattern), strcspn(at + strlen(pattern), " "));
    return NULL;
}

/* The path, without the arguments that it takes out of args. */
static void put_path(struct buf *path, const char *pattern, json_t *args)
{
    (void)buf_add_str(path, "/sandbox");
    while (*pattern) {
        size_t n = strcspn(pattern, "{");

        (void)buf_add(path, pattern, n);
        pattern += n;
        if (*pattern == '{') {
            auto_free char *name = xstrndup(pattern + 1, strcspn(pattern + 1, "}"));
            char *value = cay_url_encode(json_string_value(json_object_get(args, name)));

            (void)buf_add_str(path, value);
            cay_free(value);
            (void)json_object_del(args, name);
            pattern += strlen(name) + 2;
        }
    }
}

static void put_query(struct buf *path, const json_t *fields)
{
    const char *key, *before = "?";
    json_t *value;

    json_object_foreach((json_t *)fields, key, value)
    {
        auto_free char *text = json_is_string(value) ? xstrdup(json_string_value(value))
                                                     : json_dumps(value, JSON_ENCODE_ANY);
        char *encoded = cay_url_encode(text);

        (void)buf_addf(path, "%s%s=%s", before, key, encoded);
        cay_free(encoded);
        before = "&";
    }
}

static json_t *fields_of(const struct row *row, json_t *args)
{
    json_t *fields = json_object(), *value;
    const char *key;

    json_object_foreach(args, key, value)
    {
        auto_free char *other = renamed(row->names, key);

        (void)json_object_set(fields, other ? other : key, value);
    }
    if (strcmp(row->op, "move_file") == 0) {
        (void)json_object_set_new(fields, "moves",
                                  json_pack("[{s:O, s:O}]", "from", json_object_get(args, "from"),
                                            "to", json_object_get(args, "to")));
        (void)json_object_del(fields, "from");
        (void)json_object_del(fields, "to");
    }
    return fields;
}

/* What is at a pointer, each of an array for '*'; NULL = nothing. */
static json_t *pick(json_t *from, const char *pointer)
{
    while (from && *pointer == '/') {
        auto_free char *word = xstrndup(pointer + 1, strcspn(pointer + 1, "/"));

        pointer += 1 + strlen(word);
        if (strcmp(word, "*") == 0) {
            json_t *all = json_array(), *item;
            size_t i;

            json_array_foreach(from, i, item)(void) json_array_append_new(all, pick(item, pointer));
            return all;
        }
        from = json_object_get(from, word);
    }
    return json_incref(from);
}

/* Of a list of files the daemon says "is it a link?", and the protocol what it is. */
static void put_kind(json_t *ok)
{
    const char *kind = json_is_true(json_object_get(ok, "is_link"))        ? "link"
                       : json_is_true(json_object_get(ok, "is_directory")) ? "directory"
                                                                           : "file";

    if (json_object_get(ok, "is_link"))
        (void)json_object_set_new(ok, "kind", json_string(kind));
}

static json_t *result(const struct row *row, json_t *answer)
{
    json_t *ok = json_object();

    for (const char *at = row->gives; *at;) {
        size_t len = strcspn(at, " ");
        auto_free char *key = xstrndup(at, strcspn(at, "="));
        auto_free char *pointer = xstrndup(at + strlen(key) + 1, len - strlen(key) - 1);
        json_t *value = pick(answer, pointer);

        if (json_is_string(value) && json_string_length(value) > 65536) {
            json_t *text = value;

            value = data_json(json_string_value(text), json_string_length(text), true);
            json_decref(text);
        }
        if (value)
            (void)json_object_set_new(ok, key, value);
        at += len + (at[len] == ' ');
    }
    put_kind(ok);
    return ok;
}

static int call(const struct row *row, struct operation *o)
{
    bool has_body = strcmp(row->method, "POST") == 0;
    auto_buf struct buf path = {.max = 1u << 20};
    auto_free char *text = NULL;
    char *answered = NULL;
    json_t *fields, *answer;
    struct cay_error err;

    put_path(&path, row->path, o->args);
    fields = fields_of(row, o->args);
    if (has_body)
        text = json_dumps(fields, 0);
    else
        put_query(&path, fields);
    json_decref(fields);
    if (cay_call(o->cay, row->method, path.data, text, &answered, &err) < 0)
        return failed(o, &err);
    answer = json_loads(answered, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    cay_free(answered);
    o->ok = result(row, answer);
    json_decref(answer);
    return 0;
}

int plain_operation(const char *name, struct operation *o)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].op, name) == 0)
            return call(&rows[i], o);
    return 1;
}
