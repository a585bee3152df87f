/* What the worker and the warden could be sent by the other, were it another's: what is taken comes
 * out again as it went in. */
#include <stdlib.h>
#include <string.h>

#include "gateway/worker_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const json_t *message)
{
    static struct wire_ask one, two;
    json_t *again;

    if (wire_ask_parse(message, &one) < 0)
        return;
    again = wire_ask_json(&one);
    if (!again || wire_ask_parse(again, &two) < 0 || one.kind != two.kind ||
        one.number != two.number || strcmp(one.box, two.box) != 0 ||
        one.address_count != two.address_count)
        abort();
    json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *message = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    static struct wire_order order;

    if (json_is_object(message)) {
        ask(message);
        if (wire_order_parse(message, &order) == 0)
            wire_order_done(&order);
    }
    json_decref(message);
    return 0;
}
