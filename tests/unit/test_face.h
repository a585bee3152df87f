#pragma once

/* A face of the functions that is no server: a test calls a row by its id, in process, and finds
 * the answer in memory. Below it are the engine and the real agent; images are fake. */

#pragma GCC diagnostic ignored "-Wunused-function" /* no test needs all of it */

#include <sched.h>
#include <sys/mount.h>
#include <sys/pidfd.h>

#include "agent_runtime.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "engine/engine.h"
#include "fake_images.h"
#include "functions/error_codes.h"
#include "functions/function.h"
#include "functions/input.h"
#include "service/services.h"
#include "store/store.h"
#include "tmpdir.h"

/* ---- one call ---- */

struct face {
    struct sink sink; /* first: the sink's functions get it */
    struct call call;
    const struct function *function;
    struct err err;

    json_t *events, *items; /* what the sink was given */
    struct buf bytes[3];    /* by channel */
    int64_t size;           /* -1 = it was not told */
    unsigned pings;         /* events that are none */

    /* What a test wants. */
    unsigned takes; /* pieces, events and items; then the caller is gone */
    void (*on_event)(struct face *f, const json_t *event);
    void (*on_size)(struct face *f);
    const char *upload; /* what comes with the call, */
    size_t upload_len;
    bool upload_breaks; /* and whether it breaks off then */
};

#define UPLOAD_PIECE (128u << 10)

static struct engine *engine;
static struct services services;
static struct services_config services_config;
static char sandbox[ID_SIZE]; /* that calls name which do not say another */
static char exec_id[ID_SIZE], session_id[ID_SIZE], context_id[ID_SIZE];
static char job_id[ID_SIZE];

static const struct caller full_caller = {
    .face = "test", .scopes = SCOPES_ALL, .admin = true, .local = true};
static struct about about = {.prefix = "sandbox",
                             .runtime = "native",
                             .boundary = "none",
                             .proxy_scheme = "http",
                             .proxy_host = "localhost:3111"};

/* ---- the sink and the source ---- */

static int face_takes(struct face *f)
{
    if (f->takes == 0)
        return -1;
    f->takes--;
    return 0;
}

static int face_event(struct sink *sink, json_t *event)
{
    struct face *f = (struct face *)sink;

    if (!event) {
        f->pings++;
        return f->takes > 0 ? 0 : -1;
    }
    (void)json_array_append_new(f->events, event);
    if (f->on_event)
        f->on_event(f, event);
    return face_takes(f);
}

static int face_bytes(struct sink *sink, enum channel channel, const void *data, size_t len)
{
    struct face *f = (struct face *)sink;

    CHECK_INT(buf_add(&f->bytes[channel], data, len), 0);
    return face_takes(f);
}

static int face_size(struct sink *sink, uint64_t bytes, struct err *err)
{
    struct face *f = (struct face *)sink;

    (void)err;
    CHECK_INT(f->size, -1);
    CHECK_INT(f->bytes[CHANNEL_ANSWER].len, 0);
    f->size = (int64_t)bytes;
    if (f->on_size)
        f->on_size(f);
    return 0;
}

static int face_item(struct sink *sink, json_t *item)
{
    struct face *f = (struct face *)sink;

    (void)json_array_append_new(f->items, item);
    return face_takes(f);
}

static const struct sink_ops face_sink = {
    .event = face_event, .bytes = face_bytes, .size = face_size, .item = face_item};

static int face_upload(struct face *f)
{
    while (f->upload_len > 0) {
        size_t n = f->upload_len < UPLOAD_PIECE ? f->upload_len : UPLOAD_PIECE;

        if (call_take(&f->call, f->upload, n, &f->err) < 0)
            return -1;
        f->upload += n;
        f->upload_len -= n;
    }
    if (f->upload_breaks)
        return err_code(&f->err, ERR_CONFLICT, "cancelled", "the caller went away");
    return call_taken(&f->call, &f->err);
}

/* ---- input ---- */

static int same_id(const struct function *f, void *arg)
{
    const void **found = arg;

    if (strcmp(f->id, found[0]) != 0)
        return 0;
    found[1] = f;
    return 1;
}

/* Rows that have no route, which functions_each() does not tell of. */
static const struct function *const routeless[] = {iii_grep_functions, NULL};

static const struct function *row_of(const char *id)
{
    const void *found[2] = {id, NULL};

    for (const struct function *const *list = routeless; *list; list++)
        for (const struct function *f = *list; f->id; f++)
            if (same_id(f, found))
                return f;
    if (functions_each(same_id, found) == 0)
        TAP_FAIL("there is no function %s", id);
    return found[1];
}

static bool has_param(const struct function *f, const char *name)
{
    auto_free char *part = xasprintf("/:%s", name);
    const char *at = f->route ? strstr(f->route, part) : NULL;

    if (!f->route)
        return strcmp(name, "sandboxId") == 0;
    return at && strchr("/", at[strlen(part)]);
}

/* The parameters of the route are members of the input, as in a call without a path. */
static json_t *take_params(const struct function *f, json_t *in)
{
    json_t *params = json_object();

    for (const struct field *p = path_params; p->name; p++)
        if (has_param(f, p->name) && json_object_get(in, p->name))
            (void)json_object_set(params, p->name, json_object_get(in, p->name));
    if (has_param(f, "sandboxId") && !json_object_get(params, "sandboxId"))
        (void)json_object_set_new(params, "sandboxId", json_string(sandbox));
    if (has_param(f, "strayId") && !json_object_get(params, "strayId"))
        (void)json_object_set_new(params, "strayId", json_string(sandbox)); /* which is none */
    if (has_param(f, "execId") && !json_object_get(params, "execId"))
        (void)json_object_set_new(params, "execId", json_string(exec_id));
    if (has_param(f, "contextId") && !json_object_get(params, "contextId"))
        (void)json_object_set_new(params, "contextId", json_string(context_id));
    if (has_param(f, "sessionId") && !json_object_get(params, "sessionId"))
        (void)json_object_set_new(params, "sessionId", json_string(session_id));
    if (has_param(f, "jobId") && !json_object_get(params, "jobId"))
        (void)json_object_set_new(params, "jobId", json_string(job_id));
    if (has_param(f, "channelId") && !json_object_get(params, "channelId"))
        (void)json_object_set_new(params, "channelId", json_string("none"));
    return params;
}

/* ---- the call ---- */

/* Takes in. What the test wants is set between this and face_run(). */
static void face_init(struct face *f, const char *id, json_t *in)
{
    *f = (struct face){.sink = {&face_sink},
                       .function = row_of(id),
                       .events = json_array(),
                       .items = json_array(),
                       .size = -1,
                       .takes = UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(f->bytes); i++)
        buf_init(&f->bytes[i], 64 << 20);
    CHECK(in);
    if (!about.openapi)
        about.openapi = functions_openapi(about.prefix);
    f->call = (struct call){.engine = engine,
                            .services = &services,
                            .about = &about,
                            .caller = &full_caller,
                            .in = in,
                            .sink = &f->sink,
                            .gone_fd = -1};
    function_begin(f->function, &f->call);
}

static void face_text(struct face *f, const char *id, const char *in)
{
    face_init(f, id, json_loads(in, 0, NULL));
}

/* Input and the function itself: 0 or -1. What a task needs of the input it has copied. */
static int face_begin(struct face *f)
{
    json_t *params = take_params(f->function, f->call.in);
    int r = input_check(f->call.in, f->function->fields, params, &f->err);

    json_decref(params);
    if (f->upload)
        f->call.uploads = true;
    if (r == 0)
        r = function_run(f->function, &f->call, &f->err);
    if (r == 0 && f->upload)
        r = face_upload(f);
    if (r == 0 && f->call.task) {
        CHECK((f->function->flags & FUNCTION_WAITS) || f->call.key);
        json_decref(f->call.in);
        f->call.in = NULL;
    }
    return r;
}

static int face_run(struct face *f)
{
    return face_begin(f) < 0 ? -1 : call_wait(&f->call, 0, &f->err);
}

static void face_done(struct face *f)
{
    function_end(&f->call, f->err.text[0] ? -1 : 0, &f->err);
    call_done(&f->call);
    json_decref(f->events);
    json_decref(f->items);
    for (size_t i = 0; i < ARRAY_LEN(f->bytes); i++)
        buf_done(&f->bytes[i]);
}

static void face_succeeds(struct face *f)
{
    if (face_run(f) < 0)
        TAP_FAIL("%s: %s", f->function->id, f->err.text);
}

static const char *code_of(const struct face *f)
{
    return f->err.code ? f->err.code : err_kind_code(f->err.kind);
}

static void face_fails(struct face *f, const char *code)
{
    if (face_run(f) == 0)
        TAP_FAIL("%s does not fail", f->function->id);
    if (strcmp(code_of(f), code) != 0)
        TAP_FAIL("%s fails with %s (%s), not %s", f->function->id, code_of(f), f->err.text, code);
}

/* ---- the answer ---- */

/* A new object as the row's .gives has it; NULL where the answer is no JSON. */
static json_t *face_answer(struct face *f)
{
    const struct buf *bytes = &f->bytes[CHANNEL_ANSWER];
    auto_buf struct buf text = {0};

    buf_init(&text, 64 << 20);
    switch (f->function->answer) {
    case ANSWER_JSON:
    case ANSWER_ATTACH:
    case ANSWER_SOCKET:
        call_fold_texts(&f->call);
        return json_incref(f->call.out);
    case ANSWER_LIST:
        return json_incref(f->items);
    case ANSWER_TEXT:
        (void)utf8_clean(&text, bytes->data ? bytes->data : "", bytes->len);
        return json_stringn(text.data ? text.data : "", text.len);
    case ANSWER_BYTES:
        (void)base64_encode(&text, (const unsigned char *)bytes->data, bytes->len);
        return json_stringn(text.data ? text.data : "", text.len);
    case ANSWER_TAR:
    case ANSWER_CAST:
    case ANSWER_PROMETHEUS:
    case ANSWER_EVENTS:
    case ANSWER_DIAL:
        return NULL;
    }
    abort();
}

static void check_shape(const struct face *f, const struct shape *shape, const json_t *value)
{
    struct err err = {0};
    char *text;

    if (value && shape_check(shape, value, &err) == 0)
        return;
    text = json_dumps(value, JSON_ENCODE_ANY);
    TAP_FAIL("%s: %s in %s", f->function->id, err.text, text ? text : "nothing");
}

/* Is all that it gave what its row says? */
static void face_check(struct face *f)
{
    const struct function *row = f->function;
    json_t *answer = face_answer(f), *event;
    size_t i;

    if (row->gives)
        check_shape(f, row->gives, answer);
    else
        CHECK(!answer);
    json_array_foreach(f->events, i, event)
    {
        CHECK(row->events);
        check_shape(f, row->events, event);
    }
    if (row->flags & FUNCTION_EVENTS) { /* a face tells the end as an event too */
        event = json_pack("{s:s, s:O}", "event", row->done, row->key, answer);
        check_shape(f, row->events, event);
        json_decref(event);
    }
    if (row->answer == ANSWER_TAR)
        CHECK(f->bytes[CHANNEL_ANSWER].len > 0);
    if (row->answer == ANSWER_EVENTS)
        CHECK(json_array_size(f->events) > 0);
    json_decref(answer);
}

/* Calls and checks; the answer is a new one. */
static json_t *ask(const char *id, const char *in)
{
    struct face f;
    json_t *answer;

    face_text(&f, id, in);
    face_succeeds(&f);
    face_check(&f);
    answer = face_answer(&f);
    face_done(&f);
    return answer;
}

static void do_call(const char *id, const char *in)
{
    json_decref(ask(id, in));
}

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "(no string)";
}

static json_int_t num(const json_t *o, const char *key)
{
    CHECK(json_is_integer(json_object_get(o, key)));
    return json_integer_value(json_object_get(o, key));
}

/* ---- the engine ---- */

static struct store *store;
static char *data_dir;

/* The agent writes the sandbox's /etc, and that is the machine's here: the test gets one of its
 * own, with the users in it. */
static void own_etc(void)
{
    char users[65536], groups[65536];
    ssize_t n_users = read_file_at(-1, "/etc/passwd", users, sizeof(users));
    ssize_t n_groups = read_file_at(-1, "/etc/group", groups, sizeof(groups));
    int fd;

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(n_users > 0 && n_groups > 0);
    CHECK_INT(unshare(CLONE_NEWNS), 0);
    CHECK_INT(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    CHECK_INT(mount("none", "/etc", "tmpfs", 0, "mode=0755"), 0);
    CHECK((fd = open("/etc/passwd", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) >= 0);
    CHECK_INT(write_all(fd, users, (size_t)n_users), 0);
    close_fd(&fd);
    CHECK((fd = open("/etc/group", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) >= 0);
    CHECK_INT(write_all(fd, groups, (size_t)n_groups), 0);
    close_fd(&fd);
}

static void sandbox_new(const char *in)
{
    json_t *out = ask("sandbox::create", in);

    (void)snprintf(sandbox, sizeof(sandbox), "%s", str(out, "id"));
    json_decref(out);
}

/* What the operator allows; set before the engine is up. */
static const char *allowed_images = "*";
static bool may_install = true, only_short_names;
static enum pull_policy pull_policy;
static uint32_t run_stop_ms;

static void engine_up(void)
{
    struct engine_config config = {
        .default_image = "host",
        .default_timeout_s = 3600,
        .default_limits = {512, 1000, 256, 4096},
        .ceilings = {4096, 4000, 4096, 86400},
        .max_sandboxes = 8,
        .max_snapshots = 100,
        .max_templates = 3,
        .max_volumes = 100,
        .volume_delete_s = 30,
        .max_networks = 100,
        .default_volume_mb = 64,
        .allowed_images = allowed_images,
        .auto_install = may_install,
        .pull_policy = pull_policy,
        .image_strict = only_short_names,
        .workspace = rig.files,
        .max_command_s = 60,
        .sweep_s = 3600,
    };
    struct err err = {0};
    int rebuilt;

    own_etc();
    rig_start();
    fake_images_reset();
    data_dir = dir_new();
    config.data_dir = data_dir;
    services_config = (struct services_config){
        .data_dir = data_dir, .run_dir = data_dir, .events_max = 1000, .events_days = 7};
    services_config.traces_keep = 1000;
    services_config.usage_interval_s = 3600; /* tests look themselves */
    services_config.max_tokens = 1000;
    services_config.run_stop_ms = run_stop_ms;
    services_config.webhooks =
        (struct webhooks_config){.max = 8, .retry_ms = 1000, .retry_hours = 1};
    services_config.queue = (struct queue_config){4, 64, 100, 1000, 100, 7};
    services_config.audit_file_mb = 1;
    services_config.audit_files = 2;
    if (store_open(data_dir, &store, &rebuilt, &err) < 0 ||
        engine_new(&config, store, NULL, &rig_runtime, &engine, &err) < 0 ||
        services_open(&services, &services_config, engine, &err) < 0 ||
        engine_start(engine, &err) < 0 || services_start(&services, &err) < 0)
        TAP_FAIL("%s", err.text);
}

/* An engine with one sandbox. */
static void up(const char *create)
{
    engine_up();
    sandbox_new(create);
}

static void down(void)
{
    services_stop(&services);
    engine_stop(engine, true);
    services_close(&services);
    engine_free(engine);
    store_close(store);
    dir_remove(&data_dir);
    fake_volumes_remove();
    fake_images_reset();
}
