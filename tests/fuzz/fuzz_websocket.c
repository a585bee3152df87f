/* What a client sends over a WebSocket. The first byte says how long the pieces are. All of it is
 * also tried as a list of subprotocols, with a token among them. */
#include "frames_rig.h"
#include "rest/auth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char list[256] = "", token[32];

    if (size < 1)
        return 0;
    memcpy(list, data, size < sizeof(list) ? size : sizeof(list) - 1);
    (void)websocket_list_has(list, "cay");
    if (auth_token_of_protocols(list, token, sizeof(token)))
        require(token[0] && strlen(token) < sizeof(token));
    frames_try(websocket_new, data + 1, size - 1, 1 + data[0] % 16);
    return 0;
}
