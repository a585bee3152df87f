/* A Dockerfile becomes a plan. What we do not do is an error with its line: a build that leaves
 * something out would be found out much later. */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "service/build/build_internal.h"

struct reader {
    const char *file;
    const char *at, *end;
    unsigned line; /* of what at points to */
    struct build_plan *plan;
};

/* One instruction, over as many lines as it has. */
struct instruction {
    unsigned line; /* its first */
    char *name;    /* in capitals */
    char *text;    /* as people see it */
    char *rest;    /* without white space at its ends */
    char **flags;  /* "--chown=app" */
};

static void instruction_done(struct instruction *in)
{
    free(in->name);
    free(in->text);
    free(in->rest);
    strv_free(in->flags);
}
#define auto_instruction __attribute__((cleanup(instruction_done)))

#define bad(r, at_line, ...)                                                                       \
    (err_code(err, ERR_INVALID, "bad_dockerfile", __VA_ARGS__),                                    \
     err_wrap(err, "%.80s:%u", (r)->file, (at_line)))

/* ---- lines ---- */

static char *next_line(struct reader *r)
{
    const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
    const char *stop = newline ? newline : r->end;
    size_t len = (size_t)(stop - r->at);
    char *line = xstrndup(r->at, len);

    while (len > 0 && line[len - 1] == '\r')
        line[--len] = '\0';
    r->at = newline ? newline + 1 : r->end;
    r->line++;
    return line;
}

static void trim_end(char *s)
{
    size_t len = strlen(s);

    while (len > 0 && isspace((unsigned char)s[len - 1]))
        s[--len] = '\0';
}

static const char *skip_space(const char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    return s;
}

/* Takes the mark off. */
static bool is_continued(char *line, char escape)
{
    size_t len = strlen(line);

    while (len > 0 && (line[len - 1] == ' ' || line[len - 1] == '\t'))
        len--;
    if (len == 0 || line[len - 1] != escape || (len > 1 && line[len - 2] == escape))
        return false;
    line[len - 1] = '\0';
    return true;
}

/* The next instruction's text, without comments and empty lines; NULL at the end. */
static char *next_logical(struct reader *r, unsigned *ret_line)
{
    auto_buf struct buf whole = {0};
    bool more = true;

    buf_init(&whole, DOCKERFILE_BYTES_MAX + 1);
    while (more && r->at < r->end) {
        auto_free char *line = next_line(r);
        const char *text = skip_space(line);

        if (!*text || *text == '#')
            continue;
        if (whole.len == 0)
            *ret_line = r->line - 1;
        more = is_continued(line, r->plan->escape);
        (void)buf_add_str(&whole, whole.len == 0 ? skip_space(line) : line);
    }
    if (whole.len == 0)
        return NULL;
    trim_end(whole.data);
    return buf_steal(&whole);
}

/* "# escape=`" and its like are only at the very top. */
static int read_directives(struct reader *r, struct err *err)
{
    if (r->end - r->at >= 3 && memcmp(r->at, "\xef\xbb\xbf", 3) == 0)
        r->at += 3;
    while (r->at < r->end) {
        struct reader ahead = *r;
        auto_free char *line = next_line(&ahead);
        const char *text = skip_space(line), *equals;
        size_t len;

        if (*text != '#')
            return 0;
        text = skip_space(text + 1);
        equals = strchr(text, '=');
        len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (!equals || skip_space(text + len) != equals)
            return 0;
        if (len == 6 && strncasecmp(text, "escape", 6) == 0) {
            const char *value = skip_space(equals + 1);

            if ((value[0] != '\\' && value[0] != '`') || *skip_space(value + 1))
                return bad(r, r->line, "escape must be \\ or `");
            r->plan->escape = value[0];
        }
        *r = ahead;
    }
    return 0;
}

/* ---- here-documents ---- */

struct heredoc {
    char *name;
    bool tabs;  /* <<-: leading tabs go */
    bool plain; /* <<"EOF": nothing in it is replaced */
    char *before, *after;
};

static void heredoc_done(struct heredoc *h)
{
    free(h->name);
    free(h->before);
    free(h->after);
}
#define auto_heredoc __attribute__((cleanup(heredoc_done)))

/* The next << that begins a word, outside of quotes; NULL = there is none. */
static const char *next_heredoc(const char *text, const char *at, char escape)
{
    char quote = '\0';

    for (const char *c = text; *c; c++) {
        if (quote != '\'' && *c == escape && c[1])
            c++;
        else if (quote && *c == quote)
            quote = '\0';
        else if (!quote && (*c == '\'' || *c == '"'))
            quote = *c;
        else if (!quote && c >= at && c[0] == '<' && c[1] == '<' &&
                 (c == text || isspace((unsigned char)c[-1])))
            return c;
    }
    return NULL;
}

/* A word that begins with << and a name. */
static bool find_heredoc(const char *text, char escape, struct heredoc *ret)
{
    for (const char *at = text; (at = next_heredoc(text, at, escape)); at += 2) {
        const char *name = at + 2;
        char quote = '\0';
        size_t len;

        if (*name == '<')
            continue;
        ret->tabs = *name == '-';
        name += ret->tabs;
        if (*name == '\'' || *name == '"')
            quote = *name++;
        len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        if (len == 0 || isdigit((unsigned char)*name) || (quote && name[len] != quote))
            continue;
        ret->plain = quote != '\0';
        ret->name = xstrndup(name, len);
        ret->before = xstrndup(text, (size_t)(at - text));
        ret->after = xstrdup(name + len + (quote ? 1 : 0));
        return true;
    }
    return false;
}

static int read_heredoc(struct reader *r, const struct instruction *in, const struct heredoc *h,
                        struct buf *ret, struct err *err)
{
    while (r->at < r->end) {
        auto_free char *line = next_line(r);
        const char *text = line;

        while (h->tabs && *text == '\t')
            text++;
        if (strcmp(text, h->name) == 0)
            return 0;
        (void)buf_add_str(ret, text);
        (void)buf_add_str(ret, "\n");
    }
    return bad(r, in->line, "%s has a here-document without its end, %.60s", in->name, h->name);
}

/* ---- parts of an instruction ---- */

static int add_step(struct reader *r, const struct instruction *in, enum build_op op,
                    char *const *words, struct build_step **ret, struct err *err)
{
    struct build_step *s = NULL;

    if (build_plan_add(r->plan, op, in->text, words, &s, err) < 0)
        return err_wrap(err, "%.80s:%u", r->file, in->line);
    s->line = in->line;
    s->expand = true;
    if (ret)
        *ret = s;
    return 0;
}

static int split(const struct reader *r, const struct instruction *in, char ***ret, struct err *err)
{
    if (words_split(in->rest, r->plan->escape, ret, err) < 0)
        return bad(r, in->line, "%s: a quote has no end", in->name);
    return 0;
}

static int take_flags(const struct reader *r, struct instruction *in, struct err *err)
{
    const char *at = in->rest;
    char *rest;

    in->flags = xcalloc(1, sizeof(*in->flags));
    while (str_starts(at, "--")) {
        size_t len = strcspn(at, " \t");
        auto_free char *flag = xstrndup(at, len);

        in->flags = strv_add(in->flags, flag);
        at = skip_space(at + len);
    }
    if (strv_len(in->flags) > 16)
        return bad(r, in->line, "%s has too many flags", in->name);
    rest = xstrdup(at);
    free(in->rest);
    in->rest = rest;
    return 0;
}

/* The flags that it may have, ended by NULL; each with where its value goes, NULL = nowhere. */
struct step_flag {
    const char *name;
    char **value;
};

static int read_flags(const struct reader *r, const struct instruction *in,
                      const struct step_flag *flags, struct err *err)
{
    for (char **f = in->flags; *f; f++) {
        size_t len = strcspn(*f, "=");
        const struct step_flag *known = flags;

        while (known && known->name &&
               (strlen(known->name) != len - 2 || strncmp(known->name, *f + 2, len - 2) != 0))
            known++;
        if (!known || !known->name)
            return bad(r, in->line, "%s %.60s is not supported%s", in->name, *f,
                       str_starts(*f, "--mount=")
                           ? ": leave it out, a step that was done is kept as it is; files come "
                             "with COPY"
                           : "");
        if (!known->value)
            continue;
        if ((*f)[len] != '=' || !(*f)[len + 1])
            return bad(r, in->line, "%s %.60s needs a value", in->name, *f);
        free(*known->value);
        *known->value = xstrdup(*f + len + 1);
    }
    return 0;
}

/* ["a", "b"]; NULL when it is not that. */
static char **json_words(const char *text)
{
    json_t *array = *text == '[' ? json_loads(text, 0, NULL) : NULL;
    char **words = NULL;

    if (json_is_array(array)) {
        words = xcalloc(1, sizeof(*words));
        for (size_t i = 0; words && i < json_array_size(array); i++) {
            const char *word = json_string_value(json_array_get(array, i));

            if (word) {
                words = strv_add(words, word);
            } else {
                strv_free(words);
                words = NULL;
            }
        }
    }
    json_decref(array);
    return words;
}

/* ---- instructions ---- */

static bool is_stage_name(const char *s)
{
    if (!islower((unsigned char)*s))
        return false;
    return s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] == '\0';
}

static int read_from(struct reader *r, const struct instruction *in, enum build_op op,
                     struct err *err)
{
    auto_strv char **words = NULL;
    auto_free char *platform = NULL, *stage = NULL;
    struct build_step *s = NULL;
    size_t n;

    if (read_flags(r, in, (struct step_flag[]){{"platform", &platform}, {0}}, err) < 0 ||
        split(r, in, &words, err) < 0)
        return -1;
    n = strv_len(words);
    if (n != 1 && (n != 3 || strcasecmp(words[1], "AS") != 0))
        return bad(r, in->line, "FROM needs an image, or an image and AS and a name");
    if (n == 3) {
        stage = xstrdup(words[2]);
        for (char *c = stage; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        if (!is_stage_name(stage))
            return bad(r, in->line, "%.60s cannot be the name of a stage", words[2]);
    }
    if (add_step(r, in, op, (char *[]){words[0], NULL}, &s, err) < 0)
        return -1;
    s->stage = steal_ptr(stage);
    s->platform = steal_ptr(platform);
    return 0;
}

static int check_added(const struct reader *r, const struct instruction *in, char *const *words,
                       struct err *err)
{
    for (; words[1]; words++)
        if (strstr(*words, "://") || str_starts(*words, "git@"))
            return bad(r, in->line,
                       "ADD of a URL is not supported: get the file into the context, or with RUN");
    return 0;
}

/* COPY <<EOF /path */
static int read_written(struct reader *r, struct instruction *in, const struct heredoc *h,
                        char **chown, char **chmod, struct err *err)
{
    auto_buf struct buf body = {0};
    auto_strv char **words = NULL;
    struct build_step *s = NULL;

    buf_init(&body, DOCKERFILE_BYTES_MAX + 1);
    if (read_heredoc(r, in, h, &body, err) < 0)
        return -1;
    if (words_split(h->after, r->plan->escape, &words, err) < 0 || strv_len(words) != 1 ||
        *skip_space(h->before) || str_ends(words[0], "/"))
        return bad(r, in->line, "%s takes one here-document and the path of one file", in->name);
    words = strv_add(words, body.data ? body.data : "");
    if (add_step(r, in, BUILD_WRITE, words, &s, err) < 0)
        return -1;
    s->plain = h->plain;
    s->chown = steal_ptr(*chown);
    s->chmod = steal_ptr(*chmod);
    return 0;
}

static int read_copy(struct reader *r, struct instruction *in, enum build_op op, struct err *err)
{
    auto_free char *from = NULL, *chown = NULL, *chmod = NULL;
    struct step_flag flags[] = {{"chown", &chown},
                                {"chmod", &chmod},
                                {"link", NULL}, /* says how it is done, not what */
                                {op == BUILD_COPY ? "from" : NULL, &from},
                                {0}};
    auto_heredoc struct heredoc h = {0};
    auto_strv char **words = NULL;
    struct build_step *s = NULL;

    if (read_flags(r, in, flags, err) < 0)
        return -1;
    if (find_heredoc(in->rest, r->plan->escape, &h))
        return read_written(r, in, &h, &chown, &chmod, err);
    words = json_words(in->rest);
    if (!words && split(r, in, &words, err) < 0)
        return -1;
    if (strv_len(words) < 2)
        return bad(r, in->line, "%s needs what to copy, and where to", in->name);
    if (op == BUILD_ADD && check_added(r, in, words, err) < 0)
        return -1;
    if (add_step(r, in, op, words, &s, err) < 0)
        return -1;
    s->from = steal_ptr(from);
    s->chown = steal_ptr(chown);
    s->chmod = steal_ptr(chmod);
    return 0;
}

/* RUN <<EOF: its text is for the shell. RUN cmd <<EOF: the shell gets all of it. */
static int shell_text(struct reader *r, const struct instruction *in, char **ret, struct err *err)
{
    auto_heredoc struct heredoc h = {0};
    auto_buf struct buf body = {0};

    if (strcmp(in->name, "RUN") != 0 || !find_heredoc(in->rest, r->plan->escape, &h)) {
        *ret = xstrdup(in->rest);
        return 0;
    }
    buf_init(&body, DOCKERFILE_BYTES_MAX + 1);
    if (read_heredoc(r, in, &h, &body, err) < 0)
        return -1;
    if (strstr(h.after, "<<"))
        return bad(r, in->line, "RUN takes one here-document here");
    if (!*skip_space(h.before) && body.data && str_starts(body.data, "#!"))
        return bad(r, in->line,
                   "a here-document that begins with #! is not supported: name the program, as in "
                   "RUN python3 <<%.60s",
                   h.name);
    if (*skip_space(h.before) || *skip_space(h.after))
        *ret = xasprintf("%s\n%s%s\n", in->rest, body.data ? body.data : "", h.name);
    else
        *ret = buf_steal(&body);
    return 0;
}

static int read_command(struct reader *r, const struct instruction *in, enum build_op op,
                        struct err *err)
{
    auto_strv char **words = NULL;
    auto_free char *text = NULL;
    struct build_step *s = NULL;

    if (read_flags(r, in, NULL, err) < 0)
        return -1;
    words = json_words(in->rest);
    if (!*in->rest || (op == BUILD_RUN && words && !words[0]))
        return bad(r, in->line, "%s needs a command", in->name);
    if (!words && shell_text(r, in, &text, err) < 0)
        return -1;
    if (add_step(r, in, op, words ? words : (char *[]){text, NULL}, &s, err) < 0)
        return -1;
    s->shell = words == NULL;
    s->expand = false;
    return 0;
}

static int read_shell(struct reader *r, const struct instruction *in, enum build_op op,
                      struct err *err)
{
    auto_strv char **words = json_words(in->rest);
    struct build_step *s = NULL;

    if (!words || !words[0])
        return bad(r, in->line, "SHELL needs a list: [\"/bin/bash\", \"-c\"]");
    if (add_step(r, in, op, words, &s, err) < 0)
        return -1;
    s->expand = false;
    return 0;
}

/* name=value name=value …, or name and the rest of the line. */
static int read_pairs(struct reader *r, const struct instruction *in, enum build_op op,
                      struct err *err)
{
    auto_strv char **words = NULL, **pairs = xcalloc(1, sizeof(*pairs));
    size_t n = 0;

    if (split(r, in, &words, err) < 0)
        return -1;
    if (!words[0])
        return bad(r, in->line, "%s needs a name and a value", in->name);
    if (!strchr(words[0], '=')) {
        const char *value = skip_space(in->rest + strlen(words[0]));

        if (!*value)
            return bad(r, in->line, "%s %.60s has no value", in->name, words[0]);
        return add_step(r, in, op, (char *[]){words[0], (char *)(uintptr_t)value, NULL}, NULL, err);
    }
    for (char **w = words; *w; w++) {
        size_t len = strcspn(*w, "=");
        auto_free char *name = xstrndup(*w, len);

        if ((*w)[len] != '=' || len == 0)
            return bad(r, in->line, "%s: %.60s is not name=value", in->name, *w);
        pairs = strv_add_nth(pairs, n++, name);
        pairs = strv_add_nth(pairs, n++, *w + len + 1);
    }
    return add_step(r, in, op, pairs, NULL, err);
}

static int read_arg(struct reader *r, const struct instruction *in, enum build_op op,
                    struct err *err)
{
    auto_strv char **words = NULL;

    if (split(r, in, &words, err) < 0)
        return -1;
    if (!words[0])
        return bad(r, in->line, "ARG needs a name");
    for (char **w = words; *w; w++) {
        size_t len = strcspn(*w, "=");
        auto_free char *name = xstrndup(*w, len);

        if (len == 0 || name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_")])
            return bad(r, in->line, "ARG: %.60s is not a name", name);
        if (add_step(r, in, op, (char *[]){name, (*w)[len] ? *w + len + 1 : NULL, NULL}, NULL,
                     err) < 0)
            return -1;
    }
    return 0;
}

static int read_one(struct reader *r, const struct instruction *in, enum build_op op,
                    struct err *err)
{
    if (!*in->rest)
        return bad(r, in->line, "%s needs a value", in->name);
    return add_step(r, in, op, (char *[]){in->rest, NULL}, NULL, err);
}

static int read_list(struct reader *r, const struct instruction *in, enum build_op op,
                     struct err *err)
{
    auto_strv char **words = NULL;

    if (split(r, in, &words, err) < 0)
        return -1;
    if (!words[0])
        return bad(r, in->line, "%s needs a value", in->name);
    return add_step(r, in, op, words, NULL, err);
}

static int read_maintainer(struct reader *r, const struct instruction *in, enum build_op op,
                           struct err *err)
{
    char name[] = "maintainer";
    struct build_step *s = NULL;

    if (add_step(r, in, op, (char *[]){name, in->rest, NULL}, &s, err) < 0)
        return -1;
    s->expand = false;
    return 0;
}

static const struct keyword {
    const char *name;
    enum build_op op;
    int (*read)(struct reader *r, struct instruction *in, enum build_op op, struct err *err);
    int (*look)(struct reader *r, const struct instruction *in, enum build_op op, struct err *err);
    const char *why_not;
} keywords[] = {
    {"FROM", BUILD_FROM, .look = read_from},
    {"RUN", BUILD_RUN, .look = read_command},
    {"COPY", BUILD_COPY, .read = read_copy},
    {"ADD", BUILD_ADD, .read = read_copy},
    {"ENV", BUILD_ENV, .look = read_pairs},
    {"ARG", BUILD_ARG, .look = read_arg},
    {"LABEL", BUILD_LABEL, .look = read_pairs},
    {"WORKDIR", BUILD_WORKDIR, .look = read_one},
    {"USER", BUILD_USER, .look = read_one},
    {"ENTRYPOINT", BUILD_ENTRYPOINT, .look = read_command},
    {"CMD", BUILD_CMD, .look = read_command},
    {"EXPOSE", BUILD_EXPOSE, .look = read_list},
    {"SHELL", BUILD_SHELL, .look = read_shell},
    {"STOPSIGNAL", BUILD_STOPSIGNAL, .look = read_one},
    {"MAINTAINER", BUILD_LABEL, .look = read_maintainer},
    {"HEALTHCHECK", .why_not = "a template's `ready` command says when a sandbox is up"},
    {"VOLUME", .why_not = "volumes are given to a sandbox when it is created"},
    {"ONBUILD", .why_not = "write the steps into the Dockerfile that builds on this one"},
};

static const struct keyword *keyword_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
        if (strcmp(keywords[i].name, name) == 0)
            return &keywords[i];
    return NULL;
}

/* ---- all of it ---- */

static int read_instruction(struct reader *r, struct instruction *in, bool *has_from,
                            struct err *err)
{
    const struct keyword *k = keyword_find(in->name);

    if (!k)
        return bad(r, in->line, "%.40s is not an instruction", in->name);
    if (k->why_not)
        return bad(r, in->line, "%s is not supported: %s", in->name, k->why_not);
    if (!*has_from && k->op != BUILD_FROM && k->op != BUILD_ARG)
        return bad(r, in->line, "%s before the first FROM", in->name);
    *has_from |= k->op == BUILD_FROM;
    /* Of others the words may begin so. */
    if ((k->op == BUILD_FROM || k->op == BUILD_COPY || k->op == BUILD_ADD || k->op == BUILD_RUN) &&
        take_flags(r, in, err) < 0)
        return -1;
    if (!in->flags)
        in->flags = xcalloc(1, sizeof(*in->flags));
    return k->read ? k->read(r, in, k->op, err) : k->look(r, in, k->op, err);
}

static void instruction_of(const char *text, struct instruction *ret)
{
    size_t len = strcspn(text, " \t");

    ret->name = xstrndup(text, len);
    for (char *c = ret->name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    ret->rest = xstrdup(skip_space(text + len));
    ret->text = xasprintf("%s%s%s", ret->name, *ret->rest ? " " : "", ret->rest);
}

static int read_all(struct reader *r, struct err *err)
{
    bool has_from = false;

    if (read_directives(r, err) < 0)
        return -1;
    for (;;) {
        auto_instruction struct instruction in = {0};
        auto_free char *text = next_logical(r, &in.line);

        if (!text)
            break;
        instruction_of(text, &in);
        if (read_instruction(r, &in, &has_from, err) < 0)
            return -1;
    }
    if (!has_from)
        return err_code(err, ERR_INVALID, "bad_dockerfile", "%.80s has no FROM", r->file);
    return 0;
}

int build_dockerfile(const char *file, const char *text, size_t len, struct build_plan **ret,
                     struct err *err)
{
    auto_build_plan struct build_plan *plan = build_plan_new(file);
    struct reader r = {.file = file, .at = text, .end = text + len, .line = 1, .plan = plan};

    if (len > DOCKERFILE_BYTES_MAX)
        return err_code(err, ERR_TOO_LARGE, "too_large", "%.80s is longer than %u bytes", file,
                        DOCKERFILE_BYTES_MAX);
    if (memchr(text, '\0', len) || !utf8_valid(text, len))
        return err_code(err, ERR_INVALID, "bad_dockerfile", "%.80s is not a text in UTF-8", file);
    if (read_all(&r, err) < 0)
        return -1;
    *ret = steal_ptr(plan);
    return 0;
}
