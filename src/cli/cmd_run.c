#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/create.h"
#include "cli/ending.h"
#include "cli/network_args.h"
#include "cli/private.h"
#include "cli/pull.h"
#include "cli/ui.h"

#define COMMAND_S 86340 /* of a command whose time nobody limits: with the rest it is a day */
#define MORE_S    60    /* that its sandbox lives on, at most */

struct job {
    struct args *args;
    struct api api;
    struct private_daemon daemon;
    struct attach_options options;
    char *id;
    double create_ms, exec_ms;
};

/* Outside attach_exec(), a first signal is remembered so that nothing is left behind; a second one
 * ends the program at once. */
static volatile sig_atomic_t interrupted, n_interrupts;

static void on_interrupt(int sig)
{
    interrupted = sig;
    if (++n_interrupts > 1)
        _exit(STATUS_SIGNAL + sig);
}

static void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
}

/* A daemon that is there is used; only when nobody named one and none answers, an own one starts.
 */
static int find_daemon(struct job *job, struct err *err)
{
    auto_free char *target = NULL;
    struct http_response response;
    bool chosen;

    if (api_address(args_text(job->args, "host"), &target, &chosen, err) < 0)
        return -1;
    api_open_target(&job->api, target);
    if (chosen)
        return 0;
    if (http_client_send(job->api.http, "GET", "/sandbox/health", NULL, NULL, 0, &response, err) ==
        0) {
        auto_free char *body = NULL;
        size_t len;

        return http_client_body(job->api.http, 64u << 10, &body, &len, err);
    }
    if (err->kind != ERR_UNAVAILABLE || err->sys == 0)
        return -1; /* somebody is there, but what they say cannot be used */
    if (args_has(job->args, "keep"))
        return api_explain(&job->api, err); /* a daemon of its own would take the sandbox with it */
    if (private_start(&job->daemon, err) < 0)
        return -1;
    api_close(&job->api);
    api_open_target(&job->api, job->daemon.target);
    return 0;
}

static int create(struct job *job, struct err *err)
{
    json_t *body = NULL, *sandbox = NULL;
    double command_s = args_number(job->args, "timeout", 0);
    int64_t start = mono_ns();
    bool pulled;

    if (create_body(job->args, create_image(job->args), &body, err) < 0)
        return -1;
    /* It must outlive the command, and still go by itself if nobody is left to remove it. The
     * daemon knows how long that may be. */
    if (command_s <= 0)
        command_s = COMMAND_S;
    (void)json_object_set_new(body, "timeout", json_integer((json_int_t)command_s + MORE_S));
    json_put_text(body, "onTimeout", args_has(job->args, "keep") ? NULL : "remove");
    if (create_sandbox(&job->api, job->args, body, &sandbox, &pulled, err) < 0) {
        if (pull_signal())
            interrupted = pull_signal();
        return -1;
    }
    if (pulled && job->daemon.pid > 0 && !args_has(job->args, "quiet"))
        ui_warn("no daemon is running, so %s is not kept: `cay serve` keeps what was pulled",
                create_image(job->args) ? create_image(job->args) : "the template's image");
    job->create_ms = (double)(mono_ns() - start) / 1e6;
    if (!id_valid(json_text(sandbox, "id"), "sbx")) {
        json_decref(sandbox);
        return err_set(err, ERR_INTERNAL,
                       "%s made a sandbox without a valid id: is it a cay "
                       "daemon?",
                       job->api.target);
    }
    if (!args_has(job->args, "quiet"))
        ui_warnings(sandbox);
    job->id = xstrdup(json_text(sandbox, "id"));
    json_decref(sandbox);
    return 0;
}

/* What sandboxes of the template are made of. */
static int template_image(struct job *job, const char *template, char **ret, struct err *err)
{
    auto_free char *encoded = url_encoded(template);
    json_t *o = NULL;
    const char *built;

    if (api_call(&job->api, "GET", NULL, &o, err, "/templates/%s", encoded) < 0)
        return -1;
    built = json_text(json_object_get(o, "build"), "imageId");
    *ret = xstrdup(*built ? built : json_text(json_object_get(o, "config"), "image"));
    json_decref(o);
    return 0;
}

/* What the image runs by itself, unless a command was given. */
static int find_command(struct job *job, struct err *err)
{
    const char *template = args_text(job->args, "template"), *name = create_image(job->args);
    auto_free char *encoded = NULL, *of_template = NULL;
    json_t *image = NULL;

    if (job->options.command)
        return 0;
    if (template && !name && template_image(job, template, &of_template, err) < 0)
        return -1;
    if (!name)
        name = of_template ? of_template : "host";
    encoded = url_encoded(name);
    if (api_call(&job->api, "GET", NULL, &image, err, "/images/%s", encoded) < 0)
        return -1;
    job->options.command = json_array();
    (void)json_array_extend(job->options.command, json_object_get(image, "entrypoint"));
    (void)json_array_extend(job->options.command, json_object_get(image, "cmd"));
    json_decref(image);
    if (json_array_size(job->options.command) > 0)
        return 0;
    if (of_template)
        return err_set(err, ERR_INVALID,
                       "the template %s does not say what `cay run` is to run: give a command, as "
                       "in `cay run --template %s sh`",
                       template, template);
    return err_set(err, ERR_INVALID,
                   "the image %s does not say what to run: give a command, as in `cay run %s sh`",
                   name, name);
}

static void report(struct job *job, const struct attach_result *result)
{
    if (args_has(job->args, "json")) {
        json_t *object = attach_result_json(&job->api, job->id, &job->options, result);

        (void)json_object_set_new(object, "id", json_string(job->id));
        (void)json_object_set_new(object, "createMs", json_real(job->create_ms));
        (void)json_object_set_new(object, "execMs", json_real(job->exec_ms));
        ui_json(object);
        json_decref(object);
    }
    if (args_has(job->args, "time"))
        ui_warn("created in %.2f ms, ran for %.2f ms", job->create_ms, job->exec_ms);
    if (args_has(job->args, "keep") && !args_has(job->args, "quiet"))
        ui_warn("kept as %s", job->id);
    ending_tell(&job->api, job->id, &job->options, result);
}

/* Creates, runs and reports; what was made is removed by the caller. */
static int work(struct job *job, struct err *err)
{
    struct attach_result result;
    int64_t start;

    if (find_daemon(job, err) < 0)
        return -1;
    if (interrupted)
        return STATUS_SIGNAL + interrupted;
    if (create_check(&job->api, job->args, "--timeout", -1, err) < 0)
        return create_is_misused(err) ? ui_usage(job->args, "%s", err->text) : -1;
    if (create(job, err) < 0) {
        if (interrupted)
            return STATUS_SIGNAL + interrupted;
        return create_is_misused(err) ? ui_usage(job->args, "%s", err->text) : -1;
    }
    if (interrupted)
        return STATUS_SIGNAL + interrupted;
    if (find_command(job, err) < 0)
        return -1;
    start = mono_ns();
    if (attach_exec(&job->api, job->id, &job->options, &result, err) < 0)
        return -1;
    job->exec_ms = (double)(mono_ns() - start) / 1e6;
    report(job, &result);
    return result.status;
}

static void clean_up(struct job *job)
{
    struct err err = {0};
    bool keep = args_has(job->args, "keep");

    /* The daemon removes it at its end anyway when it is ours alone. */
    if (job->id && !keep && job->daemon.pid <= 0 &&
        api_call(&job->api, "DELETE", NULL, NULL, &err, "/sandboxes/%s", job->id) < 0)
        ui_warn("cannot remove %s: %s; remove it with `cay rm %s`", job->id, err.text, job->id);
    api_close(&job->api);
    private_stop(&job->daemon);
    free(job->id);
}

/* `cay run echo hello`: the first word is an image, which not all hands know. */
static void explain_image(struct job *job)
{
    const char *image = create_image(job->args);

    if (job->id || !image || !str_starts(api_last_code(), "image_") ||
        create_means_template(&job->api, job->args) || job->args->exact || strpbrk(image, ":/@"))
        return;
    ui_warn(
        "\"%.80s\" was taken for an image; a command without one stands after \"--\": cay run -- "
        "%.80s",
        image, image);
}

static int run_job(struct job *job)
{
    struct err err = {0};
    int status;

    catch_interrupts();
    status = work(job, &err);
    if (status < 0) {
        (void)ui_fail(&err);
        explain_image(job);
        status = attach_fail_status(&err);
    }
    clean_up(job);
    return status;
}

/* With -d: the command is the sandbox's entrypoint, and the sandbox stays. */
static int leave(struct args *args)
{
    static const char *const not_with[] = {"user", "time", "rm", "ulimit"};

    for (size_t i = 0; i < ARRAY_LEN(not_with); i++) {
        if (args_has(args, not_with[i]))
            return ui_usage(args, "--%s does not go with -d: %s", not_with[i],
                            i == 2 ? "the sandbox stays until `cay rm` or its --timeout"
                                   : "use `cay create` and `cay exec -d`");
    }
    if ((args_has(args, "tty") || args_has(args, "interactive")) && !args_has(args, "quiet"))
        ui_warn("with -d there is no terminal or input: `cay exec -it ID sh` opens one in the "
                "sandbox");
    return create_and_tell(args, true);
}

static int refuse(const struct args *args)
{
    json_t *network = NULL;
    struct err err = {0};

    if (network_args(args, &network, &err) < 0)
        return ui_usage(args, "%s", err.text);
    json_decref(network);
    if (args->n_words == 0 && args->n_rest == 0 && !args_text(args, "template"))
        return ui_usage(args, "run needs an image or a command: cay run IMAGE COMMAND, or cay run "
                              "-- echo hello");
    if (args_has(args, "json") && args_has(args, "tty"))
        return ui_usage(args, "--json and --tty exclude each other");
    if (args_has(args, "idle-timeout") && !args_has(args, "detach"))
        return ui_usage(args, "--idle-timeout is for a sandbox that stays: add -d");
    if (args_has(args, "on-timeout") && !args_has(args, "detach"))
        return ui_usage(args, "--on-timeout is for a sandbox that stays: add -d");
    if (args_has(args, "rm") && args_has(args, "keep"))
        return ui_usage(args, "--rm and --keep exclude each other");
    return STATUS_OK;
}

int cmd_run(struct args *args)
{
    struct job job = {.args = args, .daemon = PRIVATE_DAEMON_NONE};
    auto_buf struct buf out = {0};
    auto_buf struct buf error = {0};
    struct err err = {0};
    int status;

    create_take_words(args);
    status = refuse(args);
    buf_init(&out, CAPTURE_MAX);
    buf_init(&error, CAPTURE_MAX);
    if (status != STATUS_OK)
        return status;
    if (args_has(args, "detach"))
        return leave(args);
    if (attach_read_args(&job.options, args, &err) < 0)
        return ui_usage(args, "%s", err.text);
    json_decref(job.options.env); /* it goes into the sandbox's own environment */
    job.options.env = NULL;
    /* None leaves it to the image. */
    job.options.command = args->n_rest > 0 ? command_line_json(args) : NULL;
    if (args->n_rest > 0 && !job.options.command) {
        attach_done(&job.options);
        return ui_usage(args, "the command is not valid UTF-8 text");
    }
    if (args_has(args, "json")) {
        job.options.out = &out;
        job.options.error = &error;
    }
    status = run_job(&job);
    attach_done(&job.options);
    return status;
}
