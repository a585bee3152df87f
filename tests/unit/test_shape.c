#include "base/err.h"
#include "base/mem.h"
#include "model/sandbox.h"
#include "model/shapes.h"
#include "tap.h"

static const char *const words[] = {"red", "blue", NULL};

static const struct field inner_fields[] = {
    {"from", FIELD_STRING, .min = 1},
    {"times", FIELD_INT, .clamp = true, .min = 1, .max = 9, .preset = "2"},
    {0},
};
static const struct shape inner_shape = {"Inner", inner_fields};

static const struct field outer_fields[] = {
    {"id", FIELD_STRING},
    {"colour", FIELD_STRING, .choices = words, .optional = true},
    {"note", FIELD_STRING, .nullable = true, .optional = true},
    {"one", FIELD_OBJECT, .of = &inner_shape, .optional = true},
    {"many", FIELD_ARRAY, .of = &inner_shape, .filled = true, .optional = true},
    {0},
};
static const struct shape outer_shape = {"Outer", outer_fields};

static const char *const a_word[] = {"a", NULL}, *const b_word[] = {"b", NULL};
static const struct field a_fields[] = {
    {"event", FIELD_STRING, .choices = a_word}, {"n", FIELD_INT}, {0}};
static const struct field b_fields[] = {{"event", FIELD_STRING, .choices = b_word}, {0}};
static const struct shape a_shape = {"A", a_fields}, b_shape = {"B", b_fields};
static const struct shape *const events[] = {&a_shape, &b_shape, NULL};
static const struct shape happening_shape = {"Event", .one_of = events};

static const struct field list_value = {.type = FIELD_ARRAY, .of = &happening_shape};
static const struct shape list_shape = {"Events", .value = &list_value};

/* "" when it follows the shape, else what is wrong. */
static const char *checked(const struct shape *shape, const char *text)
{
    static char said[sizeof(((struct err *)0)->text)];
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    struct err err = {0};

    CHECK(value != NULL);
    CHECK_INT(shape_check(shape, value, &err), err.kind == ERR_NONE ? 0 : -1);
    json_decref(value);
    snprintf(said, sizeof(said), "%s", err.text);
    return said;
}

TEST(an_answer_that_follows_its_shape_passes)
{
    CHECK_STR(checked(&outer_shape, "{\"id\":\"\"}"), "");
    CHECK_STR(checked(&outer_shape, "{\"id\":\"x\",\"colour\":\"red\",\"note\":null}"), "");
    CHECK_STR(checked(&outer_shape, "{\"id\":\"x\",\"one\":{\"from\":\"a\",\"times\":9}}"), "");
    CHECK_STR(checked(&list_shape, "[]"), "");
    CHECK_STR(checked(&list_shape, "[{\"event\":\"a\",\"n\":1},{\"event\":\"b\"}]"), "");
}

static const struct field lenient_fields[] = {
    {"name", FIELD_STRING, .lenient = true, .optional = true, .max = 3},
    {"size", FIELD_INT, .lenient = true, .clamp = true, .min = 1, .max = 9, .preset = "2"},
    {"tags", FIELD_STRING_MAP, .lenient = true, .optional = true},
    {"strict", FIELD_BOOL, .optional = true},
    {0},
};

/* What is made of input, or what is wrong with it. */
static const char *taken(const struct field *fields, const char *text)
{
    static char said[512];
    json_t *in = json_loads(text, 0, NULL);
    struct err err = {0};
    char *dump = NULL;

    CHECK(in != NULL);
    if (fields_take(fields, in, &err) == 0)
        dump = json_dumps(in, JSON_COMPACT | JSON_SORT_KEYS);
    snprintf(said, sizeof(said), "%s", dump ? dump : err.text);
    free(dump);
    json_decref(in);
    return said;
}

TEST(what_is_lenient_and_of_another_type_is_dropped_and_told)
{
    CHECK_STR(taken(lenient_fields, "{\"name\":7}"),
              "{\"ignored\":[\"name must be a string; what was sent is "
              "ignored\"],\"size\":2}");
    CHECK_STR(taken(lenient_fields, "{\"size\":\"4\"}"),
              "{\"ignored\":[\"size must be a whole number from 1 to 9; "
              "what was sent is ignored\"],\"size\":2}");
    CHECK_STR(taken(lenient_fields, "{\"size\":1.5,\"tags\":[]}"),
              "{\"ignored\":[\"size must be a whole number from 1 to 9; what was sent is "
              "ignored\",\"tags must be an object whose values are strings; what was sent is "
              "ignored\"],\"size\":2}");
    /* Nobody else writes there. */
    CHECK_STR(taken(lenient_fields, "{\"ignored\":[\"x\"]}"), "{\"size\":2}");
}

TEST(what_is_lenient_and_of_its_type_is_judged)
{
    CHECK_STR(taken(lenient_fields, "{\"name\":\"long\"}"), "name must have at most 3 bytes");
    CHECK_STR(taken(lenient_fields, "{\"tags\":{\"a\":1}}"), "tags.a must be a string");
    CHECK_STR(taken(lenient_fields, "{\"strict\":1}"), "strict must be true or false");
    CHECK_STR(taken(lenient_fields, "{\"size\":100}"), "{\"size\":9}");
    CHECK_STR(taken(lenient_fields, "{\"name\":null}"), "{\"size\":2}");
}

TEST(a_number_without_a_fraction_is_whole)
{
    CHECK_STR(taken(lenient_fields, "{\"size\":4.0}"), "{\"size\":4}");
    CHECK_STR(taken(lenient_fields, "{\"size\":1e300}"),
              "{\"ignored\":[\"size must be a whole number from 1 to 9; "
              "what was sent is ignored\"],\"size\":2}");
    CHECK_STR(checked(&inner_shape, "{\"from\":\"a\",\"times\":2.0}"),
              "Inner.times must be a whole number from 1 to 9");
}

TEST(a_deviation_is_named)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"[]", "Outer must be an object"},
        {"{}", "Outer.id is required"},
        {"{\"id\":null}", "Outer.id must be a string"},
        {"{\"id\":\"x\",\"more\":1}", "Outer must not have more"},
        {"{\"id\":\"x\",\"colour\":\"green\"}", "Outer.colour must be one of red, blue"},
        {"{\"id\":\"x\",\"one\":{}}", "Outer.one.from is required"},
        {"{\"id\":\"x\",\"one\":{\"from\":\"a\",\"times\":10}}",
         "Outer.one.times must be a whole number from 1 to 9"},
        {"{\"id\":\"x\",\"one\":{\"from\":\"a\"}}", "Outer.one.times is required"},
        {"{\"id\":\"x\",\"many\":[]}", "Outer.many is required and must not be empty"},
        {"{\"id\":\"x\",\"many\":[{\"from\":\"a\",\"times\":1},2]}",
         "Outer.many[1] must be an object"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_STR(checked(&outer_shape, bad[i].text), bad[i].says);
}

TEST(an_event_is_told_by_its_word)
{
    CHECK_STR(checked(&happening_shape, "{\"event\":\"a\"}"), "Event.n is required");
    CHECK_STR(checked(&happening_shape, "{\"event\":\"b\",\"n\":1}"), "Event must not have n");
    CHECK_STR(checked(&happening_shape, "{\"event\":\"c\"}"), "Event must be a Event");
    CHECK_STR(checked(&list_shape, "[{\"event\":\"b\"},7]"), "Events[1] must be a Event");
}

TEST(input_is_made_to_fit_at_every_depth)
{
    CHECK_STR(taken(outer_fields, "{\"id\":\"x\",\"colour\":null,\"more\":1}"), "{\"id\":\"x\"}");
    CHECK_STR(taken(outer_fields, "{\"id\":\"x\",\"one\":{\"from\":\"a\",\"more\":1}}"),
              "{\"id\":\"x\",\"one\":{\"from\":\"a\",\"times\":2}}");
    CHECK_STR(taken(outer_fields, "{\"id\":\"x\",\"many\":[{\"from\":\"a\",\"times\":99}]}"),
              "{\"id\":\"x\",\"many\":[{\"from\":\"a\",\"times\":9}]}");
}

TEST(wrong_input_is_named_at_every_depth)
{
    CHECK_STR(taken(outer_fields, "{}"), "id is required");
    CHECK_STR(taken(outer_fields, "{\"id\":\"x\",\"colour\":\"\"}"),
              "colour must be one of red, blue");
    CHECK_STR(taken(outer_fields, "{\"id\":\"x\",\"one\":[]}"), "one must be an object");
    CHECK_STR(taken(outer_fields, "{\"id\":\"x\",\"one\":{\"from\":\"\"}}"),
              "one.from is required and must not be empty");
    CHECK_STR(taken(outer_fields, "{\"id\":\"x\",\"many\":[{\"from\":null}]}"),
              "many[0].from is required");
    CHECK_STR(taken(outer_fields, "{\"id\":\"x\",\"many\":[]}"),
              "many is required and must not be empty");
}

TEST(an_array_of_input_is_bounded)
{
    json_t *many = json_array(), *in;
    struct err err = {0};

    for (int i = 0; i <= TAKE_ITEMS_MAX; i++)
        (void)json_array_append_new(many, json_pack("{s:s}", "from", "a"));
    in = json_pack("{s:s, s:o}", "id", "x", "many", many);
    CHECK_INT(fields_take(outer_fields, in, &err), -1);
    CHECK_STR(err.text, "many must have at most 4096 items");
    json_decref(in);
}

TEST(the_configuration_of_a_sandbox_follows_its_shape)
{
    struct sandbox_spec spec = {
        .image = "host",
        .name = "n",
        .timeout_s = 60,
        .limits = {.memory_mb = 64, .cpu_millis = 500, .pids = 1, .disk_mb = 64},
        .network = json_true(),
        .workdir = "/",
        .env = json_pack("{s:s}", "A", "b"),
        .metadata = json_pack("{s:s}", "a", "b"),
        .entrypoint = (char *[]){"sh", NULL},
    };
    json_t *config = sandbox_spec_json(&spec);
    struct err err = {0};

    CHECK_INT(json_object_size(config), 12);
    if (shape_check(&sandbox_config_shape, config, &err) < 0)
        TAP_FAIL("%s", err.text);
    json_decref(config);
    json_decref(spec.env);
    json_decref(spec.metadata);
}

TAP_MAIN
