#include "cli/port_args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/args.h"
#include "cli/ui.h"

int port_number(const char *text, uint16_t *ret)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || n < 1 || n > 65535)
        return -EINVAL;
    *ret = (uint16_t)n;
    return 0;
}

struct range {
    uint16_t first, last;
};

/* 80 or 80-90 */
static int read_range(const char *text, struct range *ret)
{
    auto_free char *copy = xstrdup(text);
    char *to = strchr(copy, '-');

    if (to)
        *to++ = '\0';
    if (port_number(copy, &ret->first) < 0 || port_number(to ? to : copy, &ret->last) < 0)
        return -EINVAL;
    return ret->last < ret->first ? -EINVAL : 0;
}

/* Takes "/udp" off its end. */
static const char *take_protocol(char *text)
{
    char *slash = strrchr(text, '/');

    if (!slash)
        return "tcp";
    *slash = '\0';
    return strcmp(slash + 1, "udp") == 0 ? "udp" : strcmp(slash + 1, "tcp") == 0 ? "tcp" : NULL;
}

/* Takes the address off its beginning, with what is around it; "" = none. */
static const char *take_address(char **at)
{
    char *text = *at, *end;

    if (*text == '[') {
        end = strchr(text, ']');
        if (!end || end[1] != ':')
            return NULL;
        *end = '\0';
        *at = end + 2;
        return text + 1;
    }
    end = strchr(text, ':');
    if (!end || !strchr(end + 1, ':'))
        return "";
    *end = '\0';
    *at = end + 1;
    return text;
}

static int bad(const char *text, struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "\"%.80s\" is no port: write 8080:80, 127.0.0.1:8080:80/tcp, or 80 for any free "
                   "port of the host",
                   text);
}

int port_read(const char *text, json_t *ports, struct err *err)
{
    auto_free char *copy = xstrdup(text);
    const char *protocol = take_protocol(copy), *address;
    struct range host = {0}, box;
    char *at = copy, *inner;

    address = protocol ? take_address(&at) : NULL;
    if (!address)
        return bad(text, err);
    inner = strchr(at, ':');
    if (inner)
        *inner++ = '\0';
    /* 127.0.0.1::80 and 0:80 say that any port of the host will do */
    if ((inner && *at && strcmp(at, "0") != 0 && read_range(at, &host) < 0) ||
        read_range(inner ? inner : at, &box) < 0)
        return bad(text, err);
    if (host.first && host.last - host.first != box.last - box.first)
        return err_set(err, ERR_INVALID, "the ranges of \"%.80s\" are not of one length", text);
    for (unsigned i = 0; i <= (unsigned)(box.last - box.first); i++) {
        json_t *o = json_pack("{s:i, s:i, s:s}", "containerPort", (int)(box.first + i), "hostPort",
                              host.first ? (int)(host.first + i) : 0, "protocol", protocol);

        if (*address)
            json_put_text(o, "hostAddress", address);
        (void)json_array_append_new(ports, o);
    }
    return 0;
}

int port_args(const struct args *args, json_t *body, struct err *err)
{
    char **texts = args_list(args, "publish");
    json_t *ports;

    if (!texts)
        return 0;
    ports = json_array();
    (void)json_object_set_new(body, "ports", ports);
    for (; *texts; texts++)
        if (port_read(*texts, ports, err) < 0)
            return -1;
    return 0;
}
