#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "cli/humantime.h"
#include "cli/iii_client.h"
#include "cli/link_names.h"
#include "cli/sandbox_output.h"
#include "cli/trigger_args.h"
#include "tap.h"

/* ---- times ---- */

TEST(times_have_units)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"500ms", 500},
        {"30s", 30000},
        {"5m", 300000},
        {"1h", 3600000},
        {"1h 30m", 5400000},
        {"1m30s", 90000},
        {"2days", 172800000},
        {"1 hour 1 sec", 3601000},
        {"0", 0},
        {"0s", 0},
        {"1us", 1},
        {"1500us", 2},
        {"1w", 604800000},
        {" 5s ", 5000},
        {"10000ms", 10000},
        {"1min 1msec", 60001},
    };
    static const char *const bad[] = {"",     "30",   "s",   "5 x",  "-5s",          "1.5s",
                                      "5s 3", "soon", "5ss", "1e3s", "99999999999y", "5s,3s"};
    int64_t ms = 7;

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        if (humantime_ms(good[i].text, &ms) < 0)
            TAP_FAIL("%s is refused", good[i].text);
        CHECK_INT(ms, good[i].ms);
    }
    ms = 7;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (humantime_ms(bad[i], &ms) == 0)
            TAP_FAIL("\"%s\" is taken", bad[i]);
    CHECK_INT(ms, 7);
}

/* ---- what is sent ---- */

static const char *payload(const char *json, size_t n, char **pairs)
{
    static char *shown;
    static struct err err;
    json_t *made;

    free(shown);
    shown = NULL;
    err = (struct err){0};
    if (trigger_payload(json, pairs, n, &made, &err) < 0)
        return err.text;
    shown = json_dumps(made, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    json_decref(made);
    return shown;
}

#define PAIRS(...)                                                                                 \
    ARRAY_LEN(((char *[]){__VA_ARGS__})), (char *[])                                               \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

TEST(values_are_json_or_text)
{
    CHECK_STR(payload(NULL, 0, NULL), "{}");
    CHECK_STR(
        payload(NULL, PAIRS("a=1", "b=x y", "c=\"q\"", "d={\"e\":[]}", "f=", "g=1 2", "h=a=b")),
        "{\"a\":1,\"b\":\"x y\",\"c\":\"q\",\"d\":{\"e\":[]},\"f\":\"\",\"g\":\"1 2\","
        "\"h\":\"a=b\"}");
    CHECK_STR(payload("{\"a\":1,\"z\":2}", PAIRS("a=3")), "{\"a\":3,\"z\":2}");
    CHECK_STR(payload("[1]", 0, NULL), "[1]");
    CHECK_STR(payload("null", 0, NULL), "null");
}

TEST(what_cannot_be_sent_is_refused)
{
    CHECK_STR(payload("[1]", PAIRS("a=3")),
              "--json must be an object when there are KEY=VALUE too");
#define NO_PAIR " must be KEY=VALUE; a JSON object is given with --json"
    CHECK_STR(payload(NULL, PAIRS("a")), "\"a\"" NO_PAIR);
    CHECK_STR(payload(NULL, PAIRS("=a")), "\"=a\"" NO_PAIR);
    CHECK_STR(payload(NULL, PAIRS("a=\xff")), "\"a=\xff\"" NO_PAIR);
    CHECK(strncmp(payload("{", 0, NULL), "--json is no JSON: ", 19) == 0);
}

/* ---- what went wrong ---- */

static const char *code_of(const char *message)
{
    static char code[32];
    json_t *o = iii_client_envelope(message);

    (void)snprintf(code, sizeof(code), "%s", o ? json_text(o, "code") : "none");
    json_decref(o);
    return code;
}

TEST(an_error_of_a_sandbox_is_found_in_its_message)
{
    CHECK_STR(code_of("handler error: {\"type\":\"config\",\"code\":\"S100\",\"message\":\"m\"}"),
              "S100");
    CHECK_STR(code_of("invocation_failed: handler error: {\"code\":\"S200\",\"message\":\"m {\"} "
                      "and more {"),
              "S200");
    CHECK_STR(code_of("{\"code\":\"S001\",\"message\":\"\"}"), "S001");
    CHECK_STR(code_of("handler error: {\"code\":5,\"message\":\"m\"}"), "none");
    CHECK_STR(code_of("handler error: {\"code\":\"S001\"}"), "none");
    CHECK_STR(code_of("handler error: {\"code\""), "none");
    CHECK_STR(code_of("serialization error: missing field"), "none");
    CHECK_STR(code_of(""), "none");
}

/* ---- where it is ---- */

static const char *address(const char *host, unsigned port)
{
    static char *url;
    static struct err err;

    free(url);
    url = NULL;
    err = (struct err){0};
    return iii_client_address_of(host, port, &url, &err) < 0 ? err.text : url;
}

TEST(addresses_are_written_in_many_ways)
{
    CHECK_STR(address("localhost", 0), "ws://localhost:49134");
    CHECK_STR(address("localhost", 5), "ws://localhost:5");
    CHECK_STR(address("h:6", 0), "ws://h:6");
    CHECK_STR(address("h:6", 7), "ws://h:7");
    CHECK_STR(address("ws://h:6/", 0), "ws://h:6");
    CHECK_STR(address("ws://h/iii/", 0), "ws://h:49134/iii");
    CHECK_STR(address("http://h:3111", 0), "ws://h:3111");
    CHECK_STR(address("[::1]", 0), "ws://[::1]:49134");
    CHECK_STR(address("[::1]:6", 0), "ws://[::1]:6");
    CHECK_STR(address("[::1]:6", 7), "ws://[::1]:7");
    CHECK_STR(address("ws://", 0), "\"ws://\" is no HOST:PORT");
    CHECK_STR(address("a b", 0), "\"a b\" is no HOST:PORT");
    CHECK(strncmp(address("unix:/run/cay/cay.sock", 0), "iii is spoken over TCP", 22) == 0);
    CHECK(strncmp(address("wss://h", 0), "there is no TLS here", 20) == 0);
}

/* ---- names of the program ---- */

/* The line that is meant, with spaces; "none" = it is no name of iii. */
static const char *meant(int argc, char **argv)
{
    static char text[200];
    struct err err;
    int n = 0;
    char **line = link_names(argc, argv, &n, &err);

    if (!line)
        return err.kind == ERR_NONE ? "none" : "refused";
    text[0] = '\0';
    for (int i = 0; i < n; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "",
                       line[i]);
    CHECK(line[n] == NULL);
    free(line);
    return text;
}

#define MEANT(...) meant(ARRAY_LEN(((char *[]){__VA_ARGS__})), (char *[]){__VA_ARGS__, NULL})

TEST(a_link_has_the_commands_of_its_name)
{
    CHECK_STR(MEANT("cay", "sandbox", "list"), "none");
    CHECK_STR(MEANT("/usr/bin/cay", "iii"), "none");
    CHECK_STR(MEANT("/usr/bin/iii", "sandbox", "run", "python", "--", "sandbox"),
              "cay sandbox run python -- sandbox");
    CHECK_STR(MEANT("iii", "worker", "sandbox", "list"), "cay sandbox list");
    CHECK_STR(MEANT("iii", "sandbox"), "cay sandbox");
    CHECK_STR(MEANT("iii", "trigger", "f", "worker"), "cay trigger f worker");
    CHECK_STR(MEANT("iii-worker", "sandbox", "stop", "x"), "cay sandbox stop x");
    CHECK_STR(MEANT("iii-worker", "sandbox-daemon", "--config", "f", "--engine", "ws://h"),
              "cay worker --config f --engine ws://h");
    CHECK_STR(MEANT("iii-worker", "sandbox-daemon", "--engine", "ws://h"),
              "cay worker --config ./config.yaml --engine ws://h");
    CHECK_STR(MEANT("iii-worker", "sandbox-daemon", "--config=f"), "cay worker --config=f");
    CHECK_STR(MEANT("iii", "--version"), "cay --version");
    CHECK_STR(MEANT("iii", "--config", "iii-config.yaml"), "cay serve --config iii-config.yaml");
    CHECK_STR(MEANT("iii", "--config=f", "--data", "d"), "cay serve --config f --data d");
    CHECK_STR(MEANT("iii", "-c", "f"), "cay serve --config f");
    CHECK_STR(MEANT("iii", "-cf"), "cay serve --config f");
    CHECK_STR(MEANT("iii", "-c=f"), "cay serve --config f");
    CHECK_STR(MEANT("iii", "--config"), "refused");
    CHECK_STR(MEANT("iii", "--configure", "f"), "refused");
    CHECK_STR(MEANT("iii-worker", "--config", "f"), "refused");
    CHECK_STR(MEANT("iii-worker", "worker-manager-daemon"), "refused");
    CHECK_STR(MEANT("iii"), "refused");
    CHECK_STR(MEANT("iii", "worker"), "refused");
    CHECK_STR(MEANT("iii", "worker", "add", "sandbox"), "refused");
    CHECK_STR(MEANT("iii", "serve"), "refused");
    CHECK_STR(MEANT("iii-worker", "trigger"), "refused");
}

TEST(a_refusal_names_what_is_there)
{
    struct err err;
    int n;

    CHECK(link_names(2, (char *[]){"iii", "start", NULL}, &n, &err) == NULL);
    CHECK_STR(err.text,
              "iii is cay here and knows only iii --config FILE, iii sandbox, iii worker sandbox "
              "and iii trigger; images are pulled with cay image pull");
    CHECK(link_is_worker("/usr/bin/iii-worker") && !link_is_worker("iii"));
}

/* ---- command lines ---- */

static int parse(struct args *args, char **words, struct err *err)
{
    int n = 0, used;
    const struct command *c;

    while (words[n])
        n++;
    c = command_find(n, words, &used);
    CHECK(c != NULL);
    *err = (struct err){0};
    return args_parse(args, c, n - used, words + used, err);
}

#define PARSE(args, err, ...) parse(args, (char *[]){__VA_ARGS__, NULL}, err)

TEST(flags_stand_before_and_behind_the_image_and_the_command_behind_dashes)
{
    struct args args;
    struct err err;

    CHECK_INT(PARSE(&args, &err, "sandbox", "run", "--cpus", "2", "python", "-e", "A=1", "--", "ls",
                    "--cpus", "3", "--"),
              0);
    CHECK_STR(args.words[0], "python");
    CHECK_INT(args_number(&args, "cpus", 0), 2);
    CHECK_STR(args_list(&args, "env")[0], "A=1");
    CHECK_INT(args.n_rest, 4);
    CHECK_STR(args.rest[1], "--cpus");
    args_done(&args);
    CHECK_INT(PARSE(&args, &err, "sandbox", "exec", "id"), 0);
    CHECK_INT(args.n_rest, 0);
    args_done(&args);
    CHECK_INT(PARSE(&args, &err, "sandbox", "run", "python", "ls"), -1);
    CHECK_STR(err.text, "\"ls\" is one argument too many: the command stands after \"--\"; see "
                        "\"cay help sandbox run\"");
    CHECK_INT(PARSE(&args, &err, "sandbox", "run", "--", "ls"), -1);
}

#define MS 1000000ll

/* Rounds that take n bytes each, one per ms_each, until the drain is over: after how many ms. */
static int64_t drained_ms(bool expects, size_t n, int64_t ms_each)
{
    struct output_drain d;
    int64_t ms = 0;

    output_drain_begin(&d, 0, expects);
    do
        ms += ms_each;
    while (!output_drain_is_over(&d, ms * MS, n, false));
    return ms;
}

TEST(output_behind_the_answer_is_not_waited_for_without_end)
{
    CHECK_INT(drained_ms(true, 0, 100), 2000);
    CHECK_INT(drained_ms(false, 0, 100), 100);
    CHECK_INT(drained_ms(true, 1, 200), 10200); /* 10 s, and 15 us for each byte */
    CHECK_INT(drained_ms(true, 65536, 2000), 20000);
    CHECK_INT(drained_ms(true, 1 << 20, 1), 65); /* 64 MiB are not too many */
}

TEST(time_in_which_our_reader_is_slow_is_not_counted)
{
    struct output_drain d;
    int64_t ms = 0;

    output_drain_begin(&d, 0, true);
    while (ms < 60000)
        CHECK(!output_drain_is_over(&d, (ms += 5000) * MS, 0, true));
    CHECK(!output_drain_is_over(&d, (ms + 1999) * MS, 0, false));
    CHECK(output_drain_is_over(&d, (ms + 2000) * MS, 0, false));
}

TEST(completion_knows_the_words_of_iii)
{
    struct wanted w;

    completion_wanted(&w, 2, (char *[]){"sandbox", ""});
    CHECK_STR(w.kind, "subcommand");
    completion_wanted(&w, 3, (char *[]){"sandbox", "run", "p"});
    CHECK(strncmp(w.kind, "image", w.kind_len) == 0);
    completion_wanted(&w, 4, (char *[]){"sandbox", "run", "python", "--cp"});
    CHECK(strncmp(w.kind, "flag", w.kind_len) == 0);
    completion_wanted(&w, 5, (char *[]){"sandbox", "run", "python", "--", "--cp"});
    CHECK_STR(w.kind, "");
}

TEST(what_a_function_takes_is_shown_for_people)
{
    json_t *info = json_loads("{\"function_id\":\"f\",\"request_schema\":{\"required\":[5,\"a\"],"
                              "\"properties\":{\"a\":{\"type\":[\"string\",\"null\"]},\"b\":{}}}}",
                              0, NULL);
    auto_buf struct buf out = {0};

    buf_init(&out, 4096);
    trigger_help(&out, info);
    CHECK_STR(out.data, "Usage: cay trigger f [KEY=VALUE...] [--json JSON]\n\nTakes:\n"
                        "  a  string or null, needed\n  b\n");
    json_decref(info);
}

TAP_MAIN
