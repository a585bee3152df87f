#include "model/port.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"

const char *const port_protocol_words[] = {[PORT_TCP] = "tcp", [PORT_UDP] = "udp", NULL};

json_t *port_spec_json(const struct port_spec *p)
{
    json_t *o = json_pack("{s:i, s:i, s:s, s:s}", "containerPort", (int)p->port, "hostPort",
                          (int)p->host_port, "protocol", port_protocol_words[p->protocol],
                          "hostAddress", p->address);

    if (p->any)
        (void)json_object_set_new(o, "anyPort", json_true());
    return o;
}

static bool load_port(const json_t *o, const char *key, uint16_t *ret)
{
    json_int_t n = json_integer_value(json_object_get(o, key));

    *ret = (uint16_t)n;
    return n >= 1 && n <= 65535;
}

int port_spec_load(const json_t *o, struct port_spec *ret, struct err *err)
{
    const char *protocol = json_string_value(json_object_get(o, "protocol"));
    const char *address = json_string_value(json_object_get(o, "hostAddress"));
    struct port_spec p = {.any = json_is_true(json_object_get(o, "anyPort"))};

    if (!load_port(o, "containerPort", &p.port) || !load_port(o, "hostPort", &p.host_port) ||
        !protocol || !address || strlen(address) >= sizeof(p.address))
        return err_set(err, ERR_INTERNAL, "the stored configuration has no usable ports");
    p.protocol = strcmp(protocol, port_protocol_words[PORT_UDP]) == 0 ? PORT_UDP : PORT_TCP;
    (void)snprintf(p.address, sizeof(p.address), "%s", address);
    *ret = p;
    return 0;
}
