#include <string.h>

#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"
#include "functions/iii_internal.h"
#include "functions/iii_shlex.h"

#define BLANKS " \t\n\r\v\f"

void iii_command_done(struct iii_command *c)
{
    strv_free(c->argv);
    json_decref(c->env);
    buf_done(&c->input);
}

static int bad_command(struct err *err, const char *text)
{
    return err_code(err, ERR_INVALID, "bad_command", "%s", text);
}

static char **copy_strings(char **list, const json_t *array)
{
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)array, i, one)
    {
        list = strv_add(list, json_string_value(one));
    }
    return list;
}

/* The three shapes: a list, a line, a program and its arguments. */
static int read_argv(struct call *call, struct iii_command *c, struct err *err)
{
    const json_t *argv = json_object_get(call->in, "argv"),
                 *args = json_object_get(call->in, "args");
    const char *cmd = in_str(call, "cmd");
    bool spaced = cmd && strpbrk(cmd, BLANKS);

    if (json_array_size(argv) > 0) {
        if ((cmd && *cmd) || json_array_size(args) > 0)
            return bad_command(err, "send argv, or cmd and args, not both");
        c->argv = copy_strings(NULL, argv);
    } else if (spaced && json_array_size(args) > 0) {
        return bad_command(err, "cmd has white space and there are args: send argv, or a cmd that "
                                "is one word");
    } else if (spaced) {
        if (shlex_split(cmd, &c->argv) < 0)
            return bad_command(err, "cmd has a quote that is not closed, or ends in a backslash");
    } else if (cmd && *cmd) {
        c->argv = copy_strings(strv_add(NULL, cmd), args);
    }
    if (!c->argv || !c->argv[0] || !*c->argv[0])
        return bad_command(err, "the command is empty: send cmd or argv");
    return 0;
}

static int read_stdin(struct call *call, struct iii_command *c, struct err *err)
{
    const json_t *text = json_object_get(call->in, "stdin");

    if (json_string_length(text) == 0)
        return 0;
    buf_init(&c->input, III_STDIN_TEXT_MAX);
    if (base64_decode(&c->input, json_string_value(text), json_string_length(text)) < 0)
        return err_code(err, ERR_INVALID, "bad_base64", "stdin is not valid base64");
    c->req.input = c->input.data;
    c->req.input_len = c->input.len;
    return 0;
}

/* Returns the lower of the two limits of a command, in milliseconds; 0 = there is no limit. */
static uint64_t most_ms(const struct call *call, enum iii_limit *ret_limit)
{
    uint64_t engine_ms = engine_config(call->engine)->max_command_s * 1000ull;
    uint64_t most = iii_settings_of(call)->exec_ms_max;

    *ret_limit = III_LIMIT_EXEC_MS;
    if (engine_ms == 0 || (most > 0 && most <= engine_ms))
        return most;
    *ret_limit = III_LIMIT_COMMAND;
    return engine_ms;
}

static void read_timeout(const struct call *call, struct iii_command *c)
{
    const struct iii_settings *settings = iii_settings_of(call);
    uint64_t ms = settings->exec_ms ? settings->exec_ms : III_EXEC_S * 1000ull, most;
    enum iii_limit limit;

    if (json_object_get(call->in, "timeout_ms"))
        ms = (uint64_t)in_int(call, "timeout_ms");
    else
        c->limit = "CAY_III_EXEC_TIMEOUT; timeout_ms sets another";
    most = most_ms(call, &limit);
    if (most > 0 && ms > most) {
        ms = most;
        c->limit = iii_limit_source(settings, limit);
    }
    c->req.timeout_ms = ms > 0 ? ms : 1;
}

/* The trace that it is part of, as for every command. */
static int read_env(struct call *call, struct iii_command *c, struct err *err)
{
    if (iii_env(json_object_get(call->in, "env"), &c->env, err) < 0)
        return -1;
    if (c->env)
        (void)json_object_set(call->in, "env", c->env);
    c->req.env = in_env(call);
    if (c->req.env && c->req.env != c->env) {
        json_decref(c->env);
        c->env = json_incref((json_t *)(uintptr_t)c->req.env);
    }
    return 0;
}

int iii_command_read(struct call *call, char *const *argv, struct iii_command *ret, struct err *err)
{
    if (argv)
        ret->argv = strv_copy(argv);
    else if (read_argv(call, ret, err) < 0)
        return -1;
    if (read_stdin(call, ret, err) < 0 || read_env(call, ret, err) < 0)
        return -1;
    ret->req.argv = ret->argv;
    ret->req.cwd = in_str(call, "workdir") ? in_str(call, "workdir") : "/";
    ret->req.user = "root";
    read_timeout(call, ret);
    ret->req.exec_id = in_str(call, "exec_id");
    if (ret->req.exec_id && !id_valid(ret->req.exec_id, "ex"))
        return err_set(err, ERR_INVALID, "exec_id must be ex_ and 24 hex digits");
    ret->req.detach = in_bool(call, "detach");
    return 0;
}
