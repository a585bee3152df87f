#include "cli/help.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"

static const char overview_head[] = "cay runs untrusted code in sandboxes on a machine you own.\n"
                                    "\n"
                                    "Usage: cay COMMAND [flags] [arguments]\n"
                                    "\n"
                                    "Commands:\n";

static const char overview_tail[] =
    "\n"
    "\"cay help COMMAND\" tells more about one of them.\n"
    "\n"
    "ID is a sandbox's id, its name, or the beginning of its id when only one sandbox fits.\n"
    "Data goes to stdout, everything else to stderr; --json gives data for programs.\n"
    "\n"
    "Environment:\n"
    "  CAY_HOST   daemon to talk to (unix:/path or http://host:port); III_SANDBOX_URL works too.\n"
    "             Without it: $CAY_RUN/cay.sock (/run/cay/cay.sock) if it answers, else\n"
    "             http://127.0.0.1:$CAY_REST_PORT (3111)\n"
    "  CAY_TOKEN  token of the daemon; CAY_AUTH_TOKEN and III_SANDBOX_TOKEN work too\n"
    "  NO_COLOR   no colours, also on a terminal\n"
    "\n"
    "Exit status: of run and exec, the command's own; 124 after a timeout, 125 when cay itself\n"
    "failed, 126 not executable, 127 not found, 128+n signal n. Otherwise 0, 1 for a failure, 2 "
    "for\n"
    "wrong usage, 69 when no daemon answers.\n";

void help_overview(struct buf *out)
{
    size_t width = 0;

    for (const struct command *c = commands; c->name; c++)
        width = strlen(c->name) > width ? strlen(c->name) : width;
    (void)buf_add_str(out, overview_head);
    for (const struct command *c = commands; c->name; c++)
        (void)buf_addf(out, "  %-*s  %s\n", (int)width, c->name, c->help);
    (void)buf_add_str(out, overview_tail);
}

/* Calls each for every line of text. */
static void each_line(struct buf *out, const char *text,
                      void (*each)(struct buf *out, const char *line, size_t len, const void *arg),
                      const void *arg)
{
    while (text && *text) {
        size_t n = strcspn(text, "\n");

        each(out, text, n, arg);
        text += n + (text[n] == '\n');
    }
}

static void usage_line(struct buf *out, const char *line, size_t len, const void *arg)
{
    const struct command *c = arg;

    (void)buf_addf(out, "  cay %s%s%.*s\n", c->name, len ? " " : "", (int)len, line);
}

static void indented_line(struct buf *out, const char *line, size_t len, const void *arg)
{
    (void)arg;
    (void)buf_addf(out, "  %.*s\n", (int)len, line);
}

/* "-t, --tty", "    --cwd DIR" */
static char *flag_text(const struct flag *f)
{
    const char *space = f->kind == FLAG_MAYBE ? "" : f->value ? " " : "";
    const char *value = f->value ? f->value : "";

    if (f->letter)
        return xasprintf("-%c, --%s%s%s", f->letter, f->name, space, value);
    return xasprintf("    --%s%s%s", f->name, space, value);
}

static void flag_rows(struct buf *out, const struct flag *flags)
{
    for (const struct flag *f = flags; f && f->name; f++) {
        auto_free char *text = flag_text(f);

        (void)buf_addf(out, "  %-24s  %s%s\n", text, f->help,
                       f->kind == FLAG_LIST ? " (may be repeated)" : "");
    }
}

void help_command(struct buf *out, const struct command *c)
{
    (void)buf_addf(out, "cay %s - %s\n\nUsage:\n", c->name, c->help);
    if (*c->usage)
        each_line(out, c->usage, usage_line, c);
    else
        usage_line(out, "", 0, c);
    if (c->alias)
        (void)buf_addf(out, "\nAlso called: %s\n", c->alias);
    if (c->about)
        (void)buf_addf(out, "\n%s\n", c->about);
    (void)buf_add_str(out, "\nFlags:\n");
    flag_rows(out, c->flags);
    flag_rows(out, common_flags);
    if (c->examples) {
        (void)buf_add_str(out, "\nExamples:\n");
        each_line(out, c->examples, indented_line, NULL);
    }
}

void help_group(struct buf *out, const char *word)
{
    auto_free char *prefix = xasprintf("%s ", word);
    size_t width = 0;

    for (const struct command *c = commands; c->name; c++)
        if (str_starts(c->name, prefix))
            width = strlen(c->name) > width ? strlen(c->name) : width;
    (void)buf_addf(out, "Usage: cay %s COMMAND [flags] [arguments]\n\nCommands:\n", word);
    for (const struct command *c = commands; c->name; c++) {
        if (str_starts(c->name, prefix))
            (void)buf_addf(out, "  %-*s  %s\n", (int)width, c->name, c->help);
    }
    (void)buf_addf(out, "\n\"cay help %s COMMAND\" tells more about one of them.\n", word);
}

/* ---- manual page ---- */

/* roff takes '-' for a hyphen, '\' for itself, and a leading '.' or '\'' for a request. */
static void roff_text(struct buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool first = i == 0 || text[i - 1] == '\n';

        if (first && (text[i] == '.' || text[i] == '\''))
            (void)buf_add_str(out, "\\&");
        if (text[i] == '\\')
            (void)buf_add_str(out, "\\e");
        else if (text[i] == '-')
            (void)buf_add_str(out, "\\-");
        else if (text[i] == '\n' && i + 1 < len && text[i + 1] == '\n')
            (void)buf_add_str(out, "\n.PP"); /* the second newline ends the request's line */
        else
            (void)buf_add(out, &text[i], 1);
    }
}

static void roff_str(struct buf *out, const char *text)
{
    roff_text(out, text, strlen(text));
}

static void roff_usage(struct buf *out, const char *line, size_t len, const void *arg)
{
    const struct command *c = arg;

    (void)buf_add_str(out, "\\fBcay ");
    roff_str(out, c->name);
    (void)buf_add_str(out, len ? "\\fR " : "\\fR");
    roff_text(out, line, len);
    (void)buf_add_str(out, "\n.br\n");
}

static void roff_flags(struct buf *out, const struct flag *flags)
{
    for (const struct flag *f = flags; f && f->name; f++) {
        auto_free char *text = flag_text(f);

        (void)buf_add_str(out, ".TP\n\\fB");
        roff_str(out, text + strspn(text, " "));
        (void)buf_add_str(out, "\\fR\n");
        roff_str(out, f->help);
        (void)buf_addf(out, "%s.\n", f->kind == FLAG_LIST ? " (may be repeated)" : "");
    }
}

static void roff_command(struct buf *out, const struct command *c)
{
    (void)buf_add_str(out, ".SS ");
    roff_str(out, c->name);
    (void)buf_add_str(out, "\n");
    if (*c->usage)
        each_line(out, c->usage, roff_usage, c);
    else
        roff_usage(out, "", 0, c);
    (void)buf_add_str(out, ".PP\n");
    roff_str(out, c->help);
    (void)buf_add_str(out, ".\n");
    if (c->about) {
        (void)buf_add_str(out, ".PP\n");
        roff_str(out, c->about);
        (void)buf_add_str(out, "\n");
    }
    roff_flags(out, c->flags);
    if (c->examples) {
        (void)buf_add_str(out, ".PP\n.nf\n");
        roff_str(out, c->examples);
        (void)buf_add_str(out, "\n.fi\n");
    }
}

void help_man(struct buf *out)
{
    (void)buf_add_str(out, ".TH CAY 1 \"\" \"cay\" \"User Commands\"\n"
                           ".SH NAME\ncay \\- run untrusted code in sandboxes\n"
                           ".SH SYNOPSIS\n\\fBcay\\fR COMMAND [flags] [arguments]\n"
                           ".SH COMMANDS\n");
    for (const struct command *c = commands; c->name; c++)
        roff_command(out, c);
    (void)buf_add_str(out, ".SH OPTIONS OF EVERY COMMAND\n");
    roff_flags(out, common_flags);
    (void)buf_add_str(out, ".SH NOTES\n.nf");
    roff_str(out, overview_tail);
    (void)buf_add_str(out, ".fi\n");
}

/* ---- markdown ---- */

static void markdown_flags(struct buf *out, const struct flag *flags)
{
    if (!flags || !flags->name)
        return;
    (void)buf_add_str(out, "\n| flag | meaning |\n|---|---|\n");
    for (const struct flag *f = flags; f->name; f++) {
        auto_free char *text = flag_text(f);

        (void)buf_addf(out, "| `%s` | %s%s |\n", text + strspn(text, " "), f->help,
                       f->kind == FLAG_LIST ? " (may be repeated)" : "");
    }
}

static void markdown_usage(struct buf *out, const char *line, size_t len, const void *arg)
{
    const struct command *c = arg;

    (void)buf_addf(out, "cay %s%s%.*s\n", c->name, len ? " " : "", (int)len, line);
}

void help_markdown(struct buf *out)
{
    for (const struct command *c = commands; c->name; c++) {
        (void)buf_addf(out, "### cay %s\n\n%s.", c->name, c->help);
        if (c->alias)
            (void)buf_addf(out, " Also called: `%s`.", c->alias);
        (void)buf_add_str(out, "\n\n```text\n");
        if (*c->usage)
            each_line(out, c->usage, markdown_usage, c);
        else
            markdown_usage(out, "", 0, c);
        (void)buf_add_str(out, "```\n");
        if (c->about)
            (void)buf_addf(out, "\n%s\n", c->about);
        markdown_flags(out, c->flags);
        if (c->examples)
            (void)buf_addf(out, "\n```sh\n%s\n```\n", c->examples);
        if (c[1].name)
            (void)buf_add_str(out, "\n");
    }
}
