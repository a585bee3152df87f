#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "functions/function.h"
#include "functions/schema.h"
#include "iii/link_internal.h"
#include "iii/wire.h"

static char *steal_text(json_t *message)
{
    char *text = wire_text(message);

    json_decref(message);
    return text;
}

char *link_reattach_text(const char *worker_id, const char *token)
{
    json_t *m = json_pack("{s:s, s:s}", "type", "reattach", "previous_worker_id", worker_id);

    if (*token)
        json_put_text(m, "reattach_token", token);
    return steal_text(m);
}

/* A call that nobody answers. Its pid is what makes a worker show up in the engine's list. The
 * runtime is a free word; that of iii's own worker is the language it is written in. */
char *link_metadata_text(const struct iii_link_config *config)
{
    struct utsname u = {0};
    json_t *data;

    (void)uname(&u);
    data = json_pack("{s:s, s:s, s:s, s:s, s:I}", "name", config->name, "runtime", "cay", "version",
                     CAY_VERSION, "description", "Sandboxes: isolated machines for code of anybody",
                     "pid", (json_int_t)getpid());
    (void)json_object_set_new(data, "os", json_sprintf("linux %s %s", u.release, u.machine));
    json_put_text(data, "isolation", config->isolation);
    json_put_text(data, "namespace", config->namespace);
    return steal_text(json_pack("{s:s, s:s, s:o, s:{s:s}}", "type", "invokefunction", "function_id",
                                "engine::workers::register", "data", data, "action", "type",
                                "void"));
}

/* ---- functions ---- */

/* Whoever reaches the engine may call them, without proof of anything: so not what hands out rights
 * or names files of this machine; nor what needs a connection of its own. */
static bool may_offer(const struct function *f)
{
    if (iii_function(f->id) || f->scope == SCOPE_ADMIN ||
        (f->flags & (FUNCTION_LOCAL | FUNCTION_SECRET)))
        return false;
    return f->answer != ANSWER_ATTACH && f->answer != ANSWER_SOCKET && f->answer != ANSWER_DIAL;
}

struct offering {
    struct iii_link *l;
    void (*each)(struct iii_link *l, char *text);
};

/* As rows.c gives it: what has no shape is a text, or bytes in base64. */
static json_t *response_format(const struct function *f)
{
    json_t *gives = function_gives(f);

    if (gives)
        return gives;
    if (f->answer == ANSWER_TEXT || f->answer == ANSWER_PROMETHEUS)
        return json_pack("{s:s}", "type", "string");
    if (f->answer == ANSWER_BYTES || f->answer == ANSWER_TAR || f->answer == ANSWER_CAST)
        return json_pack("{s:s, s:s}", "type", "string", "contentEncoding", "base64");
    return NULL;
}

static int offer(const struct function *f, void *arg)
{
    const struct offering *o = arg;
    json_t *m = json_pack("{s:s, s:s}", "type", "registerfunction", "id", f->id), *gives;

    json_put_text(m, "description", f->help);
    (void)json_object_set_new(m, "request_format", function_takes(f));
    gives = response_format(f);
    if (gives)
        (void)json_object_set_new(m, "response_format", gives);
    (void)json_object_set_new(o->l->offered, f->id, json_null());
    o->each(o->l, steal_text(m));
    return 0;
}

static int offer_row(const struct function *f, void *arg)
{
    const struct offering *o = arg;

    return may_offer(f) && !json_object_get(o->l->taken, f->id) ? offer(f, arg) : 0;
}

bool link_may_offer(const char *id)
{
    const struct function *f = function_find(id);

    return f && may_offer(f);
}

void link_offer_each(struct iii_link *l, void (*each)(struct iii_link *l, char *text))
{
    struct offering o = {l, each};

    (void)iii_functions_each(offer, &o);
    if (l->config.extra)
        (void)functions_each(offer_row, &o);
}
