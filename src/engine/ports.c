#include "engine/ports.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine_internal.h"
#include "engine/news_internal.h"
#include "engine/ports_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/sandboxes.h"
#include "engine/turn_internal.h"
#include "engine/writer_internal.h"
#include "model/port.h"
#include "model/sandbox.h"

/* Which ports of a sandbox are on the host: checks, records, and what callers see of them. */

/* ---- what is asked for ---- */

static bool is_loopback(const char *address)
{
    struct in6_addr v6;
    struct in_addr v4;

    if (inet_pton(AF_INET, address, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* The same address has one text: who compares them compares texts. */
static bool normalize(const char *address, char ret[PORT_ADDRESS_MAX])
{
    unsigned char bytes[sizeof(struct in6_addr)];
    int family = strchr(address, ':') ? AF_INET6 : AF_INET;

    return inet_pton(family, address, bytes) == 1 &&
           inet_ntop(family, bytes, ret, PORT_ADDRESS_MAX);
}

static bool is_listed(const struct engine *e, const char *address)
{
    for (char *const *a = e->config.port_addresses; a && *a; a++) {
        char text[PORT_ADDRESS_MAX];

        if (strcmp(*a, "*") == 0 || (normalize(*a, text) && strcmp(text, address) == 0))
            return true;
    }
    return false;
}

static int read_address(const struct engine *e, const char *address, struct port_spec *ret,
                        struct err *err)
{
    if (!normalize(address, ret->address))
        return err_set(err, ERR_INVALID, "hostAddress must be an IP address of this machine");
    if (is_loopback(ret->address) || is_listed(e, ret->address))
        return 0;
    return err_code(err, ERR_FORBIDDEN, "address_not_allowed",
                    "ports of sandboxes are not allowed on %s; take 127.0.0.1, or have the "
                    "operator add it to CAY_PORT_ADDRESSES",
                    ret->address);
}

/* The fields were checked by the table. */
static int read_one(const struct engine *e, const json_t *in, struct port_spec *ret,
                    struct err *err)
{
    const json_t *host = json_object_get(in, "hostPort");
    const char *protocol = json_string_value(json_object_get(in, "protocol"));
    const char *address = json_string_value(json_object_get(in, "hostAddress"));
    json_int_t port = json_integer_value(json_object_get(in, "containerPort"));
    json_int_t host_port = host ? json_integer_value(host) : port;

    if (port < 1 || port > 65535 || host_port < 0 || host_port > 65535)
        return err_set(err, ERR_INVALID,
                       "containerPort must be from 1 to 65535, and hostPort from 0 to 65535");
    *ret = (struct port_spec){.port = (uint16_t)port,
                              .host_port = (uint16_t)host_port,
                              .any = host_port == 0,
                              .protocol =
                                  protocol && strcmp(protocol, "udp") == 0 ? PORT_UDP : PORT_TCP};
    return read_address(e, address ? address : "127.0.0.1", ret, err);
}

static int find(const json_t *ports, const struct port_spec *want, struct port_spec *ret)
{
    for (size_t i = 0; i < json_array_size(ports); i++)
        if (port_spec_load(json_array_get(ports, i), ret, NULL) == 0 && ret->port == want->port &&
            ret->protocol == want->protocol)
            return (int)i;
    return -1;
}

static int check_others(const json_t *ports, const struct port_spec *p, struct err *err)
{
    struct port_spec other;

    if (find(ports, p, &other) >= 0)
        return err_code(err, ERR_CONFLICT, "port_exposed",
                        "%s port %u of the sandbox is exposed already: %s port %u",
                        port_protocol_words[p->protocol], p->port, other.address, other.host_port);
    if (json_array_size(ports) >= PORTS_MAX)
        return err_code(err, ERR_LIMIT, "port_limit",
                        "the sandbox has %d ports on the host already; remove some", PORTS_MAX);
    return 0;
}

/* ---- records ---- */

static json_t *ports_of(struct sandbox *sb)
{
    json_t *ports;

    pthread_mutex_lock(&sb->lock);
    ports = json_incref(sb->spec.ports);
    pthread_mutex_unlock(&sb->lock);
    return ports;
}

/* Takes ports, and gives those before. */
static json_t *swap_ports(struct sandbox *sb, json_t *ports)
{
    json_t *before;

    pthread_mutex_lock(&sb->lock);
    before = sb->spec.ports;
    sb->spec.ports = ports;
    pthread_mutex_unlock(&sb->lock);
    return before;
}

/* Takes ports; stored when it returns, else all is as it was. */
static int set_ports(struct engine *e, struct sandbox *sb, json_t *ports, struct err *err)
{
    json_t *before = swap_ports(sb, ports);
    int r = writer_wait(e, writer_put(e, sb), err);

    if (r < 0)
        before = swap_ports(sb, before);
    json_decref(before);
    return r;
}

static json_t *with(const json_t *ports, const struct port_spec *p)
{
    json_t *all = ports ? json_copy((json_t *)(uintptr_t)ports) : json_array();

    (void)json_array_append_new(all, port_spec_json(p));
    return all;
}

/* ---- of a create ---- */

static int take_all(struct engine *e, const json_t *wanted, struct exposed *x, json_t *ports,
                    struct err *err)
{
    size_t i;
    json_t *one;

    json_array_foreach(wanted, i, one)
    {
        struct port_spec p;

        if (read_one(e, one, &p, err) < 0 || check_others(ports, &p, err) < 0 ||
            exposed_add(e, x, &p, err) < 0)
            return err_wrap(err, "ports[%zu]", i);
        (void)json_array_append_new(ports, port_spec_json(&p));
    }
    return 0;
}

int ports_read(struct engine *e, const struct sandbox_request *req, json_t **ret_ports,
               struct exposed **ret, struct err *err)
{
    *ret = NULL;
    if (json_array_size(req->ports) == 0)
        return 0;
    *ret = exposed_new(e);
    *ret_ports = json_array();
    return take_all(e, req->ports, *ret, *ret_ports, err);
}

int ports_take_late(struct engine *e, const struct sandbox_request *req, struct sandbox *sb,
                    struct err *err)
{
    struct exposed *x = NULL;
    json_t *ports = NULL;

    if (sb->exposed || json_array_size(req->ports) == 0)
        return 0;
    if (ports_read(e, req, &ports, &x, err) < 0) {
        exposed_drop(e, x);
        json_decref(ports);
        return -1;
    }
    json_decref(swap_ports(sb, ports));
    exposed_give(e, x, sb);
    return 0;
}

bool ports_collide(const struct engine *e, struct sandbox *sb, const json_t *wanted)
{
    json_t *ports = ports_of(sb);
    bool yes = false;

    for (size_t i = 0; i < json_array_size(wanted); i++) {
        struct port_spec p, has;

        if (read_one(e, json_array_get(wanted, i), &p, NULL) < 0)
            continue;
        for (size_t k = 0; k < json_array_size(ports); k++)
            yes = yes || (port_spec_load(json_array_get(ports, k), &has, NULL) == 0 &&
                          p.host_port == has.host_port && p.protocol == has.protocol);
    }
    json_decref(ports);
    return yes;
}

/* ---- after a restart ---- */

/* Its own port, or another where any will do. */
static bool take_again(struct engine *e, struct sandbox *sb, struct exposed *x, struct port_spec *p)
{
    uint16_t was = p->host_port;
    struct err err = {0};

    if (exposed_add(e, x, p, &err) == 0)
        return false;
    if (p->any) {
        p->host_port = 0;
        if (exposed_add(e, x, p, NULL) == 0) {
            log_warn("a port of a sandbox is another on the host now", "id", sb->box.id, "error",
                     err.text);
            return true;
        }
        p->host_port = was;
    }
    log_warn("a port of a sandbox cannot be had on the host; trying again", "id", sb->box.id,
             "error", err.text);
    exposed_add_missing(e, x, p);
    return false;
}

void ports_recover(struct engine *e, struct sandbox *sb)
{
    json_t *ports, *now;
    struct exposed *x;
    bool changed = false;

    if (json_array_size(sb->spec.ports) == 0)
        return;
    x = exposed_new(e);
    ports = ports_of(sb);
    now = json_array();
    for (size_t i = 0; i < json_array_size(ports); i++) {
        struct port_spec p;

        if (port_spec_load(json_array_get(ports, i), &p, NULL) < 0)
            continue; /* which a spec has none of */
        changed |= take_again(e, sb, x, &p);
        (void)json_array_append_new(now, port_spec_json(&p));
    }
    exposed_give(e, x, sb);
    exposed_follow(e, sb, sb->state);
    if (changed) {
        json_decref(swap_ports(sb, json_incref(now)));
        writer_leave(e, writer_put(e, sb));
    }
    json_decref(now);
    json_decref(ports);
}

/* ---- what callers do ---- */

static json_t *port_json(struct engine *e, struct sandbox *sb, const struct port_spec *p)
{
    struct err why = {0};
    bool open = sb->exposed && exposed_is_open(e, sb->exposed, p, &why);
    json_t *o = port_spec_json(p);

    (void)json_object_del(o, "anyPort");
    (void)json_object_set_new(o, "state", json_string(open ? "active" : "mapped"));
    if (why.kind != ERR_NONE)
        (void)json_object_set_new(o, "reason",
                                  json_sprintf("%s; it is tried again every 2 s", why.text));
    return o;
}

static void tell_port(struct engine *e, const struct sandbox *sb, const char *topic,
                      const struct port_spec *p)
{
    engine_tell(e, topic, sb->box.id,
                json_pack("{s:s, s:i, s:i, s:s}", "sandboxId", sb->box.id, "containerPort",
                          (int)p->port, "hostPort", (int)p->host_port, "protocol",
                          port_protocol_words[p->protocol]));
}

/* The row comes before the listener: a socket that is only bound goes with a daemon that is killed
 * in between, and its successor opens what the row says. */
static int expose_in_turn(struct engine *e, struct sandbox *sb, struct port_spec *p, json_t **ret,
                          struct err *err)
{
    bool first = !sb->exposed;
    struct exposed *x = first ? exposed_new(e) : sb->exposed;
    json_t *old = ports_of(sb);
    int r = sandbox_check_running(sb, err);

    if (r == 0)
        r = check_others(old, p, err);
    if (r == 0)
        r = exposed_add(e, x, p, err);
    if (r == 0) {
        r = set_ports(e, sb, with(old, p), err);
        if (r < 0)
            exposed_remove(e, x, p);
    }
    if (first && r < 0) {
        exposed_drop(e, x);
    } else if (first) {
        exposed_give(e, x, sb);
        exposed_follow(e, sb, SANDBOX_RUNNING);
    }
    if (r == 0) {
        *ret = port_json(e, sb, p);
        tell_port(e, sb, "port.opened", p);
    }
    json_decref(old);
    return r;
}

int engine_port_expose(struct engine *e, const char *id, const json_t *request, json_t **ret,
                       struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    struct port_spec p;
    int r;

    if (sandbox_get(e, id, &sb, err) < 0 || read_one(e, request, &p, err) < 0 ||
        turn_take(e, &sb->turn, err) < 0)
        return -1;
    r = expose_in_turn(e, sb, &p, ret, err);
    turn_give(&sb->turn);
    return r;
}

static json_t *list_in_turn(struct engine *e, struct sandbox *sb)
{
    json_t *ports = ports_of(sb), *all = json_array();

    for (size_t i = 0; i < json_array_size(ports); i++) {
        struct port_spec p;

        if (port_spec_load(json_array_get(ports, i), &p, NULL) == 0)
            (void)json_array_append_new(all, port_json(e, sb, &p));
    }
    json_decref(ports);
    return all;
}

int engine_ports(struct engine *e, const char *id, json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;

    if (sandbox_get(e, id, &sb, err) < 0 || turn_take(e, &sb->turn, err) < 0)
        return -1;
    *ret = json_object();
    (void)json_object_set_new(*ret, "ports", list_in_turn(e, sb));
    turn_give(&sb->turn);
    return 0;
}

/* The row first: should it not be written, all is as it was. */
static int remove_in_turn(struct engine *e, struct sandbox *sb, uint16_t port, const char *protocol,
                          struct err *err)
{
    json_t *old = ports_of(sb), *rest = json_array();
    struct port_spec gone[2], p;
    unsigned n = 0;
    int r;

    for (size_t i = 0; i < json_array_size(old); i++) {
        json_t *one = json_array_get(old, i);

        if (port_spec_load(one, &p, NULL) == 0 && p.port == port && n < 2 &&
            (!protocol || strcmp(protocol, port_protocol_words[p.protocol]) == 0))
            gone[n++] = p;
        else
            (void)json_array_append(rest, one);
    }
    if (n == 0) {
        r = err_code(err, ERR_NOT_FOUND, "port_not_found", "port %u of the sandbox is not exposed",
                     port);
        json_decref(rest);
    } else {
        r = set_ports(e, sb, rest, err);
    }
    for (unsigned i = 0; r == 0 && i < n && sb->exposed; i++)
        exposed_remove(e, sb->exposed, &gone[i]);
    for (unsigned i = 0; r == 0 && i < n; i++)
        tell_port(e, sb, "port.closed", &gone[i]);
    json_decref(old);
    return r;
}

int engine_port_remove(struct engine *e, const char *id, uint16_t port, const char *protocol,
                       json_t **ret, struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    int r;

    if (sandbox_get(e, id, &sb, err) < 0 || turn_take(e, &sb->turn, err) < 0)
        return -1;
    r = sandbox_check_there(sb, err);
    if (r == 0)
        r = remove_in_turn(e, sb, port, protocol, err);
    turn_give(&sb->turn);
    if (r == 0)
        *ret = json_pack("{s:i}", "removed", (int)port);
    return r;
}

bool ports_has_tcp(const json_t *ports, uint16_t port)
{
    struct port_spec want = {.port = port, .protocol = PORT_TCP}, p;

    return find(ports, &want, &p) >= 0;
}
