/* What every box has mounted over, in a layer below all others, so that an image need not have it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "layer/layer_internal.h"

static const struct {
    const char *name;
    uint32_t mode;
    bool must; /* mounted over at every start: may not be anything but a folder */
} points[] = {
    {"proc", 0755, true},
    {"sys", 0755, true},
    {"dev", 0755, true},
    {"tmp", 01777, false},
};

int layer_points(int root, struct err *err)
{
    struct layer l;
    int r = 0;

    layer_init(&l, root);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(points); i++) {
        struct layer_meta meta = {.mode = points[i].mode};

        r = layer_dir(&l, points[i].name, &meta, err);
    }
    layer_done(&l);
    return r;
}

int layer_check_points(const int *layers, size_t n, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(points); i++) {
        struct lower found = {.dir = -1};
        int r;

        if (!points[i].must)
            continue;
        r = lower_find(layers, n, points[i].name, &found, err);
        close_fd(&found.dir);
        if (r < 0)
            return -1;
        if (r == LOWER_HIDDEN || (r == LOWER_FOUND && !S_ISDIR(found.st.st_mode)))
            return err_code(err, ERR_INVALID, "bad_image",
                            "/%s of the image is not a folder; every sandbox has one there",
                            points[i].name);
    }
    return 0;
}

int layer_sync(int root, struct err *err)
{
    return syncfs(root) < 0 ? err_sys(err, errno, "put the layer on disk") : 0;
}
