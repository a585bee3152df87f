/* What the agent reads that others wrote: the arguments of calls, accounts, modes and /proc lines.
 * The first byte picks one; a NUL splits the rest where two texts are needed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/mode.h"
#include "base/procstat.h"
#include "proto/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_exec(const uint8_t *data, size_t size)
{
    struct call_kept kept;
    struct call_exec e;
    struct err err;
    struct wire w;

    wire_init(&w, data, size);
    call_exec_get(&w, &e);
    if (wire_ok(&w) && exec_check(&e, &err) == 0 && !e.argv[0][0])
        abort();
    call_exec_done(&e);
    wire_init(&w, data, size);
    call_kept_get(&w, &kept); /* also read from a file of the box's disk */
    if (strnlen(kept.id, sizeof(kept.id)) == sizeof(kept.id))
        abort();
}

/* Frames one after the other, as an exec's caller sends them. */
static void fuzz_frames(const uint8_t *data, size_t size)
{
    unsigned type;
    long n;

    while ((n = frame_parse(data, size, &type)) > 0) {
        if ((size_t)n > size || (size_t)n < FRAME_HEADER)
            abort();
        data += n;
        size -= (size_t)n;
    }
}

static void fuzz_accounts(char *text, size_t len)
{
    static struct accounts a;
    struct identity id;
    struct err err;
    char *rest = memchr(text, '\0', len);

    a = (struct accounts){.passwd = rest ? rest + 1 : NULL, .group = rest ? rest + 1 : NULL};
    if (identity_find(&a, text, &id, &err) == 0) {
        if (id.uid == UINT32_MAX || id.gid == UINT32_MAX || id.ngroups > GROUPS_MAX)
            abort();
        for (size_t i = 0; i < id.ngroups; i++)
            if (id.groups[i] == 0)
                abort();
    }
    (void)accounts_user(&a, 1000);
    (void)accounts_group(&a, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_free char *text = NULL;
    struct proc_stat st;
    struct err err;
    uint32_t mode;

    if (size < 1)
        return 0;
    text = xmalloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 6) {
    case 0:
        fuzz_exec(data + 1, size - 1);
        break;
    case 1:
        fuzz_frames(data + 1, size - 1);
        break;
    case 2:
        fuzz_accounts(text, size - 1);
        break;
    case 3:
        if (mode_parse(text, 0644, false, &mode) == 0 && mode > 07777)
            abort();
        break;
    case 4:
        (void)proc_stat_parse(text, &st);
        break;
    default:
        (void)path_check(text, &err);
        (void)log_id_ok(text);
    }
    return 0;
}
