#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/escape.h"
#include "cli/logs.h"
#include "cli/network_args.h"
#include "cli/table.h"
#include "cli/ui.h"
#include "libcay/sse.h"

/* `cay net`: what a sandbox may reach, and what it was refused. */

static int open_sandbox(const struct args *args, struct api *api, char **ret_id, struct err *err)
{
    if (api_open(api, args, err) < 0)
        return -1;
    return api_sandbox_id(api, args->words[0], ret_id, err);
}

/* ---- show, set ---- */

/* One, or several as JSON; "any" when nothing is said. */
static char *one_or_all(const json_t *value)
{
    if (json_is_string(value))
        return xstrdup(json_string_value(value));
    return value ? json_dumps(value, JSON_ENCODE_ANY) : xstrdup("any");
}

/* "rules[0]  allow  pypi.org  tcp 443" */
static void add_rule(struct table *t, size_t i, const json_t *rule)
{
    auto_free char *ports = one_or_all(json_object_get(rule, "port"));
    auto_free char *protocols = one_or_all(json_object_get(rule, "protocol"));
    const char *direction = json_text(rule, "direction");

    table_cellf(t, "%zu", i);
    table_cell(t, json_text(rule, "action"));
    table_cell(t, *direction ? direction : "egress");
    table_cell(t, json_text(rule, "destination"));
    table_cell(t, protocols);
    table_cell(t, ports);
}

static void print_rules(const json_t *rules)
{
    auto_table struct table t = {0};
    size_t i;
    json_t *rule;

    if (json_array_size(rules) == 0)
        return;
    table_init(&t, ">RULE|ACTION|DIRECTION|DESTINATION|PROTOCOL|PORT");
    json_array_foreach(rules, i, rule)
    {
        add_rule(&t, i, rule);
    }
    printf("\n");
    table_print(&t, stdout, ui_has_color(STDOUT_FILENO));
}

static void print_network(const json_t *answer)
{
    const json_t *network = json_object_get(answer, "network");
    auto_free char *words = network_words(network);
    const char *address = json_text(answer, "address"), *address6 = json_text(answer, "address6");
    char rx[24], tx[24];

    ui_size(json_num(answer, "rxBytes"), rx);
    ui_size(json_num(answer, "txBytes"), tx);
    printf("network   %s\n", words);
    printf("address   %s%s%s\n", *address ? address : "-", *address6 ? ", " : "", address6);
    printf("received  %s\nsent      %s\nrefused   %" PRId64 "\n", rx, tx,
           json_int(answer, "denied"));
    print_rules(json_object_get(network, "rules"));
}

static int tell_network(const struct args *args, json_t *answer)
{
    if (args_has(args, "json"))
        ui_json(answer);
    else
        print_network(answer);
    json_decref(answer);
    return STATUS_OK;
}

int cmd_net_show(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *answer = NULL;

    if (open_sandbox(args, &api, &id, &err) < 0 ||
        api_call(&api, "GET", NULL, &answer, &err, "/sandboxes/%s/network", id) < 0)
        return ui_fail(&err);
    return tell_network(args, answer);
}

int cmd_net_set(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *answer = NULL, *network = NULL;
    const char *word = args->n_words > 1 ? args->words[1] : NULL;

    if (network_of_words(word, args_list(args, "allow"), args_list(args, "deny"), &network, &err) <
        0)
        return ui_usage(args, "%s", err.text);
    if (!network || (word && !*word)) {
        json_decref(network);
        return ui_usage(args, "net set needs to be told what: a preset, profiles, a file, or "
                              "--allow and --deny");
    }
    if (open_sandbox(args, &api, &id, &err) < 0) {
        json_decref(network);
        return ui_fail(&err);
    }
    if (api_call(&api, "PUT", json_pack("{s:o}", "network", network), &answer, &err,
                 "/sandboxes/%s/network", id) < 0)
        return ui_fail(&err);
    return args_has(args, "quiet") ? (json_decref(answer), STATUS_OK) : tell_network(args, answer);
}

/* ---- explain ---- */

/* What a program was given, http://HOST/path, without what is no host or port. */
static char *bare_host(const char *word, uint64_t *ret_port)
{
    const char *scheme = strstr(word, "://"), *host = scheme ? scheme + 3 : word;

    *ret_port = str_starts(word, "http://") ? 80 : 443;
    return xstrndup(host, scheme ? strcspn(host, "/?#") : strlen(host));
}

/* HOST, HOST:PORT, [V6]:PORT, or a URL. */
static int read_host(const char *text, char **ret_host, uint64_t *ret_port, struct err *err)
{
    auto_free char *word = bare_host(text, ret_port);
    const char *close = *word == '[' ? strchr(word, ']') : NULL;
    const char *colon = strrchr(close ? close : word, ':');

    if (!close && colon && strchr(word, ':') != colon)
        colon = NULL; /* an IPv6 address without brackets */
    if (colon && (str_u64(colon + 1, ret_port) < 0 || *ret_port < 1 || *ret_port > 65535))
        return err_set(err, ERR_INVALID, "\"%.80s\" has no port from 1 to 65535", word);
    if (close)
        *ret_host = xstrndup(word + 1, (size_t)(close - word) - 1);
    else
        *ret_host = xstrndup(word, colon ? (size_t)(colon - word) : strlen(word));
    if (**ret_host)
        return 0;
    free(*ret_host);
    *ret_host = NULL;
    return err_set(err, ERR_INVALID, "write HOST or HOST:PORT");
}

static const char *verdict_word(const json_t *verdict)
{
    if (!json_is_true(json_object_get(verdict, "allowed")))
        return "refused";
    return json_is_true(json_object_get(verdict, "inspect"))
               ? "allowed, if TLS or HTTP names a host that is"
               : "allowed";
}

static void print_verdict(const json_t *verdict)
{
    const json_t *name = json_object_get(verdict, "name");
    size_t i;
    json_t *one;

    ui_line("%s:%" PRId64 "/%s  %s", json_text(verdict, "host"), json_int(verdict, "port"),
            json_text(verdict, "protocol"), verdict_word(verdict));
    ui_line("  because  %s", json_text(verdict, "why"));
    if (json_is_object(name))
        ui_line("  name     %s: %s",
                json_is_true(json_object_get(name, "allowed")) ? "answered" : "NXDOMAIN",
                json_text(name, "why"));
    json_array_foreach(json_object_get(verdict, "addresses"), i, one)
    {
        ui_line("  %s  %s%s: %s", json_text(one, "address"), verdict_word(one),
                json_is_true(json_object_get(one, "pinned")) ? " (given to it)" : "",
                json_text(one, "why"));
    }
}

int cmd_net_explain(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL, *host = NULL;
    struct err err = {0};
    json_t *verdict = NULL;
    uint64_t port;
    int status;

    if (read_host(args->words[1], &host, &port, &err) < 0)
        return ui_usage(args, "%s", err.text);
    if (open_sandbox(args, &api, &id, &err) < 0 ||
        api_call(&api, "POST",
                 json_pack("{s:s, s:I, s:s}", "host", host, "port", (json_int_t)port, "protocol",
                           args_text(args, "protocol") ? args_text(args, "protocol") : "tcp"),
                 &verdict, &err, "/sandboxes/%s/network/explain", id) < 0)
        return ui_fail(&err);
    status = json_is_true(json_object_get(verdict, "allowed")) ? STATUS_OK : STATUS_FAILED;
    if (args_has(args, "json"))
        ui_json(verdict);
    else
        print_verdict(verdict);
    json_decref(verdict);
    return status;
}

/* ---- log ---- */

static void print_denial(const json_t *d)
{
    time_t seconds = (time_t)(json_int(d, "time") / 1000);
    auto_free char *name = escape_text(ESCAPE_LINES, json_text(d, "name"));
    auto_free char *why = escape_text(ESCAPE_LINES, json_text(d, "why"));
    const char *address = json_text(d, "address");
    int64_t port = json_int(d, "port"), count = json_int(d, "count");
    char text[32];
    struct tm tm;

    (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));
    printf("%s.%03dZ  refused %s ", text, (int)(json_int(d, "time") % 1000),
           json_text(d, "protocol"));
    printf(port > 0 && strchr(address, ':') ? "[%s]" : "%s", address);
    if (port > 0)
        printf(":%" PRId64, port);
    if (*name)
        printf("%s%s%s", *address ? " (" : "", name, *address ? ")" : "");
    printf("  %s", why);
    if (count > 1)
        printf("  %" PRId64 " times", count);
    printf("\n");
}

static void show_denial(const struct args *args, const json_t *denial)
{
    if (args_has(args, "json"))
        ui_json_line(denial);
    else
        print_denial(denial);
}

static int list_denials(const struct args *args, struct api *api, const char *id, double limit,
                        struct err *err)
{
    json_t *answer = NULL, *d;
    size_t i;

    if (api_call(api, "GET", NULL, &answer, err, "/sandboxes/%s/network/log?limit=%.0f", id,
                 limit) < 0)
        return -1;
    json_array_foreach(json_object_get(answer, "denied"), i, d)
    {
        show_denial(args, d);
    }
    json_decref(answer);
    return 0;
}

/* Until the sandbox is removed. */
static int follow_denials(const struct args *args, struct api *api, const char *id, double tail,
                          struct err *err)
{
    auto_free char *path = xasprintf("/sandboxes/%s/stream/network?tail=%.0f", id, tail);
    struct sse_reader events = {0};
    json_t *event;
    int r = sse_open(&events, api, path, err) < 0 ? -1 : 1;

    while (r > 0 && !ui_output_failed()) {
        r = sse_next(&events, &event, err);
        if (r <= 0)
            break;
        show_denial(args, event);
        (void)fflush(stdout);
        json_decref(event);
    }
    sse_close(&events);
    return r < 0 ? -1 : 0;
}

int net_log(struct args *args, struct api *api, const char *id, bool follow, double tail)
{
    struct err err = {0};
    int r = follow ? follow_denials(args, api, id, tail, &err)
                   : list_denials(args, api, id, tail, &err);

    return r < 0 ? ui_fail(&err) : STATUS_OK;
}

int cmd_net_log(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};

    if (open_sandbox(args, &api, &id, &err) < 0)
        return ui_fail(&err);
    return net_log(args, &api, id, args_has(args, "follow"), args_number(args, "tail", 1000));
}
