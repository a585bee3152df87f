#include "cli/completion.h"

#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/escape.h"
#include "cli/help.h"
#include "cli/jobs.h"
#include "cli/mcp_clients.h"
#include "cli/name.h"
#include "cli/ui.h"

/* ---- what is wanted ---- */

static void want(struct wanted *w, const char *kind)
{
    w->kind = kind;
    w->kind_len = strlen(kind);
}

/* The n-th word of "sandbox job..."; the last one is for all that follow when it ends in dots. */
static void want_nth(struct wanted *w, const char *offers, size_t n)
{
    while (offers && *offers) {
        size_t len = strcspn(offers, " ");
        bool any = len > 3 && memcmp(offers + len - 3, "...", 3) == 0;

        if (n == 0 || any) {
            w->kind = offers;
            w->kind_len = any ? len - 3 : len;
            return;
        }
        n--;
        offers += len + (offers[len] == ' ');
    }
}

static void want_value(struct wanted *w, const struct flag *flag, const char *prefix)
{
    w->flag = flag;
    w->prefix = prefix;
    if (flag->choices)
        want(w, "choice");
    else
        want_nth(w, flag->offers, 0);
}

/* The flag that a whole word gives, and whether its value is in the same word. */
static const struct flag *flag_of(const struct command *c, const char *word, bool *ret_has_value)
{
    const struct flag *flag = NULL;

    *ret_has_value = false;
    if (str_starts(word, "--")) {
        size_t len = strcspn(word + 2, "=");

        *ret_has_value = word[2 + len] == '=';
        return flag_by_name(c, word + 2, len);
    }
    for (const char *p = word + 1; *p; p++) {
        flag = flag_by_letter(c, *p);
        if (!flag || flag->kind != FLAG_BOOL) {
            *ret_has_value = p[1] != '\0';
            break;
        }
    }
    return flag;
}

static void want_current(struct wanted *w, const char *word, bool flags_ended, size_t n_words)
{
    const char *equals = strchr(word, '=');
    const struct flag *flag;

    if (flags_ended || word[0] != '-') {
        want_nth(w, w->command->offers, n_words);
        return;
    }
    if (!equals || !str_starts(word, "--")) {
        want(w, "flag");
        return;
    }
    flag = flag_by_name(w->command, word + 2, (size_t)(equals - word) - 2);
    if (!flag || flag->kind == FLAG_BOOL)
        return;
    w->before = word;
    w->before_len = (size_t)(equals + 1 - word);
    want_value(w, flag, equals + 1);
}

/* As args_parse() reads them: which word of the command comes next? */
static void want_argument(struct wanted *w, int n, char **words)
{
    bool ended = false;
    size_t n_words = 0;

    for (int i = 0; i < n - 1; i++) {
        bool has_value;

        if (!ended && strcmp(words[i], "--") == 0) {
            if (w->command->rest || w->command->apart)
                return;
            ended = true;
        } else if (!ended && words[i][0] == '-' && words[i][1]) {
            const struct flag *flag = flag_of(w->command, words[i], &has_value);

            if (!flag || flag->kind == FLAG_BOOL || has_value)
                continue;
            if (flag->kind == FLAG_MAYBE && i + 1 < n - 1 &&
                !list_has(flag->choices, words[i + 1], strlen(words[i + 1])))
                continue;
            if (++i == n - 1) {
                want_value(w, flag, words[i]);
                return;
            }
        } else {
            w->first = n_words++ == 0 ? words[i] : w->first;
            if (w->command->rest)
                return; /* what follows is a command of the sandbox, which nobody here knows */
        }
    }
    want_current(w, words[n - 1], ended, n_words);
}

void completion_wanted(struct wanted *ret, int n, char **words)
{
    int used = 0;

    *ret = (struct wanted){.kind = "", .before = ""};
    while (n > 1 && str_starts(words[0], "--host")) {
        int skip = words[0][6] == '=' ? 1 : 2;

        if (skip >= n) {
            ret->prefix = words[n - 1];
            return;
        }
        n -= skip;
        words += skip;
    }
    ret->prefix = words[n - 1];
    if (n == 1) {
        want(ret, "command");
        return;
    }
    ret->command = command_find(n - 1, words, &used);
    /* One that is a command by itself, too, has flags. */
    if (n == 2 && command_is_group(words[0]) && !(ret->command && words[1][0] == '-')) {
        ret->first = words[0];
        want(ret, "subcommand");
    } else if (ret->command) {
        want_argument(ret, n - used, words + used);
    }
}

/* ---- candidates ---- */

struct lines {
    const struct wanted *wanted;
    const char *host;
    struct buf *out;
};

/* One candidate, if it goes on from what has been typed. What comes from sandboxes and registries
 * is shown on a terminal, and is a word of a shell: anything odd is left out. */
static void offer(const struct lines *l, const char *word, const char *about)
{
    const struct wanted *w = l->wanted;
    auto_free char *shown = escape_text(ESCAPE_CELL, about ? about : "");

    if (!*word || !str_starts(word, w->prefix) || word[strcspn(word, " \t\n'\"\\$`&|;<>(){}*?!#")])
        return;
    for (const char *p = word; *p; p++) {
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
            return;
    }
    (void)buf_addf(l->out, "%.*s%s\t%.100s\n", (int)w->before_len, w->before, word, shown);
}

static void offer_list(const struct lines *l, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, " ");
        auto_free char *word = xstrndup(list, n);

        offer(l, word, NULL);
        list += n + (list[n] == ' ');
    }
}

static void offer_aliases(const struct lines *l, const struct command *c)
{
    const char *p = c->alias;

    while (p && *p) {
        size_t n = strcspn(p, ",");
        auto_free char *alias = xstrndup(p, n);

        if (!strchr(alias, ' '))
            offer(l, alias, c->help);
        p += n + strspn(p + n, ", ");
    }
}

static void offer_commands(const struct lines *l)
{
    const char *last = "";

    for (const struct command *c = commands; c->name; c++) {
        size_t n = strcspn(c->name, " ");
        auto_free char *first = xstrndup(c->name, n);

        if (!c->name[n]) {
            offer(l, c->name, c->help);
        } else if (strncmp(last, c->name, n + 1) != 0) {
            auto_free char *about = xasprintf("commands for %s", first);

            offer(l, first, about);
        }
        offer_aliases(l, c);
        last = c->name;
    }
}

static void offer_subcommands(const struct lines *l)
{
    size_t n = strlen(l->wanted->first);

    for (const struct command *c = commands; c->name; c++) {
        if (str_starts(c->name, l->wanted->first) && c->name[n] == ' ')
            offer(l, c->name + n + 1, c->help);
    }
}

static void offer_flags(const struct lines *l)
{
    const struct flag *const tables[] = {l->wanted->command->flags, common_flags};

    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        for (const struct flag *f = tables[i]; f && f->name; f++) {
            const char letter[] = {'-', f->letter, '\0'};
            auto_free char *word = xasprintf("--%s", f->name);

            offer(l, word, f->help);
            if (f->letter && !str_starts(l->wanted->prefix, "--"))
                offer(l, letter, f->help);
        }
    }
}

static void offer_choices(const struct lines *l)
{
    offer_list(l, l->wanted->flag->choices);
}

static void offer_shells(const struct lines *l)
{
    offer_list(l, "bash zsh fish");
}

static void offer_signals(const struct lines *l)
{
    offer_list(l, "TERM KILL INT HUP USR1 USR2 STOP CONT");
}

static void offer_files(const struct lines *l)
{
    (void)buf_add_str(l->out, ":file\n");
}

static void offer_variables(const struct lines *l)
{
    for (char **v = environ; *v; v++) {
        auto_free char *name = xstrndup(*v, strcspn(*v, "="));

        offer(l, name, NULL);
    }
}

/* ---- what the daemon has ---- */

/* Completion never complains: without a daemon there is nothing to offer. */
static int open_daemon(const struct lines *l, struct api *api)
{
    auto_free char *target = NULL;
    struct err err = {0};

    if (api_address(l->host, &target, &(bool){false}, &err) < 0)
        return -1;
    api_open_target(api, target);
    return 0;
}

/* Through the API a name can be anything, "--all" too: such a sandbox is offered by its id only. */
static void each_sandbox(const struct lines *l, const char *suffix)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *all = NULL, *item;
    int64_t total;
    size_t i;

    if (open_daemon(l, &api) < 0 || api_sandboxes(&api, NULL, 0, &all, &total, &err) < 0)
        return;
    json_array_foreach(all, i, item)
    {
        auto_free char *about =
            xasprintf("%s, %s", json_text(item, "image"), json_text(item, "status"));
        auto_free char *name = xasprintf("%s%s", json_text(item, "name"), suffix);
        auto_free char *id = xasprintf("%s%s", json_text(item, "id"), suffix);

        if (name_check(json_text(item, "name"), NULL) == 0)
            offer(l, name, about);
        offer(l, id, about);
    }
    json_decref(all);
}

static void offer_sandboxes(const struct lines *l)
{
    each_sandbox(l, "");
}

/* "web:" and then a path there, or a file here. */
static void offer_places(const struct lines *l)
{
    if (!strchr(l->wanted->prefix, ':') && !strchr(l->wanted->prefix, '/'))
        each_sandbox(l, ":");
    (void)buf_add_str(l->out, ":nospace\n:file\n");
}

static void offer_installed(const struct lines *l)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL, *image;
    size_t i;

    if (open_daemon(l, &api) < 0 || api_call(&api, "GET", NULL, &answer, &err, "/images") < 0)
        return;
    json_array_foreach(json_object_get(answer, "images"), i, image)
    {
        char size[24];

        ui_size(json_num(image, "size"), size);
        offer(l, json_text(image, "name"), size);
    }
    json_decref(answer);
}

/* Also what can be pulled by a short name. */
static void offer_images(const struct lines *l)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL, *image;
    size_t i;

    offer_installed(l);
    if (open_daemon(l, &api) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/images/catalog") < 0)
        return;
    json_array_foreach(json_object_get(answer, "images"), i, image)
        offer(l, json_text(image, "name"), json_text(image, "reference"));
    json_decref(answer);
}

/* What the route of that name lists; a name that each_sandbox() would not offer is not offered. */
static void each_named(const struct lines *l, const char *list, const char *about, bool with_ids,
                       const char *suffix)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL, *item;
    size_t i;

    if (open_daemon(l, &api) < 0 || api_call(&api, "GET", NULL, &answer, &err, "/%s", list) < 0)
        return;
    json_array_foreach(json_object_get(answer, list), i, item)
    {
        auto_free char *name = xasprintf("%s%s", json_text(item, "name"), suffix);
        auto_free char *id = xasprintf("%s%s", json_text(item, "id"), suffix);

        if (name_check(json_text(item, "name"), NULL) == 0)
            offer(l, name, json_text(item, about));
        if (with_ids)
            offer(l, id, json_text(item, "name"));
    }
    json_decref(answer);
}

static void offer_templates(const struct lines *l)
{
    each_named(l, "templates", "description", false, "");
}

/* A folder to build one from, or one to build again. */
static void offer_builds(const struct lines *l)
{
    offer_templates(l);
    offer_files(l);
}

static void offer_snapshots(const struct lines *l)
{
    each_named(l, "snapshots", "sandboxId", true, "");
}

static void offer_networks(const struct lines *l)
{
    each_named(l, "networks", "id", true, "");
}

static void offer_volumes(const struct lines *l)
{
    each_named(l, "volumes", "id", true, "");
}

/* As offer_places(). */
static void offer_volume_places(const struct lines *l)
{
    if (!strchr(l->wanted->prefix, ':') && !strchr(l->wanted->prefix, '/'))
        each_named(l, "volumes", "id", true, ":");
    (void)buf_add_str(l->out, ":nospace\n:file\n");
}

static void offer_jobs(const struct lines *l)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *jobs = NULL, *job;
    size_t i;

    if (open_daemon(l, &api) < 0 || jobs_everywhere(&api, false, &jobs, &err) < 0)
        return;
    json_array_foreach(jobs, i, job) offer(l, json_text(job, "id"), json_text(job, "command"));
    json_decref(jobs);
}

/* What a route lists, by its ids. */
static void each_id(const struct lines *l, const char *route, const char *list, const char *about)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *answer = NULL, *item;
    size_t i;

    if (open_daemon(l, &api) < 0 || api_call(&api, "GET", NULL, &answer, &err, "%s", route) < 0)
        return;
    json_array_foreach(json_object_get(answer, list), i, item)
        offer(l, json_text(item, "id"), json_text(item, about));
    json_decref(answer);
}

static void offer_queued(const struct lines *l)
{
    each_id(l, "/queue", "jobs", "command");
}

static void offer_webhooks(const struct lines *l)
{
    each_id(l, "/webhooks", "webhooks", "url");
}

static void offer_tokens(const struct lines *l)
{
    each_id(l, "/tokens", "tokens", "name");
}

static void offer_profiles(const struct lines *l)
{
    each_id(l, "/pool/profiles", "profiles", "image");
}

static void offer_dead(const struct lines *l)
{
    offer_list(l, "requeue purge");
    each_id(l, "/queue/dlq", "jobs", "command");
    offer_sandboxes(l);
}

static void offer_processes(const struct lines *l)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *answer = NULL, *process;
    size_t i;

    if (open_daemon(l, &api) < 0 || api_sandbox_id(&api, l->wanted->first, &id, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/sandboxes/%s/processes", id) < 0)
        return;
    json_array_foreach(json_object_get(answer, "processes"), i, process)
    {
        auto_free char *pid = xasprintf("%lld", (long long)json_int(process, "pid"));

        offer(l, pid, json_text(process, "command"));
    }
    json_decref(answer);
}

/* Of the sandbox that comes first. */
static void each_inside(const struct lines *l, const char *route, const char *list, const char *key,
                        const char *about)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *answer = NULL, *item;
    size_t i;

    if (!l->wanted->first || open_daemon(l, &api) < 0 ||
        api_sandbox_id(&api, l->wanted->first, &id, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/sandboxes/%s/%s", id, route) < 0)
        return;
    json_array_foreach(json_object_get(answer, list), i, item)
        offer(l, json_text(item, key), json_text(item, about));
    json_decref(answer);
}

static void offer_sessions(const struct lines *l)
{
    each_inside(l, "terminal", "sessions", "sessionId", "shell");
}

static void offer_contexts(const struct lines *l)
{
    each_inside(l, "interpret/contexts", "contexts", "id", "language");
}

static void offer_metrics(const struct lines *l)
{
    offer_list(l, "cpu memory pids disk");
}

static void offer_mcp_clients(const struct lines *l)
{
    auto_free char *names = mcp_client_names();

    offer_list(l, names);
}

static const struct {
    const char *kind;
    void (*offer)(const struct lines *l);
} kinds[] = {
    {"command", offer_commands},
    {"subcommand", offer_subcommands},
    {"flag", offer_flags},
    {"choice", offer_choices},
    {"shell", offer_shells},
    {"signal", offer_signals},
    {"file", offer_files},
    {"variable", offer_variables},
    {"sandbox", offer_sandboxes},
    {"place", offer_places},
    {"image", offer_images},
    {"job", offer_jobs},
    {"queued", offer_queued},
    {"dead", offer_dead},
    {"process", offer_processes},
    {"session", offer_sessions},
    {"context", offer_contexts},
    {"metric", offer_metrics},
    {"webhook", offer_webhooks},
    {"token", offer_tokens},
    {"profile", offer_profiles},
    {"installed", offer_installed},
    {"template", offer_templates},
    {"build", offer_builds},
    {"snapshot", offer_snapshots},
    {"volume", offer_volumes},
    {"network", offer_networks},
    {"volume-place", offer_volume_places},
    {"mcp-client", offer_mcp_clients},
};

void completion_lines(const struct wanted *wanted, const char *host, struct buf *out)
{
    const struct lines l = {wanted, host, out};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strlen(kinds[i].kind) == wanted->kind_len &&
            memcmp(kinds[i].kind, wanted->kind, wanted->kind_len) == 0)
            kinds[i].offer(&l);
    }
}

/* ---- the scripts ---- */

void completion_bash(struct buf *out)
{
    (void)buf_add_str(
        out, "# bash completion for cay, made by `cay completion bash`.\n"
             "_cay()\n"
             "{\n"
             "    local line=${COMP_LINE:0:COMP_POINT} word typed='' files=''\n"
             "    local -a words\n"
             "    COMPREPLY=()\n"
             "    read -ra words <<<\"$line\"\n"
             "    [[ $line == *[[:space:]] ]] && words+=('')\n"
             "    local cur=${words[${#words[@]} - 1]}\n"
             "    # Bash takes a colon and an equals sign for the end of a word.\n"
             "    [[ $cur == *[:=]* ]] && typed=${cur%\"${cur##*[:=]}\"}\n"
             "    while IFS=$'\\t' read -r word _; do\n"
             "        case $word in\n"
             "        :file) files=yes ;;\n"
             "        :nospace) compopt -o nospace ;;\n"
             "        *) COMPREPLY+=(\"${word#\"$typed\"}\") ;;\n"
             "        esac\n"
             "    done < <(cay completion --line -- \"${words[@]:1}\" 2>/dev/null)\n"
             "    [[ -n $files ]] || return\n"
             "    # Beside other words, whose colon bash would quote too, we quote the names.\n"
             "    local mixed=${#COMPREPLY[@]}\n"
             "    ((mixed)) || compopt -o filenames\n"
             "    while read -r word; do\n"
             "        ((mixed)) && printf -v word %q \"$word\"\n"
             "        COMPREPLY+=(\"$word\")\n"
             "    done < <(compgen -f -- \"${cur#\"$typed\"}\")\n"
             "}\n"
             "complete -F _cay cay\n");
}

void completion_zsh(struct buf *out)
{
    (void)buf_add_str(
        out, "#compdef cay\n"
             "# zsh completion for cay, made by `cay completion zsh`.\n"
             "_cay() {\n"
             "    local line word files=''\n"
             "    local -a found more\n"
             "    for line in \"${(@f)$(cay completion --line -- \"${(@)words[2,CURRENT-1]}\" "
             "\"$PREFIX\" 2>/dev/null)}\"; do\n"
             "        case $line in\n"
             "        :file) files=yes ;;\n"
             "        :nospace) more=(-S '') ;;\n"
             "        ?*)\n"
             "            word=${line%%$'\\t'*}\n"
             "            found+=(\"${word//:/\\\\:}:${line#*$'\\t'}\")\n"
             "            ;;\n"
             "        esac\n"
             "    done\n"
             "    (($#found)) && _describe -V cay found \"${(@)more}\"\n"
             "    [[ -n $files ]] && _files\n"
             "}\n"
             "if [[ $funcstack[1] == _cay ]]; then _cay \"$@\"; else compdef _cay cay; fi\n");
}

void completion_fish(struct buf *out)
{
    (void)buf_add_str(
        out, "# fish completion for cay, made by `cay completion fish`.\n"
             "function __cay_complete\n"
             "    set -l words (commandline -opc)\n"
             "    set -l current (commandline -ct)\n"
             "    set -e words[1]\n"
             "    cay completion --line -- $words \"$current\" 2>/dev/null | while read -l line\n"
             "        switch $line\n"
             "            case ':file'\n"
             "                __fish_complete_path \"$current\"\n"
             "            case ':nospace'\n"
             "            case '*'\n"
             "                echo $line\n"
             "        end\n"
             "    end\n"
             "end\n"
             "complete -c cay -f -a '(__cay_complete)'\n");
}
