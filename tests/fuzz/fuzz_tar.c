/* Any bytes as the archive that a sandbox sends to `cay cp`: entries that keep what tar.h says of
 * them, or a refusal with a reason. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/tar.h"

#define BLOCK    512
#define CHECKSUM 148 /* where it stands in a header */
#define MAGIC    257

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checksums are put right, or hardly any change would get past them. */
static void put_checksums(char *data, size_t size)
{
    for (char *block = data; size - (size_t)(block - data) >= BLOCK; block += BLOCK) {
        unsigned sum = 0;

        if (memcmp(block + MAGIC, "ustar", 5) != 0)
            continue;
        memset(block + CHECKSUM, ' ', 8);
        for (size_t i = 0; i < BLOCK; i++)
            sum += (unsigned char)block[i];
        (void)snprintf(block + CHECKSUM, 7, "%06o", sum);
    }
}

static void check_entry(struct tar_reader *r, const struct tar_entry *e, struct err *err)
{
    bool is_link = e->type == TAR_LINK || e->type == TAR_HARD_LINK;
    size_t len = e->name ? strlen(e->name) : 0;
    int64_t got = 0;
    char piece[700];
    ssize_t n;

    if (!e->name || is_link != (e->link != NULL) || e->mode > 07777 || e->size < 0 ||
        (e->type != TAR_FILE && e->size != 0) || (len > 1 && e->name[len - 1] == '/'))
        abort();
    while (e->type == TAR_FILE && (n = tar_read(r, piece, sizeof(piece), err)) > 0)
        got += n;
    if (got > e->size || (got < e->size && err->kind == ERR_NONE))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_close int fd = memfd_create("tar", MFD_CLOEXEC);
    auto_free char *copy = xmalloc(size + 1);
    struct tar_reader r = {.fd = fd};
    struct err err = {0};
    int got;

    memcpy(copy, data, size);
    put_checksums(copy, size);
    if (fd < 0 || write_all(fd, copy, size) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        abort();
    do {
        struct tar_entry e;

        got = tar_next(&r, &e, &err);
        if (got > 0)
            check_entry(&r, &e, &err);
        tar_entry_done(&e);
    } while (got > 0 && err.kind == ERR_NONE);
    if (got < 0 && (err.kind == ERR_NONE || err.text[0] == '\0'))
        abort();
    return 0;
}
