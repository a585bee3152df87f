#include "model/port.h"
#include "model/shapes.h"

#define CONTAINER_PORT                                                                             \
    {                                                                                              \
        "containerPort", FIELD_INT, .min = 1, .max = 65535, .example = "8000",                     \
                                    .help = "in the sandbox"                                       \
    }

static const struct field record_fields[] = {
    CONTAINER_PORT,
    {"hostPort", FIELD_INT, .example = "8000", .help = "on the host"},
    {"protocol", FIELD_STRING, .choices = port_protocol_words, .example = "\"tcp\"",
     .help = "tcp or udp"},
    {"hostAddress", FIELD_STRING, .example = "\"127.0.0.1\"", .help = "of the host"},
    {"anyPort", FIELD_BOOL, .optional = true, .help = "true when any free hostPort was asked for"},
    {0},
};
const struct shape port_record_shape = {"PortRecord", record_fields,
                                        .help = "a port that can be reached on the host"};

const struct field port_request_fields[] = {
    CONTAINER_PORT,
    {"hostPort", FIELD_INT, .optional = true, .max = 65535, .example = "8000",
     .help = "on the host; 0 = any that is free (default: containerPort)"},
    {"protocol", FIELD_STRING, .choices = port_protocol_words, .preset = "\"tcp\"",
     .help = "tcp or udp"},
    {"hostAddress", FIELD_STRING, .optional = true, .min = 2, .max = PORT_ADDRESS_MAX - 1,
     .example = "\"127.0.0.1\"",
     .help = "of the host (default 127.0.0.1); others than its loopback's as CAY_PORT_ADDRESSES "
             "allows"},
    {0},
};
const struct shape port_request_shape = {"PortRequest", port_request_fields,
                                         .help = "a port to reach on the host"};

static const char *const state_words[] = {"active", "mapped", NULL};

static const struct field port_fields[] = {
    CONTAINER_PORT,
    {"hostPort", FIELD_INT, .example = "8000", .help = "on the host"},
    {"protocol", FIELD_STRING, .choices = port_protocol_words, .example = "\"tcp\"",
     .help = "tcp or udp"},
    {"hostAddress", FIELD_STRING, .example = "\"127.0.0.1\"", .help = "of the host"},
    {"state", FIELD_STRING, .choices = state_words, .example = "\"active\"",
     .help = "active = the host listens; mapped = not now: the sandbox is stopped, or reason says "
             "why"},
    {"reason", FIELD_STRING, .optional = true, .help = "why the host does not let it listen"},
    {0},
};
const struct shape port_shape = {"Port", port_fields, .help = "a port of a sandbox on the host"};

static const struct field list_fields[] = {
    {"ports", FIELD_ARRAY, .of = &port_shape, .help = "in the order in which they were exposed"},
    {0},
};
const struct shape port_list_shape = {"PortList", list_fields, .help = "all of a sandbox"};

static const struct field removed_fields[] = {
    {"removed", FIELD_INT, .example = "8000", .help = "containerPort"},
    {0},
};
const struct shape port_removed_shape = {"PortRemoved", removed_fields,
                                         .help = "it cannot be reached any more"};
