#include "cli/ui.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/escape.h"

bool ui_stdout_is_terminal(void)
{
    return isatty(STDOUT_FILENO) == 1;
}

bool ui_has_color(int fd)
{
    const char *no = getenv("NO_COLOR");

    return isatty(fd) == 1 && (!no || !*no);
}

static void vwarn(const char *fmt, va_list ap)
{
    char text[1024];
    auto_free char *shown = NULL;

    (void)vsnprintf(text, sizeof(text), fmt, ap);
    shown = escape_text(ESCAPE_CELL, text);
    fprintf(stderr, "cay: %s\n", shown);
}

void ui_warn(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vwarn(fmt, ap);
    va_end(ap);
}

int ui_fail(const struct err *err)
{
    const char *code = api_last_code();

    if (*code && !strstr(err->text, code))
        ui_warn("%s (%s)", err->text, code);
    else
        ui_warn("%s", err->text);
    return api_no_daemon() ? STATUS_NO_DAEMON : STATUS_FAILED;
}

int ui_fail_path(const struct args *args, const struct err *err)
{
    int status = ui_fail(err);

    if (strcmp(api_last_code(), "path_traversal") == 0 && !args_has(args, "anywhere"))
        ui_warn("a path outside of the workspace is absolute, and needs --anywhere");
    return status;
}

int ui_usage(const struct args *args, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vwarn(fmt, ap);
    va_end(ap);
    fprintf(stderr, "Try \"cay help %s\".\n", args->command->name);
    return STATUS_USAGE;
}

static void dump(const json_t *value, size_t flags)
{
    /* On a terminal the bytes that jansson would leave (DEL, C1 controls) must not get through. */
    if (ui_stdout_is_terminal())
        flags |= JSON_ENSURE_ASCII;
    (void)json_dumpf(value, stdout, flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    putchar('\n');
}

void ui_line(const char *fmt, ...)
{
    auto_free char *text = NULL, *shown = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        abort();
    va_end(ap);
    if (ui_stdout_is_terminal())
        shown = escape_text(ESCAPE_CELL, text);
    printf("%s\n", shown ? shown : text);
}

void ui_json(const json_t *value)
{
    dump(value, JSON_INDENT(2));
}

void ui_json_line(const json_t *value)
{
    dump(value, JSON_COMPACT);
    (void)fflush(stdout);
}

void ui_warnings(const json_t *object)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(object, "warnings"), i, one)
    {
        ui_warn("%s", json_string_value(one));
    }
}

int ui_made(const struct args *args, json_t *object)
{
    auto_free char *id = escape_text(ESCAPE_CELL, json_text(object, "id"));

    ui_warnings(object);
    if (args_has(args, "json"))
        ui_json(object);
    else
        printf("%s\n", id);
    json_decref(object);
    return STATUS_OK;
}

bool ui_output_failed(void)
{
    return ferror(stdout) != 0;
}

static int output_error; /* of the first that failed, where it was seen */

void ui_flush(void)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && output_error == 0)
        output_error = errno;
}

int ui_finish(int status)
{
    errno = output_error;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno == EPIPE || errno == 0)
        return STATUS_SIGNAL + SIGPIPE;
    ui_warn("cannot write the output: %s", strerror(errno));
    return status ? status : STATUS_FAILED;
}

void ui_duration(int64_t ms, char ret[24])
{
    int64_t s = ms < 0 ? 0 : ms / 1000;

    if (s < 60)
        (void)snprintf(ret, 24, "%" PRId64 "s", s);
    else if (s < 3600)
        (void)snprintf(ret, 24, "%" PRId64 "m", s / 60);
    else if (s < 2 * 86400)
        (void)snprintf(ret, 24, "%" PRId64 "h", s / 3600);
    else
        (void)snprintf(ret, 24, "%" PRId64 "d", s / 86400);
}

void ui_size(double bytes, char ret[24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t u = 0;

    for (; bytes >= 1024 && u + 1 < ARRAY_LEN(units); u++)
        bytes /= 1024;
    (void)snprintf(ret, 24, u == 0 ? "%.0f %s" : "%.1f %s", bytes, units[u]);
}

const char *ui_name(const char *id, const char *name)
{
    return strcmp(id, name) == 0 ? "-" : name;
}

bool ui_confirm(const char *fmt, ...)
{
    char answer[16];
    va_list ap;

    if (isatty(STDIN_FILENO) != 1)
        return false;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs(" [y/N] ", stderr);
    if (!fgets(answer, sizeof(answer), stdin))
        return false;
    return answer[0] == 'y' || answer[0] == 'Y';
}
