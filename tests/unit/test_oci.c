#include <jansson.h>

#include "base/err.h"
#include "base/mem.h"
#include "oci/config.h"
#include "oci/manifest.h"
#include "oci/reference.h"
#include "tap.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define HEX_C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

#define OCI_MANIFEST    "application/vnd.oci.image.manifest.v1+json"
#define OCI_INDEX       "application/vnd.oci.image.index.v1+json"
#define DOCKER_MANIFEST "application/vnd.docker.distribution.manifest.v2+json"
#define DOCKER_LIST     "application/vnd.docker.distribution.manifest.list.v2+json"

/* ---- references ---- */

TEST(a_reference_has_dockers_parts)
{
    static const struct {
        const char *text, *full, *shortest;
    } cases[] = {
        {"python", "docker.io/library/python:latest", "python"},
        {"python:3.12-slim", "docker.io/library/python:3.12-slim", "python:3.12-slim"},
        {"docker.io/python", "docker.io/library/python:latest", "python"},
        {"index.docker.io/library/python", "docker.io/library/python:latest", "python"},
        {"library/python:latest", "docker.io/library/python:latest", "python"},
        {"owner/app", "docker.io/owner/app:latest", "owner/app"},
        {"library/a/b", "docker.io/library/a/b:latest", "library/a/b"},
        {"localhost/x", "localhost/x:latest", "localhost/x"},
        {"LOCALHOST/x", "localhost/x:latest", "localhost/x"},
        {"localhost", "docker.io/library/localhost:latest", "localhost"},
        {"a.b/c", "a.b/c:latest", "a.b/c"},
        {"a.b", "docker.io/library/a.b:latest", "a.b"},
        {"x:5000/y", "x:5000/y:latest", "x:5000/y"},
        {"x:5000", "docker.io/library/x:5000", "x:5000"},
        {"GHCR.io/owner/app:V1", "ghcr.io/owner/app:V1", "ghcr.io/owner/app:V1"},
        {"[::1]:5000/x", "[::1]:5000/x:latest", "[::1]:5000/x"},
        {"docker.io/localhost/x", "docker.io/localhost/x:latest", "docker.io/localhost/x"},
        {"docker.io/a.b/c", "docker.io/a.b/c:latest", "docker.io/a.b/c"},
        {"a/b__c/d--e.f", "docker.io/a/b__c/d--e.f:latest", "a/b__c/d--e.f"},
        {"x@sha256:" HEX_A, "docker.io/library/x@sha256:" HEX_A, "x@sha256:" HEX_A},
        {"x:1@sha256:" HEX_A, "docker.io/library/x:1@sha256:" HEX_A, "x:1@sha256:" HEX_A},
        {"x:latest@sha256:" HEX_A, "docker.io/library/x:latest@sha256:" HEX_A,
         "x:latest@sha256:" HEX_A},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *full = NULL, *shortest = NULL;
        struct err err = {0};
        struct reference ref;

        if (reference_parse(cases[i].text, &ref, &err) < 0)
            TAP_FAIL("%s: %s", cases[i].text, err.text);
        full = reference_full(&ref);
        shortest = reference_short(&ref);
        CHECK_STR(full, cases[i].full);
        CHECK_STR(shortest, cases[i].shortest);
        reference_done(&ref);
        CHECK_INT(reference_parse(shortest, &ref, NULL), 0);
        free(full);
        full = reference_full(&ref);
        CHECK_STR(full, cases[i].full);
        reference_done(&ref);
    }
}

TEST(a_digest_alone_has_no_tag)
{
    struct reference ref;

    CHECK_INT(reference_parse("x@sha256:" HEX_A, &ref, NULL), 0);
    CHECK(!ref.tag);
    CHECK_STR(ref.digest, HEX_A);
    reference_done(&ref);
}

TEST(a_bad_reference_is_refused_with_what_is_wrong)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "empty"},
        {"Python", "lower case"},
        {"Foo/bar", "lower case"},
        {"ghcr.io/Foo/bar", "lower case"},
        {"a//b", "path"},
        {"a/", "path"},
        {"/a", "path"},
        {"a/../b", "path"},
        {"./a/b", "no host"},
        {"a___b", "path"},
        {"a..b/c", "no host"},
        {"docker.io/a..b/c", "path"},
        {"a-", "path"},
        {"-a", "path"},
        {"a b", "path"},
        {"a\nb", "a?b"},
        {"\xff\xfe", "??"},
        {"a:", "tag"},
        {"a:.x", "tag"},
        {"a:b:c", "path"},
        {"a@", "sha256"},
        {"a@sha256:123", "sha256"},
        {"a@sha512:" HEX_A HEX_A, "sha256"},
        {"a@sha256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "sha256"},
        {"https://ghcr.io/x/y", "://"},
        {"x:0/y", "no host"},
        {"x:65536/y", "no host"},
        {"x:port/y", "no host"},
        {"-x.y/z", "no host"},
        {"[::1/y", "no host"},
        {HEX_A, "id"},
        {"docker.io/library/" HEX_A, "id"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err err = {0};
        struct reference ref;

        if (reference_parse(cases[i].text, &ref, &err) == 0)
            TAP_FAIL("%s was taken", cases[i].text);
        CHECK_INT(err.kind, ERR_INVALID);
        CHECK_STR(err.code, "bad_image_name");
        if (!strstr(err.text, cases[i].says))
            TAP_FAIL("%s: %s", cases[i].text, err.text);
    }
}

TEST(a_reference_has_bounds)
{
    char text[300] = "a:";
    struct reference ref;

    memset(text + 2, 'x', 128);
    CHECK_INT(reference_parse(text, &ref, NULL), 0);
    reference_done(&ref);
    text[130] = 'x';
    CHECK_INT(reference_parse(text, &ref, NULL), -1);
    memset(text, 'a', 299);
    CHECK_INT(reference_parse(text, &ref, NULL), -1);
    text[230] = '\0'; /* with docker.io/library/ and :latest it is 255 */
    CHECK_INT(reference_parse(text, &ref, NULL), 0);
    reference_done(&ref);
    text[230] = 'a';
    text[231] = '\0';
    CHECK_INT(reference_parse(text, &ref, NULL), -1);
}

/* ---- manifests ---- */

#define CONFIG(type)          "{\"mediaType\":\"" type "\",\"digest\":\"sha256:" HEX_A "\",\"size\":7}"
#define OCI_CONFIG            CONFIG("application/vnd.oci.image.config.v1+json")
#define LAYER(type)           "{\"mediaType\":\"" type "\",\"digest\":\"sha256:" HEX_B "\",\"size\":9}"
#define GZIP_LAYER            LAYER("application/vnd.oci.image.layer.v1.tar+gzip")
#define IMAGE(config, layers) "{\"schemaVersion\":2,\"config\":" config ",\"layers\":[" layers "]}"

static int parse(const char *text, const char *type, struct manifest *m, struct err *err)
{
    *err = (struct err){0};
    return manifest_parse(text, strlen(text), type, m, err);
}

static void check_refused(const char *text, const char *type, const char *says)
{
    struct manifest m;
    struct err err;

    if (parse(text, type, &m, &err) == 0)
        TAP_FAIL("taken: %.200s", text);
    CHECK_INT(err.kind, ERR_INVALID);
    CHECK_STR(err.code, "bad_manifest");
    if (!strstr(err.text, says))
        TAP_FAIL("%s does not say %s", err.text, says);
}

TEST(an_image_has_its_config_and_layers_in_order)
{
    static const char text[] = IMAGE(
        CONFIG("application/vnd.docker.container.image.v1+json"),
        LAYER("application/vnd.docker.image.rootfs.diff.tar.gzip") "," LAYER(
            "application/vnd.oci.image.layer.v1.tar+zstd") "," LAYER("application/"
                                                                     "vnd.oci.image.layer.v1.tar"));
    struct manifest m;
    struct err err;

    CHECK_INT(parse(text, DOCKER_MANIFEST "; charset=utf-8", &m, &err), 0);
    CHECK(!m.is_index);
    CHECK_STR(m.config.digest, HEX_A);
    CHECK_INT(m.config.size, 7);
    CHECK_INT(m.n_layers, 3);
    CHECK_STR(m.layers[0].digest, HEX_B);
    CHECK_INT(m.layers[0].size, 9);
    CHECK_INT(m.layers[0].coding, BLOB_GZIP);
    CHECK_INT(m.layers[1].coding, BLOB_ZSTD);
    CHECK_INT(m.layers[2].coding, BLOB_PLAIN);
    manifest_done(&m);
}

TEST(a_type_that_says_nothing_leaves_it_to_the_shape)
{
    static const char *const types[] = {NULL, "", "application/json", OCI_MANIFEST};
    struct manifest m;
    struct err err;

    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        CHECK_INT(parse(IMAGE(OCI_CONFIG, GZIP_LAYER), types[i], &m, &err), 0);
        manifest_done(&m);
    }
}

TEST(a_document_of_two_meanings_is_refused)
{
    static const char both[] = "{\"schemaVersion\":2,\"manifests\":[],\"config\":" OCI_CONFIG
                               ",\"layers\":[" GZIP_LAYER "]}";
    static const char own[] = "{\"schemaVersion\":2,\"mediaType\":\"" DOCKER_MANIFEST
                              "\",\"config\":" OCI_CONFIG ",\"layers\":[" GZIP_LAYER "]}";

    check_refused(both, NULL, "at the same time");
    check_refused(both, OCI_INDEX, "at the same time");
    check_refused(own, OCI_MANIFEST, "came as");
    check_refused(IMAGE(OCI_CONFIG, GZIP_LAYER), OCI_INDEX, "its type is");
    check_refused("{\"schemaVersion\":2,\"manifests\":[]}", DOCKER_MANIFEST, "its type is");
    check_refused(IMAGE(OCI_CONFIG, GZIP_LAYER), "text/html", "not the type");
    check_refused("{\"schemaVersion\":2,\"schemaVersion\":2}", NULL, "duplicate");
}

TEST(schema_1_is_refused_with_what_to_do)
{
    check_refused("{\"schemaVersion\":1,\"fsLayers\":[]}", NULL, "push it again");
    check_refused("{\"schemaVersion\":1,\"name\":\"x\"}",
                  "application/vnd.docker.distribution.manifest.v1+prettyjws", "schema 1");
    check_refused("{\"name\":\"x\"}", NULL, "schemaVersion");
    check_refused("{\"schemaVersion\":\"2\"}", NULL, "schemaVersion");
}

TEST(what_is_no_image_is_refused)
{
    check_refused(IMAGE(CONFIG("application/vnd.cncf.helm.config.v1+json"), GZIP_LAYER), NULL,
                  "artifact of type application/vnd.cncf.helm");
    check_refused(IMAGE(CONFIG("application/vnd.oci.empty.v1+json"), GZIP_LAYER), NULL, "artifact");
    check_refused(
        IMAGE(OCI_CONFIG, LAYER("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip")), NULL,
        "foreign");
    check_refused(
        IMAGE(OCI_CONFIG, LAYER("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip")),
        NULL, "foreign");
    check_refused(IMAGE(OCI_CONFIG, LAYER("application/vnd.x\\u001b[2J")), NULL, "vnd.x?[2J");
    check_refused(IMAGE(OCI_CONFIG, ""), NULL, "no layers");
}

TEST(sizes_and_digests_of_blobs_are_checked)
{
    static const char *const layers[] = {
        "{}",
        "7",
        "{\"digest\":\"sha256:" HEX_A "\"}",
        "{\"digest\":\"sha256:" HEX_A "\",\"size\":-1}",
        "{\"digest\":\"sha256:" HEX_A "\",\"size\":1.5}",
        "{\"digest\":\"sha256:" HEX_A "\",\"size\":\"1\"}",
        "{\"digest\":\"sha256:" HEX_A "\",\"size\":9223372036854775807}",
        "{\"digest\":\"sha256:../../../etc/passwd\",\"size\":1}",
        "{\"digest\":\"sha512:" HEX_A HEX_A "\",\"size\":1}",
        "{\"digest\":\"sha256:" HEX_A "a\",\"size\":1}",
    };

    for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
        auto_free char *text =
            xasprintf("{\"schemaVersion\":2,\"config\":" OCI_CONFIG ",\"layers\":[%s]}", layers[i]);

        check_refused(text, NULL, "layer");
    }
    check_refused(IMAGE(OCI_CONFIG, "{\"digest\":7,\"size\":1}"), NULL, "digest");
}

/* prefix, n times item with commas between, suffix */
static char *repeat(const char *prefix, const char *item, size_t n, const char *comma,
                    const char *suffix)
{
    size_t each = strlen(item) + strlen(comma), len = strlen(prefix);
    char *text = xmalloc(len + n * each + strlen(suffix) + 1);

    memcpy(text, prefix, len);
    for (size_t i = 0; i < n; i++) {
        memcpy(text + len, item, strlen(item));
        memcpy(text + len + strlen(item), comma, strlen(comma));
        len += each;
    }
    len -= strlen(comma);
    memcpy(text + len, suffix, strlen(suffix) + 1);
    return text;
}

TEST(a_manifest_has_bounds)
{
    static const char head[] = "{\"schemaVersion\":2,\"config\":" OCI_CONFIG ",\"layers\":[";
    auto_free char *most = repeat(head, GZIP_LAYER, 127, ",", "]}");
    auto_free char *layers = repeat(head, GZIP_LAYER, 1000, ",", "]}");
    auto_free char *entries =
        repeat("{\"schemaVersion\":2,\"manifests\":[", LAYER(OCI_MANIFEST), 1001, ",", "]}");
    auto_free char *deep = repeat("{\"schemaVersion\":2,\"layers\":", "[", 65, "", "]}");
    auto_free char *deepest = repeat("", "[", 100000, "", "");
    auto_free char *wide = repeat("{\"x\":[", "[]", 300000, ",", "]}");
    auto_free char *large = repeat("{\"x\":\"", "y", 5 << 20, "", "\"}");
    struct manifest m;
    struct err err;

    CHECK_INT(parse(most, NULL, &m, &err), 0);
    CHECK_INT(m.n_layers, 127);
    manifest_done(&m);
    check_refused(layers, NULL, "1000 layers");
    check_refused(entries, NULL, "1001 entries");
    check_refused(deep, NULL, "nested");
    check_refused(deepest, NULL, "nested");
    check_refused(wide, NULL, "values");
    check_refused(large, NULL, "bytes");
    check_refused("", NULL, "line 1");
    check_refused("[]", NULL, "not a JSON object");
    check_refused("{\"a\":\"\\u0000\"}", NULL, "line 1");
}

/* ---- indexes ---- */

#define ENTRY(type, hex, platform)                                                                 \
    "{\"mediaType\":\"" type "\",\"digest\":\"sha256:" hex "\",\"size\":5" platform "}"
#define PLATFORM(os, arch, rest)                                                                   \
    ",\"platform\":{\"os\":\"" os "\",\"architecture\":\"" arch "\"" rest "}"
#define INDEX(entries) "{\"schemaVersion\":2,\"manifests\":[" entries "]}"

static const char *choose(const char *text, const char *platform)
{
    static char digest[DIGEST_HEX];
    const struct blob *blob;
    struct manifest m;
    struct err err;

    if (parse(text, NULL, &m, &err) < 0)
        TAP_FAIL("%s", err.text);
    CHECK(m.is_index);
    if (manifest_choose(&m, platform, &blob, &err) < 0) {
        CHECK_STR(err.code, "no_platform");
        snprintf(digest, sizeof(digest), "none");
    } else {
        memcpy(digest, blob->digest, sizeof(digest));
    }
    manifest_done(&m);
    return digest;
}

TEST(an_index_gives_the_image_of_a_platform)
{
    static const char text[] =
        INDEX(ENTRY(OCI_MANIFEST, HEX_C, PLATFORM("unknown", "unknown", "")) "," ENTRY(
            OCI_MANIFEST, HEX_A,
            PLATFORM("linux", "amd64", "")) "," ENTRY(DOCKER_MANIFEST, HEX_B,
                                                      PLATFORM("linux", "arm64",
                                                               ",\"variant\":\"v8\"")));

    CHECK_STR(choose(text, "linux/amd64"), HEX_A);
    CHECK_STR(choose(text, "linux/x86_64"), HEX_A);
    CHECK_STR(choose(text, "linux/amd64/v3"), HEX_A);
    CHECK_STR(choose(text, "linux/arm64"), HEX_B);
    CHECK_STR(choose(text, "linux/arm64/v8"), HEX_B);
    CHECK_STR(choose(text, "linux/riscv64"), "none");
    CHECK_STR(choose(text, "windows/amd64"), "none");
    CHECK_STR(choose(text, "unknown/unknown"), "none");
}

TEST(the_newest_variant_that_runs_is_chosen)
{
    static const char text[] =
        INDEX(ENTRY(OCI_MANIFEST, HEX_A, PLATFORM("linux", "arm", ",\"variant\":\"v5\"")) "," ENTRY(
            OCI_MANIFEST, HEX_B,
            PLATFORM("linux", "arm",
                     ",\"variant\":\"v6\"")) "," ENTRY(OCI_MANIFEST, HEX_C,
                                                       PLATFORM("linux", "amd64",
                                                                ",\"variant\":\"v3\"")));

    CHECK_STR(choose(text, "linux/arm"), HEX_B);
    CHECK_STR(choose(text, "linux/arm/v5"), HEX_A);
    CHECK_STR(choose(text, "linux/amd64"), "none");
    CHECK_STR(choose(text, "linux/amd64/v3"), HEX_C);
}

TEST(the_only_entry_need_not_say_its_platform)
{
    static const char one[] =
        INDEX(ENTRY(OCI_INDEX, HEX_A,
                    ",\"annotations\":{\"org.opencontainers.image.ref.name\":"
                    "\"1.0\"}") "," ENTRY("application/vnd.example.sbom", HEX_C, ""));
    static const char two[] =
        INDEX(ENTRY(OCI_MANIFEST, HEX_A, "") "," ENTRY(OCI_MANIFEST, HEX_B, ""));
    struct manifest m;
    struct err err;

    CHECK_STR(choose(one, "linux/amd64"), HEX_A);
    CHECK_STR(choose(two, "linux/amd64"), "none");
    CHECK_INT(parse(one, OCI_INDEX, &m, &err), 0);
    CHECK_INT(m.n_images, 1);
    CHECK_STR(m.images[0].name, "1.0");
    manifest_done(&m);
}

TEST(a_platform_that_is_missing_is_answered_with_those_that_are_there)
{
    const struct blob *blob;
    struct manifest m;
    struct err err;

    CHECK_INT(parse(INDEX(ENTRY(OCI_MANIFEST, HEX_A, PLATFORM("linux", "s390x", ""))), DOCKER_LIST,
                    &m, &err),
              0);
    CHECK_INT(manifest_choose(&m, "linux/amd64", &blob, &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    CHECK_STR(err.text, "the image has nothing for linux/amd64; it is there for linux/s390x");
    CHECK_INT(manifest_choose(&m, "amd64", &blob, &err), -1);
    CHECK_STR(err.code, "bad_platform");
    manifest_done(&m);
}

TEST(one_platform_has_several_names)
{
    static const struct {
        const char *have, *asked;
        bool fits;
    } cases[] = {
        {"linux/arm64", "linux/arm64", true},      {"linux/arm64/v8", "linux/arm64", true},
        {"linux/arm64", "linux/arm64/v8", true},   {"linux/arm64", "linux/aarch64", true},
        {"linux/aarch64/v8", "linux/arm64", true}, {"linux/amd64", "linux/x86_64", true},
        {"linux/amd64", "linux/amd64/v2", true},   {"linux/arm/v6", "linux/arm", true},
        {"linux/unknown", "linux/arm64", true},    {"linux/arm64/v9", "linux/arm64", false},
        {"linux/amd64/v3", "linux/amd64", false},  {"linux/amd64", "linux/arm64", false},
        {"linux/arm", "linux/arm64", false},       {"windows/arm64", "linux/arm64", false},
        {"linux/arm64", "arm64", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (platform_fits(cases[i].have, cases[i].asked) != cases[i].fits)
            TAP_FAIL("%s %s %s", cases[i].have, cases[i].fits ? "is not" : "is", cases[i].asked);
}

TEST(this_machine_has_a_platform)
{
    CHECK(strncmp(platform_here(), "linux/", 6) == 0);
    CHECK(strstr(manifest_accept, OCI_INDEX) && strstr(manifest_accept, DOCKER_MANIFEST));
}

/* ---- configurations ---- */

static const char whole[] =
    "{\"created\":\"2024-05-01T12:00:00.25+02:00\",\"architecture\":\"arm64\",\"os\":\"linux\","
    "\"variant\":\"v8\",\"config\":{\"Env\":[\"A=1\",\"B=\"],\"Entrypoint\":[\"/e\"],"
    "\"Cmd\":[\"c\",\"d\"],\"WorkingDir\":\"/w\",\"User\":\"1000:app\",\"StopSignal\":\"SIGINT\","
    "\"ExposedPorts\":{\"80/tcp\":{},\"53/udp\":{}},\"Labels\":{\"k\":\"v\"}},"
    "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:" HEX_A "\",\"sha256:" HEX_B "\"]}}";

TEST(a_configuration_is_read_whole)
{
    struct oci_config c;
    struct err err = {0};

    CHECK_INT(oci_config_parse(whole, strlen(whole), &c, &err), 0);
    CHECK_STR(c.os, "linux");
    CHECK_STR(c.arch, "arm64");
    CHECK_STR(c.variant, "v8");
    CHECK_INT(c.created_ms, 1714557600250);
    CHECK_STR(c.diff_ids[0], HEX_A);
    CHECK_STR(c.diff_ids[1], HEX_B);
    CHECK_INT(strv_len(c.diff_ids), 2);
    CHECK_STR(c.env[1], "B=");
    CHECK_STR(c.entrypoint[0], "/e");
    CHECK_STR(c.cmd[1], "d");
    CHECK_STR(c.workdir, "/w");
    CHECK_STR(c.user, "1000:app");
    CHECK_STR(c.stop_signal, "SIGINT");
    CHECK_STR(c.ports[1], "53/udp");
    CHECK_STR(json_string_value(json_object_get(c.labels, "k")), "v");
    oci_config_done(&c);
}

TEST(a_configuration_may_say_next_to_nothing)
{
    static const char *const texts[] = {
        "{\"rootfs\":{\"diff_ids\":[\"sha256:" HEX_A "\"]}}",
        "{\"config\":null,\"created\":\"soon\",\"rootfs\":{\"diff_ids\":[\"sha256:" HEX_A "\"]}}",
        "{\"config\":{\"Env\":null,\"Cmd\":null,\"Labels\":null,\"ExposedPorts\":null,"
        "\"User\":null},\"created\":\"0001-01-01T00:00:00Z\","
        "\"rootfs\":{\"diff_ids\":[\"sha256:" HEX_A "\"]}}",
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct oci_config c;
        struct err err = {0};

        CHECK_INT(oci_config_parse(texts[i], strlen(texts[i]), &c, &err), 0);
        CHECK_INT(c.created_ms, 0);
        CHECK(!c.env && !c.cmd && !c.entrypoint && !c.ports);
        CHECK_STR(c.workdir, "");
        CHECK_INT(json_object_size(c.labels), 0);
        oci_config_done(&c);
    }
}

TEST(a_command_of_one_string_is_for_the_shell)
{
    static const char text[] = "{\"config\":{\"Cmd\":\"echo hi\"},\"rootfs\":{\"diff_ids\":["
                               "\"sha256:" HEX_A "\"]}}";
    struct oci_config c;

    CHECK_INT(oci_config_parse(text, strlen(text), &c, NULL), 0);
    CHECK_STR(c.cmd[0], "/bin/sh");
    CHECK_STR(c.cmd[2], "echo hi");
    oci_config_done(&c);
}

TEST(a_bad_configuration_is_refused)
{
    static const struct {
        const char *config, *says;
    } cases[] = {
        {"{\"Env\":\"A=1\"}", "Env"},
        {"{\"Env\":[1]}", "Env"},
        {"{\"Env\":[\"A\"]}", "NAME=VALUE"},
        {"{\"Env\":[\"=1\"]}", "NAME=VALUE"},
        {"{\"Env\":[\"A=\\u0000\"]}", "line 1"},
        {"{\"Cmd\":{}}", "Cmd"},
        {"{\"WorkingDir\":7}", "WorkingDir"},
        {"{\"ExposedPorts\":[]}", "ExposedPorts"},
        {"{\"Labels\":{\"k\":7}}", "label"},
        {"{\"Labels\":7}", "Labels"},
        {"7", "config is not"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *text = xasprintf(
            "{\"config\":%s,\"rootfs\":{\"diff_ids\":[\"sha256:" HEX_A "\"]}}", cases[i].config);
        struct oci_config c;
        struct err err = {0};

        CHECK_INT(oci_config_parse(text, strlen(text), &c, &err), -1);
        CHECK_STR(err.code, "bad_config");
        if (!strstr(err.text, cases[i].says))
            TAP_FAIL("%s: %s", cases[i].config, err.text);
    }
}

TEST(layers_of_a_configuration_are_checked)
{
    static const char *const ids[] = {"", "7", "\"x\"", "\"sha256:../x\"", "\"" HEX_A "\""};
    struct oci_config c;
    auto_free char *many =
        repeat("{\"rootfs\":{\"diff_ids\":[", "\"sha256:" HEX_A "\"", 128, ",", "]}}");

    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        auto_free char *text = xasprintf("{\"rootfs\":{\"diff_ids\":[%s]}}", ids[i]);

        CHECK_INT(oci_config_parse(text, strlen(text), &c, NULL), -1);
    }
    CHECK_INT(oci_config_parse("{}", 2, &c, NULL), -1);
    CHECK_INT(oci_config_parse(many, strlen(many), &c, NULL), -1);
}

TAP_MAIN
