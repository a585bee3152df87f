/* Names that come and go; layers stay until a collection. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/layer.h"

static int tag(struct image_store *s, const char *name, const char *new_name, struct image **ret,
               struct err *err)
{
    auto_free char *kept = NULL;
    auto_record struct record r = {0};
    auto_name struct name old = {0}, tagged = {0};

    if (name_check_new(new_name, false, &kept, err) < 0 || store_find(s, name, &old, &r, err) < 0 ||
        room_check(s, (char *[]){kept, NULL}, r.id, err) < 0)
        return -1;
    free(old.name);
    old.name = steal_ptr(kept);
    if (names_write(s->names, &old, err) < 0)
        return err_no_space(err, NO_SPACE_ADVICE);
    if (names_read(s->names, old.name, &tagged, err) < 0)
        return -1;
    return store_image(s, &tagged, &r, ret, err);
}

int image_tag(struct image_store *s, const char *name, const char *new_name, struct image **ret,
              struct err *err)
{
    auto_free char *kept = image_name_short(name);
    int r;

    if (kept && strcmp(kept, "host") == 0)
        return err_code(err, ERR_FORBIDDEN, "image_reserved",
                        "\"host\" is this machine itself and has no other name");
    (void)pthread_mutex_lock(&s->lock);
    r = tag(s, name, new_name, ret, err);
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}

void image_touch(struct image_store *s, const char *name)
{
    auto_free char *kept = image_name_short(name);

    if (kept && strcmp(kept, "host") == 0)
        atomic_store(&s->host_used_ms, now_ms());
    else if (kept)
        names_touch(s->names, kept);
}

/* The name that is meant: itself, or the only one of an id. */
static int name_to_remove(struct image_store *s, const char *name, struct name *ret,
                          struct err *err)
{
    auto_free char *kept = image_name_short(name);
    auto_record struct record r = {0};
    auto_strv char **names = NULL;
    struct err why = {0};

    if (kept && names_read(s->names, kept, ret, &why) == 0)
        return 0;
    if (kept && why.kind == ERR_INTERNAL) { /* a damaged one can be removed */
        *ret = (struct name){.name = steal_ptr(kept)};
        return 0;
    }
    if (store_find(s, name, ret, &r, err) < 0)
        return -1;
    if (names_of(s->names, ret->id, &names, err) < 0)
        return -1;
    if (strv_len(names) > 1)
        return err_code(err, ERR_CONFLICT, "ambiguous_image",
                        "%s has several names (%s, %s …); remove them by name", name, names[0],
                        names[1]);
    if (!names[0])
        return err_code(err, ERR_CONFLICT, "image_in_use",
                        "%s has no name any more and goes with the last sandbox made from it",
                        name);
    return 0;
}

static int remove_name(struct image_store *s, const char *name, bool in_use, struct err *err)
{
    auto_strv char **names = NULL;
    auto_name struct name n = {0};

    if (name_to_remove(s, name, &n, err) < 0 || names_of(s->names, n.id, &names, err) < 0)
        return -1;
    /* With another name it stays as it is. */
    if (in_use && strv_len(names) <= 1)
        return err_code(err, ERR_CONFLICT, "image_in_use",
                        "sandboxes made from %s are still here; remove them first (`cay ls`)",
                        name);
    return names_remove(s->names, n.name, err);
}

int image_remove(struct image_store *s, const char *name, bool in_use, struct err *err)
{
    auto_free char *kept = image_name_short(name);
    int r;

    if (kept && strcmp(kept, "host") == 0)
        return err_code(err, ERR_FORBIDDEN, "image_reserved",
                        "\"host\" is this machine itself and cannot be removed");
    (void)pthread_mutex_lock(&s->lock);
    r = remove_name(s, name, in_use, err);
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}
