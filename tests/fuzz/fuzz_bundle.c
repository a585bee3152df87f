/* Any bytes as an archive that may be a bundle of images: what it says is read, or refused with a
 * reason. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "worker/worker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void choose(const struct bundle *b, bool saved, const char *name)
{
    struct bundle_image image;
    struct err err = {0};

    if ((saved ? saved_choose(b, name, &image, &err) : layout_choose(b, name, &image, &err)) == 0)
        bundle_image_done(&image);
    else if (err.kind == ERR_NONE || err.text[0] == '\0')
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_close int tar = memfd_create("tar", MFD_CLOEXEC);
    auto_close int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct worker_request q = {.tmp = tmp, .max_bytes = 1 << 20, .max_entries = 200};
    struct bundle *b = NULL;
    struct err err = {0};

    if (tar < 0 || tmp < 0 || write_all(tar, data, size) < 0 || lseek(tar, 0, SEEK_SET) < 0)
        abort();
    if (bundle_of_archive(&q, tar, &b, &err) < 0) {
        if (err.kind == ERR_NONE || err.text[0] == '\0')
            abort();
        return 0;
    }
    if (b) {
        choose(b, true, NULL);
        choose(b, true, "two:2");
        choose(b, false, NULL);
        choose(b, false, "two:2");
    }
    bundle_free(b);
    return 0;
}
