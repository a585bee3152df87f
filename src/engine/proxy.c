#include "engine/proxy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/json_text_internal.h"
#include "engine/ports_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/turn_internal.h"
#include "engine/writer_internal.h"

#define TIMEOUT_MS 30000

static uint64_t number_of(const json_t *metadata, const char *key, uint64_t preset)
{
    const char *text = json_string_value(json_object_get(metadata, key));
    uint64_t n;

    return text && str_u64(text, &n) == 0 ? n : preset;
}

/* With its lock held. What a caller of create put there by hand may be anything. */
static void read_settings(const struct sandbox *sb, uint16_t port, struct proxy_settings *ret)
{
    const json_t *m = sb->spec.metadata;
    const char *cors = json_string_value(json_object_get(m, "proxy_cors"));
    const char *auth = json_string_value(json_object_get(m, "proxy_auth"));
    uint64_t timeout = number_of(m, "proxy_timeout", TIMEOUT_MS);

    if (!cors || strlen(cors) > PROXY_CORS_MAX || strpbrk(cors, "\r\n"))
        cors = "*";
    (void)snprintf(ret->cors, sizeof(ret->cors), "%s", cors);
    ret->require_auth = auth && strcmp(auth, "true") == 0;
    ret->timeout_ms = timeout < PROXY_TIMEOUT_MS_MIN   ? PROXY_TIMEOUT_MS_MIN
                      : timeout > PROXY_TIMEOUT_MS_MAX ? PROXY_TIMEOUT_MS_MAX
                                                       : (uint32_t)timeout;
    ret->revoked = number_of(m, "proxy_signed", 0);
    ret->exposed = ports_has_tcp(sb->spec.ports, port);
}

int engine_proxy_settings(struct engine *e, const char *id, uint16_t port,
                          struct proxy_settings *ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, err) < 0)
        return -1;
    pthread_mutex_lock(&sb->lock);
    read_settings(sb, port, ret);
    pthread_mutex_unlock(&sb->lock);
    return 0;
}

int engine_proxy_check(struct engine *e, const char *id, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    return sandbox_get(e, id, &sb, err) < 0 ? -1 : sandbox_check_running(sb, err);
}

static void set_number(json_t *metadata, const char *key, uint64_t n)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%" PRIu64, n);
    (void)json_object_set_new(metadata, key, json_string(text));
}

static json_t *changed(struct sandbox *sb, const struct proxy_change *change)
{
    json_t *metadata;

    pthread_mutex_lock(&sb->lock);
    metadata = json_deep_copy(sb->spec.metadata);
    pthread_mutex_unlock(&sb->lock);
    if (change->cors)
        (void)json_object_set_new(metadata, "proxy_cors", json_cstr(change->cors));
    if (change->require_auth)
        (void)json_object_set_new(metadata, "proxy_auth",
                                  json_string(*change->require_auth ? "true" : "false"));
    if (change->timeout_ms)
        set_number(metadata, "proxy_timeout", change->timeout_ms);
    if (change->revoke)
        set_number(metadata, "proxy_signed", number_of(metadata, "proxy_signed", 0) + 1);
    return metadata;
}

/* Takes metadata, and gives that before. */
static json_t *swap_metadata(struct sandbox *sb, json_t *metadata)
{
    json_t *before;

    pthread_mutex_lock(&sb->lock);
    before = sb->spec.metadata;
    sb->spec.metadata = metadata;
    pthread_mutex_unlock(&sb->lock);
    return before;
}

/* Stored when it returns, else all is as it was. */
static int store_change(struct engine *e, struct sandbox *sb, const struct proxy_change *change,
                        struct err *err)
{
    json_t *before;
    int r;

    if (turn_take(e, &sb->env_turn, err) < 0)
        return -1;
    before = swap_metadata(sb, changed(sb, change));
    r = writer_wait(e, writer_put(e, sb), err);
    if (r < 0)
        before = swap_metadata(sb, before);
    json_decref(before);
    turn_give(&sb->env_turn);
    return r;
}

int engine_proxy_configure(struct engine *e, const char *id, const struct proxy_change *change,
                           json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct proxy_settings now;

    if (sandbox_get(e, id, &sb, err) < 0 || sandbox_check_there(sb, err) < 0)
        return -1;
    if ((change->cors || change->require_auth || change->timeout_ms || change->revoke) &&
        store_change(e, sb, change, err) < 0)
        return -1;
    pthread_mutex_lock(&sb->lock);
    read_settings(sb, 0, &now);
    pthread_mutex_unlock(&sb->lock);
    *ret = json_pack("{s:s, s:s, s:b, s:I}", "sandboxId", sb->box.id, "cors", now.cors,
                     "requireAuth", now.require_auth, "timeout", (json_int_t)now.timeout_ms);
    return 0;
}
