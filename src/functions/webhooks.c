#include "service/webhooks.h"

#include <sys/epoll.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/sandboxes.h"
#include "functions/functions_internal.h"
#include "service/services.h"

static const char *in_webhook(const struct call *call)
{
    return in_str(call, "webhookId");
}

static int take_service(const struct call *call, struct webhooks **ret, struct err *err)
{
    *ret = call->services ? call->services->webhooks : NULL;
    return *ret ? 0 : err_set(err, ERR_UNSUPPORTED, "this daemon has no webhooks");
}

/* One that is there: of what is gone nothing more happens. */
static int check_sandbox(struct call *call, struct err *err)
{
    json_t *sandbox = NULL;

    if (!in_id(call))
        return 0;
    if (engine_get(call->engine, in_id(call), &sandbox, err) < 0)
        return -1;
    json_decref(sandbox);
    return 0;
}

static int create(struct call *call, struct err *err)
{
    const struct webhook_request request = {
        .url = in_str(call, "url"),
        .topics = json_object_get(call->in, "topics"),
        .sandbox_id = in_id(call),
        .secret = in_str(call, "secret"),
    };
    struct webhooks *w;

    if (take_service(call, &w, err) < 0 || check_sandbox(call, err) < 0)
        return -1;
    return webhooks_create(w, &request, &call->out, err);
}

static int list(struct call *call, struct err *err)
{
    struct webhooks *w;

    if (take_service(call, &w, err) < 0)
        return -1;
    call->out = json_pack("{s:o}", "webhooks", webhooks_list(w));
    return 0;
}

static int get(struct call *call, struct err *err)
{
    struct webhooks *w;

    if (take_service(call, &w, err) < 0)
        return -1;
    return webhooks_get(w, in_webhook(call), &call->out, err);
}

static int update(struct call *call, struct err *err)
{
    struct webhooks *w;

    if (take_service(call, &w, err) < 0)
        return -1;
    return webhooks_set_active(w, in_webhook(call), in_bool(call, "active"), &call->out, err);
}

static int delete_webhook(struct call *call, struct err *err)
{
    struct webhooks *w;

    if (take_service(call, &w, err) < 0 || webhooks_remove(w, in_webhook(call), err) < 0)
        return -1;
    call->out = json_pack("{s:s}", "deleted", in_webhook(call));
    return 0;
}

static int deliveries(struct call *call, struct err *err)
{
    json_t *all = NULL;
    struct webhooks *w;

    if (take_service(call, &w, err) < 0 ||
        webhooks_deliveries(w, in_webhook(call), (unsigned)in_int(call, "limit"), &all, err) < 0)
        return -1;
    call->out = json_pack("{s:o}", "deliveries", all);
    return 0;
}

/* ---- a test, which waits for its answer ---- */

struct test_task {
    struct task task;
    struct webhook_test *test;
};

static void test_free(struct task *task)
{
    struct test_task *t = (struct test_task *)task;

    webhook_test_free(t->test);
    free(t);
}

static int test_step(struct task *task, struct call *call, struct err *err)
{
    struct test_task *t = (struct test_task *)task;

    call->out = webhook_test_take(t->test);
    if (call->out)
        return TASK_DONE;
    if (call->draining)
        return err_set(err, ERR_UNAVAILABLE, "cay is stopping; try again when it runs");
    return TASK_WAITS;
}

static const struct task_ops test_ops = {.step = test_step, .free = test_free};

static int test(struct call *call, struct err *err)
{
    struct webhook_test *begun;
    struct test_task *t;
    struct webhooks *w;

    if (take_service(call, &w, err) < 0 || webhook_test_begin(w, in_webhook(call), &begun, err) < 0)
        return -1;
    t = xcalloc(1, sizeof(*t));
    t->task = (struct task){.ops = &test_ops, .fd = webhook_test_fd(begun), .events = EPOLLIN};
    t->test = begun;
    call->task = &t->task;
    return 0;
}

static const struct field create_fields[] = {
    {"url", FIELD_STRING, .min = 1, .max = WEBHOOK_URL_MAX,
     .example = "\"https://hooks.example.com/cay\"",
     .help = "https:// or http://; of the public internet, unless CAY_WEBHOOK_ALLOW has it"},
    {"topics", FIELD_STRINGS, .optional = true, .min = 1, .max = 128,
     .example = "[\"sandbox.*\", \"alert.fired\"]",
     .help = "topics, beginnings of topics as exec.*, or * (the default)"},
    {"sandboxId", FIELD_STRING, .optional = true, .min = 1, .max = 1024,
     .example = EXAMPLE_SANDBOX_ID, .help = "of this sandbox only: its id, or the name of one"},
    {"secret", FIELD_STRING, .optional = true, .min = WEBHOOK_SECRET_MIN, .max = WEBHOOK_SECRET_MAX,
     .example = "\"a-word-that-only-we-know\"",
     .help = "what messages are signed with (default: a new one)"},
    {0},
};

static const struct field update_fields[] = {
    {"active", FIELD_BOOL, .example = "false",
     .help = "false: nothing is sent, and events wait; true: it goes on at once"},
    {0},
};

static const struct field deliveries_fields[] = {
    {"limit", FIELD_INT, .clamp = true, .min = 1, .max = WEBHOOK_DELIVERIES_MAX, .preset = "50",
     .help = "how many at most"},
    {0},
};

/* A URL can be as good as a password, so whoever only reads is not told of any. */
const struct function webhook_functions[] = {
    {"webhook::create", "POST", "/webhooks", create_fields, create, NULL, SCOPE_WRITE,
     .reach = REACH_NEVER, .flags = FUNCTION_MAKES | FUNCTION_SECRET,
     .help = "Has events sent to a URL, each signed, until it takes them",
     .gives = &webhook_made_shape,
     .errors = ERRORS_GONE " bad_webhook webhook_target_refused webhook_limit too_many_streams "
                           "no_space"},
    {"webhook::list", "GET", "/webhooks", NULL, list, NULL, SCOPE_WRITE, .reach = REACH_NEVER,
     .help = "Lists webhooks, the newest first", .gives = &webhook_list_shape},
    {"webhook::get", "GET", "/webhooks/:webhookId", NULL, get, NULL, SCOPE_WRITE,
     .reach = REACH_NEVER, .help = "Shows a webhook and how it is doing", .gives = &webhook_shape,
     .errors = "webhook_not_found"},
    {"webhook::update", "PUT", "/webhooks/:webhookId", update_fields, update, NULL, SCOPE_WRITE,
     .reach = REACH_NEVER, .help = "Puts a webhook off, or lets it go on", .gives = &webhook_shape,
     .errors = "webhook_not_found no_space"},
    {"webhook::delete", "DELETE", "/webhooks/:webhookId", NULL, delete_webhook, NULL, SCOPE_WRITE,
     .reach = REACH_NEVER, .help = "Removes a webhook; what was not sent is not",
     .gives = &webhook_deleted_shape, .errors = "webhook_not_found no_space"},
    {"webhook::test", "POST", "/webhooks/:webhookId/test", NULL, test, NULL, SCOPE_WRITE,
     .reach = REACH_NEVER, .flags = FUNCTION_WAITS,
     .help = "Sends a webhook.test once, at once, and tells what came of it",
     .gives = &delivery_shape, .errors = "webhook_not_found courier_busy"},
    {"webhook::deliveries", "GET", "/webhooks/:webhookId/deliveries", deliveries_fields, deliveries,
     NULL, SCOPE_WRITE, .reach = REACH_NEVER, .help = "Lists what was sent to a webhook last",
     .gives = &delivery_list_shape, .errors = "webhook_not_found"},
    {0},
};
