#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/help.h"

/* Words for the place after `cay`: first words of names, and aliases of one word, each once. */
static void first_words(struct buf *out)
{
    const char *last = "";
    size_t last_len = 0;

    for (const struct command *c = commands; c->name; c++) {
        size_t n = strcspn(c->name, " ");

        if (n != last_len || memcmp(c->name, last, n) != 0)
            (void)buf_addf(out, "%s%.*s", out->len ? " " : "", (int)n, c->name);
        if (c->alias)
            (void)buf_addf(out, " %s", c->alias);
        last = c->name;
        last_len = n;
    }
}

static void second_words(struct buf *out, const char *group, size_t len)
{
    for (const struct command *c = commands; c->name; c++) {
        if (strncmp(c->name, group, len) == 0 && c->name[len] == ' ')
            (void)buf_addf(out, "%s%s", out->len ? " " : "", c->name + len + 1);
    }
}

static void flag_words(struct buf *out, const struct flag *flags)
{
    for (const struct flag *f = flags; f && f->name; f++) {
        if (f->letter)
            (void)buf_addf(out, "%s-%c", out->len ? " " : "", f->letter);
        (void)buf_addf(out, "%s--%s", out->len ? " " : "", f->name);
    }
}

/* "file read" and its aliases as alternatives of a case pattern. */
static void bash_pattern(struct buf *out, const struct command *c)
{
    const char *alias = c->alias;

    (void)buf_addf(out, "\"%s\"", c->name);
    while (alias && *alias) {
        size_t n = strcspn(alias, " ");

        (void)buf_addf(out, " | \"%.*s\"", (int)n, alias);
        alias += n + (alias[n] == ' ');
    }
}

static const char *const kinds[] = {
    [COMPLETE_NONE] = "none", [COMPLETE_ID] = "id",     [COMPLETE_IMAGE] = "image",
    [COMPLETE_FILE] = "file", [COMPLETE_BOTH] = "both", [COMPLETE_COMMAND] = "command",
};

static void bash_rows(struct buf *out)
{
    for (const struct command *c = commands; c->name; c++) {
        auto_buf struct buf words = {0};

        buf_init(&words, HELP_MAX);
        flag_words(&words, c->flags);
        flag_words(&words, common_flags);
        (void)buf_add_str(out, "    ");
        bash_pattern(out, c);
        (void)buf_addf(out, ") flags='%s' kind=%s ;;\n", words.data, kinds[c->complete]);
    }
}

/* Calls each for every first word that has second ones. */
static void each_group(struct buf *out,
                       void (*each)(struct buf *out, const char *group, size_t len))
{
    const char *last = "";
    size_t last_len = 0;

    for (const struct command *c = commands; c->name; c++) {
        size_t n = strcspn(c->name, " ");

        if (!c->name[n] || (n == last_len && memcmp(c->name, last, n) == 0))
            continue;
        last = c->name;
        last_len = n;
        each(out, c->name, n);
    }
}

static void bash_group(struct buf *out, const char *group, size_t len)
{
    auto_buf struct buf words = {0};

    buf_init(&words, HELP_MAX);
    second_words(&words, group, len);
    (void)buf_addf(out, "    %.*s) second='%s' ;;\n", (int)len, group, words.data);
}

void completion_bash(struct buf *out)
{
    auto_buf struct buf first = {0};

    buf_init(&first, HELP_MAX);
    first_words(&first);
    (void)buf_add_str(
        out, "# bash completion for cay, made by `cay completion bash`.\n"
             "# Bash takes a colon for the end of a word, which names of images have.\n"
             "_cay_images()\n"
             "{\n"
             "    local word=${COMP_LINE:0:COMP_POINT} typed\n"
             "    word=${word##* }\n"
             "    typed=${word%\"${word##*:}\"}\n"
             "    COMPREPLY=($(compgen -W \"$(cay image ls -q 2>/dev/null)\" -- \"$word\"))\n"
             "    COMPREPLY=(\"${COMPREPLY[@]#\"$typed\"}\")\n"
             "}\n"
             "_cay()\n"
             "{\n"
             "    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n"
             "    local flags='' kind=none second='' i\n"
             "    COMPREPLY=()\n"
             "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
             "        [[ ${COMP_WORDS[i]} == -- ]] && return\n"
             "    done\n");
    (void)buf_addf(out,
                   "    if ((COMP_CWORD == 1)); then\n"
                   "        COMPREPLY=($(compgen -W '%s' -- \"$cur\"))\n"
                   "        return\n"
                   "    fi\n"
                   "    case $command in\n",
                   first.data);
    each_group(out, bash_group);
    (void)buf_add_str(out, "    esac\n"
                           "    if [[ -n $second ]]; then\n"
                           "        if ((COMP_CWORD == 2)); then\n"
                           "            COMPREPLY=($(compgen -W \"$second\" -- \"$cur\"))\n"
                           "            return\n"
                           "        fi\n"
                           "        command+=\" ${COMP_WORDS[2]}\"\n"
                           "    fi\n"
                           "    case $command in\n");
    bash_rows(out);
    (void)buf_addf(out,
                   "    esac\n"
                   "    if [[ $cur == -* ]]; then\n"
                   "        COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
                   "        return\n"
                   "    fi\n"
                   "    case $kind in\n"
                   "    id | both) COMPREPLY=($(compgen -W \"$(cay ls --all -q 2>/dev/null)\" -- "
                   "\"$cur\")) ;;&\n"
                   "    image) _cay_images ;;\n"
                   "    file | both) COMPREPLY+=($(compgen -f -- \"$cur\")) ;;\n"
                   "    command) COMPREPLY=($(compgen -W '%s' -- \"$cur\")) ;;\n"
                   "    esac\n"
                   "}\n"
                   "complete -o filenames -F _cay cay\n",
                   first.data);
}

/* ---- zsh ---- */

/* In '…' for _describe and _arguments: quotes, colons and brackets have meanings there. */
static void zsh_quoted(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            (void)buf_add_str(out, "'\\''");
        else if (strchr(":[]\\", *text))
            (void)buf_addf(out, "\\%c", *text);
        else
            (void)buf_add(out, text, 1);
    }
}

static void zsh_flags(struct buf *out, const struct flag *flags)
{
    for (const struct flag *f = flags; f && f->name; f++) {
        for (int is_short = f->letter ? 1 : 0; is_short >= 0; is_short--) {
            (void)buf_add_str(out, f->kind == FLAG_LIST ? " '*" : " '");
            if (is_short)
                (void)buf_addf(out, "-%c[", f->letter);
            else
                (void)buf_addf(out, "--%s%s[", f->name, f->value ? "=" : "");
            zsh_quoted(out, f->help);
            (void)buf_add_str(out, "]");
            if (f->value)
                (void)buf_addf(out, ":%s:", f->value);
            (void)buf_add_str(out, "'");
        }
    }
}

static void zsh_words(struct buf *out, enum complete complete)
{
    switch (complete) {
    case COMPLETE_NONE:
        return;
    case COMPLETE_ID:
        (void)buf_add_str(out, " '*:sandbox:_cay_ids'");
        return;
    case COMPLETE_IMAGE:
        (void)buf_add_str(out, " '*:image:_cay_images'");
        return;
    case COMPLETE_FILE:
        (void)buf_add_str(out, " '*:file:_files'");
        return;
    case COMPLETE_BOTH:
        (void)buf_add_str(out, " '*:sandbox or file:_cay_ids_and_files'");
        return;
    case COMPLETE_COMMAND:
        (void)buf_add_str(out, " '*:command:_cay_commands'");
        return;
    }
}

static void zsh_rows(struct buf *out)
{
    for (const struct command *c = commands; c->name; c++) {
        (void)buf_add_str(out, "    ");
        bash_pattern(out, c);
        (void)buf_add_str(out, ") _arguments -S");
        zsh_flags(out, c->flags);
        zsh_flags(out, common_flags);
        zsh_words(out, c->complete);
        (void)buf_add_str(out, " ;;\n");
    }
}

static void zsh_group(struct buf *out, const char *group, size_t len)
{
    auto_buf struct buf words = {0};

    buf_init(&words, HELP_MAX);
    second_words(&words, group, len);
    (void)buf_addf(out, "        '%.*s:%s'\n", (int)len, group, words.data);
}

static void zsh_names(struct buf *out)
{
    for (const struct command *c = commands; c->name; c++) {
        if (strchr(c->name, ' '))
            continue;
        (void)buf_addf(out, "        '%s:", c->name);
        zsh_quoted(out, c->help);
        (void)buf_add_str(out, "'\n");
    }
    each_group(out, zsh_group);
}

void completion_zsh(struct buf *out)
{
    (void)buf_add_str(out, "#compdef cay\n"
                           "# zsh completion for cay, made by `cay completion zsh`.\n"
                           "_cay_ids() { compadd -- ${(f)\"$(cay ls --all -q 2>/dev/null)\"} }\n"
                           "_cay_images() { compadd -- ${(f)\"$(cay image ls -q 2>/dev/null)\"} }\n"
                           "_cay_ids_and_files() { _cay_ids; _files }\n"
                           "_cay_commands() {\n"
                           "    local -a names=(\n");
    zsh_names(out);
    (void)buf_add_str(out, "    )\n"
                           "    _describe -t commands command names\n"
                           "}\n"
                           "_cay() {\n"
                           "    if ((CURRENT == 2)); then\n"
                           "        _cay_commands\n"
                           "        return\n"
                           "    fi\n"
                           "    local command=${words[2]} second=''\n"
                           "    case $command in\n");
    each_group(out, bash_group);
    (void)buf_add_str(out, "    esac\n"
                           "    shift words; ((CURRENT--))\n"
                           "    if [[ -n $second ]]; then\n"
                           "        if ((CURRENT == 2)); then\n"
                           "            compadd -- ${=second}\n"
                           "            return\n"
                           "        fi\n"
                           "        command+=\" ${words[2]}\"\n"
                           "        shift words; ((CURRENT--))\n"
                           "    fi\n"
                           "    case $command in\n");
    zsh_rows(out);
    (void)buf_add_str(
        out, "    esac\n"
             "}\n"
             "if [[ $funcstack[1] == _cay ]]; then _cay \"$@\"; else compdef _cay cay; fi\n");
}
