#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "functions/iii_internal.h"

/* sandbox::run: a sandbox, files, a command in it, and its end. The first two are short and done at
 * once; the command is waited for without a thread, as a task. */

#define DIR         "/tmp"
#define FILE_MODE   0644
#define CONTENT_MAX (24u << 20)

struct language {
    const char *names[4]; /* ended by NULL */
    const char *program, *ending;
};

static const struct language languages[] = {
    {{"node", "js", "javascript"}, "node", "js"},
    {{"python", "py"}, "python3", "py"},
    {{"shell", "sh", "bash"}, "/bin/sh", "sh"},
};

static struct language language_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(languages); i++)
        for (const char *const *n = languages[i].names; *n; n++)
            if (strcmp(*n, name) == 0)
                return languages[i];
    return (struct language){.program = name, .ending = "txt"};
}

struct run_task {
    struct task task; /* first */
    struct engine *engine;
    char id[ID_SIZE]; /* "" = there is no sandbox, or it is to be kept */
    char uuid[UUID_SIZE];
    bool keep;
    struct iii_exec *exec;
};

static void end_sandbox(struct run_task *t)
{
    if (t->id[0])
        (void)engine_remove(t->engine, t->id, NULL);
    t->id[0] = '\0';
}

static void run_free(struct task *task)
{
    struct run_task *t = (struct run_task *)task;

    iii_exec_free(t->exec);
    end_sandbox(t); /* also when nobody waits for it any more */
    free(t);
}

/* Which part of it failed, beside the failure. */
static int failed(struct call *call, const char *context, const char *uuid, const struct err *err)
{
    return iii_fix(call,
                   json_pack("{s:s, s:s, s:s}", "context", context, "sandbox_id", uuid,
                             "inner_code", iii_code(err)),
                   NULL);
}

static int run_step(struct task *task, struct call *call, struct err *err)
{
    struct run_task *t = (struct run_task *)task;
    int r = iii_exec_step(t->exec, call, err);

    iii_exec_wait(t->exec, task);
    if (r > 0)
        return r;
    end_sandbox(t);
    if (r < 0)
        return failed(call, "exec", t->uuid, err);
    if (t->keep)
        (void)json_object_set_new(call->out, "sandbox_id", json_string(t->uuid));
    return TASK_DONE;
}

static const struct task_ops run_ops = {.step = run_step, .free = run_free};

static int put_file(struct call *call, const char *id, const char *path, const json_t *content,
                    struct err *err)
{
    auto_free char *text = NULL;
    struct file_path at = iii_path(path, DIR, &text);

    if (engine_file_put(call->engine, id, at, FILE_MODE, true, json_string_value(content),
                        json_string_length(content), err) < 0)
        return iii_file_error(err);
    return 0;
}

static int put_files(struct call *call, const char *id, struct err *err)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(call->in, "files"), i, one)
    {
        if (put_file(call, id, json_string_value(json_object_get(one, "path")),
                     json_object_get(one, "content"), err) < 0)
            return -1;
    }
    return 0;
}

/* What to run is read before there is a sandbox for it. */
static int begin(struct call *call, struct run_task *t, const struct iii_command *c,
                 const char *script, const char **ret_context, struct err *err)
{
    char id[ID_SIZE];

    *ret_context = "create";
    if (iii_create(call, NULL, !t->keep, id, err) < 0)
        return -1;
    iii_uuid_of_id(id, t->uuid);
    if (!t->keep)
        (void)snprintf(t->id, sizeof(t->id), "%s", id);
    *ret_context = "write files";
    if (put_files(call, id, err) < 0)
        return -1;
    *ret_context = "write code";
    if (put_file(call, id, script, json_object_get(call->in, "code"), err) < 0)
        return -1;
    *ret_context = "exec";
    return iii_exec_open(call, id, c, &t->exec, err);
}

/* A row has one scope, and this does what two are for. */
static int check_scope(const struct call *call, struct err *err)
{
    if (call->caller->scopes & 1u << SCOPE_EXEC)
        return 0;
    return err_code(err, ERR_FORBIDDEN, "scope_missing",
                    "sandbox::run needs a token with the scope \"%s\", too",
                    scope_words[SCOPE_EXEC]);
}

static int run_code(struct call *call, struct err *err)
{
    struct language language = language_of(in_str(call, "lang"));
    auto_free char *script = xasprintf(DIR "/run.%s", language.ending);
    auto_iii_command struct iii_command c = {0};
    char *argv[] = {(char *)(uintptr_t)language.program, script, NULL};
    const char *context = "exec";
    struct run_task *t;

    if (check_scope(call, err) < 0)
        return -1;
    if (!*language.program)
        return err_code(err, ERR_INVALID, "bad_command", "lang is empty");
    if (iii_command_read(call, argv, &c, err) < 0)
        return failed(call, context, "", err);
    t = xcalloc(1, sizeof(*t));
    t->task.ops = &run_ops;
    t->engine = call->engine;
    t->keep = in_bool(call, "keep_sandbox");
    if (begin(call, t, &c, script, &context, err) < 0) {
        (void)failed(call, context, t->uuid, err);
        run_free(&t->task);
        return -1;
    }
    iii_exec_wait(t->exec, &t->task);
    call->task = &t->task;
    return 0;
}

static const struct field run_fields[] = {
    {"image", FIELD_STRING, .max = IMAGE_NAME_MAX, .example = "\"python\"",
     .help = "a name of sandbox::catalog::list, or a reference where the operator allows that"},
    {"code", FIELD_STRING, .max = CONTENT_MAX, .example = "\"print(1)\"", .help = "what to run"},
    {"lang", FIELD_STRING, .max = PATH_BYTES_MAX, .example = "\"python\"",
     .help = "node, python or shell, or the path of what runs it"},
    {"files", FIELD_ARRAY, .optional = true, .of = &iii_code_file_shape,
     .help = "files that it needs"},
    {"env", FIELD_ANY, .optional = true, .help = "[\"K=V\"] or {\"K\": \"V\"}"},
    {"stdin", FIELD_STRING, .optional = true, .max = III_STDIN_TEXT_MAX,
     .help = "its whole input as base64, at most 1 MiB of bytes"},
    {"timeout_ms", FIELD_INT, .optional = true, .max = 9007199254740991, .clamp = true,
     .help = III_TIMEOUT_HELP},
    {"keep_sandbox", FIELD_BOOL, .preset = "false", .help = "leave the sandbox for other calls"},
    {0},
};

const struct function iii_run_functions[] = {
    {"sandbox::run", .fields = run_fields, .run = run_code, .scope = SCOPE_WRITE,
     .reach = REACH_ITSELF, .flags = FUNCTION_MAKES | FUNCTION_WAITS, .body_max = 2 * CONTENT_MAX,
     .gives = &iii_run_shape, .help = "Runs code in a sandbox of its own",
     .errors =
         ERRORS_PULL " " ERRORS_FILE " sandbox_draining bad_cwd bad_user command_not_found "
                     "not_executable process_limit bad_payload bad_command bad_base64 "
                     "bad_fs_request file_failed image_cap_exceeded image_not_installed "
                     "sandbox_limit stopped_limit exec_slots_full command_timeout agent_too_old"},
    {0},
};
