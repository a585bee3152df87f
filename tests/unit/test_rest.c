#include <jansson.h>
#include <regex.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/mode.h"
#include "functions/channels.h"
#include "functions/error_codes.h"
#include "functions/errors.h"
#include "functions/function.h"
#include "functions/input.h"
#include "functions/output.h"
#include "functions/schema.h"
#include "rest/auth.h"
#include "rest/query.h"
#include "rest/rest.h"
#include "rest/route.h"
#include "rest/sse.h"
#include "tap.h"

#define SECOND 1000000000LL

/* ---- input ---- */

static const struct field all_types[] = {
    {"text", FIELD_STRING, .optional = true, .min = 1, .max = 8},
    {"count", FIELD_INT, .optional = true, .min = 1, .max = 100},
    {"size", FIELD_INT, .optional = true, .clamp = true, .min = 64, .max = 4096},
    {"cpu", FIELD_NUMBER, .optional = true, .clamp = true, .min = 0.5, .max = 4},
    {"share", FIELD_NUMBER, .optional = true, .min = 0, .max = 1},
    {"any", FIELD_INT, .optional = true},
    {"flag", FIELD_BOOL, .optional = true},
    {"names", FIELD_STRINGS, .optional = true, .max = 8},
    {"env", FIELD_STRING_MAP, .optional = true},
    {"data", FIELD_OBJECT, .optional = true},
    {"items", FIELD_ARRAY, .optional = true},
    {"command", FIELD_COMMAND, .optional = true, .min = 1},
    {"page", FIELD_INT, .min = 1, .max = 10, .preset = "3"},
    {0},
};

static const struct field counts[] = {
    {"limit", FIELD_INT, .clamp = true, .min = 1, .max = 50, .preset = "20"},
    {"priority", FIELD_INT, .clamp = true, .min = -5, .max = 5, .preset = "0"},
    {0},
};

static const struct field needed[] = {{"path", FIELD_STRING, .min = 1}, {0}};

/* The checked input as compact JSON with sorted keys, or the text of the error. */
static const char *checked(const char *query, const char *body, const struct field *fields)
{
    static char answer[4096];
    json_t *in = json_object(), *params = json_object();
    struct err err = {0};
    char *text = NULL;

    if (query_add(in, query, fields, &err) == 0 && body_add(in, body, strlen(body), &err) == 0 &&
        input_check(in, fields, params, &err) == 0)
        text = json_dumps(in, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text)
        CHECK_INT(err.kind, ERR_INVALID);
    snprintf(answer, sizeof(answer), "%s", text ? text : err.text);
    free(text);
    json_decref(in);
    json_decref(params);
    return answer;
}

TEST(each_type_accepts_its_own_values)
{
    static const char *const good[] = {
        "{\"page\":3,\"text\":\"abc\"}",
        "{\"count\":100,\"page\":3}",
        "{\"page\":3,\"share\":0.5}",
        "{\"page\":3,\"share\":1}",
        "{\"any\":-9223372036854775808,\"page\":3}",
        "{\"flag\":false,\"page\":3}",
        "{\"names\":[],\"page\":3}",
        "{\"names\":[\"a\",\"b\"],\"page\":3}",
        "{\"env\":{\"K\":\"v\"},\"page\":3}",
        "{\"data\":{\"x\":[1]},\"page\":3}",
        "{\"items\":[1,{}],\"page\":3}",
        "{\"command\":\"ls\",\"page\":3}",
        "{\"command\":[\"ls\",\"\"],\"page\":3}",
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        CHECK_STR(checked("", good[i], all_types), good[i]);
}

TEST(a_large_bound_is_told_in_digits)
{
    static const struct field fields[] = {{"at", FIELD_INT, .max = 9007199254740991}, {0}};

    CHECK_STR(checked("", "{\"at\":-1}", fields),
              "at must be a whole number from 0 to 9007199254740991");
}

TEST(a_wrong_type_names_the_field_and_what_it_must_be)
{
    static const struct {
        const char *body, *says;
    } bad[] = {
        {"{\"text\":5}", "text must be a string"},
        {"{\"text\":\"\"}", "text is required and must not be empty"},
        {"{\"text\":\"123456789\"}", "text must have at most 8 bytes"},
        {"{\"count\":\"5\"}", "count must be a whole number from 1 to 100"},
        {"{\"count\":5.5}", "count must be a whole number from 1 to 100"},
        {"{\"count\":0}", "count must be a whole number from 1 to 100"},
        {"{\"count\":4294967297}", "count must be a whole number from 1 to 100"},
        {"{\"size\":64.5}", "size must be a whole number from 64 to 4096"},
        {"{\"share\":true}", "share must be a number from 0 to 1"},
        {"{\"any\":\"x\"}", "any must be a whole number"},
        {"{\"flag\":1}", "flag must be true or false"},
        {"{\"names\":\"a\"}", "names must be an array of strings"},
        {"{\"names\":[\"a\",2]}", "names[1] must be a string"},
        {"{\"names\":[\"123456789\"]}", "names[0] must have at most 8 bytes"},
        {"{\"env\":[]}", "env must be an object whose values are strings"},
        {"{\"env\":{\"K\":1}}", "env.K must be a string"},
        {"{\"data\":[]}", "data must be an object"},
        {"{\"items\":{}}", "items must be an array"},
        {"{\"command\":[\"\"]}", "command[0] must be the name of a program"},
        {"{\"command\":[\"ls\",1]}", "command[1] must be a string"},
        {"{\"command\":\"\"}", "command is required and must not be empty"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_STR(checked("", bad[i].body, all_types), bad[i].says);
}

TEST(clamped_numbers_move_to_the_nearer_end)
{
    CHECK_STR(checked("", "{\"size\":1}", all_types), "{\"page\":3,\"size\":64}");
    CHECK_STR(checked("", "{\"size\":0}", all_types), "{\"page\":3,\"size\":64}");
    CHECK_STR(checked("", "{\"size\":-1}", all_types), "{\"page\":3,\"size\":64}");
    CHECK_STR(checked("", "{\"limit\":0}", counts), "{\"limit\":1,\"priority\":0}");
    CHECK_STR(checked("", "{\"limit\":-1}", counts), "limit must not be negative");
    CHECK_STR(checked("", "{\"priority\":-9}", counts), "{\"limit\":20,\"priority\":-5}");
    CHECK_STR(checked("", "{\"size\":9223372036854775807}", all_types),
              "{\"page\":3,\"size\":4096}");
    CHECK_STR(checked("", "{\"cpu\":99}", all_types), "{\"cpu\":4.0,\"page\":3}");
    CHECK_STR(checked("", "{\"cpu\":0}", all_types), "{\"cpu\":0.5,\"page\":3}");
}

TEST(null_is_absent_and_unknown_keys_are_ignored)
{
    CHECK_STR(checked("", "{\"text\":null,\"page\":null,\"--\":[],\"memory_mb\":1}", all_types),
              "{\"page\":3}");
    CHECK_STR(checked("x=%31&y", "", all_types), "{\"page\":3}");
    CHECK_STR(checked("", "{\"path\":null}", needed), "path is required");
    CHECK_STR(checked("", "", needed), "path is required");
}

TEST(query_values_are_read_as_their_field_says)
{
    CHECK_STR(checked("text=a+b%20c&count=7&flag=true&share=0.25", "", all_types),
              "{\"count\":7,\"flag\":true,\"page\":3,\"share\":0.25,\"text\":\"a b c\"}");
    CHECK_STR(checked("flag=0", "", all_types), "{\"flag\":false,\"page\":3}");
    CHECK_STR(checked("flag=True", "", all_types), "{\"flag\":true,\"page\":3}");
    CHECK_STR(checked("flag=null", "", all_types), "{\"page\":3}");
    CHECK_STR(checked("text=7", "", all_types), "{\"page\":3,\"text\":\"7\"}");
    CHECK_STR(checked("env=%7B%22K%22%3A%22v%22%7D", "", all_types),
              "{\"env\":{\"K\":\"v\"},\"page\":3}");
    CHECK_STR(checked("count=seven", "", all_types), "count must be a whole number from 1 to 100");
    CHECK_STR(checked("count=1.5", "", all_types), "count must be a whole number from 1 to 100");
    CHECK_STR(checked("count=99999999999999999999", "", all_types),
              "count must be a whole number from 1 to 100");
    CHECK_STR(checked("count=", "", all_types), "count must be a whole number from 1 to 100");
    CHECK_STR(checked("flag=yes", "", all_types), "flag must be true or false");
}

TEST(the_body_wins_over_the_query)
{
    CHECK_STR(checked("count=7", "{\"count\":8}", all_types), "{\"count\":8,\"page\":3}");
}

TEST(path_parameters_win_over_everything)
{
    json_t *in = json_pack("{s:s, s:s}", "sandboxId", "from-body", "path", "p");
    json_t *params = json_pack("{s:s}", "sandboxId", "from-path");

    CHECK_INT(input_check(in, needed, params, NULL), 0);
    CHECK_STR(json_string_value(json_object_get(in, "sandboxId")), "from-path");
    json_decref(in);
    json_decref(params);
}

TEST(a_malformed_query_is_refused)
{
    static const char *const bad[] = {"text=%",   "text=%4",     "text=%zz", "text=%00",
                                      "text=%ff", "text=%c0%80", "%gg=1"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_STR(checked(bad[i], "", all_types),
                  "the query is not percent-encoded UTF-8 without NUL");
    CHECK_STR(checked("count=1&count=2", "", all_types), "count is given twice in the query");
}

TEST(bad_json_is_refused)
{
    static const char *const bad[] = {
        "{",
        "{\"text\":\"a\",\"text\":\"b\"}",
        "{\"text\":\"\\u0000\"}",
        "{\"text\":\"\\ud800\"}",
        "{\"text\":\"\xff\"}",
        "{\"text\":\"\xed\xa0\x80\"}",
        "{\"count\":1e400}",
        "{\"count\":9223372036854775808}",
        "{\"count\":NaN}",
        "\xef\xbb\xbf{}",
        "{} x",
        "{'a':1}",
        "hello",
        "{}{}",
        "{\"text\":\"\xc0\xaf\"}",
        "{\"text\":\"\n\"}",
        "{\"count\":01}",
        "{\"count\":1/**/}",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(strncmp(checked("", bad[i], all_types), "the JSON is not valid: ", 23) == 0);
    CHECK(strstr(checked("", "{\"text\":\"a\\u0000\"}", all_types), "go with files/upload"));
    CHECK_STR(checked("", "[]", all_types), "the body must be a JSON object");
    CHECK_STR(checked("", "5", all_types), "the body must be a JSON object");
    CHECK_STR(checked("", "\"x\"", all_types), "the body must be a JSON object");
    CHECK_STR(checked("", " \r\n", all_types), "{\"page\":3}");
}

TEST(deep_json_is_refused_without_recursion)
{
    static char deep[200001];

    memset(deep, '[', sizeof(deep) - 1);
    CHECK_STR(checked("", deep, all_types), "the JSON is nested too deeply; 64 levels are allowed");
    CHECK_STR(checked("",
                      "{\"text\":\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
                      "[[[[[[[[[\"}",
                      all_types),
              "text must have at most 8 bytes");
}

TEST(exactly_64_levels_are_accepted)
{
    char body[256] = "{\"items\":";

    memset(body + 9, '[', 63);
    memset(body + 72, ']', 63);
    memcpy(body + 135, "}", 2);
    CHECK(strstr(checked("", body, all_types), "\"items\":[[[[") != NULL);
}

TEST(a_body_with_very_many_values_is_refused)
{
    static char many[2 * INPUT_VALUES_MAX + 64];
    size_t n = (size_t)snprintf(many, sizeof(many), "{\"items\":[0");

    for (int i = 0; i <= INPUT_VALUES_MAX; i++) {
        many[n++] = ',';
        many[n++] = '0';
    }
    memcpy(many + n, "]}", 3);
    CHECK(strstr(checked("", many, all_types), "too many values") != NULL);
}

/* ---- routes ---- */

static int count_functions(const struct function *f, void *arg)
{
    (void)f;
    ++*(size_t *)arg;
    return 0;
}

static const char *found(const char *method, const char *path)
{
    static struct route_match match;
    struct routes *routes = routes_new();
    enum route_result result = routes_find(routes, method, path, &match);

    routes_free(routes);
    if (result == ROUTE_UNKNOWN)
        return "unknown";
    return result == ROUTE_FOUND ? match.function->id : match.allow;
}

TEST(routes_find_their_function)
{
    CHECK_STR(found("POST", "/sandboxes"), "sandbox::create");
    CHECK_STR(found("GET", "/sandboxes"), "sandbox::list");
    CHECK_STR(found("GET", "/sandboxes/sbx_1"), "sandbox::get");
    CHECK_STR(found("DELETE", "/sandboxes/sbx_1"), "sandbox::kill");
    CHECK_STR(found("POST", "/sandboxes/sbx_1/exec"), "cmd::run");
    CHECK_STR(found("POST", "/sandboxes/sbx_1/files/read"), "fs::read");
    CHECK_STR(found("GET", "/exec/background/bg_1/logs"), "cmd::background_logs");
    CHECK_STR(found("POST", "/images/import"), "image::import");
    CHECK_STR(found("GET", "/images/a%2Fb"), "image::get");
    CHECK_STR(found("GET", "/images/catalog"), "image::catalog");
    CHECK_STR(found("POST", "/images/pull"), "image::pull");
    CHECK_STR(found("POST", "/images/a%2Fb/tag"), "image::tag");
    CHECK_STR(found("GET", "/images/a%2Fb/export"), "image::export");
    CHECK_STR(found("POST", "/sandboxes/sbx_1/commit"), "image::commit");
    CHECK_STR(found("HEAD", "/health"), "metrics::health");
}

TEST(unknown_routes_and_trailing_slashes_are_unknown)
{
    CHECK_STR(found("GET", "/"), "unknown");
    CHECK_STR(found("GET", "/sandboxes/"), "unknown");
    CHECK_STR(found("GET", "/sandboxes//exec"), "unknown");
    CHECK_STR(found("GET", "/sandboxes/x/y/z"), "unknown");
    CHECK_STR(found("GET", "/healthy"), "unknown");
}

TEST(a_wrong_method_lists_the_right_ones)
{
    CHECK_STR(found("PUT", "/sandboxes"), "POST, GET, HEAD");
    CHECK_STR(found("PUT", "/sandboxes/x/exec"), "POST, GET, HEAD");
    CHECK_STR(found("HEAD", "/sandboxes/x/stream/logs"), "GET");
    /* "catalog" has a route of its own and could also be the name of an image. */
    CHECK_STR(found("PUT", "/images/catalog"), "GET, HEAD, DELETE");
}

TEST(path_parameters_are_percent_decoded)
{
    struct function sandbox = {.route = "/sandboxes/:sandboxId"};
    struct function image = {.route = "/images/:name"};
    struct err err = {0};
    json_t *params;

    params = route_params(&sandbox, "/sandboxes/my%20box%2F1", &err);
    CHECK_STR(json_string_value(json_object_get(params, "sandboxId")), "my box/1");
    json_decref(params);
    params = route_params(&image, "/images/team%2Fapp%3A1+0", &err);
    CHECK_STR(json_string_value(json_object_get(params, "name")), "team/app:1+0");
    json_decref(params);
    CHECK(route_params(&image, "/images/%00", &err) == NULL);
    CHECK_INT(err.kind, ERR_INVALID);
    CHECK(route_params(&sandbox, "/sandboxes/\xff", &err) == NULL);
    CHECK(route_params(&sandbox, "/sandboxes/%ff", &err) == NULL);
    CHECK(route_params(&sandbox, "/sandboxes/a%2", &err) == NULL);
}

TEST(the_prefix_is_a_whole_segment)
{
    CHECK_STR(route_below("sandbox", "/sandbox/health"), "/health");
    CHECK_STR(route_below("", "/health"), "/health");
    CHECK_STR(route_below("sandbox", "/openapi.json"), "/openapi.json");
    CHECK(route_below("sandbox", "/sandboxes/health") == NULL);
    CHECK(route_below("sandbox", "/sandbox") == NULL);
    CHECK(route_below("sandbox", "/health") == NULL);
}

/* ---- who may call ---- */

static char *hosts[] = {"cay.example", "10.0.0.5", NULL};
static char *origins[] = {"https://app.example", NULL};

TEST(host_and_origin_decide_where_a_request_may_come_from)
{
    static const struct {
        const char *host, *origin, *code; /* code NULL = allowed */
    } cases[] = {
        {"localhost", NULL, NULL},
        {"localhost:3111", NULL, NULL},
        {"LOCALHOST:1", NULL, NULL},
        {"127.0.0.1:3111", NULL, NULL},
        {"[::1]:3111", NULL, NULL},
        {"[::1]", NULL, NULL},
        {"cay.example:80", NULL, NULL},
        {"10.0.0.5", NULL, NULL},
        {NULL, NULL, "host_not_allowed"},
        {"", NULL, "host_not_allowed"},
        {"evil.test", NULL, "host_not_allowed"},
        {"127.0.0.1.evil.test", NULL, "host_not_allowed"},
        {"localhost.", NULL, "host_not_allowed"},
        {"localhost:", NULL, "host_not_allowed"},
        {"localhost:x", NULL, "host_not_allowed"},
        {"localhost:3111:1", NULL, "host_not_allowed"},
        {"localhost:123456", NULL, "host_not_allowed"},
        {"user@localhost", NULL, "host_not_allowed"},
        {"::1", NULL, "host_not_allowed"},
        {"[::1", NULL, "host_not_allowed"},
        {"[::1]x", NULL, "host_not_allowed"},
        {"[::2]:3111", NULL, "host_not_allowed"},
        {"0.0.0.0:3111", NULL, "host_not_allowed"},
        {"localhost:3111", "http://localhost:3111", NULL},
        {"localhost:3111", "https://app.example", NULL},
        {"localhost:3111", "HTTPS://APP.example", NULL},
        {"localhost:3111", "http://localhost:8080", "origin_not_allowed"},
        {"localhost:3111", "http://evil.test", "origin_not_allowed"},
        {"localhost:3111", "https://app.example.evil.test", "origin_not_allowed"},
        {"localhost:3111", "null", "origin_not_allowed"},
        {"localhost:3111", "", "origin_not_allowed"},
    };
    struct auth_config config = {.hosts = hosts, .origins = origins};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct auth_request r = {.is_tcp = true, .host = cases[i].host, .origin = cases[i].origin};
        struct err err = {0};

        if (auth_check_source(&config, &r, &err) == 0) {
            if (cases[i].code)
                TAP_FAIL("case %zu was allowed", i);
            continue;
        }
        CHECK_INT(err.kind, ERR_FORBIDDEN);
        if (!cases[i].code)
            TAP_FAIL("case %zu was refused: %s", i, err.text);
        CHECK_STR(err.code, cases[i].code);
    }
}

TEST(a_unix_socket_needs_no_host)
{
    struct auth_config config = {0};
    struct auth_request r = {.is_tcp = false, .origin = "http://evil.test"};

    CHECK_INT(auth_check_source(&config, &r, NULL), 0);
}

TEST(a_star_allows_any_host_name)
{
    char *any[] = {"*", NULL};
    struct auth_config config = {.token = "t", .hosts = any};
    struct auth_request r = {.is_tcp = true, .host = "whatever.example:3111"};

    CHECK_INT(auth_check_source(&config, &r, NULL), 0);
}

TEST(tokens_decide_who_may_call)
{
    enum { OWN = 1000, OTHER = 1001 };
    static const struct {
        const char *token, *header;
        bool is_tcp;
        uid_t uid;
        enum err_kind kind; /* ERR_NONE = allowed */
        bool in_group;
    } cases[] = {
        {NULL, NULL, true, 0, ERR_NONE},
        {NULL, "Bearer anything", true, 0, ERR_NONE},
        {"secret", NULL, true, 0, ERR_UNAUTHORIZED},
        {"secret", "", true, 0, ERR_FORBIDDEN},
        {"secret", "Bearer ", true, 0, ERR_FORBIDDEN},
        {"secret", "Bearer wrong", true, 0, ERR_FORBIDDEN},
        {"secret", "Bearer secre", true, 0, ERR_FORBIDDEN},
        {"secret", "Bearer secrets", true, 0, ERR_FORBIDDEN},
        {"secret", "Basic secret", true, 0, ERR_FORBIDDEN},
        {"secret", "Bearer secret", true, 0, ERR_NONE},
        {"secret", "bearer secret", true, 0, ERR_NONE},
        {"secret", "secret", true, 0, ERR_NONE},
        {NULL, NULL, false, 0, ERR_NONE},
        {"secret", NULL, false, 0, ERR_NONE},
        {"secret", NULL, false, OWN, ERR_NONE},
        {NULL, NULL, false, OTHER, ERR_FORBIDDEN},
        {"secret", NULL, false, OTHER, ERR_UNAUTHORIZED},
        {"secret", "Bearer secret", false, OTHER, ERR_NONE},
        {"secret", "Bearer wrong", false, OTHER, ERR_FORBIDDEN},
        {"secret", NULL, false, (uid_t)-1, ERR_UNAUTHORIZED},
        {NULL, NULL, false, OTHER, ERR_NONE, true},
        {"secret", NULL, false, OTHER, ERR_NONE, true},
        {"secret", NULL, true, 0, ERR_UNAUTHORIZED, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct auth_config config = {.token = cases[i].token, .own_uid = OWN};
        struct auth_request r = {.is_tcp = cases[i].is_tcp,
                                 .peer_uid = cases[i].uid,
                                 .authorization = cases[i].header,
                                 .in_group = cases[i].in_group};
        struct err err = {0};

        (void)auth_check_token(&config, &r, &err);
        if (err.kind != cases[i].kind)
            TAP_FAIL("case %zu gives %s, not %s", i, err_kind_code(err.kind),
                     err_kind_code(cases[i].kind));
    }
}

TEST(paths_of_the_host_are_for_root_on_the_unix_socket_only)
{
    static const struct {
        bool is_tcp;
        uid_t uid;
        bool allowed;
    } cases[] = {{false, 0, true},
                 {false, 1000, false},
                 {false, (uid_t)-1, false},
                 {true, 0, false},
                 {true, (uid_t)-1, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct auth_request r = {
            .is_tcp = cases[i].is_tcp, .peer_uid = cases[i].uid, .authorization = "Bearer secret"};

        CHECK_INT(auth_is_local_root(&r), cases[i].allowed);
    }
}

static int is_guarded(const struct function *f, void *arg)
{
    (void)arg;
    if (strcmp(f->id, "image::import") == 0)
        CHECK(f->flags & FUNCTION_LOCAL);
    return 0;
}

TEST(the_import_of_a_path_is_guarded)
{
    CHECK_INT(functions_each(is_guarded, NULL), 0);
}

/* ---- rate ---- */

/* ---- errors ---- */

TEST(each_kind_of_error_has_its_status)
{
    static const int want[ERR_KINDS] = {500, 400, 401, 403, 404, 408, 409, 413, 429, 501, 503, 500};

    for (int kind = 0; kind < ERR_KINDS; kind++)
        CHECK_INT(error_status((enum err_kind)kind), want[kind]);
}

static const char *body_of(struct err err)
{
    static char text[2048];
    json_t *body = error_body(&err, "req_1");
    char *dump = json_dumps(body, JSON_COMPACT);

    snprintf(text, sizeof(text), "%s", dump);
    free(dump);
    json_decref(body);
    return text;
}

TEST(an_error_body_has_text_and_a_stable_word)
{
    struct err err;

    (void)err_set(&err, ERR_NOT_FOUND, "Sandbox not found: x");
    CHECK_STR(body_of(err), "{\"error\":\"Sandbox not found: x\",\"code\":\"not_found\"}");
    (void)err_code(&err, ERR_INVALID, "path_traversal", "Path traversal detected: /etc/passwd");
    CHECK_STR(body_of(err),
              "{\"error\":\"Path traversal detected: /etc/passwd\",\"code\":\"path_traversal\"}");
}

TEST(our_own_failures_do_not_tell_host_paths)
{
    struct err err;

    (void)err_set(&err, ERR_INTERNAL, "open /var/lib/cay/x: Permission denied");
    CHECK_STR(body_of(err), "{\"error\":\"internal error, see the daemon's log (request req_1)\","
                            "\"code\":\"internal\"}");
    (void)err_set(&err, ERR_INTERNAL, "no space left on device");
    CHECK_STR(body_of(err), "{\"error\":\"internal error, see the daemon's log (request req_1): no "
                            "space left on device\",\"code\":\"internal\"}");
    (void)err_set(&err, ERR_UNAVAILABLE, "connect /run/cay/x: refused");
    CHECK(strstr(body_of(err), "/run") == NULL);
}

TEST(a_text_cut_inside_a_character_is_still_json)
{
    struct err err = {.kind = ERR_INVALID};

    memset(err.text, 'a', sizeof(err.text) - 1);
    err.text[sizeof(err.text) - 2] = '\xc3';
    CHECK(strstr(body_of(err), "\xef\xbf\xbd") != NULL);
}

/* ---- events ---- */

static const char *add_text(struct output_text *t, const char *data, bool last)
{
    static char text[256];
    auto_buf struct buf out;

    buf_init(&out, sizeof(text));
    output_text_add(t, data, strlen(data), last, &out);
    snprintf(text, sizeof(text), "%s", out.data ? out.data : "");
    return text;
}

TEST(a_character_cut_by_a_chunk_waits_for_the_rest)
{
    struct output_text t = {0};

    CHECK_STR(add_text(&t, "a\xe2\x82", false), "a");
    CHECK_STR(add_text(&t,
                       "\xac"
                       "b",
                       false),
              "\xe2\x82\xac"
              "b");
    CHECK_STR(add_text(&t, "\xf0\x9f", false), "");
    CHECK_STR(add_text(&t, "\x98", false), "");
    CHECK_STR(add_text(&t, "\x80", false), "\xf0\x9f\x98\x80");
    CHECK_STR(add_text(&t, "\xe2\x82", false), "");
    CHECK_INT(add_text(&t, "", true)[0] != '\0', 1);
    CHECK_INT(t.len, 0);
}

TEST(bytes_that_are_no_text_do_not_wait)
{
    struct output_text t = {0};

    CHECK_STR(add_text(&t,
                       "\xff"
                       "a",
                       false),
              "\xef\xbf\xbd"
              "a");
    CHECK_STR(add_text(&t, "\x80", false), "\xef\xbf\xbd");
    CHECK_INT(t.len, 0);
}

TEST(an_event_is_one_ascii_line)
{
    auto_buf struct buf out;
    json_t *v = json_pack("{s:s}", "data", "a\n\xe2\x80\xa8\xf0\x9f\x98\x80");

    buf_init(&out, 1024);
    sse_format(&out, v);
    json_decref(v);
    CHECK_STR(out.data, "data: {\"data\":\"a\\n\\u2028\\uD83D\\uDE00\"}\n\n");
}

/* ---- the table ---- */

static int has_operation(const struct function *f, void *arg)
{
    json_t *paths = json_object_get(arg, "paths"), *item, *op;
    const char *path, *method;

    json_object_foreach(paths, path, item) json_object_foreach(
        item, method,
        op) if (strcmp(json_string_value(json_object_get(op, "x-function")), f->id) == 0) return 0;
    TAP_FAIL("%s is not in the document", f->id);
}

TEST(openapi_has_every_function_once)
{
    json_t *doc = functions_openapi("sandbox"), *item;
    size_t functions = 0, operations = 0;
    const char *path;

    CHECK(doc != NULL);
    (void)functions_each(count_functions, &functions);
    (void)functions_each(has_operation, doc);
    json_object_foreach(json_object_get(doc, "paths"), path, item)
    {
        CHECK(strncmp(path, "/sandbox/", 9) == 0);
        CHECK(strchr(path, ':') == NULL);
        operations += json_object_size(item);
    }
    CHECK_INT(operations, functions);
    json_decref(doc);
}

/* A program made from the document can send bytes only if it can also say where they go. */
TEST(openapi_has_the_fields_beside_a_body_of_bytes_in_the_query)
{
    json_t *doc = functions_openapi("sandbox"), *op, *parameters, *p;
    auto_buf struct buf names;
    size_t i;

    buf_init(&names, 256);
    op = json_object_get(json_object_get(doc, "paths"),
                         "/sandbox/sandboxes/{sandboxId}/files/upload");
    parameters = json_object_get(json_object_get(op, "post"), "parameters");
    json_array_foreach(parameters, i, p)
    {
        bool required = json_is_true(json_object_get(p, "required"));

        (void)buf_addf(&names, "%s %s%s,", json_string_value(json_object_get(p, "in")),
                       json_string_value(json_object_get(p, "name")), required ? "!" : "");
    }
    CHECK_STR(names.data,
              "path sandboxId!,query path,query mode,query anywhere,query pathEncoding,");
    json_decref(doc);
}

static bool mode_is_told(const char *id, const char *text)
{
    const struct function *f = file_functions;
    const struct field *field;
    regex_t pattern;
    bool told;

    while (strcmp(f->id, id) != 0)
        f++;
    for (field = f->fields; strcmp(field->name, "mode") != 0;)
        field++;
    if (!field->pattern || regcomp(&pattern, field->pattern, REG_EXTENDED | REG_NOSUB) != 0)
        TAP_FAIL("%s has no pattern for mode", id);
    told = regexec(&pattern, text, 0, NULL, 0) == 0;
    regfree(&pattern);
    return told;
}

TEST(patterns_of_modes_tell_what_is_taken)
{
    static const char *const modes[] = {"644", "0644", "4755",  "u+x", "go-w", "a=rX", "+t", "=",
                                        "0",   "64",   "00644", "888", "u+s",  "u",    "x+x"};
    uint32_t mode;

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        CHECK_INT(mode_is_told("fs::upload", modes[i]), mode_octal(modes[i], &mode) == 0);
        CHECK_INT(mode_is_told("fs::chmod", modes[i]), mode_parse(modes[i], 0, false, &mode) == 0);
    }
}

/* Is the text JSON that follows the field? */
static void check_text(const struct function *f, const struct field *field, const char *text)
{
    const struct shape alone = {.name = field->name, .value = field};
    json_t *value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    struct err err = {0};

    if (text && shape_check(&alone, value, &err) < 0)
        TAP_FAIL("%s: %s", f->id, err.text);
    json_decref(value);
}

static void check_field(const struct function *f, const struct field *field)
{
    if (!field->help)
        TAP_FAIL("%s: %s has no help", f->id, field->name);
    if (field->max < field->min && field->max != 0)
        TAP_FAIL("%s: the range of %s is empty", f->id, field->name);
    if (field->optional && field->preset)
        TAP_FAIL("%s: %s has a default, so it is optional already", f->id, field->name);
    check_text(f, field, field->preset);
    check_text(f, field, field->example);
}

static void check_codes(const struct function *f)
{
    for (const char *code = f->errors; code && *code; code += strspn(code, " ")) {
        size_t len = strcspn(code, " ");
        const struct error_code *e = error_code_find(code, len);

        if (!e || e->general)
            TAP_FAIL("%s: %.*s is not a code of rows", f->id, (int)len, code);
        for (const char *at = strstr(code + len, e->code); at; at = strstr(at + 1, e->code))
            if (at[-1] == ' ' && strcspn(at, " ") == len)
                TAP_FAIL("%s lists %s twice", f->id, e->code);
        code += len;
    }
}

static int check_row(const struct function *f, void *arg)
{
    bool streams =
        f->answer == ANSWER_EVENTS || f->answer == ANSWER_ATTACH || (f->flags & FUNCTION_EVENTS);

    (void)arg;
    CHECK(strstr(f->id, "::") != NULL);
    CHECK(f->route[0] == '/');
    CHECK(f->run != NULL);
    CHECK(f->help != NULL);
    /* A socket may be plain. */
    if (f->answer != ANSWER_SOCKET && streams != (f->events != NULL))
        TAP_FAIL("%s: its flags and its events do not agree", f->id);
    /* And the events of one may be all that it gives. */
    if (f->answer == ANSWER_SOCKET
            ? !f->gives && !f->events
            : !f->gives != (f->answer == ANSWER_EVENTS || f->answer == ANSWER_TAR ||
                            f->answer == ANSWER_CAST || f->answer == ANSWER_DIAL ||
                            f->answer == ANSWER_PROMETHEUS))
        TAP_FAIL("%s: its flags and its answer do not agree", f->id);
    for (const struct field *field = f->fields; field && field->name; field++)
        check_field(f, field);
    check_codes(f);
    for (const char *p = strchr(f->route, ':'); p; p = strchr(p + 1, ':'))
        if (!path_param(p + 1, strcspn(p + 1, "/")))
            TAP_FAIL("%s: %s has no line in path_params", f->id, p);
    return 0;
}

TEST(a_token_is_found_among_subprotocols)
{
    static const struct {
        const char *list, *token; /* NULL = there is none */
    } cases[] = {
        {"cay, bearer.dG9rZW4", "token"},
        {"bearer.dG9rZW4,cay", "token"},
        {"bearer.YS90P34-", "a/t?~>"},
        {"bearer.", NULL},
        {"bearer.!", NULL},
        {"bearer.dG9rZW4=", "token"}, /* with padding too */
        {"bearer.AAAA", NULL},        /* bytes that no text has */
        {"Bearer.dG9rZW4", NULL},
        {"cay", NULL},
        {"", NULL},
        {NULL, NULL},
    };
    char token[16];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool found = auth_token_of_protocols(cases[i].list, token, sizeof(token));

        CHECK_INT(found, cases[i].token != NULL);
        if (found)
            CHECK_STR(token, cases[i].token);
    }
    CHECK(!auth_token_of_protocols("bearer.MDEyMzQ1Njc4OTAxMjM0NTY3", token, sizeof(token)));
    CHECK(auth_token_of_protocols("bearer.MDEyMzQ1Njc4OTAxMjM0", token, sizeof(token)));
}

TEST(a_channel_has_two_ends_and_the_oldest_goes)
{
    json_t *channel = channel_new("sbx_1", "ex_1", "tok_1");
    json_t *reader = json_object_get(channel, "reader");
    const char *id = json_string_value(json_object_get(reader, "channel_id"));
    const char *reads = json_string_value(json_object_get(reader, "access_key"));
    const char *writes =
        json_string_value(json_object_get(json_object_get(channel, "writer"), "access_key"));
    struct channel_end end;
    struct err err = {0};

    CHECK_INT(channel_take(id, id, true, &end, &err), -1);
    CHECK_STR(err.code, "channel_not_found");
    CHECK_INT(channel_take(id, reads, true, &end, NULL), -1);
    CHECK_INT(channel_take(id, writes, false, &end, NULL), -1);
    CHECK_INT(channel_take(id, writes, true, &end, NULL), 0);
    CHECK(!end.taken);
    CHECK_STR(end.exec_id, "ex_1");
    CHECK_STR(end.token_id, "tok_1");
    CHECK_INT(channel_take(id, writes, true, &end, NULL), 0);
    CHECK(end.taken);
    CHECK_INT(channel_take(id, reads, false, &end, NULL), 0);
    CHECK(!end.taken);
    for (int i = 0; i < CHANNELS_MAX; i++)
        json_decref(channel_new("sbx_2", "ex_2", ""));
    CHECK_INT(channel_take(id, reads, false, &end, NULL), -1);
    json_decref(channel);
}

TEST(every_row_is_complete)
{
    (void)functions_each(check_row, NULL);
}

/* What the reference shows must be what a caller may send and will get. */
static int check_examples(const struct function *f, void *arg)
{
    json_t *request = fields_example(f->fields);
    struct err err = {0};

    (void)arg;
    if (fields_take(f->fields, request, &err) < 0)
        TAP_FAIL("%s: %s", f->id, err.text);
    json_decref(request);
    for (int i = 0; i < 2; i++) {
        const struct shape *shape = i == 0 ? f->gives : f->events;
        json_t *example = shape ? shape_example(shape) : NULL;

        if (shape && shape_check(shape, example, &err) < 0)
            TAP_FAIL("%s: %s", f->id, err.text);
        json_decref(example);
    }
    return 0;
}

TEST(every_row_has_examples_that_follow_its_tables)
{
    (void)functions_each(check_examples, NULL);
}

TEST(every_code_is_listed_once)
{
    for (const struct error_code *e = error_codes; e->code; e++) {
        CHECK(error_code_find(e->code, strlen(e->code)) == e);
        CHECK(e->status >= 400 && e->help != NULL);
    }
    CHECK(error_code_find("sandbox", 7) == NULL);
}

static const char *schema_text(json_t *schema)
{
    static char text[1024];
    char *dump = json_dumps(schema, JSON_COMPACT);

    snprintf(text, sizeof(text), "%s", dump);
    free(dump);
    json_decref(schema);
    return text;
}

TEST(a_field_becomes_its_json_schema)
{
    static const char *const words[] = {"a", "b", NULL};
    static const struct shape inner = {.name = "Inner"};
    const struct {
        struct field field;
        const char *schema;
    } cases[] = {
        {{.type = FIELD_STRING, .min = 1, .max = 8},
         "{\"type\":\"string\",\"minLength\":1,\"maxLength\":8}"},
        {{.type = FIELD_STRING, .choices = words, .preset = "\"a\""},
         "{\"type\":\"string\",\"enum\":[\"a\",\"b\"],\"default\":\"a\"}"},
        {{.type = FIELD_STRING, .nullable = true}, "{\"type\":[\"string\",\"null\"]}"},
        {{.type = FIELD_INT, .min = 1, .max = 9, .example = "3"},
         "{\"type\":\"integer\",\"minimum\":1,\"maximum\":9,\"examples\":[3]}"},
        {{.type = FIELD_INT, .clamp = true, .min = 1, .max = 9, .help = "n"},
         "{\"type\":\"integer\",\"minimum\":0,\"description\":\"n; moved to the nearer end of 1 to "
         "9\"}"},
        {{.type = FIELD_INT, .clamp = true, .min = -9, .max = 9, .help = "n"},
         "{\"type\":\"integer\",\"description\":\"n; moved to the nearer end of -9 to 9\"}"},
        {{.type = FIELD_ARRAY, .of = &inner, .filled = true},
         "{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/Inner\"},"
         "\"minItems\":1}"},
        {{.type = FIELD_STRING_MAP},
         "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK_STR(schema_text(field_schema(&cases[i].field)), cases[i].schema);
}

TEST(what_must_be_there_is_required)
{
    static const struct field fields[] = {
        {"a", FIELD_BOOL},
        {"b", FIELD_BOOL, .optional = true},
        {"c", FIELD_BOOL, .preset = "true"},
        {0},
    };

    CHECK_STR(schema_text(fields_schema(fields)),
              "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"},\"b\":{"
              "\"type\":\"boolean\"},\"c\":{\"type\":\"boolean\",\"default\":true}},"
              "\"required\":[\"a\"]}");
}

TAP_MAIN
