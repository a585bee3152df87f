/* What a registry says in its headers: the challenges of WWW-Authenticate, one a line, and each
 * line as an address to go to. */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "registry/registry_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_origin(const char *line)
{
    static char by_host[] = "localhost", by_port[] = "127.0.0.1:5000";
    char *insecure[] = {by_host, by_port, NULL};
    auto_free char *origin = NULL;
    struct err err = {0};
    unsigned char ip[4];
    const char *host;
    char bare[64];

    if (origin_check(insecure, line, &origin, &err) < 0) {
        require(err.kind == ERR_UNAVAILABLE && utf8_valid(err.text, strlen(err.text)));
        return;
    }
    require(str_starts(origin, "https://") || str_starts(origin, "http://localhost:") ||
            strcmp(origin, "http://127.0.0.1:5000") == 0);
    require(!strchr(origin, '@') && !strpbrk(origin, " \r\n"));
    host = strstr(origin, "://") + 3;
    (void)snprintf(bare, sizeof(bare), "%.*s", (int)strcspn(host, ":"), host);
    require(inet_pton(AF_INET, bare, ip) != 1 || ip[0] != 169 || ip[1] != 254);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_free char *text = xstrndup((const char *)data, size);
    auto_strv char **lines = NULL;
    struct challenge c;

    for (char *line = text; line && strv_len(lines) < 8;) {
        char *end = strchr(line, '\n');

        if (end)
            *end++ = '\0';
        lines = strv_add(lines, line);
        check_origin(line);
        line = end;
    }
    if (challenge_parse(lines, &c) == 0) {
        require(!c.bearer || c.realm);
        challenge_done(&c);
    }
    return 0;
}
