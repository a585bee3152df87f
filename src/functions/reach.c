#include "functions/reach.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/exec.h"
#include "engine/images.h"
#include "engine/snapshots.h"
#include "functions/functions_internal.h"
#include "functions/iii.h"
#include "model/sandbox.h"
#include "service/services.h"
#include "service/tokens.h"

/* ---- who reaches what ---- */

bool caller_is_restricted(const struct caller *caller)
{
    return caller->sandbox_id[0] || caller->label_key[0];
}

bool caller_sees_daemon(const struct caller *caller)
{
    return (caller->scopes & (1u << SCOPE_READ)) && !caller_is_restricted(caller);
}

const struct sandbox_pick *caller_pick(const struct caller *caller, struct sandbox_pick *ret)
{
    *ret = (struct sandbox_pick){
        .id = caller->sandbox_id[0] ? caller->sandbox_id : NULL,
        .key = caller->label_key[0] ? caller->label_key : NULL,
        .value = caller->label_value,
    };
    return caller_is_restricted(caller) ? ret : NULL;
}

bool caller_reaches(const struct caller *caller, struct engine *e, const char *sandbox_id)
{
    struct sandbox_pick pick;

    if (!caller_is_restricted(caller))
        return true;
    if (!sandbox_id || !*sandbox_id)
        return false;
    if (caller->sandbox_id[0] && strcmp(caller->sandbox_id, sandbox_id) != 0)
        return false;
    return !caller->label_key[0] || engine_picks(e, caller_pick(caller, &pick), sandbox_id);
}

void call_read_maker(const struct call *call, struct call_maker *ret)
{
    const struct caller *caller = call->caller;
    const char *on_timeout = in_str(call, "onTimeout");

    *ret = (struct call_maker){0};
    ret->maker.expiry_stops =
        on_timeout ? strcmp(on_timeout, sandbox_timeout_words[true]) == 0 : caller->keeps;
    ret->maker.replaces = true;
    ret->maker.pick = caller_pick(caller, &ret->pick);
    if (caller->label_key[0]) {
        (void)snprintf(ret->tenant, sizeof(ret->tenant), "%s=%s", caller->label_key,
                       caller->label_value);
        ret->maker.tenant = ret->tenant;
    }
}

bool call_reaches(const struct call *call, const char *sandbox_id)
{
    return caller_reaches(call->caller, call->engine, sandbox_id);
}

json_t *reach_locked_keys(const struct call *call)
{
    const struct caller *caller = call->caller;
    json_t *keys;

    if (!caller_is_restricted(caller))
        return NULL;
    keys = call->services && call->services->tokens ? tokens_label_keys(call->services->tokens)
                                                    : json_object();
    if (caller->label_key[0])
        (void)json_object_set_new(keys, caller->label_key, json_true());
    return keys;
}

/* ---- one call ---- */

int reach_take_name(struct call *call, struct err *err)
{
    const char *word = in_id(call);
    struct sandbox_pick pick;
    char id[ID_SIZE];

    if (!word || sandbox_name_is_like_id(word))
        return 0;
    if (engine_id_of_name(call->engine, caller_pick(call->caller, &pick), word, id, err) < 0) {
        struct err ignored;

        /* An id of iii's, as its clients and `cay sandbox` have it, is good everywhere. */
        if (err->kind != ERR_NOT_FOUND || iii_id_of_uuid(word, id, &ignored) < 0)
            return err->kind == ERR_NOT_FOUND && call->function->flags & FUNCTION_ANY_SANDBOX ? 0
                                                                                              : -1;
        *err = (struct err){0};
    }
    (void)json_object_set_new(call->in, "sandboxId", json_string(id));
    return 0;
}

static int refuse(const struct function *f, struct err *err)
{
    return err_code(err, ERR_FORBIDDEN, "token_restricted",
                    "%s is not for a token that is for some sandboxes only", f->id);
}

static int check_sandbox(const struct function *f, const struct call *call, struct err *err)
{
    const char *id = in_id(call);

    if (!id || !*id)
        return refuse(f, err);
    if (call_reaches(call, id))
        return 0;
    return err_code(err, ERR_NOT_FOUND, "sandbox_not_found", "Sandbox not found: %s", id);
}

static int check_owned(const struct owned *o, struct call *call, struct err *err)
{
    const char *id = in_str(call, o->param);
    char owner[ID_SIZE] = "";

    if (!id || !*id)
        return 0;
    if (o->owner(call, id, owner, NULL) == 0 && call_reaches(call, owner))
        return 0;
        /* One text for all reasons: it must not show what others have. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return err_code(err, ERR_NOT_FOUND, o->code, o->text, id);
#pragma GCC diagnostic pop
}

static int check_filter(const struct function *f, struct call *call, struct err *err)
{
    const char *id = in_id(call);

    if ((!id || !*id) && call->caller->sandbox_id[0])
        (void)json_object_set_new(call->in, "sandboxId", json_string(call->caller->sandbox_id));
    else if (!id || !*id)
        return err_code(err, ERR_FORBIDDEN, "token_restricted",
                        "%s is for one sandbox with this token: say which in sandboxId", f->id);
    return check_sandbox(f, call, err);
}

static int check_owner_named(const struct function *f, const struct call *call, struct err *err)
{
    return f->owned && in_str(call, f->owned->param) ? 0 : refuse(f, err);
}

bool reach_may(const struct function *f, const struct caller *caller)
{
    bool is_for_makers = f->reach == REACH_CLONES || f->reach == REACH_MAKERS ||
                         (f->reach == REACH_ITSELF && (f->flags & FUNCTION_MAKES));

    if (!caller_is_restricted(caller))
        return true;
    return f->reach != REACH_UNSAID && f->reach != REACH_NEVER &&
           !(is_for_makers && caller->sandbox_id[0]);
}

int reach_check(const struct function *f, struct call *call, struct err *err)
{
    int r = 0;

    if (!caller_is_restricted(call->caller))
        return 0;
    switch (f->reach) {
    case REACH_UNSAID:
    case REACH_NEVER:
        return refuse(f, err);
    case REACH_SANDBOX:
        r = check_sandbox(f, call, err);
        break;
    case REACH_OWNED:
        r = check_owner_named(f, call, err);
        break;
    case REACH_CLONES:
        if (call->caller->sandbox_id[0])
            return refuse(f, err);
        r = in_id(call) ? check_sandbox(f, call, err) : check_owner_named(f, call, err);
        break;
    case REACH_FILTER:
        r = check_filter(f, call, err);
        break;
    case REACH_MAKERS:
        if (call->caller->sandbox_id[0])
            return refuse(f, err);
        break;
    case REACH_ITSELF:
    case REACH_ALL:
    case REACHES:
        break;
    }
    return r == 0 && f->owned ? check_owned(f->owned, call, err) : r;
}

void reach_hide(const struct call *call, struct err *err)
{
    if (caller_is_restricted(call->caller) && err->code && strcmp(err->code, "name_taken") == 0)
        (void)err_code(err, ERR_CONFLICT, "name_taken",
                       "another sandbox has this name: choose another");
}

/* ---- what belongs to a sandbox ---- */

static int background_owner(struct call *call, const char *id, char ret[ID_SIZE], struct err *err)
{
    return engine_background_owner(call->engine, id, ret, err);
}

const struct owned background_owned = {
    .param = "execId",
    .owner = background_owner,
    .code = "exec_not_found",
    .text = "Background exec not found: %s",
};

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

static int snapshot_owner(struct call *call, const char *word, char ret[ID_SIZE], struct err *err)
{
    json_t *all = NULL, *one, *found = NULL;
    unsigned n = 0;
    size_t i;

    engine_snapshot_list(call->engine, in_id(call), NULL, &all);
    json_array_foreach(json_object_get(all, "snapshots"), i, one)
    {
        if ((strcmp(text_of(one, "id"), word) != 0 && strcmp(text_of(one, "name"), word) != 0) ||
            !call_reaches(call, text_of(one, "sandboxId")))
            continue;
        found = one;
        n++;
    }
    if (n == 1) {
        (void)snprintf(ret, ID_SIZE, "%s", text_of(found, "sandboxId"));
        (void)json_object_set(call->in, "snapshotId", json_object_get(found, "id"));
    }
    json_decref(all);
    return n == 1 ? 0 : err_set(err, ERR_NOT_FOUND, "there is not one of that name");
}

#define IMAGE_ID_PREFIX "sha256:"

static bool is_like_image_id(const char *image)
{
    if (str_starts(image, IMAGE_ID_PREFIX))
        image += strlen(IMAGE_ID_PREFIX);
    return !image[strspn(image, "0123456789abcdef")];
}

static bool reaches_snapshot_of(const struct call *call, const char *image_id)
{
    json_t *all = NULL, *one;
    bool found = false;
    size_t i;

    engine_snapshot_list(call->engine, NULL, NULL, &all);
    json_array_foreach(json_object_get(all, "snapshots"), i, one)
    {
        found |= strcmp(text_of(one, "imageId"), image_id) == 0 &&
                 call_reaches(call, text_of(one, "sandboxId"));
    }
    json_decref(all);
    return found;
}

int reach_check_image(const struct call *call, const char *image, struct err *err)
{
    json_t *found = NULL;
    bool hidden;

    if (!caller_is_restricted(call->caller) || !image || !is_like_image_id(image) ||
        engine_image_get(call->engine, image, &found, NULL) < 0)
        return 0;
    hidden = str_starts(text_of(found, "name"), IMAGE_ID_PREFIX) &&
             !reaches_snapshot_of(call, text_of(found, "id"));
    json_decref(found);
    return hidden ? err_code(err, ERR_NOT_FOUND, "image_not_found",
                             "Image not found: no image's id begins with %.80s", image)
                  : 0;
}

const struct owned snapshot_owned = {
    .param = "snapshotId",
    .owner = snapshot_owner,
    .code = "snapshot_not_found",
    .text = "Snapshot not found: %.80s",
};
