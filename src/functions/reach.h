#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/id.h"
#include "engine/sandboxes.h"
#include "functions/call.h"

struct engine;
struct err;
struct function;

/* A token can be for one sandbox only, or for those with a label. Every row says what that means
 * for it, and is refused to such a token while it does not. What such a token may not know of is
 * answered as if it were not there. */
enum reach {
    REACH_UNSAID,
    REACH_SANDBOX, /* it is about the sandbox in `sandboxId`, which is required */
    REACH_OWNED,   /* it is about what .owned says, and so about the sandbox that this belongs to */
    REACH_CLONES,  /* as these two, and makes sandboxes with the same labels: not for who has just
                    * one
                    */
    REACH_FILTER,  /* `sandboxId` says of which sandbox it tells: one without is refused to a label,
                    * and for who has one sandbox it is that */
    REACH_ITSELF,  /* its function sees to it, with the words below */
    REACH_ALL,     /* it tells and changes nothing that belongs to a sandbox */
    REACH_MAKERS,  /* the same, for who makes sandboxes: not for who has just one */
    REACH_NEVER,   /* only for callers who reach every sandbox */
    REACHES,
};

/* Something in the input that belongs to a sandbox. A row may have it beside `sandboxId`, too;
 * then both are asked, this one only if it is given. */
struct owned {
    const char *param; /* that names it: "snapshotId" */
    /* Whose it is; "" = nobody's. -1 when it is not there. Where it can have a name, that becomes
     * the id of the only one that this caller reaches. */
    int (*owner)(struct call *call, const char *word, char ret[ID_SIZE], struct err *err);
    const char *code, *text; /* what is said when it is not there: "snapshot_not_found",
                              * "Snapshot not found: %s" */
};

extern const struct owned background_owned, snapshot_owned;

/* Can there be a sandbox that it may not know of? */
bool caller_is_restricted(const struct caller *caller);
/* May it be told what is up with the whole daemon, where others are told less? */
bool caller_sees_daemon(const struct caller *caller);
/* Who makes a sandbox by this call; its texts live as long as *ret. `onTimeout` of the input wins.
 */
struct call_maker {
    struct sandbox_maker maker;
    struct sandbox_pick pick;
    char tenant[2 * LABEL_SIZE];
};
void call_read_maker(const struct call *call, struct call_maker *ret);
/* The sandboxes that it may know of: in *ret, which is valid as long as the caller. NULL = all. */
const struct sandbox_pick *caller_pick(const struct caller *caller, struct sandbox_pick *ret);
/* Does it reach that sandbox? Of one that is gone only who has just that one does. */
bool caller_reaches(const struct caller *caller, struct engine *e, const char *sandbox_id);
bool call_reaches(const struct call *call, const char *sandbox_id);

/* The keys of metadata that decide which tokens reach a sandbox: an object, whose keys a restricted
 * caller must not change; NULL when the caller is not restricted. Free it. */
json_t *reach_locked_keys(const struct call *call);

/* Is there anything that it could call this for, by what the row says alone? */
bool reach_may(const struct function *f, const struct caller *caller);

/* In the order of a call: the name of a sandbox becomes its id; then, may this caller? */
int reach_take_name(struct call *call, struct err *err);
int reach_check(const struct function *f, struct call *call, struct err *err);
/* An image can be named by its id, also one that has no name because it is the disk of a sandbox or
 * a snapshot: that is for who reaches such a snapshot. ERR_NOT_FOUND "image_not_found". */
int reach_check_image(const struct call *call, const char *image, struct err *err);
/* Why it failed, without what such a caller may not know of: the id of another's sandbox. */
void reach_hide(const struct call *call, struct err *err);
