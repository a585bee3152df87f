#include <stdio.h>
#include <string.h>

#include "base/budget.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/audited.h"
#include "functions/function.h"
#include "http/server.h"
#include "iii/peer.h"
#include "iii/rbac.h"
#include "iii/trigger_internal.h"

/* A client without a token at a listener with a guard. Until the auth function has answered nothing
 * that it sends is read, and nobody knows of it. */

int iii_entry_check(struct iii_hub *hub, const struct iii_guard *guard, const char *address,
                    struct err *err)
{
    if (!guard || (!guard->auth && !hub->config.open))
        return err_set(err, ERR_UNAUTHORIZED, "Missing authorization header");
    if (!budget_take_share(&hub->entering, address, 1))
        return err_code(err, ERR_UNAVAILABLE, "busy",
                        "as many clients as may wait to be let in; try again");
    return 0;
}

void iii_entry_leave(struct iii_hub *hub, const char *address)
{
    budget_give_share(&hub->entering, address, 1);
}

/* ---- what the auth function is told ---- */

static char *lower(const struct http_field *f)
{
    char *name = xstrdup(f->name);

    for (char *c = name; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c |= 0x20;
    return name;
}

/* {name: value}; of a name that comes twice all, with commas between them. */
static json_t *headers_of(const struct http_req *req)
{
    json_t *out = json_object();
    const struct http_field *f;

    for (unsigned i = 0; (f = http_req_field(req, i)); i++) {
        auto_free char *name = lower(f), *text = NULL;
        const char *before = json_text(out, name);

        text = *before ? xasprintf("%s, %s", before, f->value) : xstrdup(f->value);
        if (utf8_valid(name, strlen(name)))
            (void)json_object_set_new(out, name, route_text(text, strlen(text)));
    }
    return out;
}

void iii_entry_begin(struct iii_peer *peer, const struct iii_guard *guard,
                     const struct http_req *req)
{
    peer->entry = guard;
    if (!guard->auth)
        iii_entry_leave(peer->hub, peer->asker.caller.from); /* nobody is asked */
    else
        iii_inquire(peer, guard->auth,
                    json_pack("{s:o, s:o, s:s}", "headers", headers_of(req), "query_params",
                              route_query_lists(http_req_query(req)), "ip_address",
                              peer->asker.caller.from));
}

/* ---- what it has said ---- */

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr(".-_@:+", c);
}

/* Who it is to the rest of the daemon, for its shares and the audit log: what its context says in
 * `caller`, or where it comes from. It may do all that its rules let it, but hand out rights. */
static void become(struct iii_peer *peer, struct iii_session *s)
{
    struct caller *c = &peer->asker.caller;
    json_t *context = iii_session_context(s);
    const char *said = json_text(context, "caller");
    int n = snprintf(c->name, sizeof(c->name), "rbac:%.*s", (int)sizeof(c->name) - 6,
                     *said ? said : c->from);

    for (int i = 0; i < n && i < (int)sizeof(c->name); i++)
        if (c->name[i] && !is_plain(c->name[i]))
            c->name[i] = '_';
    c->scopes = 1u << SCOPE_NONE | 1u << SCOPE_READ | 1u << SCOPE_EXEC | 1u << SCOPE_WRITE;
    iii_share_unref(peer->asker.share); /* nothing but the auth call was taken from it */
    peer->asker.share = iii_share_named(c->name);
    peer->asker.session = s;
    log_info("a client was let in", "caller", c->name, "from", c->from, "worker",
             peer->asker.worker_id);
    json_decref(context);
}

static void refuse(struct iii_peer *peer, const struct err *err)
{
    function_refused(peer->hub->config.services, err);
    audited_refusal(peer->hub->config.services, &peer->asker.caller, "unknown", err);
    log_warn("a client was not let in", "from", peer->asker.caller.from, "because", err->text);
}

enum iii_entry iii_entry_look(struct iii_peer *peer, struct err *err)
{
    const struct iii_guard *guard = peer->entry;
    struct iii_session *s = NULL;
    json_t *result = NULL;
    auto_free char *why = NULL;

    if (peer->inquiry.open && !iii_inquiry_take(peer, &result, &why))
        return ENTRY_WAITS;
    if (why)
        (void)err_set(err, ERR_FORBIDDEN, "%s", why);
    else
        s = iii_session_new(guard, result, err);
    json_decref(result);
    peer->entry = NULL;
    if (s)
        become(peer, s);
    else
        refuse(peer, err);
    return s ? ENTRY_IN : ENTRY_REFUSED;
}
