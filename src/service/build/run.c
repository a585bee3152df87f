/* A plan, step by step. */
#include <errno.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/images.h"
#include "engine/watch.h"
#include "model/limits.h"
#include "service/build/build_internal.h"

#define BUILDS_MAX    8 /* at once: each keeps a thread */
#define SHOWN_MAX     400
#define VARIABLES_MAX 4096 /* as images can have */

static atomic_uint builds;

static json_int_t ms_since(int64_t began)
{
    return (json_int_t)((mono_ns() - began) / 1000000);
}

/* ---- telling ---- */

int build_tell(struct build *b, json_t *event, struct err *err)
{
    const struct engine_watch *w = b->watch;
    struct pollfd caller = {.fd = w ? w->cancel_fd : -1, .events = POLLRDHUP};
    int r = 0;

    if (engine_is_ending(b->engine))
        r = err_set(err, ERR_UNAVAILABLE, "cay is stopping; build again when it runs");
    else if (w && poll(&caller, 1, 0) == 1 && (!w->cancelled || w->cancelled(w->arg)))
        r = err_code(err, ERR_UNAVAILABLE, "cancelled", "nobody waited for the build any more");
    else if (w && w->until_ns && mono_ns() >= w->until_ns)
        r = err_code(err, ERR_TIMEOUT, "cancelled", "the build took longer than its caller waits");
    else if (w && w->progress && w->progress(event, w->arg) < 0)
        r = err_code(err, ERR_UNAVAILABLE, "cancelled", "nobody waited for the build any more");
    json_decref(event);
    return r;
}

int build_blame(const struct build *b, const struct build_step *step, struct err *err)
{
    auto_free char *shown = xstrndup(step->text, utf8_cut(step->text, strnlen(step->text, 60)));

    shown[strcspn(shown, "\n")] = '\0';
    if (b->req->plan->file && step->line)
        return err_wrap(err, "%.60s:%u: %s", b->req->plan->file, step->line, shown);
    return err_wrap(err, "%s", shown);
}

static json_t *step_event(const struct build *b, const struct stage *s,
                          const struct build_step *step)
{
    size_t len = strnlen(step->text, SHOWN_MAX + 1);

    return json_pack("{s:s, s:I, s:I, s:I, s:s%, s:s*}", "event", "step", "step",
                     (json_int_t)b->step, "steps", (json_int_t)b->steps, "line",
                     (json_int_t)step->line, "text", step->text,
                     len > SHOWN_MAX ? utf8_cut(step->text, SHOWN_MAX) : len, "stage", s->name);
}

/* ---- keys ---- */

void build_key(json_t *what, char ret[BUILD_DIGEST_SIZE])
{
    auto_free char *text = json_dumps(what, JSON_COMPACT | JSON_SORT_KEYS);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (!text || EVP_Digest(text, strlen(text), digest, &len, EVP_sha256(), NULL) != 1)
        abort();
    for (unsigned i = 0; i < len && 2 * i + 2 < BUILD_DIGEST_SIZE; i++)
        (void)snprintf(ret + (size_t)2 * i, 3, "%02x", digest[i]);
    json_decref(what);
}

char *build_cached(const struct build *b, const char *key)
{
    return b->req->no_cache ? NULL : engine_build_cached(b->engine, key);
}

/* ---- variables ---- */

static const char *machine(void)
{
    static struct utsname name;

    if (!name.machine[0])
        (void)uname(&name);
    if (strcmp(name.machine, "x86_64") == 0)
        return "amd64";
    return strcmp(name.machine, "aarch64") == 0 ? "arm64" : name.machine;
}

/* Those that Docker gives every build. */
static json_t *platform_args(void)
{
    json_t *o = json_object();
    static const char *const kinds[] = {"TARGET", "BUILD"};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        auto_free char *platform = xasprintf("%sPLATFORM", kinds[i]);
        auto_free char *os = xasprintf("%sOS", kinds[i]), *arch = xasprintf("%sARCH", kinds[i]);
        auto_free char *variant = xasprintf("%sVARIANT", kinds[i]);

        (void)json_object_set_new(o, platform, json_sprintf("linux/%s", machine()));
        (void)json_object_set_new(o, os, json_string("linux"));
        (void)json_object_set_new(o, arch, json_string(machine()));
        (void)json_object_set_new(o, variant, json_string(""));
    }
    return o;
}

static const char *global_value(const char *name, void *arg)
{
    const struct build *b = arg;

    return json_string_value(json_object_get(b->globals, name));
}

static const char *local_value(const char *name, void *arg)
{
    return stage_value(arg, name);
}

/* What an ARG is: what the caller says, else what the file says, else what was said before the
 * first FROM. */
static const json_t *given(const struct build *b, const char *name)
{
    return json_object_get(b->req->args, name);
}

static int expand(const struct build *b, const struct build_step *step, const char *word,
                  words_lookup lookup, void *arg, char **ret, struct err *err)
{
    if (step->expand)
        return words_expand(word, b->req->plan->escape, lookup, arg, ret, err);
    *ret = xstrdup(word);
    return 0;
}

/* A short name can stand for a long text, any number of times. */
static int count_bytes(struct build *b, size_t n, struct err *err)
{
    b->words_bytes += n;
    if (b->words_bytes <= WORDS_BYTES_MAX)
        return 0;
    return err_code(err, ERR_TOO_LARGE, "too_large",
                    "the steps of the build, with what their variables stand for, are more than "
                    "%u MiB",
                    WORDS_BYTES_MAX >> 20);
}

/* The words of a step, and of those that have them its owner and mode behind. */
static int expand_all(struct build *b, const struct stage *s, const struct build_step *step,
                      char ***ret, struct err *err)
{
    bool rights = step->op == BUILD_COPY || step->op == BUILD_ADD || step->op == BUILD_WRITE;
    const char *more[] = {step->chown ? step->chown : "", step->chmod ? step->chmod : ""};
    auto_strv char **words = xcalloc(1, sizeof(*words));
    void *arg = (void *)(uintptr_t)s;

    for (size_t i = 0; step->words[i]; i++) {
        auto_free char *word = NULL;
        bool is_text = step->op == BUILD_WRITE && i == 1;
        int r;

        if (is_text && step->expand && !step->plain)
            r = words_expand_text(step->words[i], b->req->plan->escape, local_value, arg, &word,
                                  err);
        else if (is_text)
            r = (word = xstrdup(step->words[i])) ? 0 : -1;
        else
            r = expand(b, step, step->words[i], local_value, arg, &word, err);
        if (r < 0 || count_bytes(b, strlen(word), err) < 0)
            return -1;
        words = strv_add_nth(words, i, word);
    }
    for (size_t i = 0; rights && i < ARRAY_LEN(more); i++) {
        auto_free char *word = NULL;

        if (expand(b, step, more[i], local_value, arg, &word, err) < 0)
            return -1;
        words = strv_add(words, word);
    }
    *ret = steal_ptr(words);
    return 0;
}

/* ---- settings ---- */

static int set_env(struct stage *s, char *const *words, struct err *err)
{
    for (size_t i = 0; words[i] && words[i + 1]; i += 2) {
        if (!words[i][0] || strchr(words[i], '='))
            return err_code(err, ERR_INVALID, "bad_dockerfile", "\"%.60s\" is no name", words[i]);
        stage_set_env(s, words[i], words[i + 1]);
        if (strv_len(s->env) > VARIABLES_MAX)
            return err_code(err, ERR_TOO_LARGE, "too_large", "there are more than %d variables",
                            VARIABLES_MAX);
    }
    return 0;
}

static int set_arg(const struct build *b, struct stage *s, const struct build_step *step,
                   char *const *words)
{
    const json_t *value = given(b, words[0]);
    const char *global = json_string_value(json_object_get(b->globals, words[0]));

    (void)step;
    if (value)
        (void)json_object_set(s->args, words[0], (json_t *)(uintptr_t)value);
    else if (words[1])
        (void)json_object_set_new(s->args, words[0], json_string(words[1]));
    else
        (void)json_object_set_new(s->args, words[0], global ? json_string(global) : json_null());
    return 0;
}

/* An absolute path without empty parts, "." and "..", by its letters alone as Docker does it. */
static void tidy(char *path)
{
    size_t n = 0;

    for (const char *part = path; *part;) {
        size_t len;

        part += strspn(part, "/");
        len = strcspn(part, "/");
        if (len == 2 && strncmp(part, "..", 2) == 0) {
            while (n > 0 && path[--n] != '/')
                ;
        } else if (len > 0 && (len != 1 || *part != '.')) {
            path[n++] = '/';
            memmove(path + n, part, len);
            n += len;
        }
        part += len;
    }
    if (n == 0)
        path[n++] = '/';
    path[n] = '\0';
}

static int set_workdir(struct stage *s, const char *dir, struct err *err)
{
    auto_free char *below = stage_path(s, dir); /* relative where the image's own is */
    char *path = xasprintf("/%s", below);

    tidy(path);
    if (strlen(path) > PATH_BYTES_MAX) {
        free(path);
        return err_code(err, ERR_INVALID, "bad_dockerfile", "the path is longer than %d bytes",
                        PATH_BYTES_MAX);
    }
    free(s->workdir);
    s->workdir = path;
    (void)json_array_append_new(s->dirs, json_string(path));
    return 0;
}

static int set_ports(struct stage *s, char *const *words, struct err *err)
{
    for (; *words; words++) {
        size_t len = strcspn(*words, "/");
        const char *kind = (*words)[len] ? *words + len + 1 : "tcp";
        auto_free char *digits = xstrndup(*words, len);
        auto_free char *port = xasprintf("%s/%s", digits, kind);
        uint64_t number;

        if (str_u64(digits, &number) < 0 || number < 1 || number > 65535 ||
            (strcmp(kind, "tcp") != 0 && strcmp(kind, "udp") != 0))
            return err_code(err, ERR_INVALID, "bad_dockerfile",
                            "\"%.60s\" is no port: 8080, 53/udp", *words);
        (void)json_object_set_new(s->ports, port, json_object());
    }
    return 0;
}

static void set_command(struct stage *s, const struct build_step *step)
{
    char **argv =
        step->shell ? strv_add(strv_copy(s->shell), step->words[0]) : strv_copy(step->words);

    if (step->op == BUILD_CMD) {
        strv_free(s->cmd);
        s->cmd = argv;
        s->cmd_said = true;
        return;
    }
    strv_free(s->entrypoint);
    s->entrypoint = argv;
    if (!s->cmd_said) { /* that of the image below belongs to another program */
        strv_free(s->cmd);
        s->cmd = xcalloc(1, sizeof(*s->cmd));
    }
}

static void set_text(char **at, const char *value)
{
    free(*at);
    *at = xstrdup(value);
}

static int do_setting(struct build *b, struct stage *s, const struct build_step *step,
                      char *const *words, struct err *err)
{
    s->changed |= step->op != BUILD_ARG && step->op != BUILD_SHELL;
    switch (step->op) {
    case BUILD_ENV:
        return set_env(s, words, err);
    case BUILD_ARG:
        return set_arg(b, s, step, words);
    case BUILD_LABEL:
        for (size_t i = 0; words[i] && words[i + 1]; i += 2)
            (void)json_object_set_new(s->labels, words[i], json_string(words[i + 1]));
        return 0;
    case BUILD_WORKDIR:
        return set_workdir(s, words[0], err);
    case BUILD_USER:
        set_text(&s->user, words[0]);
        return 0;
    case BUILD_STOPSIGNAL:
        set_text(&s->stop_signal, words[0]);
        return 0;
    case BUILD_EXPOSE:
        return set_ports(s, words, err);
    case BUILD_SHELL:
        strv_free(s->shell);
        s->shell = strv_copy(words);
        return 0;
    case BUILD_CMD:
    case BUILD_ENTRYPOINT:
        set_command(s, step);
        return 0;
    case BUILD_FROM:
    case BUILD_COPY:
    case BUILD_ADD:
    case BUILD_WRITE:
    case BUILD_RUN:
        break;
    }
    return err_set(err, ERR_INTERNAL, "a step of a build is no setting");
}

/* ---- stages ---- */

/* As Docker does: the last of those before it, in capitals or not. */
static struct stage *find_named(const struct build *b, size_t before, const char *name)
{
    for (size_t i = before; i > 0; i--)
        if (b->stages[i - 1].name && strcasecmp(b->stages[i - 1].name, name) == 0)
            return &b->stages[i - 1];
    return NULL;
}

struct stage *build_stage_of(const struct build *b, size_t before, const char *word)
{
    struct stage *named = find_named(b, before, word);
    uint64_t number;

    if (named || str_u64(word, &number) < 0 || number >= before)
        return named;
    return &b->stages[number];
}

static int do_from(struct build *b, struct stage *s, const struct build_step *step,
                   const char *image, struct err *err)
{
    const struct stage *from = find_named(b, (size_t)(s - b->stages), image);
    auto_free char *platform = NULL;
    json_t *base = NULL;

    if (from) {
        if (count_bytes(b, stage_bytes(from), err) < 0)
            return -1;
        stage_copy(b->engine, s, from);
        return 0;
    }
    if (strcmp(image, "scratch") != 0) {
        if (step->platform && expand(b, step, step->platform, global_value, b, &platform, err) < 0)
            return -1;
        if (engine_build_base(b->engine, image, platform, b->watch, &base, err) < 0)
            return -1;
        s->image_id = xstrdup(json_string_value(json_object_get(base, "id")));
    }
    s->shown = xstrdup(image);
    stage_begin(s, base);
    json_decref(base);
    return 0;
}

static int do_step(struct build *b, struct stage *s, const struct build_step *step, bool *cached,
                   struct err *err)
{
    auto_strv char **words = NULL;

    if (step->op == BUILD_FROM) {
        auto_free char *image = NULL;

        if (expand(b, step, step->words[0], global_value, b, &image, err) < 0)
            return -1;
        return do_from(b, s, step, image, err);
    }
    if (step->op == BUILD_RUN)
        return build_command(b, s, step, cached, err);
    if (expand_all(b, s, step, &words, err) < 0)
        return -1;
    if (step->op == BUILD_COPY || step->op == BUILD_ADD)
        return build_copy(b, s, step, words, cached, err);
    if (step->op == BUILD_WRITE)
        return build_write(b, s, step, words, cached, err);
    return do_setting(b, s, step, words, err);
}

static bool makes_layer(const struct build_step *step)
{
    return step->op == BUILD_COPY || step->op == BUILD_ADD || step->op == BUILD_WRITE ||
           step->op == BUILD_RUN;
}

static int tell_and_do(struct build *b, struct stage *s, const struct build_step *step,
                       struct err *err)
{
    int64_t began = mono_ns();
    bool cached = false;

    b->step++;
    if (build_tell(b, step_event(b, s, step), err) < 0)
        return -1;
    if (do_step(b, s, step, &cached, err) < 0)
        return build_blame(b, step, err);
    b->all_cached &= cached || !makes_layer(step);
    return build_tell(b,
                      json_pack("{s:s, s:I, s:b, s:I}", "event", "stepDone", "step",
                                (json_int_t)b->step, "cached", (int)cached, "durationMs",
                                ms_since(began)),
                      err);
}

/* ---- which stages ---- */

/* The stage that a step belongs to begins with its FROM. */
static size_t count_stages(const struct build_plan *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++)
        n += p->steps[i].op == BUILD_FROM;
    return n;
}

static int find_target(const struct build *b, size_t *ret, struct err *err)
{
    const struct stage *target = &b->stages[b->n_stages - 1];

    if (b->req->target)
        target = build_stage_of(b, b->n_stages, b->req->target);
    if (!target)
        return err_code(err, ERR_INVALID, "no_stage", "there is no stage %.60s", b->req->target);
    *ret = (size_t)(target - b->stages);
    return 0;
}

/* The stage that a step of another one needs; NULL = none. */
static int find_need(const struct build *b, size_t here, const struct build_step *step,
                     const struct stage **ret, struct err *err)
{
    auto_free char *image = NULL;

    *ret = NULL;
    if (step->op == BUILD_COPY && step->from)
        *ret = build_stage_of(b, here, step->from);
    if (step->op != BUILD_FROM)
        return 0;
    if (expand(b, step, step->words[0], global_value, (void *)(uintptr_t)b, &image, err) < 0)
        return build_blame(b, step, err);
    *ret = find_named(b, here, image);
    return 0;
}

/* From the target backwards: what it names is needed too. */
static int find_needed(struct build *b, size_t target, bool *needed, struct err *err)
{
    const struct build_plan *p = b->req->plan;
    size_t stage = b->n_stages;

    needed[target] = true;
    for (size_t i = p->n; i > 0; i--) {
        const struct build_step *step = &p->steps[i - 1];
        const struct stage *need;
        size_t here;

        /* Steps come before the FROM of their stage when one walks back. */
        here = stage - 1;
        if (here < b->n_stages && needed[here]) {
            if (find_need(b, here, step, &need, err) < 0)
                return -1;
            if (need)
                needed[need - b->stages] = true;
            b->steps++;
        }
        if (step->op == BUILD_FROM)
            stage--;
    }
    return 0;
}

static int read_globals(struct build *b, struct err *err)
{
    const struct build_plan *p = b->req->plan;

    b->globals = platform_args();
    for (size_t i = 0; i < p->n && p->steps[i].op == BUILD_ARG; i++) {
        const struct build_step *step = &p->steps[i];
        const json_t *value = given(b, step->words[0]);
        auto_free char *text = NULL;

        if (value) {
            (void)json_object_set(b->globals, step->words[0], (json_t *)(uintptr_t)value);
        } else if (step->words[1]) {
            if (expand(b, step, step->words[1], global_value, b, &text, err) < 0)
                return build_blame(b, step, err);
            (void)json_object_set_new(b->globals, step->words[0], json_string(text));
        }
    }
    return 0;
}

static int name_stages(struct build *b, struct err *err)
{
    const struct build_plan *p = b->req->plan;
    size_t n = 0;

    b->n_stages = count_stages(p);
    if (b->n_stages == 0)
        return err_code(err, ERR_INVALID, "bad_dockerfile", "a build needs a FROM");
    b->stages = xcalloc(b->n_stages, sizeof(*b->stages));
    for (size_t i = 0; i < p->n; i++)
        if (p->steps[i].op == BUILD_FROM) {
            b->stages[n].name = p->steps[i].stage ? xstrdup(p->steps[i].stage) : NULL;
            n++;
        }
    return 0;
}

static int do_stages(struct build *b, const bool *needed, size_t target, struct err *err)
{
    const struct build_plan *p = b->req->plan;
    size_t stage = 0; /* counted from 1: 0 = before the first FROM */

    for (size_t i = 0; i < p->n; i++) {
        stage += p->steps[i].op == BUILD_FROM;
        if (stage == 0 || !needed[stage - 1])
            continue;
        if (stage - 1 > target)
            break;
        if (tell_and_do(b, &b->stages[stage - 1], &p->steps[i], err) < 0)
            return -1;
    }
    return build_settle(b, &b->stages[target], err);
}

/* ---- all of it ---- */

static json_t *result(const struct build *b, const struct stage *s, int64_t began)
{
    return json_pack("{s:s, s:s, s:b, s:I, s:I, s:I}", "imageId", s->image_id, "base", s->shown,
                     "cached", (int)b->all_cached, "steps", (json_int_t)b->steps, "durationMs",
                     ms_since(began), "size",
                     (json_int_t)engine_build_size(b->engine, s->image_id));
}

static void build_done(struct build *b)
{
    for (size_t i = 0; i < b->n_stages; i++)
        stage_done(b->engine, &b->stages[i]);
    free(b->stages);
    for (char **id = b->held; id && *id; id++)
        engine_image_let_go(b->engine, *id);
    strv_free(b->held);
    json_decref(b->globals);
}

static int build_plan(struct build *b, json_t **ret, struct err *err)
{
    auto_free bool *needed = NULL;
    int64_t began = mono_ns();
    size_t target = 0;

    if (name_stages(b, err) < 0 || read_globals(b, err) < 0 || find_target(b, &target, err) < 0)
        return -1;
    needed = xcalloc(b->n_stages, sizeof(*needed));
    if (find_needed(b, target, needed, err) < 0 || do_stages(b, needed, target, err) < 0)
        return -1;
    *ret = result(b, &b->stages[target], began);
    engine_image_hold(b->engine, b->stages[target].image_id);
    return 0;
}

int build_run(struct engine *e, const struct build_request *req, const struct engine_watch *watch,
              json_t **ret, struct err *err)
{
    struct build b = {.engine = e, .req = req, .watch = watch, .all_cached = true};
    int r = -1;

    id_new(b.id, BUILD_PREFIX);
    if (atomic_fetch_add(&builds, 1) >= BUILDS_MAX)
        (void)err_code(err, ERR_UNAVAILABLE, "busy",
                       "%d builds run already; try again when one is done", BUILDS_MAX);
    else
        r = build_plan(&b, ret, err);
    (void)atomic_fetch_sub(&builds, 1);
    build_done(&b);
    return r;
}
