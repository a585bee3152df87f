/* The first bytes of a connection, as TLS. What is read must not depend on how much has come. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gateway/peek.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct client_hello whole, part;
    enum hello_result r = client_hello_parse(data, size, &whole);

    (void)peek_classify(data, size);
    if (r == HELLO_DONE &&
        strspn(whole.name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") != strlen(whole.name))
        abort();
    for (size_t n = 0; n < size; n += 1 + n / 8) {
        enum hello_result before = client_hello_parse(data, n, &part);

        if (before == HELLO_DONE && (r != HELLO_DONE || strcmp(part.name, whole.name) != 0))
            abort();
        if (before == HELLO_BAD && r != HELLO_BAD)
            abort();
    }
    return 0;
}
