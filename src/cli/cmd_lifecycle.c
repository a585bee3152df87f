#include <ctype.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/ranges.h"
#include "cli/ui.h"

/* NULL = as the daemon does it by itself. */
static json_t *stop_body(const struct args *args)
{
    bool drain = args_has(args, "drain"), timed = args_has(args, "time");
    json_t *body;

    if (!drain && !timed)
        return NULL;
    body = json_pack("{s:b, s:b}", "drain", drain, "wait", 1);
    if (timed)
        (void)json_object_set_new(body, "timeout", json_real(args_number(args, "time", 0)));
    return body;
}

/* What pause, resume, stop, start and rm do to each sandbox that is named. Goes on after a failure,
 * so that one bad id does not keep the others; the status tells. */
static int each_word(struct args *args, struct api *api, const char *method, const char *action)
{
    json_t *body = strcmp(action, "/stop") == 0 ? stop_body(args) : NULL;
    int status = STATUS_OK;

    for (size_t i = 0; i < args->n_words && status != STATUS_NO_DAEMON; i++) {
        auto_free char *id = NULL;
        struct err err = {0};

        if (api_sandbox_id(api, args->words[i], &id, &err) < 0 ||
            api_call(api, method, json_incref(body), NULL, &err, "/sandboxes/%s%s", id, action) < 0)
            status = ui_fail(&err);
        else if (!args_has(args, "quiet"))
            printf("%s\n", id);
    }
    json_decref(body);
    return status;
}

static int on_each(struct args *args, const char *method, const char *action)
{
    auto_api struct api api = {0};
    struct err err = {0};

    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    return each_word(args, &api, method, action);
}

int cmd_pause(struct args *args)
{
    return on_each(args, "POST", "/pause");
}

int cmd_resume(struct args *args)
{
    return on_each(args, "POST", "/resume");
}

int cmd_touch(struct args *args)
{
    return on_each(args, "POST", "/touch");
}

static bool is_sure(const struct args *args)
{
    return args_has(args, "yes") || args_has(args, "force");
}

/* Those of the list in place of words. */
static int on_list(struct args *args, struct api *api, json_t *list, const char *method,
                   const char *action)
{
    struct args all = *args;
    json_t *item;
    size_t i;
    int status;

    all.words = xcalloc(json_array_size(list) + 1, sizeof(char *));
    all.n_words = 0;
    json_array_foreach(list, i, item) all.words[all.n_words++] =
        (char *)(uintptr_t)json_text(item, "id");
    status = each_word(&all, api, method, action);
    free(all.words);
    return status;
}

static int remove_all(struct args *args)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *list = NULL;
    int64_t total;
    int status;

    if (api_open(&api, args, &err) < 0 || api_sandboxes(&api, NULL, 0, &list, &total, &err) < 0)
        return ui_fail(&err);
    if (json_array_size(list) > 0 && !is_sure(args) &&
        !ui_confirm("Remove %zu %s with everything inside?", json_array_size(list),
                    json_array_size(list) == 1 ? "sandbox" : "sandboxes")) {
        ui_warn("nothing was removed: --all needs a yes on a terminal, or --yes");
        json_decref(list);
        return STATUS_FAILED;
    }
    status = on_list(args, &api, list, "DELETE", "");
    json_decref(list);
    return status;
}

/* Those that are, or are not, stopped. */
static int change_all(struct args *args, bool stopped, const char *action)
{
    auto_api struct api api = {0};
    struct err err = {0};
    json_t *list = NULL;
    int64_t total;
    int status;

    if (api_open(&api, args, &err) < 0 || api_sandboxes(&api, NULL, 0, &list, &total, &err) < 0)
        return ui_fail(&err);
    for (size_t i = json_array_size(list); i > 0; i--) {
        const char *now = json_text(json_array_get(list, i - 1), "status");

        if ((strcmp(now, "stopped") == 0) != stopped)
            (void)json_array_remove(list, i - 1);
    }
    status = on_list(args, &api, list, "POST", action);
    json_decref(list);
    return status;
}

/* Names what rm, stop and start are to work on, or all. */
static int check_targets(struct args *args)
{
    if (args_has(args, "all") && args->n_words > 0)
        return ui_usage(args, "give ids or --all, not both");
    if (!args_has(args, "all") && args->n_words == 0)
        return ui_usage(args, "%s needs the id or name of a sandbox, or --all",
                        args->command->name);
    return STATUS_OK;
}

int cmd_rm(struct args *args)
{
    int status = check_targets(args);

    if (status != STATUS_OK)
        return status;
    return args_has(args, "all") ? remove_all(args) : on_each(args, "DELETE", "");
}

static int stop_or_start(struct args *args, bool start)
{
    const char *action = start ? "/start" : "/stop";
    int status = check_targets(args);

    if (status != STATUS_OK)
        return status;
    return args_has(args, "all") ? change_all(args, start, action) : on_each(args, "POST", action);
}

int cmd_stop(struct args *args)
{
    return stop_or_start(args, false);
}

int cmd_start(struct args *args)
{
    return stop_or_start(args, true);
}

/* ---- signals ---- */

/* The names that the API knows, also by number. */
static const char *signal_word(const char *word)
{
    static const struct {
        const char *number, *name;
    } numbers[] = {{"1", "HUP"},   {"2", "INT"},   {"9", "KILL"},  {"10", "USR1"},
                   {"12", "USR2"}, {"15", "TERM"}, {"18", "CONT"}, {"19", "STOP"}};

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        if (strcmp(word, numbers[i].number) == 0)
            return numbers[i].name;
    }
    return word;
}

static int send_signal(struct args *args, struct api *api, const char *id, const char *word)
{
    const char *sig = args_text(args, "signal");
    struct err err = {0};
    uint64_t pid;
    json_t *body;

    if (str_u64(word, &pid) < 0 || pid == 0 || pid > INT32_MAX)
        return ui_usage(args,
                        "\"%s\" is no process id: `cay ps %s` shows them; `cay rm` removes "
                        "sandboxes",
                        word, args->words[0]);
    if (sig && strncasecmp(sig, "SIG", 3) == 0)
        sig += 3;
    body = json_pack("{s:I}", "pid", (json_int_t)pid);
    if (sig) {
        auto_free char *upper = xstrdup(sig);

        for (char *p = upper; *p; p++)
            *p = (char)toupper((unsigned char)*p);
        json_put_text(body, "signal", signal_word(upper));
    }
    if (api_call(api, "POST", body, NULL, &err, "/sandboxes/%s/processes/kill", id) < 0)
        return ui_fail(&err);
    if (!args_has(args, "quiet"))
        printf("%s\n", word);
    return STATUS_OK;
}

/* As rm, but not everybody expects of that word that all is gone. */
static int remove_if_sure(struct args *args)
{
    const char *id = args->words[0];

    if (is_sure(args) || ui_confirm("Killing %s removes it with everything inside. Go on?", id))
        return on_each(args, "DELETE", "");
    ui_warn("nothing was killed: killing a sandbox removes it with everything inside; `cay stop "
            "%s` keeps its files, `cay rm %s` or --yes removes it",
            id, id);
    return STATUS_FAILED;
}

int cmd_kill(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    int status = STATUS_OK;

    if (args->n_words == 1 && args_has(args, "signal"))
        return ui_usage(args, "which process? `cay ps %s` lists them: cay kill -s SIGNAL %s PID",
                        args->words[0], args->words[0]);
    if (args->n_words == 1)
        return remove_if_sure(args);
    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0)
        return ui_fail(&err);
    for (size_t i = 1; i < args->n_words && status != STATUS_NO_DAEMON; i++) {
        int r = send_signal(args, &api, id, args->words[i]);

        status = r == STATUS_OK ? status : r;
        if (r == STATUS_USAGE)
            break;
    }
    return status;
}

/* ---- time to live ---- */

/* How long it is to live from now: what was given, or what it was made for. */
static int find_life(struct args *args, struct api *api, const char *id, double *ret,
                     struct err *err)
{
    json_t *sandbox = NULL;

    if (args->n_words > 1) {
        if (args_time(args->words[1], ret) < 0 || *ret < 0)
            return err_set(err, ERR_INVALID, "\"%s\" is no time: write 300, 90s, 10m or 2h",
                           args->words[1]);
        return ranges_check_life(api, "TIME", *ret, err);
    }
    if (api_call(api, "GET", NULL, &sandbox, err, "/sandboxes/%s", id) < 0)
        return -1;
    *ret = json_num(json_object_get(sandbox, "config"), "timeout");
    json_decref(sandbox);
    /* It was made without an end, which the daemon may not allow any more. */
    return *ret > 0 ? 0 : ranges_check_life(api, "TIME", 0, err);
}

static int renew(struct api *api, const char *id, double life_s, json_t **ret, struct err *err)
{
    json_int_t expires = life_s > 0 ? now_ms() + (json_int_t)(life_s * 1000) : 0;

    return api_call(api, "POST", json_pack("{s:I}", "expiresAt", expires), ret, err,
                    "/sandboxes/%s/renew", id);
}

static void tell_end(const char *word, int64_t expires_ms)
{
    char left[24];

    ui_duration(expires_ms - now_ms() + 999, left);
    if (expires_ms)
        ui_warn("%s expires in %s", word, left);
    else
        ui_warn("%s does not expire", word);
}

int cmd_renew(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    json_t *sandbox = NULL;
    double life_s;

    if (api_open(&api, args, &err) < 0 || api_sandbox_id(&api, args->words[0], &id, &err) < 0 ||
        find_life(args, &api, id, &life_s, &err) < 0 ||
        renew(&api, id, life_s, &sandbox, &err) < 0) {
        /* What the daemon has not refused is wrong here already. */
        if (err.kind == ERR_INVALID && !*api_last_code())
            return ui_usage(args, "%s", err.text);
        return ui_fail(&err);
    }
    if (!args_has(args, "quiet") && !args_has(args, "json"))
        tell_end(args->words[0], json_int(sandbox, "expiresAt"));
    return ui_made(args, sandbox);
}
