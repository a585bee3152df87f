#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "engine/engine.h"
#include "functions/functions_internal.h"
#include "service/events.h"
#include "service/git.h"
#include "service/services.h"

/* Each call is one command of git after another, as a task. */

struct git_task {
    struct task task;
    char *sandbox, *cwd;
    json_t *in;                /* without what proves who the caller is, */
    struct git_secret secret;  /* which is here */
    char *remote;              /* of a push or a pull, without a password in it */
    struct call *call;         /* during a step: who is told of progress */
    struct git *git;           /* that runs */
    bool talks;                /* with a server */
    int64_t told_ns, shown_ns; /* when progress was last an event for all, for the caller */
    unsigned ends;             /* of phases, that were told */
    bool is_identified;        /* of a commit */
    json_t *identity;          /* of a commit: words for what is not configured */
    /* What comes when it has ended: goes on with begin(), or answers. */
    int (*then)(struct git_task *t, struct call *call, const struct git_result *r, struct err *err);
};

static const char *given(const struct git_task *t, const char *name)
{
    return json_string_value(json_object_get(t->in, name));
}

static bool asked(const struct git_task *t, const char *name)
{
    return json_is_true(json_object_get(t->in, name));
}

static void task_free(struct task *task)
{
    struct git_task *t = (struct git_task *)task;

    git_close(t->git);
    git_secret_done(&t->secret);
    json_decref(t->in);
    json_decref(t->identity);
    free(t->sandbox);
    free(t->cwd);
    free(t->remote);
    free(t);
}

static void set_wait(struct git_task *t)
{
    struct exec_wait wait;

    git_wait(t->git, &wait);
    task_wait(&t->task, &wait);
}

/* ---- a command after another ---- */

typedef int git_then(struct git_task *t, struct call *call, const struct git_result *r,
                     struct err *err);

static char **words_of(const char *const *list)
{
    char **words = NULL;

    for (; *list; list++)
        words = strv_add(words, *list);
    return words;
}

#define WORDS(...) words_of((const char *const[]){__VA_ARGS__, NULL})

#define TELL_NS  1000000000 /* between two events git.progress of one call, */
#define SHOW_NS  10000000   /* and between two that its caller gets */
#define ENDS_MAX 64 /* of phases: git has few, but servers and sandboxes say what they like */

static bool ends_phase(struct git_task *t, const json_t *event)
{
    return json_integer_value(json_object_get(event, "percent")) == 100 &&
           strstr(json_string_value(json_object_get(event, "text")), "done") &&
           t->ends++ < ENDS_MAX;
}

/* Not each: the end of a phase, and now and then. */
static void tell_all(struct git_task *t, const json_t *event, bool ends)
{
    const struct services *s = t->call->services;
    const char *verb = strrchr(t->call->function->id, ':') + 1;
    json_t *data;

    if (!s || !s->events || (!ends && mono_ns() < t->told_ns + TELL_NS))
        return;
    data = json_deep_copy(event);
    (void)json_object_set_new(data, "command", json_string(verb));
    (void)json_object_del(data, "event");
    events_publish(s->events, "git.progress", t->sandbox, data);
    t->told_ns = mono_ns();
}

static void on_progress(json_t *event, void *arg)
{
    struct git_task *t = arg;
    bool ends = ends_phase(t, event);

    tell_all(t, event, ends);
    if (!ends && mono_ns() < t->shown_ns + SHOW_NS) {
        json_decref(event);
        return;
    }
    t->shown_ns = mono_ns();
    (void)sink_event(t->call, event, NULL); /* a caller who has gone ends the call by itself */
}

/* Begins the next command, and takes the words: TASK_WAITS, or -1. */
static int begin(struct git_task *t, struct engine *e, char **words, git_then *then,
                 struct err *err)
{
    struct git_command c = {
        .sandbox = t->sandbox,
        .cwd = t->cwd,
        .words = words,
        .secret = &t->secret,
        .timeout_ms = (uint64_t)ceil(json_number_value(json_object_get(t->in, "timeout")) * 1000),
        .progress = t->talks ? on_progress : NULL,
        .arg = t,
    };
    struct git *last = t->git;
    int r;

    t->git = NULL;
    t->then = then;
    r = git_open(e, &c, &t->git, err);
    /* Not before: a descriptor of the same number would be taken for the one that is waited for. */
    git_close(last);
    strv_free(words);
    if (r < 0)
        return -1;
    set_wait(t);
    return TASK_WAITS;
}

static int step(struct task *task, struct call *call, struct err *err)
{
    struct git_task *t = (struct git_task *)task;
    struct git_result result;
    int r;

    t->call = call;
    r = git_step(t->git, &result, err);
    if (r == GIT_DONE)
        return t->then(t, call, &result, err);
    if (r < 0)
        return -1;
    set_wait(t);
    return r == GIT_AGAIN ? TASK_AGAIN : TASK_WAITS;
}

/* The workspace, or what is beside or below it. */
static char *directory_of(const struct call *call)
{
    const char *path = in_str(call, "path"), *workspace = engine_config(call->engine)->workspace;

    if (!path)
        return xstrdup(workspace);
    return path[0] == '/' ? xstrdup(path) : xasprintf("%s/%s", workspace, path);
}

static struct git_task *task_new(struct call *call)
{
    static const struct task_ops ops = {.step = step, .free = task_free};
    struct git_task *t = xcalloc(1, sizeof(*t));

    t->task = (struct task){.ops = &ops, .fd = -1};
    t->sandbox = xstrdup(in_id(call));
    t->cwd = directory_of(call);
    t->in = json_incref(call->in);
    call->task = &t->task;
    return t;
}

/* The first one. */
static int start(struct call *call, struct git_task *t, char **words, git_then *then,
                 struct err *err)
{
    return begin(t, call->engine, words, then, err) < 0 ? -1 : 0;
}

/* ExecResult, whatever it is. */
static int give_result(struct git_task *t, struct call *call, const struct git_result *r,
                       struct err *err)
{
    (void)err;
    call->out = git_result_json(t->git, r);
    call->texts[0] = (struct text){"stdout", r->out};
    call->texts[1] = (struct text){"stderr", r->errors};
    if (call->function->flags & FUNCTION_EVENTS) /* the last event has no texts beside it */
        call_fold_texts(call);
    return TASK_DONE;
}

/* ---- who the caller is ---- */

static void take_secret(json_t *in, struct git_secret *s)
{
    static const char *const words[] = {"password", "token"};
    const char *name = json_string_value(json_object_get(in, "username"));

    if (name && !s->username)
        s->username = xstrdup(name);
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        const char *word = json_string_value(json_object_get(in, words[i]));

        if (word && !s->password)
            s->password = xstrdup(word);
        (void)json_object_del(in, words[i]);
    }
}

static int identify(struct git_task *t, struct err *err)
{
    take_secret(t->in, &t->secret);
    take_secret(json_object_get(t->in, "credentials"), &t->secret);
    (void)json_object_del(t->in, "credentials");
    return git_secret_check(&t->secret, err);
}

/* ---- clone ---- */

static int clone(struct call *call, struct err *err)
{
    struct git_task *t = task_new(call);
    auto_strv char **words = WORDS("clone", "--progress");
    auto_free char *url = NULL, *branch = NULL, *depth = NULL;

    if (identify(t, err) < 0 || git_url_take(given(t, "url"), &url, &t->secret, err) < 0 ||
        git_secret_check(&t->secret, err) < 0 ||
        git_ref_check("branch", given(t, "branch"), err) < 0)
        return -1;
    if (given(t, "branch")) {
        branch = xasprintf("--branch=%s", given(t, "branch"));
        words = strv_add(words, branch);
    }
    if (in_int(call, "depth") > 0) {
        depth = xasprintf("--depth=%lld", (long long)in_int(call, "depth"));
        words = strv_add(words, depth);
    }
    words = strv_add(strv_add(words, "--"), url);
    if (given(t, "path"))
        words = strv_add(words, t->cwd); /* where it shall be, so not where we are */
    free(t->cwd);
    t->cwd = xstrdup(engine_config(call->engine)->workspace);
    t->talks = true;
    return start(call, t, steal_ptr(words), give_result, err);
}

/* ---- status ---- */

/* Programs that a repository names are not run by who only looks. */
#define LOOKS "-c", "core.fsmonitor=false"

static int give_status(struct git_task *t, struct call *call, const struct git_result *r,
                       struct err *err)
{
    (void)t;
    if (r->end.exit_code != 0)
        return git_failed(r, err);
    call->out = git_status_json(r->out);
    if (r->truncated)
        (void)json_object_set_new(call->out, "truncated", json_true());
    return TASK_DONE;
}

/* Every sandbox has the workspace, whether somebody keeps a repository there or not: clients ask
 * for its status to find out. */
static int status_step(struct task *task, struct call *call, struct err *err)
{
    const struct git_task *t = (struct git_task *)task;
    int r = step(task, call, err);

    if (r >= 0 || !err->code ||
        (strcmp(err->code, "not_a_repository") != 0 && strcmp(err->code, "git_missing") != 0) ||
        strcmp(t->cwd, engine_config(call->engine)->workspace) != 0)
        return r;
    call->out = json_pack("{s:s, s:b, s:[], s:b, s:s}", "branch", "HEAD", "clean", 1, "files",
                          "repository", 0, "message", err->text);
    *err = (struct err){0};
    return TASK_DONE;
}

static int status(struct call *call, struct err *err)
{
    static const struct task_ops ops = {.step = status_step, .free = task_free};
    struct git_task *t = task_new(call);

    t->task.ops = &ops;
    return start(call, t, WORDS(LOOKS, "status", "--porcelain=v2", "--branch", "-z"), give_status,
                 err);
}

/* ---- commit ---- */

static int commit_now(struct git_task *t, struct call *call, const struct git_result *r,
                      struct err *err)
{
    auto_strv char **words = NULL;
    auto_free char *message = xasprintf("--message=%s", given(t, "message"));
    json_t *word;
    size_t i;

    if (r->end.exit_code != 0 && t->is_identified) /* of the add */
        return give_result(t, call, r, err);
    json_array_foreach(t->identity, i, word)
    {
        words = strv_add(words, json_string_value(word));
    }
    words = strv_add(strv_add(words, "commit"), message);
    return begin(t, call->engine, steal_ptr(words), give_result, err);
}

static void add_identity(struct git_task *t, const struct git_result *r, const char *key,
                         const char *wanted, const char *fallback)
{
    auto_free char *line = xasprintf("%s ", key), *word = NULL;

    if (!wanted && r->out->data && strstr(r->out->data, line))
        return;
    word = xasprintf("%s=%s", key, wanted ? wanted : fallback);
    (void)json_array_append_new(t->identity, json_string("-c"));
    (void)json_array_append_new(t->identity, json_string(word));
}

/* A commit has an author, also where nobody has said yet who that is. */
static int identified(struct git_task *t, struct call *call, const struct git_result *r,
                      struct err *err)
{
    t->identity = json_array();
    add_identity(t, r, "user.name", given(t, "authorName"), "cay sandbox");
    add_identity(t, r, "user.email", given(t, "authorEmail"), "sandbox@cay.invalid");
    if (!asked(t, "all"))
        return commit_now(t, call, r, err);
    t->is_identified = true;
    return begin(t, call->engine, WORDS("add", "--all"), commit_now, err);
}

static int commit(struct call *call, struct err *err)
{
    return start(call, task_new(call), WORDS("config", "--get-regexp", "^user\\.(name|email)$"),
                 identified, err);
}

/* ---- diff ---- */

static int give_diff(struct git_task *t, struct call *call, const struct git_result *r,
                     struct err *err)
{
    (void)t;
    if (r->end.exit_code != 0)
        return git_failed(r, err);
    call->out = json_pack("{s:b}", "truncated", r->truncated);
    call->texts[0] = (struct text){"diff", r->out};
    return TASK_DONE;
}

/* Where there is no repository, `git diff` compares files. */
static int diff_now(struct git_task *t, struct call *call, const struct git_result *r,
                    struct err *err)
{
    auto_strv char **words = WORDS(LOOKS, "diff", "--no-ext-diff", "--no-textconv", "--no-color");

    if (r->end.exit_code != 0)
        return git_failed(r, err);
    if (asked(t, "staged"))
        words = strv_add(words, "--cached");
    words = strv_add(words, "--");
    if (given(t, "file"))
        words = strv_add(words, given(t, "file"));
    return begin(t, call->engine, steal_ptr(words), give_diff, err);
}

static int diff(struct call *call, struct err *err)
{
    return start(call, task_new(call), WORDS("rev-parse", "--git-dir"), diff_now, err);
}

/* ---- log ---- */

/* One without a commit has an empty log. */
static int give_log(struct git_task *t, struct call *call, const struct git_result *r,
                    struct err *err)
{
    (void)t;
    if (r->end.exit_code != 0 &&
        !(r->errors->data && strstr(r->errors->data, "does not have any commits yet")))
        return git_failed(r, err);
    call->out = json_pack("{s:o}", "entries", git_log_json(r->out));
    return TASK_DONE;
}

static int list_log(struct call *call, struct err *err)
{
    auto_strv char **words =
        WORDS(LOOKS, "log", "-z", "--no-show-signature", "--no-color", GIT_LOG_FORMAT);
    auto_free char *count = xasprintf("--max-count=%lld", (long long)in_int(call, "count"));

    words = strv_add(strv_add(words, count), "--");
    return start(call, task_new(call), steal_ptr(words), give_log, err);
}

/* ---- branch ---- */

static int give_unborn(struct git_task *t, struct call *call, const struct git_result *r,
                       struct err *err)
{
    size_t len = r->out->data ? strcspn(r->out->data, "\n") : 0;

    (void)t;
    (void)err;
    (void)json_object_set_new(call->out, "current",
                              len > 0 ? git_text(r->out->data, len) : json_string("HEAD"));
    return TASK_DONE;
}

/* The branch of a repository without a commit is not in the list; nor is a detached head. */
static int give_branches(struct git_task *t, struct call *call, const struct git_result *r,
                         struct err *err)
{
    if (r->end.exit_code != 0)
        return git_failed(r, err);
    call->out = git_branches_json(r->out);
    if (r->truncated)
        (void)json_object_set_new(call->out, "truncated", json_true());
    if (json_string_length(json_object_get(call->out, "current")) > 0)
        return TASK_DONE;
    return begin(t, call->engine, WORDS("symbolic-ref", "--short", "--quiet", "HEAD"), give_unborn,
                 err);
}

static char **list_words(void)
{
    return WORDS("branch", "--all", "--no-color", "--no-column", GIT_BRANCH_FORMAT);
}

static int list_after(struct git_task *t, struct call *call, const struct git_result *r,
                      struct err *err)
{
    if (r->end.exit_code != 0)
        return git_failed(r, err);
    return begin(t, call->engine, list_words(), give_branches, err);
}

static int branch(struct call *call, struct err *err)
{
    struct git_task *t = task_new(call);
    const char *name = given(t, "name"), *from = given(t, "start");
    auto_strv char **words = NULL;

    if (git_ref_check("name", name, err) < 0 || git_ref_check("start", from, err) < 0)
        return -1;
    if (!name)
        return start(call, t, list_words(), give_branches, err);
    if (asked(t, "delete")) {
        words = strv_add(strv_add(words, "branch"), asked(t, "force") ? "-D" : "-d");
        words = strv_add(strv_add(words, "--"), name);
    } else {
        words = strv_add(strv_add(strv_add(words, "checkout"), "-b"), name);
        if (from)
            words = strv_add(words, from);
        words = strv_add(words, "--");
    }
    return start(call, t, steal_ptr(words), list_after, err);
}

/* ---- checkout ---- */

static int checkout(struct call *call, struct err *err)
{
    struct git_task *t = task_new(call);
    auto_strv char **words = strv_add(NULL, "checkout");

    if (git_ref_check("ref", given(t, "ref"), err) < 0)
        return -1;
    words = strv_add(strv_add(words, given(t, "ref")), "--");
    return start(call, t, steal_ptr(words), give_result, err);
}

/* ---- push and pull ---- */

static int transfer(struct git_task *t, struct call *call, struct err *err)
{
    bool pushes = strcmp(call->function->id, "git::push") == 0;
    auto_strv char **words = WORDS(pushes ? "push" : "pull", "--progress");

    if (pushes && asked(t, "force"))
        words = strv_add(words, "--force");
    if (pushes && asked(t, "setUpstream"))
        words = strv_add(words, "--set-upstream");
    if (!pushes && asked(t, "rebase"))
        words = strv_add(words, "--rebase");
    words = strv_add(words, "--");
    t->talks = true;
    if (t->remote)
        words = strv_add(words, t->remote);
    if (given(t, "branch"))
        words = strv_add(words, given(t, "branch"));
    return begin(t, call->engine, steal_ptr(words), give_result, err);
}

/* For which server name and password are. */
static int found_server(struct git_task *t, struct call *call, const struct git_result *r,
                        struct err *err)
{
    auto_free char *url = NULL, *clean = NULL;

    if (r->end.exit_code != 0)
        return give_result(t, call, r, err);
    url =
        xstrndup(r->out->data ? r->out->data : "", r->out->data ? strcspn(r->out->data, "\n") : 0);
    if (git_url_take(url, &clean, &t->secret, err) < 0)
        return -1;
    return transfer(t, call, err);
}

static int push_or_pull(struct call *call, struct err *err)
{
    struct git_task *t = task_new(call);
    const char *remote = given(t, "remote");
    auto_strv char **words = WORDS("ls-remote", "--get-url");

    if (identify(t, err) < 0 || git_ref_check("remote", remote, err) < 0 ||
        git_ref_check("branch", given(t, "branch"), err) < 0)
        return -1;
    if (!remote && given(t, "branch"))
        remote = "origin";
    if (remote && git_url_take(remote, &t->remote, &t->secret, err) < 0)
        return -1;
    if (git_secret_check(&t->secret, err) < 0)
        return -1;
    if (t->secret.host || !git_secret_is_set(&t->secret))
        return transfer(t, call, err) < 0 ? -1 : 0;
    words = strv_add(words, "--");
    if (t->remote)
        words = strv_add(words, t->remote);
    return start(call, t, steal_ptr(words), found_server, err);
}

/* ---- the rows ---- */

#define PATH_FIELD                                                                                 \
    {                                                                                              \
        "path", FIELD_STRING, .optional = true, .min = 1, .max = PATH_BYTES_MAX,                   \
                              .help = "of the repository; the workspace when absent"               \
    }

#define TIMEOUT_FIELD                                                                              \
    {                                                                                              \
        "timeout", FIELD_NUMBER, .optional = true, .max = 1e9,                                     \
                                 .help = "seconds; 0 or absent = CAY_MAX_CMD_TIMEOUT"              \
    }

#define CREDENTIAL_FIELDS                                                                          \
    {"username",          FIELD_STRING,                                                            \
     .optional = true,    .min = 1,                                                                \
     .max = GIT_NAME_MAX, .help = "for the server; x-access-token when there is only a token"},    \
        {"password", FIELD_STRING, .optional = true, .max = GIT_SECRET_MAX,                        \
         .help = "for this call only: nothing of it is left in the sandbox"},                      \
        {"token",  FIELD_STRING,          .optional = true,                                        \
         .min = 1, .max = GIT_SECRET_MAX, .help = "in place of a password"},                       \
    {                                                                                              \
        "credentials", FIELD_OBJECT, .optional = true, .of = &git_credentials_shape,               \
                                     .help = "the same as one object"                              \
    }

#define REF_FIELD(NAME, ...)                                                                       \
    {                                                                                              \
        NAME, FIELD_STRING, .min = 1, .max = 1024, __VA_ARGS__                                     \
    }

static const struct field clone_fields[] = {
    {"url", FIELD_STRING, .min = 1, .max = 4096, .example = "\"https://github.com/user/repo.git\"",
     .help = "of the repository; a password in it is used, and is not kept"},
    {"path", FIELD_STRING, .optional = true, .min = 1, .max = PATH_BYTES_MAX,
     .help = "where it shall be; a folder in the workspace, named after it, when absent"},
    REF_FIELD("branch", .optional = true, .help = "or a tag; the server's own when absent"),
    {"depth", FIELD_INT, .optional = true, .max = 2147483647,
     .help = "how many commits; 0 or absent = all"},
    CREDENTIAL_FIELDS,
    TIMEOUT_FIELD,
    {0},
};

static const struct field status_fields[] = {PATH_FIELD, {0}};

static const struct field commit_fields[] = {
    {"message", FIELD_STRING, .min = 1, .max = ARG_BYTES_MAX - 16, .example = "\"first\"",
     .help = "of the commit"},
    PATH_FIELD,
    {"all", FIELD_BOOL, .optional = true, .help = "stage every change first, new files too"},
    {"authorName", FIELD_STRING, .optional = true, .min = 1, .max = GIT_NAME_MAX,
     .help = "who commits; what git is configured with when absent"},
    {"authorEmail", FIELD_STRING, .optional = true, .min = 1, .max = GIT_NAME_MAX,
     .help = "who commits; what git is configured with when absent"},
    {0},
};

static const struct field diff_fields[] = {
    PATH_FIELD,
    {"staged", FIELD_BOOL, .optional = true, .help = "what a commit would have"},
    {"file", FIELD_STRING, .optional = true, .min = 1, .max = PATH_BYTES_MAX,
     .help = "only this file, or those that a pathspec of git names"},
    {0},
};

static const struct field log_fields[] = {
    PATH_FIELD,
    {"count", FIELD_INT, .clamp = true, .min = 1, .max = 1000, .preset = "10",
     .help = "how many at most"},
    {0},
};

static const struct field branch_fields[] = {
    PATH_FIELD,
    REF_FIELD("name", .optional = true,
              .help = "make and check out this one; only list when absent"),
    {"delete", FIELD_BOOL, .optional = true, .help = "delete it instead, if it is merged"},
    {"force", FIELD_BOOL, .optional = true, .help = "delete it also when it is not"},
    REF_FIELD("start", .optional = true, .help = "where the new one begins; HEAD when absent"),
    {0},
};

static const struct field checkout_fields[] = {
    REF_FIELD("ref", .example = "\"main\"", .help = "a branch, a tag or a commit"),
    PATH_FIELD,
    {0},
};

#define TRANSFER_FIELDS                                                                            \
    PATH_FIELD, {"remote", FIELD_STRING, .optional = true,                                         \
                 .min = 1, .max = 4096,  .help = "name or URL; the branch's own when absent"},     \
        REF_FIELD("branch", .optional = true, .help = "or a refspec; as configured when absent"),  \
        CREDENTIAL_FIELDS, TIMEOUT_FIELD

static const struct field push_fields[] = {
    TRANSFER_FIELDS,
    {"force", FIELD_BOOL, .optional = true, .help = "also when the server has other commits"},
    {"setUpstream", FIELD_BOOL, .optional = true, .help = "the branch follows it from now on"},
    {0},
};

static const struct field pull_fields[] = {
    TRANSFER_FIELDS,
    {"rebase", FIELD_BOOL, .optional = true, .help = "put own commits on top, in place of a merge"},
    {0},
};

#define ERRORS_GIT ERRORS_COMMAND " git_missing not_a_repository command_timeout cancelled"
#define TELLS                                                                                      \
    .flags = FUNCTION_WAITS | FUNCTION_EVENTS, .done = "result", .key = "result",                  \
    .gives = &exec_result_shape, .events = &git_event_shape

const struct function git_functions[] = {
    {"git::clone", "POST", "/sandboxes/:sandboxId/git/clone", clone_fields, clone,
     "sandbox_git_clone", SCOPE_EXEC, .reach = REACH_SANDBOX, TELLS, .rate = RATE_EXEC,
     .help = "Clones a repository with the sandbox's git", .errors = ERRORS_GIT " bad_url bad_ref"},
    {"git::status", "GET", "/sandboxes/:sandboxId/git/status", status_fields, status,
     "sandbox_git_status", SCOPE_READ, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS,
     .rate = RATE_EXEC, .help = "Shows what is not as in the last commit",
     .gives = &git_status_shape, .errors = ERRORS_GIT " git_failed"},
    {"git::commit", "POST", "/sandboxes/:sandboxId/git/commit", commit_fields, commit,
     "sandbox_git_commit", SCOPE_EXEC, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS,
     .rate = RATE_EXEC, .help = "Makes a commit", .gives = &exec_result_shape,
     .errors = ERRORS_GIT},
    {"git::diff", "GET", "/sandboxes/:sandboxId/git/diff", diff_fields, diff, "sandbox_git_diff",
     SCOPE_READ, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .rate = RATE_EXEC,
     .help = "Shows what has changed", .gives = &git_diff_shape,
     .errors = ERRORS_GIT " git_failed"},
    {"git::log", "GET", "/sandboxes/:sandboxId/git/log", log_fields, list_log, NULL, SCOPE_READ,
     .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .rate = RATE_EXEC,
     .help = "Lists the last commits", .gives = &git_log_shape, .errors = ERRORS_GIT " git_failed"},
    {"git::branch", "POST", "/sandboxes/:sandboxId/git/branch", branch_fields, branch, NULL,
     SCOPE_EXEC, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .rate = RATE_EXEC,
     .help = "Lists branches, makes one or deletes one", .gives = &git_branches_shape,
     .errors = ERRORS_GIT " bad_ref git_failed"},
    {"git::checkout", "POST", "/sandboxes/:sandboxId/git/checkout", checkout_fields, checkout, NULL,
     SCOPE_EXEC, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .rate = RATE_EXEC,
     .help = "Checks out a branch, a tag or a commit", .gives = &exec_result_shape,
     .errors = ERRORS_GIT " bad_ref"},
    {"git::push", "POST", "/sandboxes/:sandboxId/git/push", push_fields, push_or_pull, NULL,
     SCOPE_EXEC, .reach = REACH_SANDBOX, TELLS, .rate = RATE_EXEC,
     .help = "Pushes commits to a remote", .errors = ERRORS_GIT " bad_url bad_ref"},
    {"git::pull", "POST", "/sandboxes/:sandboxId/git/pull", pull_fields, push_or_pull, NULL,
     SCOPE_EXEC, .reach = REACH_SANDBOX, TELLS, .rate = RATE_EXEC,
     .help = "Takes commits from a remote", .errors = ERRORS_GIT " bad_url bad_ref"},
    {0},
};
