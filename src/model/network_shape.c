#include "model/shapes.h"

static const char *const action_words[] = {"allow", "deny", NULL};
static const char *const direction_words[] = {"egress", "ingress", "any", NULL};

static const struct field rule_fields[] = {
    {"action", FIELD_STRING, .choices = action_words, .example = "\"allow\"",
     .help = "what becomes of what it matches"},
    {"direction", FIELD_STRING, .optional = true, .choices = direction_words,
     .help = "who begins: the sandbox (egress, the default), or who calls a port of it"},
    {"destination", FIELD_STRING, .optional = true, .example = "\"pypi.org\"",
     .help = "an address, a range, a domain, *.suffix, a group (public, private, host, metadata, "
             "link-local, multicast, loopback, dns), or * (the default)"},
    {"protocol", FIELD_STRING, .optional = true, .example = "\"tcp\"",
     .help = "tcp, udp, icmp, icmpv6, several with commas (default: TCP and UDP, of a name TCP); a "
             "list is taken too"},
    {"port", FIELD_STRING, .optional = true, .example = "\"443\"",
     .help = "443, 8000-8100, several with commas (default: all); a number or a list is taken too"},
    {0},
};
static const struct shape network_rule_shape = {"NetworkRule", rule_fields,
                                                .help = "one rule; the first that matches decides"};

static const struct field dns_fields[] = {
    {"nameservers", FIELD_STRINGS, .optional = true, .example = "[\"1.1.1.1\"]",
     .help = "who is asked; else those of the host"},
    {"rebindProtection", FIELD_BOOL, .optional = true, .example = "true",
     .help = "an answer with a private address is none (default true)"},
    {"queryTimeout", FIELD_INT, .optional = true, .example = "5000",
     .help = "milliseconds, from 100 to 30000 (default 5000)"},
    {0},
};
static const struct shape network_dns_shape = {"NetworkDns", dns_fields,
                                               .help = "how names are asked for"};

static const struct field rate_fields[] = {
    {"bytesPerSecond", FIELD_INT, .example = "1000000", .help = "1024 to 12500000000"},
    {"burst", FIELD_INT, .optional = true, .example = "131072",
     .help = "bytes at once (default: a tenth of a second, at least 128 KiB)"},
    {0},
};
static const struct shape network_rate_shape = {"NetworkRate", rate_fields,
                                                .help = "what is more is dropped"};

static const struct field rate_limit_fields[] = {
    {"egress", FIELD_OBJECT, .optional = true, .of = &network_rate_shape,
     .help = "what the sandbox sends"},
    {"ingress", FIELD_OBJECT, .optional = true, .of = &network_rate_shape,
     .help = "what it is sent"},
    {0},
};
static const struct shape network_rate_limit_shape = {"NetworkRateLimit", rate_limit_fields,
                                                      .help = "how fast"};

static const struct field policy_fields[] = {
    {"default", FIELD_STRING, .optional = true, .choices = action_words, .example = "\"deny\"",
     .help = "what no rule matches (default deny); allow means public addresses"},
    {"defaultIngress", FIELD_STRING, .optional = true, .choices = action_words,
     .example = "\"allow\"",
     .help = "who calls a published port and no rule matches (default "
             "allow)"},
    {"rules", FIELD_ARRAY, .optional = true, .of = &network_rule_shape,
     .help = "at most 256; a text as allow@pypi.org:tcp:443 is taken for one too"},
    {"profiles", FIELD_STRINGS, .optional = true, .example = "[\"pypi\"]",
     .help = "rules that belong together, after the others: pypi, npm, github, debian, …"},
    {"dns", FIELD_OBJECT, .optional = true, .of = &network_dns_shape,
     .help = "how names are asked "
             "for"},
    {"rateLimit", FIELD_OBJECT, .optional = true, .of = &network_rate_limit_shape,
     .help = "how fast (default: no limit)"},
    {"maxConnections", FIELD_INT, .optional = true, .example = "1024",
     .help = "open at a time, 1 to 65536 (default 1024)"},
    {0},
};
const struct shape network_policy_shape = {"NetworkPolicy", policy_fields,
                                           .help = "what a sandbox may reach; see "
                                                   "docs/network-policy.md"};

static const struct field network_fields[] = {
    {"id", FIELD_STRING, .example = EXAMPLE_NETWORK_ID, .help = "net_ and 24 hex digits"},
    {"name", FIELD_STRING, .example = "\"backend\"", .help = "no other network has it"},
    {"dockerNetworkId", FIELD_STRING, .example = EXAMPLE_NETWORK_ID,
     .help = "the id, for clients that want it"},
    {"sandboxes", FIELD_STRINGS, .example = "[" EXAMPLE_SANDBOX_ID "]",
     .help = "ids of those in it, the oldest first"},
    {"createdAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {0},
};
const struct shape network_shape = {"Network", network_fields,
                                    .help = "sandboxes that see each other"};

static const struct field network_list_fields[] = {
    {"networks", FIELD_ARRAY, .of = &network_shape, .help = "the oldest first"},
    {0},
};
const struct shape network_list_shape = {"NetworkList", network_list_fields, .help = "all of them"};

static const struct field connected_fields[] = {
    {"connected", FIELD_BOOL, .example = "true", .help = "always true"},
    {0},
};
const struct shape network_connected_shape = {"NetworkConnected", connected_fields,
                                              .help = "it is in the network"};

static const struct field disconnected_fields[] = {
    {"disconnected", FIELD_BOOL, .example = "true", .help = "always true"},
    {0},
};
const struct shape network_disconnected_shape = {"NetworkDisconnected", disconnected_fields,
                                                 .help = "it is not in the network any more"};

static const struct field network_deleted_fields[] = {
    {"deleted", FIELD_STRING, .example = EXAMPLE_NETWORK_ID, .help = "its id"},
    {0},
};
const struct shape network_deleted_shape = {"NetworkDeleted", network_deleted_fields,
                                            .help = "it is gone"};
