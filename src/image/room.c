/* How many images there may be. Asked before something is added: what is here already is always
 * read, however much it is, so that it can be looked at and removed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/image_internal.h"

static int no_room(const char *what, size_t max, struct err *err)
{
    return err_code(err, ERR_LIMIT, "image_limit",
                    "there are %zu %s of images here, and no more can be added: make room with "
                    "`cay image prune` or `cay image rm`",
                    max, what);
}

static int check_names(const struct image_store *s, char *const *names, struct err *err)
{
    auto_strv char **all = NULL;
    size_t more = 0;

    for (; *names; names++)
        more += !names_has(s->names, *names);
    if (more == 0)
        return 0;
    if (names_list(s->names, &all, err) < 0)
        return -1;
    return strv_len(all) + more > NAMES_MAX ? no_room("names", NAMES_MAX, err) : 0;
}

int room_check(const struct image_store *s, char *const *names, const char *id, struct err *err)
{
    auto_strv char **ids = NULL;

    if (check_names(s, names, err) < 0)
        return -1;
    if (id && records_has(s->records, id))
        return 0;
    if (records_list(s->records, &ids, err) < 0)
        return -1;
    return strv_len(ids) >= RECORDS_MAX ? no_room("records", RECORDS_MAX, err) : 0;
}

int room_ask(struct image_store *s, char *name, struct err *err)
{
    int r;

    (void)pthread_mutex_lock(&s->lock);
    r = room_check(s, (char *[]){name, NULL}, NULL, err);
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}
