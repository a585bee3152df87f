/* Any bytes as an image archive: nothing may appear outside the layer's folder, and the folder can
 * always be removed again. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/remove.h"
#include "layer/layer.h"
#include "layer/tree.h"
#include "oci/digest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void unpack(const uint8_t *data, size_t size, int outer)
{
    auto_close int tar = memfd_create("tar", MFD_CLOEXEC);
    auto_close int root = -1;
    char digest[DIGEST_HEX];
    struct layer layer;
    struct err err = {0};

    if (tar < 0 || write_all(tar, data, size) < 0 || lseek(tar, 0, SEEK_SET) < 0 ||
        tree_open_dir(outer, "layer", 0700, &root, NULL) < 0)
        abort();
    layer_init(&layer, root);
    layer.max_bytes = 1 << 20;
    layer.max_entries = 200;
    layer.oci = size % 2;
    if ((unpack_file(tar, &layer, digest, &err) < 0 ||
         (layer.oci && layer_resolve(&layer, &outer, 1, &err) < 0)) &&
        (err.kind == ERR_NONE || err.text[0] == '\0'))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/cay-fuzz-XXXXXX";
    auto_close int outer = mkdtemp(path) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    auto_strv char **names = NULL;

    if (outer < 0)
        abort();
    unpack(data, size, outer);
    if (tree_names(outer, 10, &names, NULL) < 0 || strv_len(names) != 1 ||
        strcmp(names[0], "layer") != 0)
        abort();
    if (remove_tree(outer, "layer") < 0 || rmdir(path) < 0)
        abort();
    return 0;
}
