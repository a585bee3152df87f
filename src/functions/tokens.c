#include "service/tokens.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "functions/functions_internal.h"
#include "service/events.h"
#include "service/services.h"

static struct tokens *tokens_of(const struct call *call, struct err *err)
{
    if (call->services && call->services->tokens)
        return call->services->tokens;
    (void)err_set(err, ERR_UNSUPPORTED, "this daemon keeps no tokens");
    return NULL;
}

static unsigned take_scopes(const struct call *call)
{
    const json_t *words = json_object_get(call->in, "scopes");
    unsigned scopes = 0;

    for (size_t i = 0; i < json_array_size(words); i++)
        for (unsigned s = 0; token_scope_words[s]; s++)
            if (strcmp(token_scope_words[s], json_string_value(json_array_get(words, i))) == 0)
                scopes |= 1u << s;
    return scopes;
}

/* The proxy keeps its settings beside the labels, and who may write changes those. */
static int take_label(const struct call *call, struct token *k, struct err *err)
{
    json_t *label = json_object_get(call->in, "label");
    void *one = json_object_iter(label);
    const char *key = json_object_iter_key(one);
    const char *value = json_string_value(json_object_iter_value(one));

    if (!label)
        return 0;
    if (json_object_size(label) != 1 || !*key || strlen(key) > TOKEN_LABEL_MAX ||
        strlen(value) > TOKEN_LABEL_MAX || str_starts(key, "proxy_"))
        return err_set(err, ERR_INVALID,
                       "label must be one entry of metadata, {\"team\": \"blue\"}, of at most %d "
                       "bytes each, and not one of proxy_",
                       TOKEN_LABEL_MAX);
    (void)snprintf(k->label_key, sizeof(k->label_key), "%s", key);
    (void)snprintf(k->label_value, sizeof(k->label_value), "%s", value);
    return 0;
}

static int take_sandbox(const struct call *call, struct token *k, struct err *err)
{
    json_t *sandbox = NULL;

    if (!in_id(call))
        return 0;
    if (engine_get(call->engine, in_id(call), &sandbox, err) < 0)
        return -1;
    json_decref(sandbox);
    (void)snprintf(k->sandbox_id, sizeof(k->sandbox_id), "%s", in_id(call));
    return 0;
}

/* What is made with a token that ends does not outlive it. */
static void take_expiry(const struct call *call, struct token *k)
{
    int64_t of_caller = call->caller->expires_ms;

    if (in_int(call, "expiresIn"))
        k->expires_ms = now_ms() + (int64_t)in_int(call, "expiresIn") * 1000;
    if (of_caller && (!k->expires_ms || k->expires_ms > of_caller))
        k->expires_ms = of_caller;
}

static void tell(const struct call *call, const char *topic, const char *id)
{
    if (call->services->events)
        events_publish(call->services->events, topic, "",
                       json_pack("{s:s, s:s}", "tokenId", id, "by", call->caller->name));
}

static void put_warning(struct call *call)
{
    if (call->about->open)
        (void)json_object_set_new(call->out, "warning",
                                  json_string("this daemon takes calls over TCP without a token, "
                                              "too, for everything: set CAY_AUTH_TOKEN or "
                                              "CAY_REQUIRE_TOKEN=true"));
}

static int create(struct call *call, struct err *err)
{
    struct tokens *tokens = tokens_of(call, err);
    struct token k = {.scopes = take_scopes(call)};

    if (!tokens || take_label(call, &k, err) < 0 || take_sandbox(call, &k, err) < 0)
        return -1;
    if (token_is_admin(&k) && (k.sandbox_id[0] || k.label_key[0]))
        return err_set(err, ERR_INVALID,
                       "admin is for the whole daemon: leave it out, or sandboxId and label");
    if (k.sandbox_id[0] && k.label_key[0])
        return err_set(err, ERR_INVALID, "either sandboxId or label, not both");
    take_expiry(call, &k);
    if (tokens_create(tokens, in_str(call, "name"), call->caller->name, &k, &call->out, err) < 0)
        return -1;
    tell(call, "token.created", json_string_value(json_object_get(call->out, "id")));
    put_warning(call);
    return 0;
}

static int list(struct call *call, struct err *err)
{
    struct tokens *tokens = tokens_of(call, err);

    if (!tokens)
        return -1;
    tokens_list(tokens, &call->out);
    put_warning(call);
    return 0;
}

static int revoke_token(struct call *call, struct err *err)
{
    struct tokens *tokens = tokens_of(call, err);

    if (!tokens || tokens_revoke(tokens, in_str(call, "tokenId"), err) < 0)
        return -1;
    tell(call, "token.revoked", in_str(call, "tokenId"));
    return reply_success(call);
}

static const struct field create_fields[] = {
    {"name", FIELD_STRING, .optional = true, .max = TOKEN_NAME_MAX, .example = "\"ci\"",
     .help = "what it is for"},
    {"scopes", FIELD_STRINGS, .filled = true, .choices = token_scope_words,
     .example = "[\"read\", \"exec\"]",
     .help = "what it may: some of read, exec, write and admin, which is all of it"},
    {"sandboxId", FIELD_STRING, .optional = true, .min = 1, .max = 1024,
     .help = "id or name of the only sandbox that it is for"},
    {"label", FIELD_STRING_MAP, .optional = true, .max = 1024, .example = "{\"team\": \"blue\"}",
     .help = "it is only for sandboxes whose metadata has this entry; those that it makes get it"},
    {"expiresIn", FIELD_INT, .optional = true, .min = 1, .max = TOKEN_EXPIRES_S_MAX,
     .example = "86400", .help = "seconds; absent = it does not expire"},
    {0},
};

const struct function token_functions[] = {
    {"token::create", "POST", "/tokens", create_fields, create, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER, .flags = FUNCTION_MAKES | FUNCTION_SECRET,
     .help = "Makes a token for some of what can be done; its text is told once",
     .gives = &token_shape, .errors = ERRORS_GONE " token_limit no_space"},
    {"token::list", "GET", "/tokens", NULL, list, NULL, SCOPE_ADMIN, .reach = REACH_NEVER,
     .help = "Lists tokens, without their texts", .gives = &token_list_shape},
    {"token::revoke", "DELETE", "/tokens/:tokenId", NULL, revoke_token, NULL, SCOPE_ADMIN,
     .reach = REACH_NEVER,
     .help = "Ends a token, and the streams and terminals that were opened with it",
     .gives = &success_shape, .errors = "token_not_found"},
    {0},
};
