/* Two routes of http triggers, the path of a request and a query, a line each. A route that is
 * accepted fits itself, two that are the same fit the same paths, of two that fit one path at most
 * one is closer, and what was found is JSON. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "iii/trigger_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_json(json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    json_t *again = text ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;

    require(json_equal(value, again));
    json_decref(again);
    json_decref(value);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1), *rest = text;
    const char *lines[4] = {"", "", "", ""};
    struct err err = {0};
    json_t *params;
    bool a, b;

    memcpy(text, data, size);
    for (size_t i = 0; i < 4 && rest; i++)
        lines[i] = strsep(&rest, "\n");
    check_json(route_query(lines[3]));
    if (route_check(lines[0], &err) < 0 || route_check(lines[1], &err) < 0) {
        require(err.kind == ERR_INVALID);
        free(text);
        return 0;
    }
    require(route_is_same(lines[0], lines[0]) && !route_is_closer(lines[0], lines[0]));
    require(route_matches(lines[0], lines[0], NULL));
    a = route_matches(lines[0], lines[2], NULL);
    b = route_matches(lines[1], lines[2], NULL);
    require(!route_is_same(lines[0], lines[1]) || a == b);
    require(!(a && b) || route_is_same(lines[0], lines[1]) ||
            route_is_closer(lines[0], lines[1]) != route_is_closer(lines[1], lines[0]));
    params = json_object();
    require(route_matches(lines[0], lines[2], params) == a);
    require(a || json_object_size(params) == 0);
    require(!a || strchr(lines[0], ':') || json_object_size(params) == 0);
    check_json(params);
    free(text);
    return 0;
}
