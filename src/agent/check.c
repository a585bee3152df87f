#include <string.h>

#include "agent/agent.h"
#include "base/err.h"

bool log_id_ok(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return n >= 1 && n <= 40 && id[n] == '\0';
}

int exec_check(const struct call_exec *e, struct err *err)
{
    if (e->flags & ~(EXEC_TTY | EXEC_BACKGROUND | EXEC_STDIN | EXEC_COLLECT | EXEC_APART |
                     EXEC_RECORD | EXEC_ONCE | EXEC_LIMITS | EXEC_INPUT))
        return err_set(err, ERR_INVALID, "an exec with unknown flags %#x", e->flags);
    if (!e->argv[0] || !e->argv[0][0])
        return err_set(err, ERR_INVALID, "the command is empty; give at least a program to run");
    if (((e->flags & EXEC_BACKGROUND) || e->id[0]) && !log_id_ok(e->id))
        return err_set(err, ERR_INVALID,
                       "the id of an exec has 1 to 40 characters a-z, 0-9 and _; one in the "
                       "background must have one");
    if ((e->flags & EXEC_BACKGROUND) && (e->flags & EXEC_STDIN))
        return err_set(err, ERR_INVALID, "a background exec has no caller to read input from");
    if ((e->flags & EXEC_BACKGROUND) && (e->flags & EXEC_COLLECT))
        return err_set(err, ERR_INVALID, "a background exec has no caller to collect output for");
    if ((e->flags & EXEC_INPUT) && (e->flags & (EXEC_STDIN | EXEC_TTY)))
        return err_set(err, ERR_INVALID, "input is given with the call, or comes later");
    if (e->input_len > EXEC_INPUT_MAX)
        return err_set(err, ERR_TOO_LARGE, "the input is longer than %u bytes", EXEC_INPUT_MAX);
    for (uint32_t i = 0; i < e->n_limits; i++)
        if (e->limits[i].resource >= RLIMITS_MAX)
            return err_set(err, ERR_INVALID, "there is no limit %u", e->limits[i].resource);
    for (char **s = e->env; *s; s++)
        if (!strchr(*s, '=') || (*s)[0] == '=')
            return err_set(err, ERR_INVALID,
                           "the environment has \"%.60s\", which is not NAME=value", *s);
    return 0;
}

int path_check(const char *path, struct err *err)
{
    if (path[0] != '/')
        return err_set(err, ERR_INVALID, "the path \"%.100s\" must start with /", path);
    if (strlen(path) >= 4096)
        return err_set(err, ERR_INVALID, "the path is longer than 4095 bytes");
    return 0;
}
