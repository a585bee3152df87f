#include "functions/callers.h"

#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "functions/call.h"
#include "service/services.h"
#include "service/tokens.h"

_Static_assert(LABEL_SIZE == TOKEN_LABEL_MAX + 1, "both are the same text");

bool caller_token_like(const char *text)
{
    return str_starts(text, TOKEN_TEXT_PREFIX);
}

/* Words of tokens in the order of token_scope_words. */
static unsigned scopes_of(unsigned words)
{
    static const enum scope order[] = {SCOPE_READ, SCOPE_EXEC, SCOPE_WRITE, SCOPE_ADMIN};
    unsigned scopes = 1u << SCOPE_NONE;

    for (unsigned i = 0; i < sizeof(order) / sizeof(*order); i++)
        if (words & 1u << i)
            scopes |= 1u << order[i];
    return scopes & 1u << SCOPE_ADMIN ? SCOPES_ALL : scopes;
}

int caller_of_token(struct services *services, const char *text, struct caller *ret,
                    struct err *err)
{
    struct token token;

    if (!services || !services->tokens)
        return err_code(err, ERR_FORBIDDEN, "invalid_token", "Invalid token");
    if (tokens_find(services->tokens, text, &token, err) < 0)
        return -1;
    ret->scopes = scopes_of(token.scopes);
    ret->admin = ret->scopes & 1u << SCOPE_ADMIN;
    (void)snprintf(ret->name, sizeof(ret->name), "%s", token.id);
    memcpy(ret->token_id, token.id, ID_SIZE);
    memcpy(ret->sandbox_id, token.sandbox_id, ID_SIZE);
    memcpy(ret->label_key, token.label_key, LABEL_SIZE);
    memcpy(ret->label_value, token.label_value, LABEL_SIZE);
    ret->expires_ms = token.expires_ms;
    return 0;
}

bool caller_token_live(struct services *services, const char *token_id)
{
    return !token_id[0] ||
           (services && services->tokens && tokens_live(services->tokens, token_id));
}
