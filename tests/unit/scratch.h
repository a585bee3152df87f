#pragma once

/* A folder for the files of one test, which goes with the test's process. */

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "tap.h"
#include "tmpdir.h"

static char base[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void scratch_remove(void)
{
    (void)nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Those that make one need root: layers have owners. */
static void scratch_make_below(const char *parent)
{
    if (geteuid() != 0)
        SKIP("needs root");
    (void)snprintf(base, sizeof(base), "%s/cay-test-XXXXXX", parent);
    CHECK(mkdtemp(base));
    (void)atexit(scratch_remove);
}

/* In memory, unless attributes that users give cannot be kept there (Linux before 6.6). */
static void scratch_make(void)
{
    scratch_make_below(dir_parent(true));
    if (setxattr(base, "user.cay-test", "", 0, 0) < 0) {
        scratch_remove();
        scratch_make_below(dir_parent(false));
    } else {
        CHECK_INT(removexattr(base, "user.cay-test"), 0);
    }
}

/* A path in it; the eight last ones are kept. */
static const char *in_base(const char *name)
{
    static char path[8][PATH_MAX];
    static unsigned next;
    char *p = path[next++ % 8];

    (void)snprintf(p, PATH_MAX, "%s/%s", base, name);
    return p;
}
