#include "model/shapes.h"

static const struct field answer_fields[] = {
    {"statusCode", FIELD_INT, .example = "200", .help = "of the server in the sandbox"},
    {"headers", FIELD_STRING_MAP, .example = "{\"content-type\": \"text/html\"}",
     .help = "names in lower case; of a name that came twice the values, with commas"},
    {"body", FIELD_STRING, .example = "\"hello\"",
     .help = "as text; what is no UTF-8 becomes U+FFFD"},
    {"url", FIELD_STRING, .example = "\"http://localhost:8080/\"",
     .help = "what was asked for, as the sandbox sees it"},
    {0},
};
const struct shape proxy_answer_shape = {"ProxyAnswer", answer_fields,
                                         .help = "what a server in a sandbox answered"};

static const struct field config_fields[] = {
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "its id"},
    {"proxyBase", FIELD_STRING, .example = "\"sandbox/proxy/sbx_5f0c1e6b2a9d4c7e8f013b52\"",
     .help = "a port and a path behind this lead to it"},
    {"url", FIELD_STRING,
     .example = "\"http://{port}-sbx-5f0c1e6b2a9d4c7e8f013b52.localhost:3111/\"",
     .help = "for browsers, with a number in place of {port}"},
    {"cors", FIELD_STRING, .example = "\"*\"", .help = "origins whose pages may read answers"},
    {"requireAuth", FIELD_BOOL, .example = "false",
     .help = "is a token or a signature always needed?"},
    {"timeout", FIELD_INT, .example = "30000", .help = "ms until the head of an answer must come"},
    {0},
};
const struct shape proxy_config_shape = {"ProxyConfig", config_fields,
                                         .help = "how requests are passed on to a sandbox"};

static const struct field signed_fields[] = {
    {"url", FIELD_STRING,
     .example = "\"http://8080-sbx-5f0c1e6b2a9d4c7e8f013b52.localhost:3111/"
                "?cay_signature=19a8…-3f…\"",
     .help = "opens the port to whoever has it"},
    {"path", FIELD_STRING,
     .example = "\"/sandbox/proxy/sbx_5f0c1e6b2a9d4c7e8f013b52/8080/?cay_signature=19a8…-3f…\"",
     .help = "the same at the address of the API"},
    {"expiresAt", FIELD_INT, .example = "1767225600000", .help = "until then"},
    {0},
};
const struct shape proxy_signed_shape = {"ProxySigned", signed_fields,
                                         .help = "an address that opens one port for a while"};
