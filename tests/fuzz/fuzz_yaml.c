/* A YAML text that is taken has a line for each of its values; one that is not is refused with a
 * line and a reason. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/yaml_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static const char *lookup(const char *name, void *arg)
{
    (void)arg;
    return name[0] == 'a' ? name : NULL;
}

static void check_lines(json_t *value, const json_t *lines)
{
    const char *key;
    json_t *item;
    size_t i;

    require(yaml_line(lines) > 0);
    json_object_foreach(value, key, item) check_lines(item, yaml_lines_of(lines, key));
    json_array_foreach(value, i, item) check_lines(item, yaml_lines_at(lines, i));
}

static void check(const char *text, size_t len)
{
    json_t *value = NULL, *lines = NULL;
    struct err err = {0};

    if (yaml_read(text, len, &value, &lines, &err) < 0) {
        require(err.kind == ERR_INVALID && str_starts(err.text, "line "));
        require(!value && !lines);
        return;
    }
    check_lines(value, lines);
    json_decref(value);
    json_decref(lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_free char *text = xstrndup((const char *)data, size), *expanded = NULL;
    struct err err = {0};

    check((const char *)data, size);
    expanded = yaml_expand(text, lookup, NULL, &err);
    if (expanded)
        check(expanded, strlen(expanded));
    else
        require(err.kind == ERR_INVALID && str_starts(err.text, "line "));
    return 0;
}
