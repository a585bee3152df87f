#include "engine/long_work_internal.h"

#include "base/err.h"
#include "engine/engine_internal.h"

int long_work_begin(struct engine *e, struct err *err)
{
    if (atomic_fetch_add(&e->long_work, 1) < LONG_WORK_MAX)
        return 0;
    long_work_end(e);
    return err_code(err, ERR_UNAVAILABLE, "busy",
                    "too many calls wait for images or for their turn; try again later");
}

void long_work_end(struct engine *e)
{
    (void)atomic_fetch_sub(&e->long_work, 1);
}

int worker_begin(struct engine *e, struct err *err)
{
    if (long_work_begin(e, err) < 0)
        return -1;
    if (atomic_fetch_add(&e->workers, 1) < WORKERS_MAX)
        return 0;
    worker_end(e);
    return err_code(
        err, ERR_UNAVAILABLE, "busy",
        "%d images are being imported, exported or committed; try again when one is done",
        WORKERS_MAX);
}

void worker_end(struct engine *e)
{
    (void)atomic_fetch_sub(&e->workers, 1);
    long_work_end(e);
}
