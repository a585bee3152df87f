#include "model/shapes.h"

/* What a sandbox may reach, and what it was refused. */

static const struct field network_fields[] = {
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "whose it is"},
    {"network", FIELD_NETWORK, .example = "true",
     .help = "what it may reach: false nothing, true the public internet, else a policy"},
    {"address", FIELD_STRING, .nullable = true, .example = "\"10.241.0.2\"",
     .help = "its IPv4 address; null while it is not connected"},
    {"address6", FIELD_STRING, .nullable = true, .example = "null", .help = "its IPv6 address"},
    {"rxBytes", FIELD_INT, .example = "0", .help = "received since it was connected"},
    {"txBytes", FIELD_INT, .example = "0", .help = "sent"},
    {"denied", FIELD_INT, .example = "0",
     .help = "how much it was refused, as far as this daemon has seen it"},
    {0},
};
const struct shape sandbox_network_shape = {"SandboxNetwork", network_fields,
                                            .help = "the network of a sandbox"};

static const struct field name_fields[] = {
    {"allowed", FIELD_BOOL, .help = "whether the name is answered"},
    {"inspect", FIELD_BOOL, .optional = true, .help = "as in the verdict"},
    {"rule", FIELD_INT, .example = "0", .help = "as in the verdict"},
    {"why", FIELD_STRING, .example = "\"rules[0]: allow pypi.org\"", .help = "for people"},
    {0},
};
static const struct shape name_verdict_shape = {"NameVerdict", name_fields,
                                                .help = "what happens to a question for a name"};

static const struct field address_fields[] = {
    {"address", FIELD_STRING, .example = "\"151.101.0.223\"", .help = "of the name"},
    {"allowed", FIELD_BOOL, .help = "whether it can be reached"},
    {"inspect", FIELD_BOOL, .optional = true, .help = "as in the verdict"},
    {"rule", FIELD_INT, .example = "0", .help = "as in the verdict"},
    {"why", FIELD_STRING, .example = "\"rules[0]: allow pypi.org\"", .help = "for people"},
    {"pinned", FIELD_BOOL, .optional = true,
     .help = "the sandbox was given this address for the name"},
    {0},
};
static const struct shape address_verdict_shape = {
    "AddressVerdict", address_fields, .help = "what happens to a connection to an address"};

static const struct field verdict_fields[] = {
    {"host", FIELD_STRING, .example = "\"pypi.org\"", .help = "what was asked for"},
    {"port", FIELD_INT, .example = "443", .help = "what was asked for"},
    {"protocol", FIELD_STRING, .example = "\"tcp\"", .help = "what was asked for"},
    {"allowed", FIELD_BOOL, .help = "whether it would be let out"},
    {"inspect", FIELD_BOOL,
     .help = "let out if TLS or HTTP names a host that the policy allows there"},
    {"rule", FIELD_INT, .example = "0",
     .help = "number of the rule that decides, profiles' after one's own; -1 the default, -2 built "
             "in"},
    {"why", FIELD_STRING, .example = "\"rules[0]: allow pypi.org\"", .help = "for people"},
    {"name", FIELD_OBJECT, .optional = true, .of = &name_verdict_shape,
     .help = "what happens to the question for the name"},
    {"addresses", FIELD_ARRAY, .optional = true, .of = &address_verdict_shape,
     .help = "what happens to each address"},
    {0},
};
const struct shape network_verdict_shape = {"NetworkVerdict", verdict_fields,
                                            .help = "what would happen, and which rule says so"};

static const struct field denial_fields[] = {
    {"seq", FIELD_INT, .example = "1", .help = "counts up, in one sandbox"},
    {"time", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"direction", FIELD_STRING, .optional = true, .example = "\"egress\"",
     .help = "egress or ingress"},
    {"protocol", FIELD_STRING, .optional = true, .example = "\"tcp\"",
     .help = "tcp, udp, icmp, dns …"},
    {"address", FIELD_STRING, .optional = true, .example = "\"93.184.215.14\"",
     .help = "whom it called"},
    {"port", FIELD_INT, .optional = true, .example = "443", .help = "there"},
    {"name", FIELD_STRING, .optional = true, .example = "\"example.com\"",
     .help = "the name that it asked for or said"},
    {"rule", FIELD_INT, .optional = true, .example = "-1", .help = "as in a NetworkVerdict"},
    {"why", FIELD_STRING, .optional = true, .example = "\"default: deny\"", .help = "for people"},
    {"count", FIELD_INT, .example = "1", .help = "how often, since the line before"},
    {0},
};
const struct shape network_denial_shape = {"NetworkDenial", denial_fields,
                                           .help = "something that a sandbox was refused"};

static const struct field log_fields[] = {
    {"denied", FIELD_ARRAY, .of = &network_denial_shape, .help = "the oldest first"},
    {"next", FIELD_INT, .example = "1", .help = "`after` for the next call"},
    {0},
};
const struct shape network_log_shape = {"NetworkLog", log_fields,
                                        .help = "what a sandbox was refused"};
