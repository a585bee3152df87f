#include <ctype.h>

#include "functions/iii.h"
#include "functions/iii_internal.h"
#include "functions/iii_shlex.h"
#include "functions/pipe.h"
#include "test_face.h"

/* The functions of the worker `iii-sandbox`, called by a face that has pipes in memory: answers are
 * what their rows say, and every failure has the code that clients of iii know. */

/* ---- pipes ---- */

struct fake_pipe {
    struct pipe pipe; /* first */
    struct fake_pipe *next;
    char name[32];
    int fd;
    struct buf data; /* written, or to be read */
    size_t at;       /* read so far */
    size_t room;     /* of a writer */
    bool over;       /* of a reader: the end comes after data; of a writer: nobody reads */
    bool lost;       /* of a reader: that end is none */
    bool closed;
    json_t *said;
    struct pipe_feed *feed;
};

static struct fake_pipe *pipes_list;

static void poke(struct fake_pipe *p)
{
    CHECK_INT(eventfd_write(p->fd, 1), 0);
}

static int fake_fd(struct pipe *base)
{
    return ((struct fake_pipe *)base)->fd;
}

static ssize_t fake_read(struct pipe *base, void *data, size_t len)
{
    struct fake_pipe *p = (struct fake_pipe *)base;
    size_t left = p->data.len - p->at, n = left < len ? left : len;

    if (n == 0)
        return p->lost ? PIPE_LOST : p->over ? -1 : 0;
    memcpy(data, p->data.data + p->at, n);
    p->at += n;
    return (ssize_t)n;
}

static int fake_write(struct pipe *base, const void *data, size_t len)
{
    struct fake_pipe *p = (struct fake_pipe *)base;
    eventfd_t count;

    CHECK(len <= PIPE_PIECE && !p->closed);
    if (p->over)
        return -1;
    if (p->room < len) {
        (void)eventfd_read(p->fd, &count);
        return 0;
    }
    p->room -= len;
    CHECK_INT(buf_add(&p->data, data, len), 0);
    return 1;
}

static int fake_say(struct pipe *base, const char *text)
{
    struct fake_pipe *p = (struct fake_pipe *)base;

    CHECK(!p->said);
    p->said = json_loads(text, 0, NULL);
    CHECK(p->said);
    return 1;
}

static void fake_close(struct pipe *base)
{
    struct fake_pipe *p = (struct fake_pipe *)base;

    CHECK(!p->closed);
    p->closed = true;
}

static const struct pipe_ops fake_pipe_ops = {
    .fd = fake_fd, .read = fake_read, .write = fake_write, .say = fake_say, .close = fake_close};

static struct fake_pipe *pipe_new(const char *name)
{
    struct fake_pipe *p = xcalloc(1, sizeof(*p));

    p->pipe.ops = &fake_pipe_ops;
    (void)snprintf(p->name, sizeof(p->name), "%s", name);
    p->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    buf_init(&p->data, 64 << 20);
    p->room = SIZE_MAX;
    p->next = pipes_list;
    pipes_list = p;
    return p;
}

static struct pipe *fake_open(struct pipes *all, const json_t *ref, bool writes, struct err *err)
{
    const char *direction = str(ref, "direction");

    (void)all;
    if (strcmp(direction, writes ? "write" : "read") != 0) {
        (void)err_code(err, ERR_INVALID, "bad_channel", "the other direction");
        return NULL;
    }
    for (struct fake_pipe *p = pipes_list; p; p = p->next)
        if (strcmp(p->name, str(ref, "channel_id")) == 0)
            return &p->pipe;
    (void)err_code(err, ERR_NOT_FOUND, "channel_not_found", "there is none");
    return NULL;
}

static struct pipe *fake_make(struct pipes *all, json_t **ret_ref, struct err *err)
{
    struct fake_pipe *p = pipe_new("made");

    (void)all, (void)err;
    *ret_ref =
        json_pack("{s:s, s:s, s:s}", "channel_id", "made", "access_key", "k", "direction", "read");
    return &p->pipe;
}

static void fake_feed(struct pipes *all, struct pipe *base, struct pipe_feed *feed)
{
    (void)all;
    ((struct fake_pipe *)base)->feed = feed;
}

static const struct pipes_ops fake_pipes_ops = {
    .open = fake_open, .make = fake_make, .feed = fake_feed};
static struct pipes fake_pipes = {&fake_pipes_ops};

/* As who reads it has room for so much. False when it was all. */
static bool feed_pipe(struct fake_pipe *p, size_t room)
{
    p->room = room;
    if (p->feed->fill(p->feed, &p->pipe) == 1)
        return true;
    p->feed->free(p->feed);
    p->feed = NULL;
    return false;
}

static void pipes_done(void)
{
    while (pipes_list) {
        struct fake_pipe *p = pipes_list;

        pipes_list = p->next;
        if (p->feed)
            p->feed->free(p->feed);
        json_decref(p->said);
        buf_done(&p->data);
        (void)close(p->fd);
        free(p);
    }
}

#define WRITER(name) "{\"channel_id\":\"" name "\",\"access_key\":\"k\",\"direction\":\"write\"}"
#define READER(name) "{\"channel_id\":\"" name "\",\"access_key\":\"k\",\"direction\":\"read\"}"

/* ---- calls ---- */

static struct iii_settings settings = III_SETTINGS_DEFAULT;
static char uuid[UUID_SIZE]; /* of the sandbox that calls are about */

/* Takes in, to which the sandbox is added if it is not there. */
static void begin(struct face *f, const char *id, json_t *in)
{
    const struct function *row = iii_function(id);

    if (!row)
        TAP_FAIL("there is no function %s of iii", id);
    face_init(f, "sandbox::list", in); /* any row of the table: this one is in place of it */
    f->function = row;
    about.iii = &settings;
    f->call.pipes = &fake_pipes;
    if (json_is_object(in) && uuid[0] && !json_object_get(in, "sandbox_id"))
        (void)json_object_set_new(in, "sandbox_id", json_string(uuid));
    function_begin(row, &f->call);
}

static void begin_text(struct face *f, const char *id, const char *in)
{
    begin(f, id, json_loads(in, JSON_DECODE_ANY, NULL));
}

static int start(struct face *f)
{
    int r = iii_input(f->function, f->call.in, &f->err);

    if (r == 0)
        r = function_run(f->function, &f->call, &f->err);
    if (r == 0 && f->call.task) {
        CHECK(f->function->flags & FUNCTION_WAITS);
        json_decref(f->call.in);
        f->call.in = NULL;
    }
    return r;
}

static int run(struct face *f)
{
    return start(f) < 0 ? -1 : call_wait(&f->call, 0, &f->err);
}

static json_t *give(struct face *f)
{
    json_t *out;

    if (run(f) < 0)
        TAP_FAIL("%s: %s (%s)", f->function->id, f->err.text, code_of(f));
    face_check(f);
    out = json_deep_copy(f->call.out);
    face_done(f);
    return out;
}

static json_t *call_json(const char *id, json_t *in)
{
    struct face f;

    begin(&f, id, in);
    return give(&f);
}

static json_t *call(const char *id, const char *in)
{
    return call_json(id, json_loads(in, 0, NULL));
}

static bool row_names(const struct function *row, const char *code)
{
    const struct error_code *known = error_code_find(code, strlen(code));
    size_t len = strlen(code);

    if (!known)
        return false;
    for (const char *p = row->errors; p && (p = strstr(p, code)); p += len)
        if ((p == row->errors || p[-1] == ' ') && strchr(" ", p[len]))
            return true;
    return known->general;
}

/* How it fails: the object in the text; NULL when that is none. */
static json_t *failure(struct face *f)
{
    auto_free char *text = NULL;
    json_t *o;

    if (run(f) == 0)
        TAP_FAIL("%s does not fail", f->function->id);
    if (!row_names(f->function, code_of(f)))
        TAP_FAIL("%s fails with %s (%s), which is not in its row", f->function->id, code_of(f),
                 f->err.text);
    text = iii_error_text(&f->err, f->function->id, f->call.out);
    o = str_starts(text, "handler error: {") ? json_loads(text + 15, 0, NULL) : NULL;
    face_done(f);
    return o;
}

static json_t *fails_json(const char *id, json_t *in, const char *code)
{
    struct face f;
    json_t *o;

    begin(&f, id, in);
    o = failure(&f);
    if (!o || strcmp(str(o, "code"), code) != 0)
        TAP_FAIL("%s fails with %s (%s), not with %s", id, str(o, "code"), str(o, "message"), code);
    return o;
}

static void fails(const char *id, const char *in, const char *code)
{
    json_decref(fails_json(id, json_loads(in, 0, NULL), code));
}

static void says(const char *id, const char *in, const char *code, const char *message)
{
    json_t *o = fails_json(id, json_loads(in, 0, NULL), code);

    CHECK_STR(str(o, "message"), message);
    json_decref(o);
}

/* With a path below the rig's files. */
static json_t *at(const char *name, const char *rest)
{
    auto_free char *text =
        xasprintf("{\"path\": \"%s\"%s%s}", in_files(name), *rest ? ", " : "", rest);
    json_t *in = json_loads(text, 0, NULL);

    CHECK(in);
    return in;
}

static void put(const char *name, const char *text)
{
    json_t *in = at(name, "\"parents\": true");

    (void)json_object_set_new(in, "content", json_string(text));
    json_decref(call_json("sandbox::fs::write", in));
}

static void make_box(const char *create_in)
{
    json_t *out = call("sandbox::create", create_in);

    (void)snprintf(uuid, sizeof(uuid), "%s", str(out, "sandbox_id"));
    CHECK_INT(iii_id_of_uuid(uuid, sandbox, NULL), 0);
    json_decref(out);
}

static void up_with(const char *create_in)
{
    engine_up();
    make_box(create_in);
}

static void up_iii(void)
{
    up_with("{\"image\": \"host\"}");
}

static void down_iii(void)
{
    pipes_done();
    down();
}

/* ---- ids ---- */

TEST(an_id_becomes_a_uuid_and_back)
{
    char id[ID_SIZE], text[UUID_SIZE], back[ID_SIZE], other[64];

    for (int i = 0; i < 1000; i++) {
        id_new(id, "sbx");
        iii_uuid_of_id(id, text);
        CHECK_INT(strlen(text), 36);
        CHECK(text[14] == '4' && strchr("89ab", text[19]));
        CHECK_INT(iii_id_of_uuid(text, back, NULL), 0);
        CHECK_STR(back, id);
    }
    snprintf(other, sizeof(other), "{%s}", text);
    CHECK_INT(iii_id_of_uuid(other, back, NULL), 0);
    CHECK_STR(back, id);
    snprintf(other, sizeof(other), "urn:uuid:%s", text);
    for (char *p = other; *p; p++)
        *p = (char)toupper(*p);
    CHECK_INT(iii_id_of_uuid(other, back, NULL), 0);
    CHECK_STR(back, id);
}

TEST(a_uuid_of_somebody_else_is_no_sandbox_of_ours)
{
    static const char *const foreign[] = {
        "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "3f6d2c1a-0b9e-4c7d-8a51-2e4f6a8c0b1d", "3f6d2c1a-0b9e-1c7d-8a51-2e4f6a8c0b1d",
        "3f6d2c1a0b9e4c7d8a512e4f6a8c0b1d",
    };
    static const char *const bad[] = {
        "",
        "x",
        "sbx_000000000000000000000000",
        "3f6d2c1a-0b9e-4c7d-8a51-2e4f6a8c0b1",
        "3f6d2c1a-0b9e-4c7d-8a51-2e4f6a8c0b1g",
        "3f6d2c1a00b9e-4c7d-8a51-2e4f6a8c0b1d",
        "{3f6d2c1a-0b9e-4c7d-8a51-2e4f6a8c0b1d",
        "urn:uuid:",
        "3f6d2c1a-0b9e-4c7d-8a51-2e4f6a8c0b1d ",
    };
    char id[ID_SIZE], text[UUID_SIZE];
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
        CHECK_INT(iii_id_of_uuid(foreign[i], id, &err), -1);
        CHECK_STR(err.code, "sandbox_not_found");
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK_INT(iii_id_of_uuid(bad[i], id, &err), -1);
        CHECK_STR(err.code, "bad_uuid");
    }
    id_new(id, "sbx");
    iii_uuid_of_id(id, text);
    text[0] = text[0] == '0' ? '1' : '0';
    CHECK_INT(iii_id_of_uuid(text, id, &err), -1);
    CHECK_STR(err.code, "sandbox_not_found");
}

/* ---- lines ---- */

TEST(a_line_is_split_as_a_shell_does)
{
    static const struct {
        const char *line, *words; /* each in brackets; NULL = it cannot be split */
    } cases[] = {
        {"", ""},
        {" \t\n", ""},
        {"a b", "[a][b]"},
        {"  a   b  ", "[a][b]"},
        {"a\nb\tc", "[a][b][c]"},
        {"'a b' c", "[a b][c]"},
        {"\"a b\" c", "[a b][c]"},
        {"a'b'\"c\"d", "[abcd]"},
        {"''", "[]"},
        {"\"\" ''", "[][]"},
        {"a\\ b", "[a b]"},
        {"\\a", "[a]"},
        {"'a\\'", "[a\\]"},
        {"\"a\\\"b\"", "[a\"b]"},
        {"\"\\$\\`\\\\\"", "[$`\\]"},
        {"\"\\n\"", "[\\n]"},
        {"a\\\nb", "[ab]"},
        {"\"a\\\nb\"", "[ab]"},
        {"a # b\nc", "[a][c]"},
        {"#a", ""},
        {"a#b", "[a#b]"},
        {"'#' a", "[#][a]"},
        {"echo $HOME | `x` > y", "[echo][$HOME][|][`x`][>][y]"},
        {"'", NULL},
        {"\"", NULL},
        {"a \"b", NULL},
        {"a\\", NULL},
        {"\"\\", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_strv char **words = NULL;
        char text[256] = "";
        int r = shlex_split(cases[i].line, &words);

        CHECK_INT(r, cases[i].words ? 0 : -EINVAL);
        for (char **w = words; w && *w; w++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "[%s]", *w);
        CHECK_STR(text, cases[i].words ? cases[i].words : "");
    }
}

/* ---- the list ---- */

static int check_row(const struct function *row, void *count)
{
    CHECK(row->scope != SCOPE_NONE && row->reach != REACH_UNSAID && row->help && row->gives);
    CHECK(!row->route && !row->method && !row->tool);
    CHECK(iii_function(row->id) == row);
    for (const char *p = row->errors; p && *p;) {
        size_t len = strcspn(p, " ");

        if (!error_code_find(p, len))
            TAP_FAIL("%s names %.*s, which is no code", row->id, (int)len, p);
        p += len + strspn(p + len, " ");
    }
    ++*(unsigned *)count;
    return 0;
}

TEST(every_row_says_what_it_is)
{
    static const char *const ids[] = {
        "sandbox::create",   "sandbox::exec",          "sandbox::stop",         "sandbox::list",
        "sandbox::run",      "sandbox::catalog::list", "sandbox::exec::cancel", "sandbox::fs::ls",
        "sandbox::fs::stat", "sandbox::fs::mkdir",     "sandbox::fs::write",    "sandbox::fs::read",
        "sandbox::fs::rm",   "sandbox::fs::chmod",     "sandbox::fs::mv",
    };
    unsigned count = 0;

    CHECK_INT(iii_functions_each(check_row, &count), 0);
    CHECK(count >= ARRAY_LEN(ids));
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        CHECK(iii_function(ids[i]));
    CHECK(!iii_function("sandbox::get") && !iii_function(""));
}

/* ---- payloads ---- */

TEST(a_payload_of_another_form_is_told_without_a_code)
{
    static const struct {
        const char *id, *in, *text;
    } cases[] = {
        {"sandbox::create", "null", "invalid type: null, expected a map"},
        {"sandbox::create", "[]", "invalid type: sequence, expected a map"},
        {"sandbox::create", "{}", "missing field `image`"},
        {"sandbox::create", "{\"image\": 5}", "invalid type: integer `5`, expected a string"},
        {"sandbox::create", "{\"image\": null}", "invalid type: null, expected a string"},
        {"sandbox::create", "{\"image\": \"a\", \"cpus\": \"x\"}",
         "invalid type: string \"x\", expected u32"},
        {"sandbox::create", "{\"image\": \"a\", \"cpus\": -1}",
         "invalid value: integer `-1`, expected u32"},
        {"sandbox::create", "{\"image\": \"a\", \"network\": 1}",
         "invalid type: integer `1`, expected a boolean, a string or a map"},
        {"sandbox::create", "{\"image\": \"a\", \"env\": true}",
         "invalid type: boolean `true`, expected a sequence or a map"},
        {"sandbox::create", "{\"image\": \"a\", \"env\": [1]}",
         "invalid type: integer `1`, expected a string"},
        {"sandbox::create", "{\"image\": \"a\", \"env\": {\"A\": 1.5}}",
         "invalid type: floating point `1.5`, expected a string"},
        {"sandbox::exec", "{\"cmd\": \"a\"}", "missing field `sandbox_id`"},
        {"sandbox::exec", "{\"sandbox_id\": \"x\", \"args\": [1]}",
         "invalid type: integer `1`, expected a string"},
        {"sandbox::fs::ls", "{\"sandbox_id\": \"x\", \"path\": {}}",
         "invalid type: map, expected a string"},
        {"sandbox::run", "{\"image\": \"a\", \"code\": \"\", \"lang\": \"sh\", \"files\": [{}]}",
         "files[0].path is required"},
    };

    engine_up();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *text = NULL, *want = xasprintf("serialization error: %s", cases[i].text);
        struct face f;

        begin_text(&f, cases[i].id, cases[i].in);
        CHECK_INT(run(&f), -1);
        CHECK_STR(code_of(&f), "bad_payload");
        text = iii_error_text(&f.err, f.function->id, f.call.out);
        if (!str_starts(text, want))
            TAP_FAIL("\"%s\" does not begin with \"%s\"", text, want);
        face_done(&f);
    }
    down();
}

TEST(keys_that_nobody_knows_are_ignored)
{
    json_t *out;

    up_with("{\"image\": \"host\", \"_caller_worker_id\": \"w\", \"sandboxId\": 5}");
    out = call("sandbox::exec",
               "{\"cmd\": \"true\", \"_caller_worker_id\": \"w\", \"sandboxId\": \"none\"}");
    CHECK(json_is_true(json_object_get(out, "success")));
    json_decref(out);
    down_iii();
}

/* ---- errors ---- */

static json_t *told(enum err_kind kind, const char *code, const char *text)
{
    struct err err = {0};
    auto_free char *all = NULL;
    json_t *o;

    (void)err_code(&err, kind, code, "%s", text);
    all = iii_error_text(&err, "sandbox::exec", NULL);
    CHECK(str_starts(all, "handler error: {"));
    o = json_loads(all + 15, 0, NULL);
    CHECK(o && json_object_size(o) == 7);
    return o;
}

TEST(a_failure_is_told_as_clients_know_it)
{
    static const struct {
        enum err_kind kind;
        const char *code, *iii, *type;
        bool retryable;
    } cases[] = {
        {ERR_INVALID, "bad_uuid", "S001", "validation", false},
        {ERR_NOT_FOUND, "sandbox_not_found", "S002", "validation", false},
        {ERR_LIMIT, "exec_slots_full", "S003", "validation", false},
        {ERR_CONFLICT, "sandbox_not_running", "S004", "validation", false},
        {ERR_NOT_FOUND, "sandbox_removed", "S004", "validation", false},
        {ERR_NOT_FOUND, "sandbox_expired", "S004", "validation", false},
        {ERR_FORBIDDEN, "image_not_allowed", "S100", "config", false},
        {ERR_NOT_FOUND, "image_not_installed", "S101", "internal", false},
        {ERR_UNAVAILABLE, "image_pull_failed", "S102", "transient", true},
        {ERR_NOT_FOUND, "image_not_found", "S102", "transient", true},
        {ERR_NOT_FOUND, "bad_image", "S100", "config", false},
        {ERR_TIMEOUT, "command_timeout", "S200", "execution", false},
        {ERR_INVALID, "bad_fs_request", "S210", "filesystem", false},
        {ERR_NOT_FOUND, "file_not_found", "S211", "filesystem", false},
        {ERR_INVALID, "not_a_directory", "S212", "filesystem", false},
        {ERR_CONFLICT, "file_exists", "S213", "filesystem", false},
        {ERR_CONFLICT, "directory_not_empty", "S214", "filesystem", false},
        {ERR_FORBIDDEN, "permission_denied", "S215", "filesystem", false},
        {ERR_LIMIT, "no_space", "S216", "filesystem", false},
        {ERR_UNAVAILABLE, "no_space", "S300", "platform", false},
        {ERR_INVALID, "bad_regex", "S217", "filesystem", false},
        {ERR_TIMEOUT, "stream_stalled", "S218", "transient", true},
        {ERR_CONFLICT, "stream_lost", "S218", "transient", true},
        {ERR_UNSUPPORTED, "agent_too_old", "S219", "filesystem", false},
        {ERR_INTERNAL, NULL, "S300", "platform", false},
        {ERR_UNAVAILABLE, "agent_timeout", "S300", "platform", true},
        {ERR_LIMIT, "sandbox_limit", "S400", "config", false},
        {ERR_FORBIDDEN, "image_cap_exceeded", "S400", "config", false},
        {ERR_INVALID, NULL, "S001", "validation", false},
        {ERR_UNSUPPORTED, "network_unsupported", "S300", "platform", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *o = told(cases[i].kind, cases[i].code, "why");
        auto_free char *url = xasprintf("/sandbox_daemon/README.md#%s", cases[i].iii);

        CHECK_STR(str(o, "code"), cases[i].iii);
        CHECK_STR(str(o, "type"), cases[i].type);
        CHECK_INT(json_is_true(json_object_get(o, "retryable")), cases[i].retryable);
        CHECK(str_ends(str(o, "docs_url"), url));
        CHECK(json_is_null(json_object_get(o, "fix")));
        CHECK(json_object_get(o, "fix_note"));
        json_decref(o);
    }
}

TEST(a_failure_tells_nothing_of_the_host_and_ids_as_uuids)
{
    char want[128], text[UUID_SIZE];
    json_t *o = told(ERR_INTERNAL, NULL, "open /var/lib/cay/secret: no");

    CHECK(!strstr(str(o, "message"), "/var"));
    json_decref(o);
    o = told(ERR_NOT_FOUND, "sandbox_not_found",
             "Sandbox not found: sbx_0123456789abcdef01234567, sbx_ or sbx_x");
    iii_uuid_of_id("sbx_0123456789abcdef01234567", text);
    snprintf(want, sizeof(want), "Sandbox not found: %s, sbx_ or sbx_x", text);
    CHECK_STR(str(o, "message"), want);
    json_decref(o);
}

/* ---- sandboxes ---- */

TEST(a_sandbox_is_made_listed_and_stopped)
{
    auto_free char *message = NULL;
    json_t *out, *one;
    char id[ID_SIZE];

    up_with("{\"image\": \"host\", \"name\": \"label\", \"cpus\": 2, \"memory_mb\": 256, "
            "\"idle_timeout_secs\": 60, \"env\": [\"A=b=c\", \"dropped\", \"=x\"]}");
    out = call("sandbox::list", "{}");
    CHECK_INT(json_array_size(json_object_get(out, "sandboxes")), 1);
    one = json_array_get(json_object_get(out, "sandboxes"), 0);
    CHECK_STR(str(one, "sandbox_id"), uuid);
    CHECK_STR(str(one, "name"), "label");
    CHECK_STR(str(one, "image"), "host");
    CHECK_INT(json_number_value(json_object_get(one, "cpus")), 2);
    CHECK_INT(num(one, "memory_mb"), 256);
    CHECK_INT(num(one, "idle_timeout_secs"), 60);
    CHECK_INT(num(one, "exec_slots_free"), 4);
    CHECK(json_is_false(json_object_get(one, "network")));
    CHECK(num(one, "last_activity") >= num(one, "created_at"));
    json_decref(out);
    out = ask("sandbox::get", "{}");
    one = json_object_get(out, "config");
    CHECK(json_is_true(json_object_get(one, "idleRemoves")));
    CHECK_INT(num(one, "timeout"), 86400); /* the most that there is */
    CHECK_STR(str(json_object_get(one, "env"), "A"), "b=c");
    CHECK_INT(json_object_size(json_object_get(one, "env")), 1);
    json_decref(out);
    out = call("sandbox::stop", "{\"wait\": true}");
    CHECK_STR(str(out, "sandbox_id"), uuid);
    json_decref(out);
    CHECK_INT(iii_id_of_uuid(uuid, id, NULL), 0);
    CHECK(!engine_has(engine, id));
    fails("sandbox::stop", "{}", "S002");
    fails("sandbox::exec", "{\"cmd\": \"true\"}", "S004");
    fails("sandbox::fs::ls", "{\"path\": \"/\"}", "S004");
    message = xasprintf("sandbox is stopped: %s was removed just now", uuid);
    says("sandbox::exec", "{\"cmd\": \"true\"}", "S004", message);
    out = call("sandbox::list", "{}");
    CHECK_INT(json_array_size(json_object_get(out, "sandboxes")), 0);
    json_decref(out);
    down_iii();
}

TEST(sandboxes_made_over_rest_are_there_and_stopped_ones_are_not)
{
    json_t *out;

    up("{\"image\": \"host\"}");
    iii_uuid_of_id(sandbox, uuid);
    out = call("sandbox::list", "{}");
    CHECK_STR(str(json_array_get(json_object_get(out, "sandboxes"), 0), "sandbox_id"), uuid);
    CHECK(json_is_null(
        json_object_get(json_array_get(json_object_get(out, "sandboxes"), 0), "name")));
    json_decref(out);
    json_decref(call("sandbox::exec", "{\"cmd\": \"true\"}"));
    do_call("sandbox::stop", "{}");
    fails("sandbox::exec", "{\"cmd\": \"true\"}", "S004");
    out = call("sandbox::list", "{}");
    CHECK_INT(json_array_size(json_object_get(out, "sandboxes")), 0);
    json_decref(out);
    down_iii();
}

TEST(ids_that_are_none_or_nobodys_are_told_apart)
{
    engine_up();
    fails("sandbox::exec", "{\"sandbox_id\": \"x\", \"cmd\": \"true\"}", "S001");
    fails("sandbox::stop", "{\"sandbox_id\": \"sbx_000000000000000000000000\"}", "S001");
    fails("sandbox::fs::ls",
          "{\"sandbox_id\": \"3f6d2c1a-0b9e-4c7d-8a51-2e4f6a8c0b1d\", \"path\": \"/\"}", "S002");
    iii_uuid_of_id("sbx_000000000000000000000000", uuid);
    fails("sandbox::fs::ls", "{\"path\": \"/\"}", "S002");
    down_iii();
}

TEST(a_create_is_refused_for_its_image_or_for_lack_of_room)
{
    allowed_images = "py,far*";
    may_install = false;
    engine_up();
    fails("sandbox::create", "{\"image\": \"other\"}", "S100");
    fails("sandbox::create", "{\"image\": \"far:1\"}", "S101");
    fails("sandbox::create", "{\"image\": \"py\", \"env\": {\"A B\": \"c\"}}", "S001");
    settings.sandboxes_max = 1;
    json_decref(call("sandbox::create", "{\"image\": \"py\"}"));
    fails("sandbox::create", "{\"image\": \"other\"}", "S400");
    fails("sandbox::run", "{\"image\": \"py\", \"code\": \"\", \"lang\": \"sh\"}", "S400");
    down_iii();
}

TEST(an_image_that_may_not_be_pulled_is_not_installed)
{
    pull_policy = PULL_NEVER;
    engine_up();
    says("sandbox::create", "{\"image\": \"far:1\"}", "S101",
         "image far:1 is not on this machine and is not pulled: run `cay image pull far:1` "
         "(CAY_PULL_POLICY)");
    fails("sandbox::create", "{\"image\": \"\"}", "S100");
    fails("sandbox::run", "{\"image\": \"far:1\", \"code\": \"\", \"lang\": \"sh\"}", "S101");
    down_iii();
}

TEST(a_limit_is_told_with_the_place_where_it_is_set)
{
    struct face f;

    allowed_images = "py,far*";
    may_install = false;
    settings.sources[III_LIMIT_IMAGES] = "III_ALLOWED_IMAGES";
    settings.sources[III_LIMIT_INSTALL] = "/etc/cay/config.yaml:3: auto_install";
    settings.sources[III_LIMIT_SANDBOXES] = "config.yaml:7: max_concurrent_sandboxes";
    settings.sources[III_LIMIT_EXECS] = "config.yaml:8: max_concurrent_exec_per_sandbox";
    settings.sources[III_LIMIT_EXEC_MS] = "config.yaml:9: max_exec_timeout_ms";
    settings.execs_max = settings.sandboxes_max = 1;
    settings.exec_ms_max = 50;
    engine_up();
    says("sandbox::create", "{\"image\": \"other\"}", "S100",
         "Image not allowed: other (III_ALLOWED_IMAGES)");
    says("sandbox::create", "{\"image\": \"far:1\"}", "S101",
         "image far:1 is not on this machine and is not pulled without being asked: run `cay image "
         "pull far:1` (config.yaml:3: auto_install)");
    make_box("{\"image\": \"py\"}");
    says("sandbox::create", "{\"image\": \"py\"}", "S400",
         "the limit on live sandboxes is reached: 1 (config.yaml:7: max_concurrent_sandboxes)");
    says("sandbox::exec", "{\"cmd\": \"sleep 1000\"}", "S200",
         "exec timed out after 50ms, which is the limit (config.yaml:9: max_exec_timeout_ms)");
    settings.exec_ms_max = 100000;
    begin_text(&f, "sandbox::exec", "{\"cmd\": \"sleep 1000\"}");
    CHECK_INT(start(&f), 0);
    says("sandbox::exec", "{\"cmd\": \"true\"}", "S003",
         "the limit on commands at once in this sandbox is reached: 1 (config.yaml:8: "
         "max_concurrent_exec_per_sandbox)");
    face_done(&f);
    down_iii();
}

TEST(a_pull_that_fails_may_be_tried_again)
{
    json_t *o;

    engine_up();
    fake_images.failure = ERR_UNAVAILABLE;
    o = fails_json("sandbox::create", json_pack("{s:s}", "image", "far:1"), "S102");
    CHECK(json_is_true(json_object_get(o, "retryable")));
    json_decref(o);
    down_iii();
}

TEST(the_catalog_is_what_the_daemon_has)
{
    json_t *out, *images;

    engine_up();
    out = call("sandbox::catalog::list", "{}");
    images = json_object_get(out, "images");
    CHECK(json_array_size(images) > 0);
    CHECK_STR(str(json_array_get(images, 0), "kind"), "preset");
    json_decref(out);
    down_iii();
}

/* ---- commands ---- */

static json_t *exec_of(const char *in)
{
    return call("sandbox::exec", in);
}

TEST(a_command_is_said_in_three_ways)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"{\"argv\": [\"echo\", \"a  b\"]}", "a  b\n"},
        {"{\"cmd\": \"echo 'a  b' $X\"}", "a  b $X\n"},
        {"{\"cmd\": \"echo\", \"args\": [\"a\", \"b c\"]}", "a b c\n"},
        {"{\"cmd\": \"echo\", \"args\": [], \"argv\": []}", "\n"},
        {"{\"cmd\": \"pwd\"}", "/\n"},
        {"{\"cmd\": \"pwd\", \"workdir\": \"/usr\"}", "/usr\n"},
        {"{\"cmd\": \"cat\", \"stdin\": \"aGk=\"}", "hi"},
        {"{\"cmd\": \"cat\", \"stdin\": \"\"}", ""},
        {"{\"cmd\": \"cat\"}", ""},
        {"{\"argv\": [\"sh\", \"-c\", \"echo $A$B\"], \"env\": {\"A\": \"1\"}}", "1made\n"},
        {"{\"argv\": [\"sh\", \"-c\", \"echo $A$B\"], \"env\": [\"A=1\", \"B=2\"]}", "12\n"},
        {"{\"cmd\": \"id -u\"}", "0\n"},
    };
    static const char *const bad[] = {
        "{}",
        "{\"argv\": []}",
        "{\"argv\": [\"\"]}",
        "{\"cmd\": \"\"}",
        "{\"cmd\": \"  \"}",
        "{\"cmd\": \"a\", \"argv\": [\"b\"]}",
        "{\"args\": [\"a\"], \"argv\": [\"b\"]}",
        "{\"cmd\": \"a b\", \"args\": [\"c\"]}",
        "{\"cmd\": \"a 'b\"}",
        "{\"cmd\": \"cat\", \"stdin\": \"%\"}",
        "{\"cmd\": \"cat\", \"env\": {\"1\": \"\"}}",
        "{\"cmd\": \"cat\", \"exec_id\": \"mine\"}",
        "{\"cmd\": \"cat\", \"stdout\": \"text\"}",
        "{\"cmd\": \"cat\", \"stdout\": " READER("none") "}",
    };

    up_with("{\"image\": \"host\", \"env\": {\"B\": \"made\"}}");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *out = exec_of(cases[i].in);

        CHECK_STR(str(out, "stdout"), cases[i].out);
        CHECK_INT(num(out, "exit_code"), 0);
        CHECK(json_is_true(json_object_get(out, "success")));
        CHECK(json_is_false(json_object_get(out, "truncated")));
        CHECK(str_starts(str(out, "exec_id"), "ex_"));
        json_decref(out);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        fails("sandbox::exec", bad[i], "S001");
    down_iii();
}

TEST(a_command_that_fails_is_an_answer)
{
    static const struct {
        const char *in;
        int exit_code;
    } cases[] = {
        {"{\"argv\": [\"sh\", \"-c\", \"exit 3\"]}", 3},
        {"{\"argv\": [\"sh\", \"-c\", \"kill -9 $$\"]}", 137},
        {"{\"cmd\": \"no-such-program\"}", 127},
        {"{\"cmd\": \"/etc/passwd/x\"}", 127},
        {"{\"cmd\": \"/etc/passwd\"}", 126},
        {"{\"cmd\": \"true\", \"workdir\": \"/no/such\"}", 127},
    };

    up_iii();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *out = exec_of(cases[i].in);

        CHECK_INT(num(out, "exit_code"), cases[i].exit_code);
        CHECK(json_is_false(json_object_get(out, "success")));
        CHECK(json_is_false(json_object_get(out, "timed_out")));
        if (cases[i].exit_code == 126 || cases[i].exit_code == 127)
            CHECK(str_ends(str(out, "stderr"), "\n"));
        json_decref(out);
    }
    down_iii();
}

TEST(a_command_past_its_time_is_an_error)
{
    json_t *o;

    up_iii();
    o = fails_json("sandbox::exec", json_pack("{s:s, s:i}", "cmd", "sleep 1000", "timeout_ms", 40),
                   "S200");
    CHECK_STR(str(o, "message"), "exec timed out after 40ms");
    json_decref(o);
    settings.exec_ms_max = 50;
    o = fails_json("sandbox::exec", json_pack("{s:s}", "cmd", "sleep 1000"), "S200");
    CHECK_STR(str(o, "message"), "exec timed out after 50ms, which is the limit (CAY_III_EXEC_MS)");
    json_decref(o);
    settings.exec_ms_max = 300000;
    settings.exec_ms = 60;
    o = fails_json("sandbox::exec", json_pack("{s:s}", "cmd", "sleep 1000"), "S200");
    CHECK_STR(str(o, "message"), "exec timed out after 60ms, which is the limit "
                                 "(CAY_III_EXEC_TIMEOUT; timeout_ms sets another)");
    json_decref(o);
    down_iii();
}

/* A command that writes so many times a text to each stream, of which so many bytes are told. The
 * whole answer must be one that every client takes. */
static void check_output(const char *out, unsigned outs, const char *errors, unsigned n_errors,
                         size_t want_out, size_t want_errors)
{
    auto_free char *script =
        xasprintf("yes '%s' | head -n %u | tr -d '\\n'; yes '%s' | head -n %u | "
                  "tr -d '\\n' >&2",
                  out, outs, errors, n_errors);
    json_t *o = call_json("sandbox::exec", json_pack("{s:[s, s, s]}", "argv", "sh", "-c", script));
    bool cut_out = want_out < strlen(out) * outs,
         cut_errors = want_errors < strlen(errors) * n_errors;

    CHECK_INT(json_string_length(json_object_get(o, "stdout")), want_out);
    CHECK_INT(json_string_length(json_object_get(o, "stderr")), want_errors);
    CHECK_INT(json_is_true(json_object_get(o, "stdout_truncated")), cut_out);
    CHECK_INT(json_is_true(json_object_get(o, "stderr_truncated")), cut_errors);
    CHECK_INT(json_is_true(json_object_get(o, "truncated")), cut_out || cut_errors);
    CHECK(json_dumpb(o, NULL, 0, JSON_COMPACT) < (1u << 20) - (60u << 10));
    json_decref(o);
}

TEST(output_is_cut_where_an_answer_ends_and_says_so)
{
    const size_t max = III_ANSWER_MAX;
    json_t *o;

    up_iii();
    check_output("aaaaaaaa", 120000, "x", 1, 960000, 1);
    check_output("aaaaaaaa", 150000, "xxxxxxxx", 3, max - 24, 24);
    check_output("xxxxxxxx", 3, "aaaaaaaa", 150000, 24, max - 24);
    check_output("aaaaaaaa", 150000, "bbbbbbbb", 150000, max / 2, max / 2);
    check_output("aaaaaaaa", 150000, "bbbbbbbb", 50000, max - 400000, 400000);
    /* As JSON each is six bytes long. */
    check_output("\x01\x01\x01\x01", 200000, "\x02\x02", 400000, max / 12, max / 12);
    check_output("\x01\x01\x01\x01", 200000, "", 0, max / 6, 0);
    /* Of a character of three bytes one would be past the end. */
    check_output("\xe2\x82\xac", 400000, "a", 1, (max - 1) / 3 * 3, 1);
    o = exec_of("{\"argv\": [\"sh\", \"-c\", \"printf '\\\\377' >&2\"]}");
    CHECK_STR(str(o, "stderr"), "\xef\xbf\xbd");
    CHECK(json_is_false(json_object_get(o, "truncated")));
    json_decref(o);
    down_iii();
}

static uint32_t in_flight(void)
{
    json_t *out = call("sandbox::list", "{}");
    uint32_t n =
        (uint32_t)num(json_array_get(json_object_get(out, "sandboxes"), 0), "exec_in_flight");

    json_decref(out);
    return n;
}

TEST(only_so_many_commands_run_at_once)
{
    struct face f[2];

    up_iii();
    settings.execs_max = 2;
    for (size_t i = 0; i < ARRAY_LEN(f); i++) {
        begin_text(&f[i], "sandbox::exec", "{\"cmd\": \"sleep 1000\"}");
        CHECK_INT(start(&f[i]), 0);
    }
    CHECK_INT(in_flight(), 2);
    fails("sandbox::exec", "{\"cmd\": \"true\"}", "S003");
    face_done(&f[0]); /* its caller has gone */
    CHECK_INT(in_flight(), 1);
    json_decref(exec_of("{\"cmd\": \"true\"}"));
    face_done(&f[1]);
    CHECK_INT(in_flight(), 0);
    fails("sandbox::exec", "{\"cmd\": \"a 'b\"}", "S001");
    CHECK_INT(in_flight(), 0);
    down_iii();
}

static const char *state_of(const char *id)
{
    static char text[32];
    json_t *out = NULL;

    (void)snprintf(exec_id, sizeof(exec_id), "%s", id);
    out = ask("cmd::get", "{}");
    (void)snprintf(text, sizeof(text), "%s",
                   json_is_true(json_object_get(out, "running")) ? "running" : str(out, "reason"));
    json_decref(out);
    return text;
}

#define MINE "ex_0123456789abcdef01234567"

/* A command under that id that does not end, once the agent keeps it: its caller waits for it. */
static void begin_endless(struct face *f, bool detach)
{
    bool runs = false;

    begin(f, "sandbox::exec",
          json_pack("{s:s, s:s, s:b}", "cmd", "sleep 1000", "exec_id", MINE, "detach", detach));
    CHECK_INT(start(f), 0);
    (void)snprintf(exec_id, sizeof(exec_id), MINE);
    for (int i = 0; !runs; i++) {
        struct face look;

        CHECK(i < 1200);
        CHECK(call_wait(&f->call, mono_ns() + 50000000, &f->err) > 0);
        face_init(&look, "cmd::get", json_object());
        runs = face_run(&look) == 0 && json_is_true(json_object_get(look.call.out, "running"));
        face_done(&look);
    }
}

TEST(a_command_ends_with_its_caller_unless_it_is_detached)
{
    for (int detach = 0; detach < 2; detach++) {
        struct face f;

        if (!detach)
            up_iii();
        begin_endless(&f, detach);
        face_done(&f);
        for (int i = 0; !detach && strcmp(state_of(MINE), "running") == 0; i++) {
            CHECK(i < 6000);
            (void)poll(NULL, 0, 5);
        }
        CHECK_STR(state_of(MINE), detach ? "running" : "cancelled");
        if (detach)
            json_decref(call("sandbox::exec::cancel", "{\"exec_id\": \"" MINE "\"}"));
    }
    down_iii();
}

TEST(a_command_is_cancelled_by_its_id)
{
    struct face f;
    json_t *out;

    up_iii();
    begin_endless(&f, false);
    fails("sandbox::exec", "{\"cmd\": \"true\", \"exec_id\": \"" MINE "\"}", "S001");
    out = call("sandbox::exec::cancel", "{\"exec_id\": \"" MINE "\"}");
    CHECK_STR(str(out, "exec_id"), MINE);
    json_decref(out);
    CHECK_INT(call_wait(&f.call, 0, &f.err), 0);
    CHECK(num(f.call.out, "exit_code") != 0);
    face_done(&f);
    fails("sandbox::exec::cancel", "{\"exec_id\": \"ex_000000000000000000000000\"}", "S002");
    fails("sandbox::exec::cancel", "{\"exec_id\": \"none\"}", "S002");
    down_iii();
}

TEST(output_goes_over_channels_as_it_comes)
{
    struct fake_pipe *p;
    struct face f;
    json_t *out;

    up_iii();
    p = pipe_new("out");
    begin_text(
        &f, "sandbox::exec",
        "{\"argv\": [\"sh\", \"-c\", \"echo one; read x <&- ; head -c 300000 /dev/zero; echo "
        "err >&2\"], \"stdout\": " WRITER("out") "}");
    p->room = 100000;
    CHECK_INT(start(&f), 0);
    for (int i = 0; p->data.len <= 4; i++) {
        CHECK(i < 6000);
        CHECK(call_wait(&f.call, mono_ns() + 10000000, &f.err) > 0);
    }
    CHECK(call_wait(&f.call, mono_ns() + 300000000, &f.err) > 0);
    CHECK(p->data.len > 4 && p->data.len <= 100000);
    CHECK(memcmp(p->data.data, "one\n", 4) == 0);
    p->room = SIZE_MAX;
    poke(p);
    CHECK_INT(call_wait(&f.call, 0, &f.err), 0);
    face_check(&f);
    out = f.call.out;
    CHECK_INT(p->data.len, 300004);
    CHECK(p->closed);
    CHECK_STR(str(out, "stdout"), "");
    CHECK_STR(str(out, "stderr"), "err\n");
    CHECK(json_is_false(json_object_get(out, "truncated")));
    face_done(&f);
    down_iii();
}

TEST(a_channel_that_nobody_reads_holds_no_command_up)
{
    struct fake_pipe *p, *q;
    json_t *out;

    up_iii();
    p = pipe_new("out");
    q = pipe_new("err");
    p->over = true;
    out = exec_of("{\"argv\": [\"sh\", \"-c\", \"head -c 300000 /dev/zero; echo err >&2\"], "
                  "\"stdout\": " WRITER("out") ", \"stderr\": " WRITER("err") "}");
    CHECK_INT(num(out, "exit_code"), 0);
    CHECK_STR(q->data.data, "err\n");
    json_decref(out);
    CHECK(p->closed && q->closed);
    p = pipe_new("more");
    out = exec_of("{\"cmd\": \"no-such-program\", \"stderr\": " WRITER("more") "}");
    CHECK_INT(num(out, "exit_code"), 127);
    json_decref(out);
    CHECK(p->closed);
    down_iii();
}

/* ---- files ---- */

TEST(paths_are_shown_as_they_are)
{
    json_t *out, *one;

    up_iii();
    put("d/file", "hello");
    CHECK_INT(symlink("d", in_files("link")), 0);
    out = call_json("sandbox::fs::ls", at("d", ""));
    one = json_array_get(json_object_get(out, "entries"), 0);
    CHECK_STR(str(one, "name"), "file");
    CHECK_STR(str(one, "mode"), "0644");
    CHECK_INT(num(one, "size"), 5);
    CHECK(num(one, "mtime") > 1600000000 && num(one, "mtime") < 10000000000);
    json_decref(out);
    out = call_json("sandbox::fs::stat", at("link", ""));
    CHECK_STR(str(out, "name"), "link");
    CHECK(json_is_true(json_object_get(out, "is_symlink")));
    CHECK(json_is_false(json_object_get(out, "is_dir")));
    json_decref(out);
    out = call("sandbox::fs::stat", "{\"path\": \"/\"}");
    CHECK_STR(str(out, "name"), "/");
    CHECK(json_is_true(json_object_get(out, "is_dir")));
    json_decref(out);
    json_decref(call("sandbox::fs::ls", "{\"path\": \"usr\"}")); /* from the root */
    json_decref(fails_json("sandbox::fs::ls", at("none", ""), "S211"));
    json_decref(fails_json("sandbox::fs::ls", at("link", ""), "S212"));
    json_decref(fails_json("sandbox::fs::ls", at("d/file", ""), "S212"));
    json_decref(fails_json("sandbox::fs::stat", at("none", ""), "S211"));
    fails("sandbox::fs::stat", "{\"path\": \"\"}", "S210");
    fails("sandbox::fs::stat", "{\"path\": \"/a/../b\"}", "S210");
    down_iii();
}

static json_t *pair(const char *src, const char *dst, bool overwrite)
{
    return json_pack("{s:s, s:s, s:b}", "src", in_files(src), "dst", in_files(dst), "overwrite",
                     overwrite);
}

TEST(changes_tell_what_is_in_the_way)
{
    json_t *o;

    up_iii();
    o = call_json("sandbox::fs::mkdir", at("d", "\"mode\": \"0700\""));
    CHECK(json_is_true(json_object_get(o, "created")));
    json_decref(o);
    json_decref(fails_json("sandbox::fs::mkdir", at("d", ""), "S213"));
    o = call_json("sandbox::fs::mkdir", at("d", "\"parents\": true"));
    CHECK(json_is_false(json_object_get(o, "created")));
    json_decref(o);
    o = fails_json("sandbox::fs::mkdir", at("no/d", ""), "S211");
    CHECK(json_is_true(json_object_get(json_object_get(o, "fix"), "parents")));
    json_decref(o);
    json_decref(fails_json("sandbox::fs::mkdir", at("x", "\"mode\": \"9\""), "S210"));
    json_decref(fails_json("sandbox::fs::mkdir", at("x", "\"mode\": \"777777\""), "S210"));
    put("d/file", "a");
    json_decref(fails_json("sandbox::fs::rm", at("d", ""), "S214"));
    json_decref(fails_json("sandbox::fs::rm", at("none", ""), "S211"));
    o = call_json("sandbox::fs::chmod",
                  at("d", "\"mode\": \"0711\", \"recursive\": true, \"uid\": 7"));
    CHECK_INT(num(o, "updated"), 2);
    json_decref(o);
    json_decref(fails_json("sandbox::fs::chmod", at("d", "\"mode\": \"u+x\""), "S210"));
    json_decref(fails_json("sandbox::fs::chmod", at("none", "\"mode\": \"0644\""), "S211"));
    put("other", "b");
    json_decref(fails_json("sandbox::fs::mv", pair("other", "d/file", false), "S213"));
    json_decref(fails_json("sandbox::fs::mv", pair("none", "x", false), "S211"));
    json_decref(call_json("sandbox::fs::mv", pair("other", "d/file", true)));
    json_decref(call_json("sandbox::fs::rm", at("d", "\"recursive\": true")));
    json_decref(fails_json("sandbox::fs::stat", at("d", ""), "S211"));
    down_iii();
}

static json_t *read_name(const char *name)
{
    return call_json("sandbox::fs::read", at(name, ""));
}

TEST(a_file_is_written_and_read)
{
    json_t *o;

    up_iii();
    o = call_json("sandbox::fs::write",
                  at("f", "\"content\": \"h\\u00e9llo\", \"mode\": \"0600\""));
    CHECK_INT(num(o, "bytes_written"), 6);
    CHECK_STR(str(o, "path"), in_files("f"));
    json_decref(o);
    o = read_name("f");
    CHECK_STR(str(o, "body"), "h\xc3\xa9llo");
    CHECK_INT(num(o, "size"), 6);
    CHECK_STR(str(o, "mode"), "0600");
    CHECK_STR(str(json_object_get(o, "content"), "direction"), "read");
    json_decref(o);
    CHECK(!feed_pipe(pipes_list, SIZE_MAX));
    CHECK_STR(pipes_list->data.data, "h\xc3\xa9llo");
    json_decref(call_json("sandbox::fs::write", at("f", "\"content_b64\": \"AP8=\"")));
    o = read_name("f");
    CHECK(!json_object_get(o, "body"));
    CHECK_STR(str(o, "mode"), "0644");
    json_decref(o);
    json_decref(call_json("sandbox::fs::write", at("f", "\"content\": \"\"")));
    o = read_name("f");
    CHECK_STR(str(o, "body"), "");
    json_decref(o);
    json_decref(fails_json("sandbox::fs::write", at("f", ""), "S001"));
    json_decref(fails_json("sandbox::fs::write",
                           at("f", "\"content\": \"a\", \"content_b64\": \"YQ==\""), "S001"));
    json_decref(fails_json("sandbox::fs::write", at("f", "\"content_b64\": \"%\""), "S001"));
    json_decref(fails_json("sandbox::fs::write", at("f", "\"content\": 5"), "S001"));
    json_decref(
        fails_json("sandbox::fs::write", at("f", "\"content\": \"\", \"mode\": \"x\""), "S210"));
    o = fails_json("sandbox::fs::write", at("no/f", "\"content\": \"\""), "S211");
    CHECK(json_is_true(json_object_get(json_object_get(o, "fix"), "parents")));
    CHECK(json_is_string(json_object_get(o, "fix_note")));
    json_decref(o);
    json_decref(fails_json("sandbox::fs::read", at("none", ""), "S211"));
    json_decref(fails_json("sandbox::fs::read", at("", ""), "S212"));
    CHECK_INT(mkfifo(in_files("fifo"), 0600), 0);
    json_decref(fails_json("sandbox::fs::read", at("fifo", ""), "S212"));
    down_iii();
}

TEST(a_long_file_comes_over_its_channel_only)
{
    auto_free char *text = xcalloc(1, 3 << 20);
    struct fake_pipe *p;
    json_t *o;

    up_iii();
    memset(text, 'a', (3 << 20) - 1);
    put("f", text);
    o = read_name("f");
    CHECK(!json_object_get(o, "body"));
    CHECK_INT(num(o, "size"), (3 << 20) - 1);
    json_decref(o);
    p = pipes_list;
    CHECK(feed_pipe(p, 100000)); /* who reads has no room for more */
    CHECK(p->data.len > 0 && p->data.len <= 100000);
    CHECK(feed_pipe(p, 1000000));
    CHECK(!feed_pipe(p, SIZE_MAX));
    CHECK_INT(p->data.len, (3 << 20) - 1);
    CHECK(!p->said);
    o = read_name("f");
    json_decref(o);
    put("f", "changed");
    CHECK(!feed_pipe(pipes_list, SIZE_MAX));
    CHECK_INT(pipes_list->data.len, 0);
    CHECK(str_starts(str(pipes_list->said, "error"), "the file has changed"));
    o = read_name("f");
    json_decref(o);
    json_decref(call_json("sandbox::fs::rm", at("f", "")));
    CHECK(!feed_pipe(pipes_list, SIZE_MAX));
    CHECK(str(pipes_list->said, "error"));
    o = call("sandbox::fs::read", "{\"path\": \"/proc/self/stat\"}");
    CHECK(num(o, "size") > 0);
    json_decref(o);
    CHECK(!feed_pipe(pipes_list, SIZE_MAX));
    CHECK(pipes_list->data.len > 0);
    down_iii();
}

TEST(a_file_that_is_too_long_as_json_is_in_no_answer)
{
    auto_free char *text = xcalloc(1, 1 << 20);
    json_t *o;

    up_iii();
    memset(text, 'a', III_ANSWER_MAX);
    put("f", text);
    o = read_name("f");
    CHECK_INT(json_string_length(json_object_get(o, "body")), III_ANSWER_MAX);
    CHECK(json_dumpb(o, NULL, 0, JSON_COMPACT) < (1u << 20) - (60u << 10));
    json_decref(o);
    text[7] = '\n';
    put("f", text);
    o = read_name("f");
    CHECK(!json_object_get(o, "body"));
    CHECK_INT(num(o, "size"), III_ANSWER_MAX);
    json_decref(o);
    CHECK(!feed_pipe(pipes_list, SIZE_MAX));
    CHECK_INT(pipes_list->data.len, III_ANSWER_MAX);
    down_iii();
}

TEST(without_channels_only_the_answer_has_the_file)
{
    struct face f;
    json_t *o;

    up_iii();
    put("f", "text");
    begin(&f, "sandbox::fs::read", at("f", ""));
    f.call.pipes = NULL;
    o = give(&f);
    CHECK(json_is_null(json_object_get(o, "content")));
    CHECK_STR(str(o, "body"), "text");
    json_decref(o);
    begin(&f, "sandbox::fs::write", at("f", "\"content\": " READER("in")));
    f.call.pipes = NULL;
    o = failure(&f);
    CHECK_STR(str(o, "code"), "S001");
    json_decref(o);
    down_iii();
}

TEST(a_file_is_written_from_a_channel_when_all_of_it_has_come)
{
    struct fake_pipe *p;
    struct face f;
    json_t *o;

    up_iii();
    put("f", "old");
    p = pipe_new("in");
    begin(&f, "sandbox::fs::write", at("f", "\"content\": " READER("in")));
    CHECK_INT(buf_add_str(&p->data, "new "), 0);
    CHECK_INT(start(&f), 0);
    CHECK_INT(call_wait(&f.call, mono_ns() + 200000000, &f.err) > 0, 1);
    o = read_name("f");
    CHECK_STR(str(o, "body"), "old");
    json_decref(o);
    CHECK_INT(buf_add_str(&p->data, "text"), 0);
    p->over = true;
    poke(p);
    CHECK_INT(call_wait(&f.call, 0, &f.err), 0);
    face_check(&f);
    CHECK_INT(num(f.call.out, "bytes_written"), 8);
    face_done(&f);
    CHECK(p->closed);
    o = read_name("f");
    CHECK_STR(str(o, "body"), "new text");
    json_decref(o);
    /* Its caller goes: the file stays as it is. */
    p = pipe_new("gone");
    begin(&f, "sandbox::fs::write", at("f", "\"content\": " READER("gone")));
    CHECK_INT(buf_add_str(&p->data, "half"), 0);
    CHECK_INT(start(&f), 0);
    CHECK_INT(call_wait(&f.call, mono_ns() + 100000000, &f.err) > 0, 1);
    face_done(&f);
    CHECK(p->closed);
    o = read_name("f");
    CHECK_STR(str(o, "body"), "new text");
    json_decref(o);
    /* Who writes goes before the end: so does it then. */
    p = pipe_new("lost");
    p->lost = true;
    CHECK_INT(buf_add_str(&p->data, "half"), 0);
    json_decref(fails_json("sandbox::fs::write", at("f", "\"content\": " READER("lost")), "S218"));
    o = read_name("f");
    CHECK_STR(str(o, "body"), "new text");
    json_decref(o);
    json_decref(fails_json("sandbox::fs::write", at("f", "\"content\": " READER("none")), "S218"));
    json_decref(fails_json("sandbox::fs::write", at("f", "\"content\": " WRITER("in")), "S001"));
    p = pipe_new("late");
    p->over = true;
    o = fails_json("sandbox::fs::write", at("no/f", "\"content\": " READER("late")), "S211");
    CHECK(json_is_true(json_object_get(json_object_get(o, "fix"), "parents")));
    json_decref(o);
    down_iii();
}

static void end_read_only(void)
{
    (void)umount2(in_files("ro"), MNT_DETACH);
}

/* A folder that nothing can be written to. It ends before the rig does, which removes its place. */
static const char *read_only(void)
{
    const char *path = in_files("ro");

    CHECK_INT(mkdir(path, 0755), 0);
    CHECK_INT(mount("none", path, "tmpfs", MS_RDONLY, NULL), 0);
    (void)atexit(end_read_only);
    return path;
}

TEST(the_rest_of_what_goes_wrong_with_files)
{
    up_iii();
    rig_lost = true; /* the agent hangs up */
    json_decref(fails_json("sandbox::fs::stat", at("f", ""), "S300"));
    json_decref(fails_json("sandbox::exec", json_pack("{s:s}", "cmd", "true"), "S300"));
    rig_lost = false;
    (void)read_only();
    json_decref(fails_json("sandbox::fs::write", at("ro/f", "\"content\": \"\""), "S215"));
    json_decref(fails_json("sandbox::fs::mkdir", at("ro/d", ""), "S215"));
    json_decref(
        fails_json("sandbox::fs::rm", at("ro", "\"recursive\": true"), "S216")); /* a mount */
    down_iii();
}

/* ---- run ---- */

static size_t sandboxes(void)
{
    json_t *out = call("sandbox::list", "{}");
    size_t n = json_array_size(json_object_get(out, "sandboxes"));

    json_decref(out);
    return n;
}

TEST(code_runs_in_a_sandbox_of_its_own)
{
    json_t *o, *fix;

    engine_up();
    o = call("sandbox::run",
             "{\"image\": \"host\", \"lang\": \"sh\", \"code\": \"cat; echo $A; exit "
             "3\", \"stdin\": \"aGk=\", \"env\": [\"A=b\"]}");
    CHECK_STR(str(o, "stdout"), "hib\n");
    CHECK_INT(num(o, "exit_code"), 3);
    CHECK(!json_object_get(o, "sandbox_id"));
    json_decref(o);
    CHECK_INT(sandboxes(), 0);
    o = call("sandbox::run", "{\"image\": \"host\", \"lang\": \"cat\", \"code\": \"itself\", "
                             "\"keep_sandbox\": true}");
    CHECK_STR(str(o, "stdout"), "itself");
    CHECK_INT(strlen(str(o, "sandbox_id")), 36);
    (void)snprintf(uuid, sizeof(uuid), "%s", str(o, "sandbox_id"));
    json_decref(o);
    CHECK_INT(sandboxes(), 1);
    json_decref(call("sandbox::stop", "{}"));
    uuid[0] = '\0';
    o = fails_json("sandbox::run",
                   json_pack("{s:s, s:s, s:s, s:i}", "image", "host", "lang", "sh", "code",
                             "sleep 1000", "timeout_ms", 100),
                   "S200");
    fix = json_object_get(o, "fix");
    CHECK_STR(str(fix, "context"), "exec");
    CHECK_STR(str(fix, "inner_code"), "S200");
    CHECK_INT(strlen(str(fix, "sandbox_id")), 36);
    json_decref(o);
    CHECK_INT(sandboxes(), 0);
    o = fails_json("sandbox::run",
                   json_pack("{s:s, s:s, s:s, s:[{s:o, s:s}]}", "image", "host", "lang", "sh",
                             "code", "", "files", "path", json_sprintf("%s/f", read_only()),
                             "content", ""),
                   "S215");
    CHECK_STR(str(json_object_get(o, "fix"), "context"), "write files");
    json_decref(o);
    CHECK_INT(sandboxes(), 0);
    fake_images.failure = ERR_UNAVAILABLE;
    o = fails_json("sandbox::run",
                   json_pack("{s:s, s:s, s:s}", "image", "far:1", "lang", "sh", "code", ""),
                   "S102");
    fix = json_object_get(o, "fix");
    CHECK_STR(str(fix, "context"), "create");
    CHECK_STR(str(fix, "sandbox_id"), "");
    json_decref(o);
    (void)unlink("/tmp/run.sh");
    (void)unlink("/tmp/run.txt");
    down_iii();
}

TEST(code_needs_the_scope_of_commands_too)
{
    struct caller caller = full_caller;
    struct face f;

    engine_up();
    caller.scopes = 1u << SCOPE_WRITE;
    begin_text(&f, "sandbox::run", "{\"image\": \"host\", \"lang\": \"sh\", \"code\": \"\"}");
    f.call.caller = &caller;
    CHECK_INT(run(&f), -1);
    CHECK_STR(code_of(&f), "scope_missing");
    face_done(&f);
    CHECK_INT(sandboxes(), 0);
    down_iii();
}

TEST(a_run_whose_caller_goes_leaves_no_sandbox)
{
    struct face f;

    engine_up();
    begin_text(&f, "sandbox::run",
               "{\"image\": \"host\", \"lang\": \"sh\", \"code\": \"sleep 1000\"}");
    CHECK_INT(start(&f), 0);
    CHECK_INT(sandboxes(), 1);
    face_done(&f);
    CHECK_INT(sandboxes(), 0);
    (void)unlink("/tmp/run.sh");
    down_iii();
}

/* ---- who may ---- */

TEST(a_token_for_one_sandbox_reaches_that_one_only)
{
    struct caller caller = full_caller;
    char other[UUID_SIZE];
    struct face f;
    json_t *out;

    up_iii();
    (void)snprintf(other, sizeof(other), "%s", uuid);
    out = call("sandbox::create", "{\"image\": \"host\"}");
    (void)snprintf(uuid, sizeof(uuid), "%s", str(out, "sandbox_id"));
    json_decref(out);
    CHECK_INT(iii_id_of_uuid(uuid, caller.sandbox_id, NULL), 0);
    begin_text(&f, "sandbox::list", "{}");
    f.call.caller = &caller;
    out = give(&f);
    CHECK_INT(json_array_size(json_object_get(out, "sandboxes")), 1);
    json_decref(out);
    begin(&f, "sandbox::stop", json_pack("{s:s}", "sandbox_id", other));
    f.call.caller = &caller;
    out = failure(&f);
    CHECK_STR(str(out, "code"), "S002");
    json_decref(out);
    begin_text(&f, "sandbox::create", "{\"image\": \"host\"}");
    f.call.caller = &caller;
    out = failure(&f);
    CHECK_STR(str(out, "code"), "S001");
    json_decref(out);
    down_iii();
}

TAP_MAIN
