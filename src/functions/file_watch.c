#include "engine/file_watch.h"

#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/file_paths.h"
#include "functions/functions_internal.h"
#include "service/events.h"
#include "service/services.h"

#define IGNORES_MAX   64
#define PUBLISHED_MAX 100 /* events a second: the rest of that second is one */

/* ---- what was asked for ---- */

static const char *const change_words[] = {"create", "write", "remove", "rename", "chmod", NULL};
static const unsigned change_bits[] = {FILE_CREATED, FILE_WRITTEN, FILE_REMOVED, FILE_RENAMED,
                                       FILE_CHMODED};

static unsigned take_changes(const struct call *call)
{
    const json_t *list = json_object_get(call->in, "events");
    unsigned changes = 0;

    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t k = 0; change_words[k]; k++)
            if (strcmp(change_words[k], json_string_value(json_array_get(list, i))) == 0)
                changes |= change_bits[k];
    return changes ? changes : FILE_CREATED | FILE_WRITTEN | FILE_REMOVED | FILE_RENAMED;
}

static int check_ignore(char *const *ignore, struct err *err)
{
    size_t n = 0;

    for (; ignore && ignore[n]; n++)
        if (!glob_valid(ignore[n]))
            return err_set(err, ERR_INVALID,
                           "ignore has globs of names, such as node_modules or *.tmp");
    if (n > IGNORES_MAX)
        return err_set(err, ERR_INVALID, "ignore must have at most %d globs", IGNORES_MAX);
    return 0;
}

/* What is published is kept and sent to others: that is more than reading. */
static int check_publish(const struct call *call, struct err *err)
{
    if (!in_bool(call, "publish"))
        return 0;
    if (!(call->caller->scopes & 1u << SCOPE_EXEC))
        return err_code(err, ERR_FORBIDDEN, "scope_missing",
                        "publish needs a token with the scope \"exec\"");
    if (!call->services || !call->services->events)
        return err_set(err, ERR_UNSUPPORTED, "there are no events here");
    return 0;
}

/* ---- the stream ---- */

struct watch_task {
    struct task task; /* first */
    struct file_watch *watch;
    char id[ID_SIZE];
    bool ready, publish;
    int64_t second_ns;  /* when the second of what follows is over */
    unsigned published; /* in it, */
    unsigned passed;    /* and not */
};

static void watch_free(struct task *task)
{
    struct watch_task *t = (struct watch_task *)task;

    file_watch_close(t->watch);
    free(t);
}

static void publish(struct watch_task *t, const struct call *call, const json_t *change)
{
    const char *type = json_string_value(json_object_get(change, "type"));
    int64_t now = mono_ns();

    if (!t->publish || strcmp(type, "ready") == 0)
        return;
    if (now >= t->second_ns) {
        if (t->passed > 0)
            events_publish(call->services->events, "file.changed", t->id,
                           json_pack("{s:s, s:i}", "type", "overflow", "lost", (int)t->passed));
        t->published = t->passed = 0;
        t->second_ns = now + 1000000000ll;
    }
    if (t->published >= PUBLISHED_MAX) {
        t->passed++;
        return;
    }
    t->published++;
    events_publish(call->services->events, "file.changed", t->id, json_deep_copy(change));
}

static int tell_end(struct call *call, const char *reason, struct err *err)
{
    json_t *end = json_pack("{s:s, s:s, s:I}", "type", "end", "reason", reason, "timestamp",
                            (json_int_t)now_ms());

    return sink_event(call, end, err) < 0 ? -1 : TASK_DONE;
}

static int pass_change(struct watch_task *t, struct call *call, json_t *change, struct err *err)
{
    t->ready = true;
    publish(t, call, change);
    return sink_event(call, change, err) < 0 ? -1 : TASK_AGAIN;
}

/* What fails before it was ready is a failure of the call; later it is its end. */
static int watch_step(struct task *task, struct call *call, struct err *err)
{
    struct watch_task *t = (struct watch_task *)task;
    struct err why = {0};
    json_t *change = NULL;
    int r = file_watch_next(t->watch, &change, &why);

    if (r == FILE_WATCH_CHANGE)
        return pass_change(t, call, change, err);
    if (r == FILE_WATCH_ENDED)
        return tell_end(call, "the path is gone", err);
    if (r < 0 && t->ready)
        return tell_end(call, why.text, err);
    if (r < 0) {
        *err = why;
        return -1;
    }
    if (call->draining)
        return tell_end(call, "cay is stopping; watch again when it runs", err);
    /* Not before it is ready: what is said to the caller begins the answer. */
    return t->ready && sink_event(call, NULL, err) < 0 ? -1 : TASK_WAITS;
}

static const struct task_ops watch_ops = {.step = watch_step, .free = watch_free};

static int watch(struct call *call, struct err *err)
{
    auto_strv char **ignore = in_strings(call, "ignore");
    struct file_watch_request req = {
        .recursive = in_bool(call, "recursive"), .changes = take_changes(call), .ignore = ignore};
    struct file_watch *w;
    struct watch_task *t;

    if (file_take_paths(call, err) < 0 || check_ignore(ignore, err) < 0 ||
        check_publish(call, err) < 0)
        return -1;
    req.path = file_in_path(call, "path");
    if (engine_file_watch(call->engine, in_id(call), &req, &w, err) < 0)
        return -1;
    t = xcalloc(1, sizeof(*t));
    t->task = (struct task){.ops = &watch_ops,
                            .fd = file_watch_fd(w),
                            .events = EPOLLIN,
                            .takes_input = true,
                            .drops_input = true};
    t->watch = w;
    t->publish = in_bool(call, "publish");
    (void)snprintf(t->id, sizeof(t->id), "%s", in_id(call));
    call->task = &t->task;
    return 0;
}

static const struct field watch_fields[] = {
    {"path", FIELD_STRING, .optional = true, .min = 1, .max = PATH_TEXT_MAX,
     .example = "\"/workspace\"", .help = "a directory or a file; the workspace when absent"},
    {"recursive", FIELD_BOOL, .preset = "false", .help = "all directories below, too"},
    {"events", FIELD_STRINGS, .optional = true, .choices = change_words,
     .example = "[\"create\", \"write\"]",
     .help = "of create, write, remove, rename, chmod; all but chmod when absent"},
    {"ignore", FIELD_STRINGS, .optional = true, .min = 1, .max = GLOB_BYTES_MAX,
     .example = "[\"node_modules\", \"*.tmp\"]",
     .help = "globs of names to leave out, with all that is below; at most 64"},
    {"publish", FIELD_BOOL, .preset = "false",
     .help = "each change is also an event, file.changed; needs the scope exec"},
    FILE_PATH_FIELDS,
    {0},
};

#define ERRORS_WATCH ERRORS_FILE " bad_base64 watch_limit too_many_streams agent_too_old"

const struct function file_watch_functions[] = {
    {"fs::watch", "POST", "/sandboxes/:sandboxId/files/watch", watch_fields, watch, NULL,
     SCOPE_READ, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .answer = ANSWER_EVENTS,
     .rate = RATE_FILE, .help = "Tells of changes to files as they happen",
     .events = &file_change_shape, .errors = ERRORS_WATCH},
    {"fs::watch_socket", "GET", "/sandboxes/:sandboxId/files/watch/ws", watch_fields, watch, NULL,
     SCOPE_READ, .reach = REACH_SANDBOX, .flags = FUNCTION_WAITS, .answer = ANSWER_SOCKET,
     .rate = RATE_FILE, .help = "Tells of changes to files as they happen, over a WebSocket",
     .events = &file_change_shape, .errors = ERRORS_WATCH " upgrade_required bad_websocket"},
    {0},
};
