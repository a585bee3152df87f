#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/config.h"
#include "daemon/yaml_json.h"
#include "tap.h"
#include "tmpdir.h"

/* ---- the reader ---- */

/* The text as one line of JSON, or what is wrong with it. */
static const char *read_yaml(const char *text)
{
    static char *shown;
    static struct err err;
    json_t *value, *lines;

    free(shown);
    shown = NULL;
    err = (struct err){0};
    if (yaml_read(text, strlen(text), &value, &lines, &err) < 0)
        return err.text;
    shown = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(value);
    json_decref(lines);
    return shown;
}

TEST(scalars_are_what_yaml_makes_of_them)
{
    CHECK_STR(read_yaml("[a, 'b c', \"1\", 1, -2, +3, 0x1F, 0o17, 1.5, 1e3, .5]"),
              "[\"a\",\"b c\",\"1\",1,-2,3,31,15,1.5,1000.0,0.5]");
    CHECK_STR(read_yaml("[true, False, null, ~, , yes, no, .inf, nan, 1.2.3, 12x]"),
              "line 1: did not find expected node content while parsing a flow node");
    CHECK_STR(read_yaml("[true, False, null, ~, yes, no, .inf, nan, 1.2.3, 12x, 0x]"),
              "[true,false,null,null,\"yes\",\"no\",\".inf\",\"nan\",\"1.2.3\",\"12x\",\"0x\"]");
    CHECK_STR(read_yaml("a: !!str 5\nb:\n"), "{\"a\":\"5\",\"b\":null}");
    CHECK_STR(read_yaml("99999999999999999999"), "1e20");
}

TEST(collections_nest)
{
    CHECK_STR(read_yaml("workers:\n  - name: a\n    config: {port: 1}\n  - name: b\n"),
              "{\"workers\":[{\"name\":\"a\",\"config\":{\"port\":1}},{\"name\":\"b\"}]}");
    CHECK_STR(read_yaml("a: |\n  one\n  two\n"), "{\"a\":\"one\\ntwo\\n\"}");
}

TEST(a_local_tag_has_no_effect_on_its_value)
{
    CHECK_STR(read_yaml("a: !Builtin {}\nb: !Kv\nc: !List [1, !x y]\nd: !N 5\ne: !N '5'\n"),
              "{\"a\":{},\"b\":null,\"c\":[1,\"y\"],\"d\":5,\"e\":\"5\"}");
    CHECK_STR(read_yaml("adapter: !FileBased\n  path: ./data/state_store.db\n"),
              "{\"adapter\":{\"path\":\"./data/state_store.db\"}}");
    CHECK_STR(read_yaml("a: ! 5\nb: ! [c]\n"), "{\"a\":\"5\",\"b\":[\"c\"]}");
}

TEST(tags_of_the_core_schema_must_fit_their_value)
{
    CHECK_STR(read_yaml("[!!str 5, !!int '5', !!float 1, !!bool true, !!null ~]"),
              "[\"5\",5,1,true,null]");
    CHECK_STR(read_yaml("{a: !!seq [1], b: !!map {c: d}}"), "{\"a\":[1],\"b\":{\"c\":\"d\"}}");
#define BAD_TAG(text, tag)                                                                         \
    CHECK_STR(read_yaml(text),                                                                     \
              "line 1: the tag " tag " does not fit this value: only !Name and !!str, !!int, "     \
              "!!float, !!bool, !!null, !!seq, !!map are read")
    BAD_TAG("a: !!int five\n", "tag:yaml.org,2002:int");
    BAD_TAG("a: !!set {b}\n", "tag:yaml.org,2002:set");
    BAD_TAG("a: !!map [b]\n", "tag:yaml.org,2002:map");
    BAD_TAG("a: !!binary aGk=\n", "tag:yaml.org,2002:binary");
    BAD_TAG("a: !<tag:example.com,2000:x> 1\n", "tag:example.com,2000:x");
}

TEST(what_no_such_file_needs_is_refused_with_its_line)
{
    auto_free char *deep = xmalloc(YAML_DEPTH_MAX + 3);

    memset(deep, '[', YAML_DEPTH_MAX + 2);
    deep[YAML_DEPTH_MAX + 2] = '\0';
    CHECK_STR(read_yaml("a: &x 1\nb: *x\n"), "line 2: aliases are not read here: write it out");
    CHECK_STR(read_yaml("a: 1\nb: 2\na: 3\n"), "line 3: a stands here for the second time");
    CHECK_STR(read_yaml("a: 1\n---\nb: 2\n"), "line 2: a second document begins here");
    CHECK_STR(read_yaml("a: 1\n? [b]\n: c\n"), "line 2: a key must be a word");
    CHECK_STR(read_yaml("a: \"x\\0y\"\n"), "line 1: a text has a NUL in it");
    CHECK_STR(read_yaml("# nothing\n"), "line 2: is empty");
    CHECK_STR(read_yaml(deep), "line 1: is nested too deeply");
    CHECK(strncmp(read_yaml("a:\n\t- b\n"), "line 2: found character that cannot start", 41) == 0);
    CHECK(strncmp(read_yaml("a: \"b\n"), "line 2: ", 8) == 0);
}

TEST(a_text_has_a_size_and_so_many_values)
{
    auto_free char *large = xmalloc(YAML_BYTES_MAX + 2);
    size_t n = 0;

    memset(large, ' ', YAML_BYTES_MAX + 1);
    large[YAML_BYTES_MAX + 1] = '\0';
    CHECK_STR(read_yaml(large), "line 1: is larger than 1024 KiB");
    large[n++] = '[';
    for (unsigned i = 0; i < YAML_NODES_MAX; i++) {
        large[n++] = '1';
        large[n++] = ',';
    }
    large[n++] = ']';
    large[n] = '\0';
    CHECK_STR(read_yaml(large), "line 1: holds too much");
}

TEST(every_value_has_its_line)
{
    json_t *value, *lines;
    const char *text = "a: 1\n\nlist:\n  - x\n  - y: 2\n";

    CHECK_INT(yaml_read(text, strlen(text), &value, &lines, NULL), 0);
    CHECK_INT(yaml_line(lines), 1);
    CHECK_INT(yaml_line(yaml_lines_of(lines, "a")), 1);
    CHECK_INT(yaml_line(yaml_lines_of(lines, "list")), 4);
    CHECK_INT(yaml_line(yaml_lines_at(yaml_lines_of(lines, "list"), 0)), 4);
    CHECK_INT(yaml_line(yaml_lines_of(yaml_lines_at(yaml_lines_of(lines, "list"), 1), "y")), 5);
    CHECK(yaml_lines_of(lines, "none") == NULL);
    json_decref(value);
    json_decref(lines);
}

static const char *lookup(const char *name, void *arg)
{
    (void)arg;
    return strcmp(name, "PORT") == 0 ? "7" : strcmp(name, "EMPTY") == 0 ? "" : NULL;
}

static const char *expand(const char *text)
{
    static char *shown;
    static struct err err;

    free(shown);
    err = (struct err){0};
    shown = yaml_expand(text, lookup, NULL, &err);
    return shown ? shown : err.text;
}

TEST(variables_have_values_or_defaults)
{
    CHECK_STR(expand("port: ${PORT}\nhost: ${HOST:127.0.0.1}, ${HOST:}${EMPTY:x}.\n"),
              "port: 7\nhost: 127.0.0.1, .\n");
    CHECK_STR(expand("a: ${URL:http://h:1/}${PORT:9}"), "a: http://h:1/7");
    CHECK_STR(expand("a: $PORT $$ { }\n"), "a: $PORT $$ { }\n");
    CHECK_STR(expand("  # set ${NOT_SET}\na: 1"), "  # set ${NOT_SET}\na: 1");
    CHECK_STR(expand("a: 1\nb: ${NOT_SET}\n"),
              "line 2: the variable NOT_SET is not set; ${NOT_SET:VALUE} would give it a default");
    CHECK_STR(expand("a: ${PORT\nb: }\n"), "line 1: ${ has no } behind it");
}

/* ---- what files do to the configuration ---- */

static struct daemon_config config;

/* Of a file of that text: "ok", or what is wrong with it, with FILE for its path. */
static const char *read_file_as(char *command, const char *text, char **more)
{
    static struct err err;
    static char shown[400];
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/f.yaml", dir);
    char *argv[8] = {command, "--config", path};
    int argc = 3, fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    char *at;

    CHECK(fd >= 0);
    CHECK_INT(write_all(fd, text, strlen(text)), 0);
    (void)close(fd);
    while (more && *more)
        argv[argc++] = *more++;
    err = (struct err){0};
    config_done(&config);
    if (config_read(&config, argc, argv, &err) == 0)
        return "ok";
    at = strstr(err.text, path);
    if (!at)
        return err.text;
    (void)snprintf(shown, sizeof(shown), "%.*sFILE%s", (int)(at - err.text), err.text,
                   at + strlen(path));
    return shown;
}

#define FILE_READ(text) read_file_as("serve", text, NULL)

TEST(the_flat_file_of_the_worker_sets_the_policy_and_the_bounds)
{
    clearenv();
    CHECK_STR(FILE_READ("auto_install: false\nimage_allowlist: [python, tools]\n"
                        "default_idle_timeout_secs: 60\nmax_concurrent_sandboxes: 5\n"
                        "max_concurrent_exec_per_sandbox: 0\nmax_exec_timeout_ms: 1500\n"
                        "default_cpus: 2\ndefault_memory_mb: 256\nnobody_reads: this\n"
                        "per_image_caps:\n  python: {max_cpus: 3, max_memory_mb: 1024}\n"
                        "  tools: {max_cpus: 1}\n"
                        "custom_images:\n  tools: ghcr.io/team/tools:1\n"),
              "ok");
    CHECK(!config.auto_install && config.image_strict);
    CHECK_STR(config.allowed_images, "[\"python\",\"tools\"]");
    CHECK_STR(config.custom_images, "{\"tools\":\"ghcr.io/team/tools:1\"}");
    CHECK_STR(config.image_caps, "{\"python\":{\"cpu\":3,\"memory\":1024},\"tools\":{\"cpu\":1,"
                                 "\"memory\":0}}");
    CHECK_INT(config.iii.idle_s, 60);
    CHECK_INT(config.iii.sandboxes_max, 5);
    CHECK_INT(config.iii.execs_max, 1);
    CHECK_INT(config.iii.exec_ms_max, 1500);
    CHECK_INT(config.default_cpu_millis, 2000);
    CHECK_INT(config.default_memory, 256);
    CHECK_INT(config.max_sandboxes, 50);
    CHECK_INT(config.max_command, 300);
    CHECK_STR(strv_len(config.warnings) == 1 ? strrchr(config.warnings[0], ':') : NULL,
              ": there is no setting \"nobody_reads\"; it is passed over");
    CHECK(!config.ws_port_given);
}

static bool is_set_at(enum iii_limit limit, const char *place)
{
    return str_ends(config.iii.sources[limit], place);
}

TEST(a_limit_knows_its_line_and_key_unless_a_variable_sets_it)
{
    clearenv();
    CHECK_STR(FILE_READ("auto_install: false\nimage_allowlist: [python]\n"
                        "max_concurrent_sandboxes: 60\n"
                        "max_concurrent_exec_per_sandbox: 2\nmax_exec_timeout_ms: 600000\n"
                        "per_image_caps:\n  python: {max_cpus: 3, max_memory_mb: 1024}\n"),
              "ok");
    CHECK(is_set_at(III_LIMIT_INSTALL, ":1: auto_install"));
    CHECK(is_set_at(III_LIMIT_IMAGES, ":2: image_allowlist"));
    CHECK(is_set_at(III_LIMIT_SANDBOXES, ":3: max_concurrent_sandboxes"));
    CHECK(is_set_at(III_LIMIT_EXECS, ":4: max_concurrent_exec_per_sandbox"));
    CHECK(is_set_at(III_LIMIT_EXEC_MS, ":5: max_exec_timeout_ms"));
    CHECK(str_ends(config.iii.sources[III_LIMIT_CAPS], ": per_image_caps"));
    CHECK_STR(config.iii.sources[III_LIMIT_PULL], "CAY_PULL_POLICY");
    setenv("CAY_III_SANDBOXES", "2", 1);
    CHECK_STR(FILE_READ("max_concurrent_sandboxes: 60\n"), "ok");
    CHECK_STR(config.iii.sources[III_LIMIT_SANDBOXES], "CAY_III_SANDBOXES");
}

TEST(what_the_file_leaves_out_is_as_iii_has_it)
{
    clearenv();
    CHECK_STR(FILE_READ("auto_install: true\n"), "ok");
    CHECK(config.image_strict && config.auto_install);
    CHECK_STR(config.allowed_images, "[]");
    CHECK_INT(config.iii.idle_s, 300);
    CHECK_INT(config.iii.sandboxes_max, 32);
    CHECK_INT(config.iii.execs_max, 4);
    CHECK_INT(config.iii.exec_ms_max, 300000);
    CHECK_INT(config.default_memory, 512);
}

TEST(bounds_of_iii_raise_those_of_the_daemon)
{
    clearenv();
    CHECK_STR(FILE_READ("max_concurrent_sandboxes: 200\nmax_exec_timeout_ms: 600001\n"), "ok");
    CHECK_INT(config.iii.sandboxes_max, 200);
    CHECK_INT(config.max_sandboxes, 200);
    CHECK_INT(config.max_command, 601);
    setenv("CAY_MAX_SANDBOXES", "10", 1);
    CHECK_STR(FILE_READ("max_concurrent_sandboxes: 200\n"), "ok");
    CHECK_INT(config.max_sandboxes, 10);
}

TEST(the_engines_file_has_entries_for_its_workers)
{
    clearenv();
    setenv("MANAGER_PORT", "5000", 1);
    CHECK_STR(FILE_READ("registration_namespace_grace_ms: 100\nworkers:\n"
                        "  - name: iii-worker-manager\n    config:\n      port: ${MANAGER_PORT}\n"
                        "      host: ${HOST:127.0.0.2}\n      handshake_timeout_ms: 5\n"
                        "  - name: iii-http\n    config: {port: 3111}\n"
                        "  - name: iii-state\n    image: some/image\n"
                        "  - name: iii-sandbox\n    config:\n      image_allowlist:\n"
                        "        - node\n"),
              "ok");
    CHECK_INT(config.ws_port, 5000);
    CHECK_INT(config.iii_grace_ms, 100);
    CHECK(config.ws_port_given);
    CHECK_STR(config.ws_host, "127.0.0.2");
    CHECK_STR(config.allowed_images, "[\"node\"]");
    CHECK_INT(config.port, 3111);
    CHECK_INT(strv_len(config.warnings), 1);
    CHECK(strstr(config.warnings[0], "f.yaml:10: iii-state is not used: cay keeps its state in a "
                                     "database in the folder CAY_DATA; functions state::* need an "
                                     "iii engine"));
    /* Without settings of sandboxes they are as ever. */
    CHECK_STR(FILE_READ("modules: [{name: iii-worker-manager}]\n"), "ok");
    CHECK(!config.image_strict);
    CHECK_STR(config.allowed_images, "*");
    CHECK_INT(config.ws_port, 49134);
    CHECK(config.ws_port_given);
    /* And with an entry that says nothing they are as iii has them. */
    CHECK_STR(FILE_READ("workers: [{name: iii-sandbox}]\n"), "ok");
    CHECK(config.image_strict && !config.ws_port_given);
    CHECK_STR(config.allowed_images, "[]");
}

TEST(a_file_may_have_several_listeners)
{
    clearenv();
    CHECK_STR(FILE_READ("workers:\n- {name: iii-worker-manager, config: {port: 1}}\n"
                        "- name: iii-worker-manager\n"
                        "  config:\n"
                        "    host: 127.0.0.3\n"
                        "    port: 2\n"
                        "- {name: iii-worker-manager, config: {port: 3}}\n"),
              "ok");
    CHECK_INT(config.ws_port, 1);
    CHECK_INT(strv_len(config.warnings), 0);
    CHECK_INT(config.n_listeners, 2);
    CHECK_STR(config.listeners[0].host, "127.0.0.3");
    CHECK_INT(config.listeners[0].port, 2);
    CHECK(strstr(config.listeners[0].place, "f.yaml:5"));
    CHECK_STR(config.listeners[1].host, "127.0.0.1");
    CHECK_INT(config.listeners[1].port, 3);
    CHECK_STR(FILE_READ("workers:\n"
                        "- {name: iii-worker-manager, config: {port: 1}}\n"
                        "- {name: iii-worker-manager, config: {port: 2}}\n"
                        "- {name: iii-worker-manager, config: {port: 3}}\n"
                        "- {name: iii-worker-manager, config: {port: 4}}\n"
                        "- {name: iii-worker-manager, config: {port: 5}}\n"
                        "- {name: iii-worker-manager, config: {port: 6}}\n"
                        "- {name: iii-worker-manager, config: {port: 7}}\n"
                        "- {name: iii-worker-manager, config: {port: 8}}\n"
                        "- {name: iii-worker-manager, config: {port: 9}}\n"
                        "- {name: iii-worker-manager, config: {port: 10}}\n"),
              "FILE:11: at most 8 listeners, beside the first");
}

/* Without its rules such a listener would let everybody in; nor does the default one open for it.
 */
TEST(a_listener_with_rules_is_not_opened)
{
    clearenv();
    CHECK_STR(FILE_READ("workers:\n- {name: iii-worker-manager, config: {port: 1}}\n"
                        "- {name: iii-worker-manager, config: {port: 2, rbac: {}}}\n"
                        "- name: iii-worker-manager\n"
                        "  config: {port: 3, middleware_function_id: m}\n"),
              "ok");
    CHECK_INT(config.ws_port, 1);
    CHECK_INT(config.n_listeners, 0);
    CHECK_INT(strv_len(config.warnings), 2);
    CHECK(strstr(config.warnings[0], "f.yaml:3: port 2 is not opened: rbac"));
    CHECK(strstr(config.warnings[1], "f.yaml:5: port 3 is not opened"));
    CHECK_STR(FILE_READ("workers:\n- {name: iii-worker-manager, config: {rbac: {}}}\n"), "ok");
    CHECK_INT(config.ws_port, 0);
    CHECK_INT(config.n_listeners, 0);
    CHECK_STR(FILE_READ("workers:\n- {name: iii-worker-manager, config: {rbac: !Rules }}\n"), "ok");
    CHECK_INT(config.ws_port, 0);
    setenv("CAY_WS_PORT", "7", 1);
    CHECK_STR(FILE_READ("workers:\n- {name: iii-worker-manager, config: {rbac: {}}}\n"), "ok");
    CHECK_INT(config.ws_port, 7);
}

TEST(listeners_of_the_file_are_the_engines_when_we_are_its_worker)
{
    clearenv();
    CHECK_STR(read_file_as("worker",
                           "workers:\n- {name: iii-worker-manager, config: {port: 5, rbac: {}}}\n"
                           "- {name: iii-sandbox, config: {image_allowlist: [node]}}\n",
                           NULL),
              "ok");
    CHECK(!config.ws_port_given && config.warnings == NULL);
    CHECK_STR(config.allowed_images, "[\"node\"]");
}

TEST(flags_and_variables_win_over_the_file)
{
    static const char text[] = "image_allowlist: [python]\ndefault_cpus: 2\nauto_install: false\n";

    clearenv();
    setenv("CAY_DEFAULT_CPU", "1.5", 1);
    setenv("III_ALLOWED_IMAGES", "node", 1);
    CHECK_STR(FILE_READ(text), "ok");
    CHECK_INT(config.default_cpu_millis, 1500);
    CHECK_STR(config.allowed_images, "node");
    CHECK(!config.auto_install);
    CHECK_STR(read_file_as("serve", "workers: [{name: iii-worker-manager, config: {port: 5}}]",
                           (char *[]){"--ws-port", "6", NULL}),
              "ok");
    CHECK_INT(config.ws_port, 6);
}

TEST(a_variable_that_the_file_names_is_no_unknown_one)
{
    int named = 0;

    clearenv();
    setenv("III_MY_CPUS", "2", 1);
    setenv("CAY_MY_CPUS", "2", 1);
    CHECK_STR(FILE_READ("default_cpus: ${III_MY_CPUS}\n# ${CAY_MY_CPUS}\n"), "ok");
    CHECK_INT(config.default_cpu_millis, 2000);
    for (char **w = config.warnings; w && *w; w++) {
        named += strstr(*w, "CAY_MY_CPUS") != NULL;
        CHECK(!strstr(*w, "III_MY_CPUS"));
    }
    CHECK_INT(named, 1);
}

TEST(a_misspelt_name_does_not_open_or_close_everything_without_a_word)
{
    clearenv();
    CHECK_STR(FILE_READ("workers:\n- name: iii-sandbx\n  config: {image_allowlist: [node]}\n"),
              "FILE:3: \"iii-sandbx\" is unknown, but has a setting of iii-sandbox "
              "(image_allowlist): is its name misspelt?");
    CHECK_STR(FILE_READ("workers:\n- {name: workermanager, config: {rbac: {}}}\n"),
              "FILE:2: \"workermanager\" is unknown, but has a setting of iii-worker-manager (rbac "
              "or middleware_function_id): is its name misspelt?");
    CHECK_STR(FILE_READ("workers:\n- {name: iii-worker-manager, rbac: {}}\n"),
              "FILE:2: \"rbac\" has no effect here: put it into config");
    CHECK_STR(FILE_READ("worker:\n- {name: iii-sandbox}\n"), "ok");
    CHECK_INT(strv_len(config.warnings), 2);
    CHECK(strstr(config.warnings[0], "f.yaml:2: there is no setting \"worker\": did you mean "
                                     "workers?"));
    CHECK(strstr(config.warnings[1], "there is no image_allowlist, so no image is allowed"));
    CHECK_STR(FILE_READ("image_allowlst: [node]\n"), "ok");
    CHECK(strstr(config.warnings[0], "did you mean image_allowlist?"));
}

TEST(a_default_beyond_what_callers_may_have_is_lowered_and_told)
{
    clearenv();
    CHECK_STR(FILE_READ("image_allowlist: []\ndefault_cpus: 8\n"), "ok");
    CHECK_INT(config.default_cpu_millis, 4000);
    CHECK_INT(strv_len(config.warnings), 1);
    CHECK(strstr(config.warnings[0],
                 "f.yaml:2: default_cpus 8 is beyond CAY_MAX_CPU=4; going on with that"));
}

TEST(names_of_no_image_allow_nothing_and_are_told)
{
    clearenv();
    CHECK_STR(FILE_READ("image_allowlist: ['*', 'a,b', python, bash]\n"
                        "custom_images: {'a,b': x:1}\n"),
              "ok");
    CHECK_STR(config.allowed_images, "[\"*\",\"a,b\",\"python\",\"bash\"]");
    CHECK_INT(strv_len(config.warnings), 2);
    CHECK(strstr(config.warnings[0], "f.yaml:1: image_allowlist: \"*\" is neither a preset nor in "
                                     "custom_images, and allows no image"));
    CHECK(strstr(config.warnings[1], "\"bash\""));
    setenv("CAY_CUSTOM_IMAGES", "bash=x:1", 1);
    CHECK_STR(FILE_READ("image_allowlist: [bash]\n"), "ok");
    CHECK_INT(strv_len(config.warnings), 0);
}

TEST(a_custom_image_may_have_any_name_but_python_and_node)
{
    clearenv();
    CHECK_STR(FILE_READ("image_allowlist: ['My_Image:v1', 'a=b,c;d', größe, go, host]\n"
                        "custom_images:\n  My_Image:v1: registry.example/x:1\n"
                        "  'a=b,c;d': y:1\n  größe: z:1\n  go: w:1\n  host: v:1\n"
                        "per_image_caps:\n  'a=b,c;d': {max_cpus: 1, max_memory_mb: 64}\n"),
              "ok");
    CHECK_INT(strv_len(config.warnings), 0);
    CHECK_STR(config.custom_images,
              "{\"My_Image:v1\":\"registry.example/x:1\",\"a=b,c;d\":\"y:1\",\"größe\":\"z:1\","
              "\"go\":\"w:1\",\"host\":\"v:1\"}");
    CHECK_STR(config.image_caps, "{\"a=b,c;d\":{\"cpu\":1,\"memory\":64}}");
}

/* ---- modules ---- */

#define SEED                                                                                       \
    "modules:\n"                                                                                   \
    "  - type: StateModule\n"                                                                      \
    "    config:\n"                                                                                \
    "      adapter: !FileBased\n"                                                                  \
    "        path: ./data/state_store.db\n"                                                        \
    "  - type: RestApiModule\n"                                                                    \
    "    config:\n"                                                                                \
    "      port: 3555\n"                                                                           \
    "      host: \"127.0.0.2\"\n"                                                                  \
    "  - type: QueueModule\n"                                                                      \
    "    config:\n"                                                                                \
    "      adapter: !Builtin {}\n"                                                                 \
    "  - type: CronModule\n"                                                                       \
    "    config:\n"                                                                                \
    "      adapter: !KvCron {}\n"

/* The warning behind the path of the file. */
static const char *warning(size_t i)
{
    const char *at = i < strv_len(config.warnings) ? strstr(config.warnings[i], "f.yaml") : NULL;

    return at ? at + strlen("f.yaml") : "none";
}

TEST(the_file_of_the_public_readme_is_read)
{
    clearenv();
    CHECK_STR(FILE_READ(SEED), "ok");
    CHECK_INT(config.port, 3555);
    CHECK_STR(config.host, "127.0.0.2");
    CHECK_INT(config.ws_port, 49134);
    CHECK(!config.ws_port_given && !config.image_strict);
    CHECK_INT(strv_len(config.warnings), 2);
    CHECK_STR(warning(0),
              ":4: the file ./data/state_store.db is not used: cay keeps its state in a "
              "database in the folder CAY_DATA; functions state::* need an iii engine");
    CHECK_STR(warning(1),
              ": not started, and not needed for sandboxes: QueueModule, CronModule. An "
              "iii engine that has cay as its worker (cay worker) provides them");
    CHECK(strstr(config_host_place(&config), "f.yaml:9: host"));
}

TEST(modules_are_known_by_their_class_too)
{
    clearenv();
    CHECK_STR(
        FILE_READ("port: ${III_PORT:5001}\nmodules:\n"
                  "- class: modules::state::StateModule\n  config:\n    adapter:\n"
                  "      class: modules::state::adapters::KvStore\n"
                  "      config: {store_method: file_based, file_path: ./data/s}\n"
                  "- class: modules::rest_api::RestApiModule\n  config:\n"
                  "    port: \"${API_PORT:3556}\"\n    host: 127.0.0.1\n"
                  "    default_timeout: 30000\n    concurrency_request_limit: 1024\n"
                  "    cors:\n      allowed_origins: [http://localhost:5173, '*', 'https://*.x']\n"
                  "      allowed_methods: [GET]\n"
                  "- class: modules::observability::OtelModule\n"
                  "- class: my::OwnModule\n- {name: caller}\n"),
        "ok");
    CHECK_INT(config.port, 3556);
    CHECK_INT(config.ws_port, 5001);
    CHECK(config.ws_port_given);
    CHECK_STR(config.origins[0], "http://localhost:5173");
    CHECK_INT(strv_len(config.origins), 1);
    CHECK_INT(strv_len(config.warnings), 6);
    CHECK(strstr(warning(0), ":5: the file ./data/s is not used"));
    CHECK_STR(warning(1), ":15: cors.allowed_origins: \"*\" is not used: every web page could then "
                          "run code on this machine; name the origins, here or in "
                          "CAY_CORS_ORIGINS");
    CHECK_STR(warning(2),
              ":15: cors.allowed_origins: \"https://*.x\" is not used: an origin is like "
              "https://app.example");
    CHECK_STR(warning(3),
              ":10: settings of modules::rest_api::RestApiModule that cay does not use: "
              "default_timeout, concurrency_request_limit, cors.allowed_methods");
    CHECK(strstr(warning(4), "sandboxes: modules::observability::OtelModule. An"));
    CHECK_STR(warning(5), ": unknown, and not started: my::OwnModule, caller");
}

TEST(a_listener_may_be_a_module_and_wins_over_the_port_at_the_top)
{
    clearenv();
    CHECK_STR(FILE_READ("port: 5001\nmodules:\n- class: modules::worker::WorkerModule\n"
                        "  config: {port: 5002}\n"),
              "ok");
    CHECK_INT(config.ws_port, 5002);
}

TEST(of_two_rest_modules_the_first_counts)
{
    clearenv();
    CHECK_STR(FILE_READ("workers:\n- {name: iii-http, config: {port: 5003}}\n"
                        "- {type: RestApiModule, config: {port: 70000}}\n"),
              "ok");
    CHECK_INT(config.port, 5003);
    CHECK_INT(strv_len(config.warnings), 1);
    CHECK_STR(warning(0),
              ":3: cay serves one REST API, that of line 2: this RestApiModule is not used");
}

TEST(flags_and_variables_win_over_modules)
{
    clearenv();
    setenv("III_REST_PORT", "5004", 1);
    setenv("CAY_REST_HOST", "127.0.0.3", 1);
    setenv("CAY_CORS_ORIGINS", "https://a.example", 1);
    CHECK_STR(FILE_READ(SEED), "ok");
    CHECK_INT(config.port, 5004);
    CHECK_STR(config.host, "127.0.0.3");
    CHECK_STR(config.origins[0], "https://a.example");
    CHECK(config_host_place(&config) == NULL);
    clearenv();
    CHECK_STR(read_file_as("serve", SEED, (char *[]){"--listen", "127.0.0.4:5005", NULL}), "ok");
    CHECK_INT(config.port, 5005);
    CHECK_STR(config.host, "127.0.0.4");
    CHECK(config_host_place(&config) == NULL);
}

TEST(modules_are_the_engines_when_we_are_its_worker)
{
    clearenv();
    CHECK_STR(read_file_as("worker", SEED, NULL), "ok");
    CHECK_INT(config.port, 3111);
    CHECK(config.no_tcp && config.warnings == NULL);
}

TEST(a_bad_file_stops_the_start_with_its_line)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "FILE:1: is empty"},
        {"- a\n", "FILE:1: must hold settings: workers, or those of iii-sandbox"},
        {"a: [\n", NULL},
        {"a: ${NOT_SET}\n",
         "FILE:1: the variable NOT_SET is not set; ${NOT_SET:VALUE} would give it a default"},
        {"sandbox:\n  auto_install: true\n",
         "FILE:2: sandbox: is the old shape: what is in it belongs at the top"},
        {"workers: []\nprot: 5\n", "FILE:2: there is no setting \"prot\""},
        {"workers: []\nport: [5]\n", "FILE:2: port must be a whole number from 0 to 65535"},
        {"workers: []\nport: 70000\n", "FILE:2: port must be a whole number from 0 to 65535"},
        {"workers: []\nmodules: []\n",
         "FILE:2: modules is another name of workers: give one of the two"},
        {"workers: {}\n", "FILE:1: workers must be a list"},
        {"workers:\n- config: {}\n", "FILE:2: an entry must have a name, a type or a class"},
        {"workers:\n- RestApiModule\n", "FILE:2: an entry must have a name, a type or a class"},
        {"modules:\n- type: RestApiModule\n  config:\n    port: 70000\n",
         "FILE:4: port must be a whole number from 0 to 65535"},
        {"modules:\n- type: RestApiModule\n  config:\n    port: many\n",
         "FILE:4: port must be a whole number from 0 to 65535"},
        {"modules:\n- type: RestApiModule\n  config:\n    port: 3.5\n",
         "FILE:4: port must be a whole number from 0 to 65535"},
        {"modules:\n- type: RestApiModule\n  config:\n    host: 5\n",
         "FILE:4: host must be an address"},
        {"modules:\n- type: RestApiModule\n  config: 5\n", "FILE:3: config must hold settings"},
        {"workers:\n- name: iii-worker-manager\n  config: {prot: 1}\n",
         "FILE:3: iii-worker-manager has no setting \"prot\""},
        {"workers:\n- name: iii-worker-manager\n  config: {port: 70000}\n",
         "FILE:3: port must be a whole number from 0 to 65535"},
        {"workers:\n- name: iii-sandbox\n- name: iii-sandbox\n",
         "FILE:3: iii-sandbox stands here for the second time"},
        {"auto_install: perhaps\n", "FILE:1: auto_install must be true or false"},
        {"default_cpus: many\n", "FILE:1: default_cpus must be a whole number"},
        {"\ndefault_memory_mb: 1\n",
         "FILE:2: default_memory_mb must be a whole number from 64 to 16777216, not \"1\""},
        {"max_concurrent_sandboxes: 0\n",
         "FILE:1: max_concurrent_sandboxes must be a whole number from 1"},
        {"\nmax_concurrent_sandboxes: 20001\n",
         "FILE:2: max_concurrent_sandboxes must be a whole number from 0 to 20000, not \"20001\""},
        {"\nmax_exec_timeout_ms: 86400001\n",
         "FILE:2: max_exec_timeout_ms must be a whole number from 1 to 86400000, not \"86400001\""},
        {"image_allowlist: python\n", "FILE:1: image_allowlist must be a list of names"},
        {"image_allowlist:\n- 5\n", "FILE:2: image_allowlist must hold names"},
        {"per_image_caps:\n  python: 5\n",
         "FILE:2: per_image_caps must hold {max_cpus: N, max_memory_mb: N} for each name"},
        {"custom_images:\n  python: a/b:1\n",
         "FILE:2: custom_images: python is a name that cay gives a meaning; choose another"},
        {"custom_images:\n  '': a/b:1\n", "FILE:2: custom_images: a name is empty"},
        {"custom_images:\n  \"a\\tb\": x:1\n",
         "FILE:2: custom_images: a name must have 1 to 128 bytes of UTF-8 without control "
         "characters, as in tools=ghcr.io/team/tools:1"},
        {"custom_images:\n  tools: 5\n", "FILE:2: custom_images must hold NAME: IMAGE"},
        {"custom_images:\n  tools: A:b:c\n", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        clearenv();
        if (bad[i].says)
            CHECK_STR(FILE_READ(bad[i].text), bad[i].says);
        else
            CHECK(strncmp(FILE_READ(bad[i].text), "FILE:2: ", 8) == 0);
    }
}

TEST(a_file_can_be_named_by_a_variable_and_must_be_there)
{
    struct err err = {0};

    clearenv();
    setenv("CAY_CONFIG", "/nowhere/config.yaml", 1);
    CHECK_INT(config_read(&config, 1, (char *[]){"serve", NULL}, &err), -1);
    CHECK_STR(err.text, "--config /nowhere/config.yaml: No such file or directory");
    config_done(&config);
    /* Help is there without it. */
    CHECK_INT(
        config_read(&config, 4, (char *[]){"serve", "--config", "/nowhere", "--help", NULL}, &err),
        -1);
    config_done(&config);
    clearenv();
    CHECK_INT(
        config_read(&config, 4, (char *[]){"serve", "--config", "/nowhere", "--help", NULL}, &err),
        0);
    CHECK(config.help);
}

TAP_MAIN
