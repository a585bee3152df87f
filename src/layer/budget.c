#include <errno.h>
#include <sys/statvfs.h>

#include "base/err.h"
#include "layer/layer.h"

/* Of the disk a twentieth is left to others, but no more than a gigabyte. */
#define RESERVE_PART 20
#define RESERVE_MAX  (1ull << 30)

/* So often is looked: what several threads write meanwhile is far below the reserve of any disk
 * that has room for images. */
#define LOOK_BYTES   (8ull << 20)
#define LOOK_ENTRIES 1024

void layer_budget_init(struct layer_budget *b, uint64_t max_bytes, uint64_t max_entries, int disk)
{
    *b = (struct layer_budget){.max_bytes = max_bytes, .max_entries = max_entries, .disk = disk};
}

int layer_budget_room(const struct layer_budget *b, uint64_t bytes, struct err *err)
{
    struct statvfs st;
    uint64_t all, left, reserve;

    if (fstatvfs(b->disk, &st) < 0)
        return err_sys(err, errno, "look how much room the disk has");
    all = (uint64_t)st.f_blocks * st.f_frsize;
    left = (uint64_t)st.f_bavail * st.f_frsize;
    reserve = all / RESERVE_PART < RESERVE_MAX ? all / RESERVE_PART : RESERVE_MAX;
    /* Some filesystems have no number of files. */
    if (left >= reserve && bytes <= left - reserve &&
        (st.f_files == 0 || st.f_favail >= st.f_files / RESERVE_PART))
        return 0;
    return err_code(
        err, ERR_UNAVAILABLE, "no_space",
        "the disk with the images has %llu MiB left, of which %llu stay free, or has no "
        "room for more files; remove images (cay image prune) or make room",
        (unsigned long long)(left >> 20), (unsigned long long)(reserve >> 20));
}

int layer_budget_grow(struct layer_budget *b, uint64_t bytes, struct err *err)
{
    uint64_t sum = atomic_fetch_add(&b->bytes, bytes) + bytes, looked = b->looked;

    if (sum > b->max_bytes || sum < bytes)
        return err_code(
            err, ERR_TOO_LARGE, "image_too_large",
            "more than %llu MiB unpacked; CAY_MAX_IMAGE_SIZE says how large images may be",
            (unsigned long long)(b->max_bytes >> 20));
    if (sum - looked < LOOK_BYTES)
        return 0;
    b->looked = sum;
    return layer_budget_room(b, 0, err);
}

int layer_budget_count(struct layer_budget *b, uint64_t entries, struct err *err)
{
    uint64_t sum = atomic_fetch_add(&b->entries, entries) + entries;

    if (sum > b->max_entries || sum < entries)
        return err_code(err, ERR_TOO_LARGE, "image_too_large",
                        "more than %llu entries; an image may not have more",
                        (unsigned long long)b->max_entries);
    return sum % LOOK_ENTRIES == 0 ? layer_budget_room(b, 0, err) : 0;
}
