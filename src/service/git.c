#include "service/git.h"

#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "service/git_internal.h"

#define TALK_MAX      (64u << 10) /* of each stream of one that speaks with a server */
#define LINE_MAX      4096        /* of a line that may be progress; a longer one is none */
#define ANSWERS_MAX   16          /* how often one command is told who it is */
#define PIECES_A_STEP 64

struct git {
    struct exec *exec;
    bool talks;
    const struct git_secret *secret; /* NULL = none */
    struct git_asks asks;
    unsigned answers;
    /* Of one that talks; line: of standard error, without its end. */
    struct buf out, errors, line;
    bool truncated;
    void (*progress)(json_t *event, void *arg);
    void *arg;
};

/* ---- how it is called ---- */

/* Standard input becomes descriptor 3, which git leaves to what it starts. The words are arguments
 * of the shell: it does not read them. */
static const char with_pipe[] = "exec 3<&0 </dev/null; exec git \"$@\"";

/* What git asks for name and password: it says for whom it is asked, and reads two lines. */
static char *helper_of(const struct git_asks *a)
{
    return xasprintf("credential.helper=!f() { [ \"$1\" = get ] || exit 0; p= h=; "
                     "while IFS== read -r k v && [ -n \"$k\" ]; do "
                     "case $k in protocol) p=$v;; host) h=$v;; esac; done; "
                     "printf '\\036%%s %%s %%s\\036' %s \"$p\" \"$h\" >&2; "
                     "IFS= read -r u <&3 && IFS= read -r s <&3 && [ -n \"$u$s\" ] && "
                     "printf 'username=%%s\\npassword=%%s\\n' \"$u\" \"$s\"; }; f",
                     a->word);
}

static char **add_all(char **argv, const char *const *words)
{
    for (; *words; words++)
        argv = strv_add(argv, *words);
    return argv;
}

static char **argv_of(const struct git *g, const struct git_command *c)
{
    static const char *const plain[] = {"git", NULL};
    static const char *const piped[] = {"sh", "-c", with_pipe, "git", NULL};
    /* A repository may belong to another user of the sandbox than the one who asks. */
    static const char *const always[] = {"-c", "safe.directory=*",     "-c", "color.ui=false",
                                         "-c", "core.quotePath=false", NULL};
    /* Others, which might keep what they are told, are not asked. */
    static const char *const nobody_else[] = {"-c", "credential.helper=", "-c", NULL};
    char **argv = add_all(add_all(NULL, g->secret ? piped : plain), always);

    if (g->secret) {
        auto_free char *helper = helper_of(&g->asks);

        argv = strv_add(add_all(argv, nobody_else), helper);
    }
    for (char *const *word = c->words; *word; word++)
        argv = strv_add(argv, *word);
    return argv;
}

/* Nothing waits for somebody at a terminal; what it says is in the language that we read. */
static json_t *env_of(const struct git *g)
{
    json_t *env = json_pack("{s:s, s:s, s:s, s:s}", "GIT_TERMINAL_PROMPT", "0", "LC_ALL", "C.UTF-8",
                            "GIT_MERGE_AUTOEDIT", "no", "GIT_OPTIONAL_LOCKS", "0");

    if (g->secret)
        (void)json_object_update_new(
            env, json_pack("{s:s, s:s}", "GIT_TRACE_REDACT", "1", "GIT_ASKPASS", ""));
    return env;
}

static struct git *git_new(const struct git_command *c)
{
    struct git *g = xcalloc(1, sizeof(*g));

    if (c->progress && c->secret->host && git_secret_is_set(c->secret))
        g->secret = c->secret;
    g->talks = c->progress;
    g->progress = c->progress;
    g->arg = c->arg;
    git_asks_init(&g->asks);
    buf_init(&g->out, TALK_MAX);
    buf_init(&g->errors, TALK_MAX);
    buf_init(&g->line, LINE_MAX);
    return g;
}

int git_open(struct engine *e, const struct git_command *c, struct git **ret, struct err *err)
{
    struct git *g = git_new(c);
    auto_strv char **argv = argv_of(g, c);
    json_t *env = env_of(g);
    struct exec_request req = {.argv = argv,
                               .cwd = c->cwd,
                               .env = env,
                               .timeout_ms = c->timeout_ms,
                               .collect = !g->talks,
                               .want_stdin = g->secret};
    int r = engine_exec_open(e, c->sandbox, &req, &g->exec, err);

    json_decref(env);
    if (r < 0) {
        git_close(g);
        return -1;
    }
    *ret = g;
    return 0;
}

void git_close(struct git *g)
{
    if (!g)
        return;
    engine_exec_close(g->exec);
    git_asks_done(&g->asks);
    buf_done(&g->out);
    buf_done(&g->errors);
    buf_done(&g->line);
    free(g);
}

void git_wait(const struct git *g, struct exec_wait *ret)
{
    engine_exec_wait(g->exec, ret);
}

/* ---- what it says ---- */

static void keep(struct git *g, struct buf *b, const char *data, size_t len)
{
    size_t room = b->max - b->len;

    if (len > room) {
        g->truncated = true;
        len = room;
    }
    (void)buf_add(b, data, len);
}

/* One that is overwritten says how far it is, and is not kept. */
static void end_line(struct git *g, char end)
{
    json_t *event = git_progress_json(g->line.data ? g->line.data : "", g->line.len);

    if (event)
        g->progress(event, g->arg);
    if (end != '\r') {
        keep(g, &g->errors, g->line.data, g->line.len);
        keep(g, &g->errors, &end, end ? 1 : 0);
    }
    buf_clear(&g->line);
}

static void on_text(const char *data, size_t len, void *arg)
{
    struct git *g = arg;

    for (size_t i = 0; i < len; i++) {
        if (data[i] == '\r' || data[i] == '\n')
            end_line(g, data[i]);
        else if (buf_add(&g->line, &data[i], 1) < 0) {
            end_line(g, '\0');
            (void)buf_add(&g->line, &data[i], 1);
        }
    }
}

static void on_asked(const char *protocol, const char *host, void *arg)
{
    struct git *g = arg;
    const struct git_secret *s = g->secret;
    auto_buf struct buf answer = {0};

    buf_init(&answer, GIT_NAME_MAX + GIT_SECRET_MAX + 2);
    if (g->answers++ < ANSWERS_MAX && strcmp(protocol, s->protocol) == 0 &&
        strcasecmp(host, s->host) == 0)
        (void)buf_addf(&answer, "%s\n%s\n", s->username ? s->username : "x-access-token",
                       s->password ? s->password : "");
    else
        (void)buf_add_str(&answer, "\n\n");
    engine_exec_stdin(g->exec, answer.data, answer.len);
    explicit_bzero(answer.data, answer.len);
}

static void take_errors(struct git *g, const char *data, size_t len, bool last)
{
    struct git_asks_ops ops = {.text = on_text, .asked = on_asked, .arg = g};

    if (g->secret)
        git_asks_add(&g->asks, data, len, last, &ops);
    else
        on_text(data, len, g);
    if (last && g->line.len > 0)
        end_line(g, '\0');
}

/* ---- the end ---- */

static bool said(const struct git_result *r, const char *words)
{
    return r->errors->data && strstr(r->errors->data, words);
}

static int missing(struct err *err)
{
    return err_code(err, ERR_CONFLICT, "git_missing",
                    "there is no git in this sandbox: take an image that has it, or install it "
                    "(`apt-get update && apt-get install -y git`, `apk add git`)");
}

/* What a caller must be told apart from git's other failures. */
static int judge(const struct git *g, const struct git_result *r, struct err *err)
{
    if (g->secret && r->end.exit_code == 127 && said(r, "git"))
        return missing(err);
    if (r->end.exit_code == 128 && said(r, "not a git repository (or any"))
        return err_code(err, ERR_CONFLICT, "not_a_repository",
                        "there is no git repository in this directory or above it: clone one, or "
                        "run `git init` there");
    return GIT_DONE;
}

static int could_not_run(struct err *err)
{
    if (err && err->code && strcmp(err->code, "command_not_found") == 0)
        return missing(err);
    return -1;
}

static int end(struct git *g, const struct exec_output *out, struct git_result *ret,
               struct err *err)
{
    take_errors(g, "", 0, true);
    if (strcmp(out->reason, "timeout") == 0)
        return err_code(err, ERR_TIMEOUT, "command_timeout", "Command timed out after %.0fms",
                        out->duration_ms);
    *ret = (struct git_result){.out = &g->out,
                               .errors = &g->errors,
                               .end = *out,
                               .truncated = g->truncated || out->lost_stdout || out->lost_stderr};
    return judge(g, ret, err);
}

static int talk(struct git *g, struct git_result *ret, struct err *err)
{
    for (unsigned i = 0; i < PIECES_A_STEP; i++) {
        struct exec_output out;
        int r = engine_exec_next(g->exec, &out, err);

        if (r < 0)
            return could_not_run(err);
        if (r == 0)
            return GIT_WAITS;
        if (out.what == EXEC_STDOUT)
            keep(g, &g->out, out.data, out.len);
        else if (out.what == EXEC_STDERR)
            take_errors(g, out.data, out.len, false);
        else if (out.what == EXEC_EXIT)
            return end(g, &out, ret, err);
    }
    return GIT_AGAIN;
}

int git_step(struct git *g, struct git_result *ret, struct err *err)
{
    struct exec_result result;
    int r;

    if (g->talks)
        return talk(g, ret, err);
    r = engine_exec_collect(g->exec, &result, err);
    if (r != 0)
        return r < 0 ? could_not_run(err) : GIT_WAITS;
    *ret = (struct git_result){.out = result.out,
                               .errors = result.errors,
                               .end = result.end,
                               .truncated = result.truncated};
    return judge(g, ret, err);
}

json_t *git_result_json(const struct git *g, const struct git_result *r)
{
    auto_free char *hint = engine_exec_hint_of(g->exec, r->errors->data, r->errors->len);
    const char *id = engine_exec_id(g->exec);
    json_t *o =
        json_pack("{s:i, s:f, s:s, s:b}", "exitCode", r->end.exit_code, "duration",
                  r->end.duration_ms, "reason", r->end.reason, "truncated", (int)r->truncated);

    engine_exec_put_words(g->exec, o);
    if (hint)
        (void)json_object_set_new(o, "hint", json_string(hint));
    if (id[0])
        (void)json_object_set_new(o, "execId", json_string(id));
    return o;
}

int git_failed(const struct git_result *r, struct err *err)
{
    const char *text = r->errors->data ? r->errors->data : "";
    size_t len;

    if (str_starts(text, "fatal: ") || str_starts(text, "error: "))
        text += 7;
    len = utf8_cut(text, strcspn(text, "\n") < 160 ? strcspn(text, "\n") : 160);
    return err_code(err, ERR_CONFLICT, "git_failed", "git failed with exit code %d: %.*s",
                    r->end.exit_code, (int)len, text);
}
