#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/ending.h"
#include "cli/env_args.h"
#include "cli/objects.h"
#include "cli/table.h"
#include "cli/term.h"
#include "cli/ui.h"

/* A person's way in: a session of a terminal, and an attach to the command on it. */

static int fail(const struct err *err)
{
    (void)ui_fail(err);
    return attach_fail_status(err);
}

/* ---- those that are there ---- */

static int add_sessions(struct api *api, const char *id, json_t *to, struct err *err)
{
    json_t *answer = NULL;

    if (api_call(api, "GET", NULL, &answer, err, "/sandboxes/%s/terminal", id) < 0)
        return -1;
    (void)json_array_extend(to, json_object_get(answer, "sessions"));
    json_decref(answer);
    return 0;
}

/* Of all that run; one that goes meanwhile has none. */
static int add_all_sessions(struct api *api, json_t *to, struct err *err)
{
    json_t *all = NULL, *sandbox;
    int64_t total;
    size_t i;

    if (api_sandboxes(api, "running", 0, &all, &total, err) < 0)
        return -1;
    json_array_foreach(all, i, sandbox)
    {
        (void)add_sessions(api, json_text(sandbox, "id"), to, NULL);
    }
    json_decref(all);
    return 0;
}

static void print_table(const json_t *sessions)
{
    auto_table struct table t;
    json_t *s;
    size_t i;

    table_init(&t, "SESSION|SANDBOX|SHELL|SIZE|STATUS");
    json_array_foreach(sessions, i, s)
    {
        table_cell(&t, json_text(s, "sessionId"));
        table_cell(&t, json_text(s, "sandboxId"));
        table_cell(&t, json_text(s, "shell"));
        table_cellf(&t, "%lldx%lld", (long long)json_int(s, "cols"),
                    (long long)json_int(s, "rows"));
        if (json_object_get(s, "exitCode"))
            table_cellf(&t, "exited (%lld)", (long long)json_int(s, "exitCode"));
        else
            table_cell(&t, json_text(s, "status"));
    }
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

static int list(struct args *args, struct api *api, const char *id)
{
    json_t *sessions = json_array();
    struct err err = {0};
    int r = id ? add_sessions(api, id, sessions, &err) : add_all_sessions(api, sessions, &err);

    if (r == 0 && args_has(args, "json"))
        ui_json(sessions);
    else if (r == 0)
        print_table(sessions);
    json_decref(sessions);
    return r < 0 ? ui_fail(&err) : STATUS_OK;
}

/* ---- a new one ---- */

static json_t *request_json(struct args *args, const char *shell, const json_t *env)
{
    json_t *body = json_object();
    uint32_t rows, cols;

    term_size(isatty(STDOUT_FILENO) ? STDOUT_FILENO : STDIN_FILENO, &rows, &cols);
    (void)json_object_update_new(body, json_pack("{s:I, s:I, s:o, s:b}", "rows", (json_int_t)rows,
                                                 "cols", (json_int_t)cols, "shell",
                                                 json_sprintf("/bin/%s", shell), "record",
                                                 (int)args_has(args, "record")));
    json_put_text(body, "user", args_text(args, "user"));
    json_put_text(body, "cwd", args_text(args, "workdir"));
    if (env)
        (void)json_object_set(body, "env", (json_t *)(uintptr_t)env);
    return body;
}

static int start(struct args *args, struct api *api, const char *id, const char *shell,
                 const json_t *env, json_t **ret, struct err *err)
{
    return api_call(api, "POST", request_json(args, shell, env), ret, err, "/sandboxes/%s/terminal",
                    id);
}

/* The best shell that the sandbox has, unless one was named. */
static int start_any(struct args *args, struct api *api, const char *id, const json_t *env,
                     json_t **ret, struct err *err)
{
    static const char *const shells[] = {"bash", "zsh", "sh"};
    const char *named = args_text(args, "shell");
    int r = -1;

    if (named)
        return start(args, api, id, str_starts(named, "/bin/") ? named + 5 : named, env, ret, err);
    for (size_t i = 0; i < ARRAY_LEN(shells) && r < 0; i++) {
        *err = (struct err){0};
        r = start(args, api, id, shells[i], env, ret, err);
        if (r < 0 && strcmp(api_last_code(), "command_not_found") != 0)
            break;
    }
    return r;
}

static int new_session(struct args *args, struct api *api, const char *id, json_t **ret,
                       struct err *err)
{
    json_t *env = NULL;
    int r;

    if (env_read_args(args, &env, err) < 0)
        return -1;
    r = start_any(args, api, id, env, ret, err);
    json_decref(env);
    return r;
}

/* ---- being there ---- */

static int attach(struct args *args, struct api *api, const char *id, const json_t *session)
{
    struct attach_options o = {.again = json_text(session, "execId"), .tty = true, .share = true};
    struct attach_result result;
    struct err err = {0};

    o.want_stdin = !args_has(args, "read-only");
    if (attach_exec(api, id, &o, &result, &err) < 0)
        return fail(&err);
    if (result.left)
        fprintf(stderr, "\r\ncay: it goes on; `cay shell %s --session %s` comes back\n",
                args->words[0], json_text(session, "sessionId"));
    else
        ending_tell(api, id, &o, &result);
    return result.status;
}

static int end_session(struct api *api, const char *id, const char *session)
{
    struct err err = {0};

    if (api_call(api, "DELETE", NULL, NULL, &err, "/sandboxes/%s/terminal/%s", id, session) < 0)
        return fail(&err);
    return STATUS_OK;
}

static int enter(struct args *args, struct api *api, const char *id)
{
    const char *word = args_text(args, "session");
    auto_free char *session = word ? url_encoded(word) : NULL;
    json_t *found = NULL;
    struct err err = {0};
    int r, status;

    if (session && args_has(args, "end"))
        return end_session(api, id, session);
    if (session)
        r = api_call(api, "GET", NULL, &found, &err, "/sandboxes/%s/terminal/%s", id, session);
    else
        r = new_session(args, api, id, &found, &err);
    if (r < 0)
        return fail(&err);
    status = attach(args, api, id, found);
    json_decref(found);
    return status;
}

int cmd_shell(struct args *args)
{
    bool lists = args_has(args, "ls"), ends = args_has(args, "end");
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};

    if (args->n_words == 0 && !lists)
        return ui_usage(args, "shell needs a sandbox: cay shell web");
    if (ends && !args_text(args, "session"))
        return ui_usage(args, "--end needs --session, which `cay shell --ls` shows");
    if (!lists && !ends && !args_has(args, "read-only") && isatty(STDIN_FILENO) != 1)
        return ui_usage(args, "shell needs a terminal to type into; `cay exec -i` passes a pipe or "
                              "a file on");
    if (api_open(&api, args, &err) < 0 ||
        (args->n_words > 0 && api_sandbox_id(&api, args->words[0], &id, &err) < 0))
        return fail(&err);
    return lists ? list(args, &api, id) : enter(args, &api, id);
}
