#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/port_args.h"
#include "cli/ui.h"

/* 127.0.0.1:8080, [::1]:8080 */
static char *place_of(const json_t *port)
{
    const char *address = json_text(port, "hostAddress");
    bool v6 = strchr(address, ':');

    return xasprintf("%s%s%s:%d", v6 ? "[" : "", address, v6 ? "]" : "",
                     (int)json_int(port, "hostPort"));
}

static void print_one(const json_t *port, bool alone)
{
    auto_free char *place = place_of(port);
    bool active = strcmp(json_text(port, "state"), "active") == 0;
    const char *reason = json_text(port, "reason");

    if (alone) {
        printf("%s\n", place);
        return;
    }
    printf("%d/%s -> %s", (int)json_int(port, "containerPort"), json_text(port, "protocol"), place);
    if (!active)
        printf(" (does not listen%s%s)", *reason ? ": " : "", reason);
    printf("\n");
}

/* PORT or PORT/udp */
static int read_word(const char *word, uint16_t *ret, const char **ret_protocol)
{
    size_t n = strcspn(word, "/");
    auto_free char *number = xstrndup(word, n);

    *ret_protocol = !word[n] ? NULL : strcmp(word + n, "/udp") == 0 ? "udp" : "tcp";
    if (word[n] && strcmp(word + n, "/udp") != 0 && strcmp(word + n, "/tcp") != 0)
        return -1;
    return port_number(number, ret);
}

static int no_port(struct args *args, const char *word)
{
    return ui_usage(args, "\"%.80s\" is no port: write 80, 80/tcp or 53/udp", word);
}

static int print_ports(struct args *args, const json_t *ports, uint16_t port, const char *protocol)
{
    bool found = false;
    json_t *p;
    size_t i;

    if (args_has(args, "json") && port == 0) {
        ui_json(ports);
        return STATUS_OK;
    }
    json_array_foreach(ports, i, p)
    {
        if (port && (json_int(p, "containerPort") != port ||
                     strcmp(json_text(p, "protocol"), protocol ? protocol : "tcp") != 0))
            continue;
        found = true;
        if (args_has(args, "json"))
            ui_json(p);
        else
            print_one(p, port != 0);
    }
    if (port == 0 || found)
        return STATUS_OK;
    ui_warn("port %u/%s of %s is not on the host: cay port add %s %s", port,
            protocol ? protocol : "tcp", args->words[0], args->words[0], args->words[1]);
    return STATUS_FAILED;
}

int cmd_port(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    const char *protocol = NULL;
    struct err err = {0};
    json_t *answer = NULL;
    uint16_t port = 0;
    int status;

    if (args->n_words > 1 && read_word(args->words[1], &port, &protocol) < 0)
        return no_port(args, args->words[1]);
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/sandboxes/%s/ports", id) < 0)
        return ui_fail(&err);
    status = print_ports(args, json_object_get(answer, "ports"), port, protocol);
    json_decref(answer);
    return status;
}

/* Each is told as it comes: those before one that fails are there. */
static int add_all(struct args *args, json_t *ports)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *p;
    size_t i;

    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0)
        return ui_fail(&err);
    json_array_foreach(ports, i, p)
    {
        json_t *answer = NULL;

        if (api_call(&api, "POST", json_incref(p), &answer, &err, "/sandboxes/%s/ports", id) < 0)
            return ui_fail(&err);
        if (args_has(args, "json"))
            ui_json(answer);
        else
            print_one(answer, json_array_size(ports) == 1);
        json_decref(answer);
    }
    return STATUS_OK;
}

int cmd_port_add(struct args *args)
{
    json_t *ports = json_array();
    struct err err = {0};
    int status = STATUS_OK;

    for (size_t i = 1; status == STATUS_OK && i < args->n_words; i++)
        if (port_read(args->words[i], ports, &err) < 0)
            status = ui_usage(args, "%s", err.text);
    if (status == STATUS_OK)
        status = add_all(args, ports);
    json_decref(ports);
    return status;
}

int cmd_port_rm(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    const char *protocol;
    uint16_t port;

    for (size_t i = 1; i < args->n_words; i++)
        if (read_word(args->words[i], &port, &protocol) < 0)
            return no_port(args, args->words[i]);
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0)
        return ui_fail(&err);
    for (size_t i = 1; i < args->n_words; i++) {
        (void)read_word(args->words[i], &port, &protocol);
        if (api_call(&api, "DELETE", NULL, NULL, &err, "/sandboxes/%s/ports?containerPort=%u%s%s",
                     id, port, protocol ? "&protocol=" : "", protocol ? protocol : "") < 0)
            return ui_fail(&err);
        printf("%s\n", args->words[i]);
    }
    return STATUS_OK;
}
