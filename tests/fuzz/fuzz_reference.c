/* The name of an image. What is taken has the promised parts, and means the same when it is written
 * short or whole and read again. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "oci/digest.h"
#include "oci/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_again(const char *text, const char *full)
{
    auto_free char *again = NULL;
    struct reference ref;

    require(reference_parse(text, &ref, NULL) == 0);
    again = reference_full(&ref);
    require(strcmp(again, full) == 0);
    reference_done(&ref);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_free char *text = xstrndup((const char *)data, size);
    auto_free char *full = NULL, *shortest = NULL;
    struct err err = {0};
    struct reference ref;

    if (reference_parse(text, &ref, &err) < 0) {
        require(err.kind == ERR_INVALID && err.code && err.text[0]);
        return 0;
    }
    require(ref.host[0] && ref.path[0] && (ref.tag || ref.digest));
    require(!strpbrk(ref.host, "/@ \t\n%?#\\") && !strpbrk(ref.path, ":@ \t\n%?#\\"));
    require(!strstr(ref.path, "..") && ref.path[0] != '/');
    require(!ref.tag || (strlen(ref.tag) <= 128 && !strpbrk(ref.tag, "/:@ %?#")));
    require(!ref.digest || digest_valid(ref.digest));
    full = reference_full(&ref);
    shortest = reference_short(&ref);
    require(strlen(full) <= REFERENCE_MAX && strlen(shortest) <= strlen(full));
    reference_done(&ref);
    check_again(full, full);
    check_again(shortest, full);
    return 0;
}
