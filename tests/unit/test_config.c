#include <fcntl.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "daemon/config.h"
#include "daemon/process.h"
#include "daemon/sockets.h"
#include "engine/pull_policy.h"
#include "source_file.h"
#include "tap.h"
#include "tmpdir.h"

/* Each test is a process of its own, so the environment is too. */

static struct daemon_config config;

static const char *read_with(char **argv)
{
    static struct err err;
    int argc = 0;

    while (argv[argc])
        argc++;
    err = (struct err){0};
    config_done(&config);
    return config_read(&config, argc, argv, &err) == 0 ? "ok" : err.text;
}

#define READ(...) read_with((char *[]){"serve", ##__VA_ARGS__, NULL})

TEST(defaults_are_those_of_the_contract)
{
    clearenv();
    CHECK_STR(READ(), "ok");
    CHECK_STR(config.data, "/var/lib/cay");
    CHECK_STR(config.run, "/run/cay");
    CHECK_STR(config.host, "127.0.0.1");
    CHECK_INT(config.port, 3111);
    CHECK_STR(config.prefix, "sandbox");
    CHECK(config.token == NULL);
    CHECK_STR(config.default_image, "python:3.12-slim");
    CHECK_INT(config.default_timeout, 3600);
    CHECK_INT(config.default_memory, 512);
    CHECK_INT(config.default_cpu_millis, 1000);
    CHECK_INT(config.max_sandboxes, 50);
    CHECK_INT(config.sweep, 30);
    CHECK_INT(config.max_command, 300);
    CHECK(!config.rate_enabled);
    CHECK_INT(config.rate_rpm, 600);
    CHECK_INT(config.rate_burst, 100);
    CHECK(config.origins == NULL);
    CHECK_INT(config.drain_timeout, 10);
    CHECK_INT(config.head_timeout, 10);
    CHECK_INT(config.stall_timeout, 30);
    CHECK_INT(config.webhook_timeout, 10);
    CHECK_INT(config.stop_timeout, 2);
    CHECK_INT(config.iii.stall_s, 30);
    CHECK_INT(config.iii_grace_ms, 5000);
    CHECK_INT(config.log_level, LOG_LEVEL_INFO);
    config_done(&config);
}

TEST(the_contract_names_work_and_ours_win)
{
    clearenv();
    setenv("III_MAX_SANDBOXES", "7", 1);
    setenv("III_DEFAULT_CPU", "2", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(config.max_sandboxes, 7);
    CHECK_INT(config.default_cpu_millis, 2000);
    setenv("CAY_MAX_SANDBOXES", "8", 1);
    setenv("CAY_DEFAULT_CPU", "1.5", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(config.max_sandboxes, 8);
    CHECK_INT(config.default_cpu_millis, 1500);
}

TEST(an_empty_variable_is_unset)
{
    clearenv();
    setenv("CAY_AUTH_TOKEN", "", 1);
    setenv("CAY_REST_PORT", "", 1);
    CHECK_STR(READ(), "ok");
    CHECK(config.token == NULL);
    CHECK_INT(config.port, 3111);
}

TEST(a_value_that_does_not_parse_names_its_variable)
{
    static const struct {
        const char *name, *value, *says;
    } bad[] = {
        {"CAY_REST_PORT", "x", "CAY_REST_PORT must be a whole number from 0 to 65535, not \"x\""},
        {"CAY_REST_PORT", "65536",
         "CAY_REST_PORT must be a whole number from 0 to 65535, not \"65536\""},
        {"CAY_REST_PORT", "-1", "CAY_REST_PORT must be a whole number from 0 to 65535, not \"-1\""},
        {"CAY_DEFAULT_MEMORY", "0x10",
         "CAY_DEFAULT_MEMORY must be a whole number from 64 to 16777216, not \"0x10\""},
        {"CAY_DEFAULT_MEMORY", "-1",
         "CAY_DEFAULT_MEMORY must be a whole number from 64 to 16777216, not \"-1\""},
        {"CAY_DEFAULT_CPU", "nan",
         "CAY_DEFAULT_CPU must be a number from 0.5 to 1024, not \"nan\""},
        {"CAY_TOTAL_MEMORY", "10",
         "CAY_TOTAL_MEMORY must be 0 or a whole number from 64 to 1073741824, not \"10\""},
        {"CAY_TOTAL_PIDS", "31",
         "CAY_TOTAL_PIDS must be 0 or a whole number from 32 to 4194304, not \"31\""},
        {"CAY_MAX_TIMEOUT", "59",
         "CAY_MAX_TIMEOUT must be 0 or a whole number from 60 to 315360000, not \"59\""},
        {"CAY_DRAIN_TIMEOUT", "16",
         "CAY_DRAIN_TIMEOUT must be a whole number from 0 to 15, not \"16\""},
        {"CAY_STALL_TIMEOUT", "0",
         "CAY_STALL_TIMEOUT must be a whole number from 1 to 600, not \"0\""},
        {"CAY_WEBHOOK_TIMEOUT", "61",
         "CAY_WEBHOOK_TIMEOUT must be a whole number from 1 to 60, not \"61\""},
        {"CAY_STOP_TIMEOUT", "16",
         "CAY_STOP_TIMEOUT must be a whole number from 1 to 15, not \"16\""},
        {"CAY_HEAD_TIMEOUT", "61",
         "CAY_HEAD_TIMEOUT must be a whole number from 1 to 60, not \"61\""},
        {"CAY_III_STALL", "0", "CAY_III_STALL must be a whole number from 1 to 300, not \"0\""},
        {"CAY_MAX_PIDS", "8", "CAY_MAX_PIDS must be a whole number from 16 to 4194304, not \"8\""},
        {"CAY_MAX_CPU", "0", "CAY_MAX_CPU must be a number from 0.5 to 1024, not \"0\""},
        {"CAY_DEFAULT_MEMORY", "8192",
         "CAY_DEFAULT_MEMORY=8192 is beyond CAY_MAX_MEMORY=4096: raise the second, or lower the "
         "first"},
        {"CAY_DEFAULT_CPU", "4.5",
         "CAY_DEFAULT_CPU=4.5 is beyond CAY_MAX_CPU=4: raise the second, or lower the first"},
        {"CAY_DEFAULT_TIMEOUT", "0",
         "CAY_DEFAULT_TIMEOUT=0, for no end, needs CAY_MAX_TIMEOUT=0, and that is 86400"},
        {"CAY_RATE_LIMIT_ENABLED", "yes",
         "CAY_RATE_LIMIT_ENABLED must be true or false, not \"yes\""},
        {"CAY_LOG_LEVEL", "loud", "CAY_LOG_LEVEL has no value \"loud\"; see cay serve --help"},
        {"CAY_TTL_SWEEP", "0 * * * * *",
         "CAY_TTL_SWEEP must be seconds from 1 to 3600, or \"*/N * * * * *\", not \"0 * * * * *\""},
        {"CAY_API_PREFIX", "a/b",
         "CAY_API_PREFIX must be one word of letters, digits, - and _, not \"a/b\""},
        {"CAY_WORKSPACE_DIR", "work", "CAY_WORKSPACE_DIR must be an absolute path, not \"work\""},
        {"CAY_AUTH_TOKEN", "a b",
         "CAY_AUTH_TOKEN must be at most 1024 visible ASCII characters without spaces"},
        {"CAY_CORS_ORIGINS", "https://a.example,*",
         "CAY_CORS_ORIGINS must name the origins: * would let every web page use this machine"},
        {"CAY_BIND_ALLOW", "/srv,data",
         "CAY_BIND_ALLOW must hold absolute paths without .., not \"data\""},
        {"CAY_BIND_ALLOW", "/srv/..",
         "CAY_BIND_ALLOW must hold absolute paths without .., not \"/srv/..\""},
        {"CAY_CORS_ORIGINS", "a.example",
         "CAY_CORS_ORIGINS must hold origins like https://app.example, not \"a.example\""},
        {"CAY_ALLOWED_HOSTS", "*", "CAY_ALLOWED_HOSTS=* needs a token: set CAY_AUTH_TOKEN"},
        {"CAY_PULL_POLICY", "perhaps",
         "CAY_PULL_POLICY has no value \"perhaps\"; see cay serve --help"},
        {"CAY_CUSTOM_IMAGES", "python=x:1",
         "CAY_CUSTOM_IMAGES: python is a name that cay gives a meaning; choose another"},
        {"CAY_IMAGE_CAPS", "python",
         "CAY_IMAGE_CAPS must be like python:cpu=2,memory=1024;node*:memory=512, not \"python\""},
        {"CAY_REGISTRY_MIRRORS", "https://m1",
         "CAY_REGISTRY_MIRRORS must hold pairs like docker.io=https://mirror.example, not "
         "\"https://m1\""},
        {"CAY_REGISTRY_REALMS", "https://auth.example",
         "CAY_REGISTRY_REALMS must hold pairs like registry.example=auth.example, not "
         "\"https://auth.example\""},
        {"CAY_REGISTRY_REALMS", "a.example=*",
         "CAY_REGISTRY_REALMS must hold pairs like registry.example=auth.example, not "
         "\"a.example=*\""},
        {"CAY_INSECURE_REGISTRIES", "http://a",
         "CAY_INSECURE_REGISTRIES must hold HOST or HOST:PORT, not \"http://a\""},
        {"CAY_REGISTRY_CA", "/none", "CAY_REGISTRY_CA: /none: No such file or directory"},
        {"CAY_MAX_IMAGE_SIZE", "0",
         "CAY_MAX_IMAGE_SIZE must be a whole number from 1 to 16777216, not \"0\""},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        clearenv();
        setenv(bad[i].name, bad[i].value, 1);
        CHECK_STR(READ(), bad[i].says);
    }
}

TEST(a_number_of_the_contract_that_does_not_parse_falls_back_and_warns)
{
    clearenv();
    setenv("III_DEFAULT_MEMORY", "lots", 1);
    setenv("III_RATE_LIMIT_ENABLED", "yes", 1);
    setenv("III_DEFAULT_TIMEOUT", "120", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(config.default_memory, 512);
    CHECK(!config.rate_enabled);
    CHECK_INT(config.default_timeout, 120);
    CHECK_INT(strv_len(config.warnings), 2);
    CHECK_STR(config.warnings[0],
              "III_DEFAULT_MEMORY must be a whole number from 64 to 16777216, not "
              "\"lots\"; going on with 512");
    CHECK_STR(config.warnings[1],
              "III_RATE_LIMIT_ENABLED must be true or false, not \"yes\"; going on with false");
    /* Ours is not guessed at, also when the other is there and right. */
    setenv("III_DEFAULT_MEMORY", "128", 1);
    setenv("CAY_DEFAULT_MEMORY", "lots", 1);
    CHECK_STR(READ(),
              "CAY_DEFAULT_MEMORY must be a whole number from 64 to 16777216, not \"lots\"");
}

TEST(defaults_follow_a_ceiling_that_is_lower)
{
    clearenv();
    setenv("CAY_MAX_MEMORY", "128", 1);
    setenv("CAY_MAX_CPU", "0.5", 1);
    setenv("CAY_MAX_PIDS", "64", 1);
    setenv("CAY_MAX_TIMEOUT", "300", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(config.default_memory, 128);
    CHECK_INT(config.default_cpu_millis, 500);
    CHECK_INT(config.default_pids, 64);
    CHECK_INT(config.default_timeout, 300);
    CHECK(config.warnings == NULL);
    /* By the contract a default has no ceiling, so that is no reason not to start. */
    setenv("III_DEFAULT_MEMORY", "512", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(config.default_memory, 128);
    CHECK_STR(config.warnings[0],
              "III_DEFAULT_MEMORY=512 is beyond CAY_MAX_MEMORY=128; going on with that");
}

TEST(without_a_ceiling_a_life_may_have_no_end)
{
    clearenv();
    CHECK_STR(READ(), "ok");
    CHECK_INT(config.default_timeout, 3600);
    CHECK_INT(config.max_timeout, 86400);
    CHECK_INT(config.default_pids, 1024);
    setenv("CAY_MAX_TIMEOUT", "0", 1);
    setenv("CAY_DEFAULT_TIMEOUT", "0", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(config.default_timeout, 0);
    CHECK_INT(config.max_timeout, 0);
}

TEST(a_variable_that_nobody_reads_is_named_with_the_nearest)
{
    static const char *const fine[] = {"CAY_TOKEN", "CAY_HOST", "CAY_FAULT", "CAY_TEST_SLOW",
                                       "CAY_POOL"};

    clearenv();
    for (size_t i = 0; i < ARRAY_LEN(fine); i++)
        setenv(fine[i], "1", 1);
    setenv("CAYENNE", "hot", 1);
    CHECK_STR(READ(), "ok");
    CHECK(config.warnings == NULL);
    setenv("CAY_MAX_SANDBOXS", "5", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(strv_len(config.warnings), 1);
    CHECK_STR(config.warnings[0],
              "there is no variable CAY_MAX_SANDBOXS: did you mean CAY_MAX_SANDBOXES?");
    CHECK_INT(unsetenv("CAY_MAX_SANDBOXS"), 0);
    setenv("CAY_QUITE_ANOTHER_THING", "5", 1);
    CHECK_STR(READ(), "ok");
    CHECK_STR(config.warnings[0],
              "there is no variable CAY_QUITE_ANOTHER_THING: see cay serve --help");
}

static bool warns(const char *text)
{
    for (char **w = config.warnings; w && *w; w++)
        if (strcmp(*w, text) == 0)
            return true;
    return false;
}

TEST(a_name_of_the_contract_that_nobody_reads_is_named_too)
{
    static const char *const fine[] = {"III_SANDBOX_URL", "III_SANDBOX_TOKEN", "III_URL",
                                       "III_ENGINE_PID",  "III_CONFIG_PATH",   "III_ISOLATION"};

    clearenv();
    for (size_t i = 0; i < ARRAY_LEN(fine); i++)
        setenv(fine[i], "1", 1);
    setenv("III_MAX_SANDBOXS", "", 1);
    CHECK_STR(READ(), "ok");
    CHECK(config.warnings == NULL);
    setenv("III_MAX_SANDBOXS", "5", 1);
    setenv("III_POOL_REPLENISH", "*/30 * * * * *", 1);
    setenv("III_FIRECRACKER_VCPUS", "2", 1);
    setenv("III_QUITE_ANOTHER_THING", "5", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(strv_len(config.warnings), 4);
    CHECK(warns("there is no variable III_MAX_SANDBOXS: did you mean III_MAX_SANDBOXES?"));
    CHECK(warns("III_POOL_REPLENISH has no effect: the pool is refilled as "
                "soon as a sandbox is taken"));
    CHECK(warns("III_FIRECRACKER_VCPUS has no effect: sandboxes are no virtual machines"));
    CHECK(warns("there is no variable III_QUITE_ANOTHER_THING: see cay serve --help"));
}

TEST(an_isolation_that_there_is_not_stops_the_start)
{
    static const char *const refused[] = {"firecracker", "gvisor", "Docker"};

    clearenv();
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        setenv("III_ISOLATION_BACKEND", refused[i], 1);
        CHECK(str_starts(READ(), "III_ISOLATION_BACKEND="));
        CHECK(strstr(READ(), refused[i]) && strstr(READ(), "share the kernel"));
    }
    setenv("III_ISOLATION_BACKEND", "native", 1);
    CHECK_STR(READ(), "ok");
    CHECK(config.warnings == NULL);
    setenv("III_ISOLATION_BACKEND", "", 1);
    CHECK_STR(READ(), "ok");
    CHECK(config.warnings == NULL);
    setenv("III_ISOLATION_BACKEND", "docker", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(strv_len(config.warnings), 1);
    CHECK(str_starts(config.warnings[0], "III_ISOLATION_BACKEND=docker: "));
}

TEST(an_error_names_the_variable_or_flag_that_was_set)
{
    static const struct {
        const char *name, *value;
    } bad[] = {{"III_AUTH_TOKEN", "a b"},
               {"III_API_PREFIX", "a/b"},
               {"III_WORKSPACE_DIR", "work"},
               {"III_ENGINE_URL", "http://a"},
               {"CAY_ENGINE", "http://a"}};
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/token", dir);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        clearenv();
        setenv(bad[i].name, bad[i].value, 1);
        CHECK(str_starts(READ(), bad[i].name));
    }
    clearenv();
    CHECK(str_starts(READ("--engine", "http://a"), "--engine"));
    CHECK_INT(write_all(fd, "a b", 3), 0);
    CHECK(str_starts(READ("--token-file", path), "what --token-file holds must be"));
}

TEST(tcp_can_be_switched_off_by_the_environment)
{
    clearenv();
    CHECK_STR(READ(), "ok");
    CHECK(!config.no_tcp && config.socket_group == NULL);
    setenv("CAY_NO_TCP", "true", 1);
    setenv("CAY_SOCKET_GROUP", "agents", 1);
    CHECK_STR(READ(), "ok");
    CHECK(config.no_tcp);
    CHECK_STR(config.socket_group, "agents");
}

TEST(a_group_that_is_not_there_is_refused_only_when_it_was_named)
{
    struct err err = {0};
    gid_t gid;

    CHECK_INT(socket_group("root", &gid, &err), 0);
    CHECK_INT(gid, 0);
    CHECK_INT(socket_group(NULL, &gid, &err), 0);
    CHECK_INT(socket_group("no-such-group-here", &gid, &err), -1);
    CHECK(strstr(err.text, "CAY_SOCKET_GROUP: there is no group \"no-such-group-here\""));
}

TEST(a_kernel_that_is_too_old_is_refused_with_the_reason)
{
    static const char *const fine[] = {"6.1.0-40-amd64", "6.1", "6.12.48+deb13-arm64", "7.0.0-rc1",
                                       "odd"};
    static const char *const old[] = {"6.0.19", "5.19.0", "5.15.167.4-microsoft-standard-WSL2",
                                      "4.18.0-553.el8.x86_64"};

    for (size_t i = 0; i < ARRAY_LEN(fine); i++)
        CHECK_INT(process_check_release(fine[i], NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(old); i++) {
        struct err err = {0};

        CHECK_INT(process_check_release(old[i], &err), -1);
        CHECK(strstr(err.text, old[i]) && strstr(err.text, "needs 6.1 or newer"));
    }
}

TEST(images_are_pulled_when_missing_and_any_is_allowed)
{
    clearenv();
    CHECK_STR(READ(), "ok");
    CHECK_STR(config.allowed_images, "*");
    CHECK(config.auto_install && !config.image_strict);
    CHECK_INT(config.pull_policy, PULL_MISSING);
    CHECK(!config.insecure_registries && !config.registry_mirrors && !config.docker_config);
    CHECK_INT(config.max_image_mb, 20480);
    CHECK_INT(config.image_budget_mb, 0);
    setenv("III_ALLOWED_IMAGES", "python:*", 1);
    setenv("CAY_PULL_POLICY", "never", 1);
    setenv("CAY_AUTO_INSTALL", "false", 1);
    setenv("CAY_CUSTOM_IMAGES", "tools=ghcr.io/team/tools:1", 1);
    setenv("CAY_IMAGE_CAPS", "tools:cpu=2", 1);
    setenv("CAY_REGISTRY_MIRRORS", "docker.io=https://m1;quay.io=http://m2, x.y=https://m3/a", 1);
    setenv("CAY_INSECURE_REGISTRIES", "localhost:5000,m2", 1);
    CHECK_STR(READ(), "ok");
    CHECK_STR(config.allowed_images, "python:*");
    CHECK_INT(config.pull_policy, PULL_NEVER);
    CHECK(!config.auto_install);
    CHECK_INT(strv_len(config.registry_mirrors), 3);
    CHECK_STR(config.registry_mirrors[1], "quay.io=http://m2");
    CHECK_INT(strv_len(config.insecure_registries), 2);
    setenv("CAY_REGISTRY_REALMS", "a.example:5000=b.example:5001,c.example=d.example", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(strv_len(config.registry_realms), 2);
    CHECK_STR(config.registry_realms[0], "a.example:5000=b.example:5001");
}

TEST(the_strict_list_is_empty_until_someone_fills_it)
{
    clearenv();
    setenv("CAY_IMAGE_STRICT", "true", 1);
    CHECK_STR(READ(), "ok");
    CHECK_STR(config.allowed_images, "");
    setenv("III_ALLOWED_IMAGES", "python", 1);
    CHECK_STR(READ(), "ok");
    CHECK_STR(config.allowed_images, "python");
}

TEST(credentials_are_where_docker_has_them)
{
    auto_dir char *dir = dir_new();
    auto_free char *docker = xasprintf("%s/.docker", dir),
                   *file = xasprintf("%s/config.json", docker);

    clearenv();
    setenv("HOME", dir, 1);
    CHECK_STR(READ(), "ok");
    CHECK(config.docker_config == NULL);
    CHECK_INT(mkdir(docker, 0700), 0);
    close_fd(&(int){open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)});
    CHECK_STR(READ(), "ok");
    CHECK_STR(config.docker_config, file);
    setenv("DOCKER_CONFIG", "/nowhere", 1);
    CHECK_STR(READ(), "ok");
    CHECK(config.docker_config == NULL);
    setenv("CAY_DOCKER_CONFIG", "/given", 1);
    CHECK_STR(READ(), "ok");
    CHECK_STR(config.docker_config, "/given");
}

TEST(the_sweep_is_seconds_or_a_cron_text)
{
    clearenv();
    setenv("CAY_TTL_SWEEP", "15", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(config.sweep, 15);
    setenv("CAY_TTL_SWEEP", "*/45 * * * * *", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(config.sweep, 45);
}

TEST(lists_are_split_at_commas_and_trimmed)
{
    clearenv();
    setenv("CAY_CORS_ORIGINS", " https://a.example , ,http://b.example,", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(strv_len(config.origins), 2);
    CHECK_STR(config.origins[0], "https://a.example");
    CHECK_STR(config.origins[1], "http://b.example");
}

TEST(iii_has_the_port_and_the_bounds_of_its_own_engine)
{
    clearenv();
    CHECK_STR(READ(), "ok");
    CHECK_STR(config.ws_host, "127.0.0.1");
    CHECK_INT(config.ws_port, 49134);
    CHECK(!config.ws_port_given);
    CHECK_INT(config.iii.idle_s, 300);
    CHECK_INT(config.iii.sandboxes_max, 0);
    CHECK_INT(config.iii.execs_max, 4);
    CHECK_INT(config.iii.exec_ms_max, 300000);
    CHECK_INT(config.iii.exec_ms, 30000);
    CHECK_STR(config.iii.sources[III_LIMIT_IMAGES], "CAY_ALLOWED_IMAGES");
    setenv("CAY_III_EXEC_TIMEOUT", "45", 1);
    setenv("III_ALLOWED_IMAGES", "host", 1);
    CHECK_STR(READ(), "ok");
    CHECK_INT(config.iii.exec_ms, 45000);
    CHECK_STR(config.iii.sources[III_LIMIT_IMAGES], "III_ALLOWED_IMAGES");
    setenv("CAY_WS_PORT", "0", 1);
    setenv("CAY_III_EXECS", "9", 1);
    CHECK_STR(READ(), "ok");
    CHECK(config.ws_port == 0 && config.ws_port_given);
    CHECK_INT(config.iii.execs_max, 9);
    CHECK_STR(READ("--ws-port", "7"), "ok");
    CHECK(config.ws_port == 7 && config.ws_port_given);
    CHECK_STR(READ("--ws-port", "x"), "--ws-port must be a port, or 0 for none, not \"x\"");
}

TEST(flags_win_over_the_environment)
{
    clearenv();
    setenv("CAY_REST_PORT", "1", 1);
    setenv("CAY_DATA", "/a", 1);
    CHECK_STR(READ("--listen", "[::1]:0", "--data", "/b", "--run=/c", "--no-tcp", "--insecure",
                   "--stop-sandboxes", "--ready-fd", "2"),
              "ok");
    CHECK_STR(config.host, "::1");
    CHECK_INT(config.port, 0);
    CHECK_STR(config.data, "/b");
    CHECK_STR(config.run, "/c");
    CHECK(config.no_tcp && config.insecure && config.stop_sandboxes);
    CHECK_INT(config.ready_fd, 2);
}

TEST(wrong_flags_are_refused)
{
    clearenv();
    CHECK_STR(READ("--nope"), "--nope: no such flag; see cay serve --help");
    CHECK_STR(READ("--data"), "--data: needs a value; see cay serve --help");
    CHECK_STR(READ("--listen", "3111"), "--listen must be HOST:PORT, not \"3111\"");
    CHECK_STR(READ("--listen", "h:99999"), "--listen must be HOST:PORT, not \"h:99999\"");
    CHECK_STR(READ("--ready-fd", "999"),
              "--ready-fd must be the number of an open descriptor, not \"999\"");
    CHECK_STR(READ("extra"), "cay serve takes no argument \"extra\"; see --help");
}

TEST(a_token_file_loses_its_last_newline_and_must_not_be_empty)
{
    char path[] = "/tmp/cay-token-XXXXXX";
    int fd = mkstemp(path);

    clearenv();
    CHECK(fd >= 0);
    CHECK(strstr(READ("--token-file", path), "is empty") != NULL);
    CHECK_INT(write(fd, "secret\n", 7), 7);
    CHECK_STR(READ("--token-file", path), "ok");
    CHECK_STR(config.token, "secret");
    close(fd);
    unlink(path);
    CHECK(strstr(READ("--token-file", path), "No such file") != NULL);
}

#define READ_WORKER(...) read_with((char *[]){"worker", ##__VA_ARGS__, NULL})

TEST(a_worker_has_an_engine_and_no_port_unless_it_is_asked)
{
    clearenv();
    CHECK_STR(READ(), "ok");
    CHECK(config.link.url == NULL && config.link.lifeline_fd == -1);
    CHECK_STR(READ_WORKER(), "ok");
    CHECK_STR(config.link.url, "ws://127.0.0.1:49134");
    CHECK_STR(config.link.name, "iii-sandbox");
    CHECK(config.no_tcp && config.ws_port == 0 && !config.link.standby);
    CHECK_STR(READ_WORKER("--engine", "ws://[::1]:7/x", "--listen", "127.0.0.1:0", "--standby",
                          "--ws-port", "8"),
              "ok");
    CHECK_STR(config.link.url, "ws://[::1]:7/x");
    CHECK(!config.no_tcp && config.ws_port == 8 && config.link.standby);
    setenv("III_ENGINE_URL", "ws://a:1", 1);
    setenv("CAY_REST_PORT", "0", 1);
    CHECK_STR(READ(), "ok");
    CHECK_STR(config.link.url, "ws://a:1");
    CHECK(!config.no_tcp && config.ws_port == 0);
    CHECK_STR(READ_WORKER(), "ok");
    CHECK(!config.no_tcp);
    setenv("CAY_ENGINE", "ws://b:1", 1);
    CHECK_STR(READ(), "ok");
    CHECK_STR(config.link.url, "ws://b:1");
    config_done(&config);
}

TEST(how_soon_an_engine_is_tried_again_can_be_set)
{
    clearenv();
    CHECK_STR(READ("--engine", "ws://a"), "ok");
    CHECK_INT(config.link.retry_ms, 5000);
    setenv("CAY_ENGINE_RETRY_MS", "200", 1);
    CHECK_STR(READ("--engine", "ws://a"), "ok");
    CHECK_INT(config.link.retry_ms, 200);
    setenv("CAY_ENGINE_RETRY_MS", "0", 1); /* would dial without a pause */
    CHECK(strstr(READ("--engine", "ws://a"), "CAY_ENGINE_RETRY_MS"));
}

TEST(an_engine_that_can_be_none_is_refused)
{
    clearenv();
    CHECK(strstr(READ("--engine", "http://a"), "--engine"));
    CHECK(strstr(READ("--engine", "wss://a"), "proxy"));
    CHECK(strstr(READ("--standby"), "--engine"));
    setenv("CAY_ENGINE_TOKEN", "a b", 1);
    CHECK(strstr(READ("--engine", "ws://a"), "CAY_ENGINE_TOKEN"));
}

TEST(a_variable_of_earlier_versions_is_named_and_does_not_stop_the_start)
{
    clearenv();
    setenv("CAY_ENGINE_STRICT", "true", 1);
    setenv("CAY_ENGINE_EXTRA", "true", 1);
    CHECK_STR(READ_WORKER(), "ok");
    CHECK(config.link.extra);
    CHECK(config.warnings && config.warnings[0] && !config.warnings[1]);
    CHECK(strstr(config.warnings[0], "CAY_ENGINE_EXTRA") != NULL);
    config_done(&config);
    clearenv();
    CHECK_STR(READ_WORKER(), "ok");
    CHECK(!config.link.extra && !config.warnings);
    config_done(&config);
}

TEST(a_lifeline_is_a_pipe)
{
    auto_free char *number = NULL;
    int fds[2];

    clearenv();
    CHECK_INT(pipe(fds), 0);
    number = xasprintf("%d", fds[0]);
    setenv("III_LIFELINE_FD", number, 1);
    CHECK_STR(READ_WORKER(), "ok");
    CHECK_INT(config.link.lifeline_fd, fds[0]);
    CHECK_STR(READ(), "ok"); /* it is nobody's worker */
    CHECK_INT(config.link.lifeline_fd, -1);
    setenv("III_LIFELINE_FD", "999", 1);
    CHECK_STR(READ_WORKER(), "ok");
    CHECK_INT(config.link.lifeline_fd, -1);
    config_done(&config);
}

static char *help_text(void)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    CHECK(out);
    config_help(out, false);
    CHECK_INT(fclose(out), 0);
    return text;
}

TEST(the_docs_name_every_variable_and_flag_with_its_default)
{
    auto_free char *docs = source_file("docs/configuration.md"), *help = help_text();
    unsigned n = 0;

    /* "  --data DIR", "  CAY_RUN=/run/cay"; explanations are indented further */
    for (char *rest = help, *line; (line = strsep(&rest, "\n"));) {
        char *value = strchr(line, '=');
        auto_free char *want = NULL;

        if (strncmp(line, "  --", 4) != 0 && strncmp(line, "  CAY_", 6) != 0)
            continue;
        if (value)
            *value++ = '\0';
        want = !value   ? xasprintf("| `%s` |", line + 2)
               : *value ? xasprintf("| `%s` | `%s` |", line + 2, value)
                        : xasprintf("| `%s` | none |", line + 2);
        if (!strstr(docs, want))
            TAP_FAIL("docs/configuration.md lacks %s", want);
        n++;
    }
    CHECK(n > 30);
}

TAP_MAIN
