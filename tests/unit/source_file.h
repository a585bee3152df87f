#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "tap.h"

#define SOURCE_MAX (1u << 20)

/* A file of the source tree: from where this was compiled, or from where it runs. */
static char *source_file(const char *name)
{
    char exe[4096] = "";
    struct buf text;
    int fd = -1;

    if (readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0 && strrchr(exe, '/'))
        *strrchr(exe, '/') = '\0';
    for (int i = 0; fd < 0 && i < 2; i++) {
        auto_free char *path =
            i == 0 ? xasprintf("%.*s/../../%s", (int)(strrchr(__FILE__, '/') - __FILE__), __FILE__,
                               name)
                   : xasprintf("%s/../../../%s", exe, name);

        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0)
        SKIP("the source tree is not there");
    buf_init(&text, SOURCE_MAX);
    for (;;) {
        char *room = buf_room(&text, 4096);
        ssize_t n = read_some(fd, room, 4096);

        if (n <= 0)
            break;
        text.len += (size_t)n;
        room[n] = '\0';
    }
    (void)close(fd);
    return buf_steal(&text);
}
