#include <string.h>

#include "mcp/face_internal.h"

/* How functions look as tools: what each is called is in its row, and what is here is how a model
 * is to take it and what it reads. Texts are those that the public tools of these names have. */

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static void add(struct buf *out, const json_t *o, const char *key)
{
    const json_t *text = json_object_get(o, key);

    (void)buf_add(out, text_of(o, key), json_string_length(text));
}

/* ---- texts ---- */

static void command_text(const json_t *v, const json_t *in, struct buf *out)
{
    json_int_t status = json_integer_value(json_object_get(v, "exitCode"));

    (void)in;
    if (*text_of(v, "stderr")) {
        (void)buf_add_str(out, "STDOUT:\n");
        add(out, v, "stdout");
        (void)buf_add_str(out, "\nSTDERR:\n");
        add(out, v, "stderr");
    } else {
        add(out, v, "stdout");
    }
    if (*text_of(v, "message"))
        (void)buf_addf(out, "\n[%s]", text_of(v, "message"));
    if (*text_of(v, "hint"))
        (void)buf_addf(out, "\n[%s]", text_of(v, "hint"));
    if (out->len == 0 && status != 0) /* many clients show a model this text and nothing else */
        (void)buf_addf(out, "(no output; exit code %lld)", (long long)status);
}

/* Is it a poorer form of something that is in the content as a picture? */
static bool is_picture_too(const json_t *results, const json_t *one)
{
    const json_t *group = json_object_get(one, "group"), *other;
    size_t i;

    json_array_foreach(results, i, other)
    {
        if (group && json_equal(json_object_get(other, "group"), group) &&
            strcmp(text_of(other, "data"), PICTURE_TAKEN) == 0)
            return true;
    }
    return false;
}

static void code_text(const json_t *v, const json_t *in, struct buf *out)
{
    const json_t *results = json_object_get(v, "results"), *one;
    size_t i;

    (void)in;
    if (*text_of(v, "error")) {
        (void)buf_add_str(out, "ERROR:\n");
        add(out, v, "error");
        (void)buf_add_str(out, "\n\nOUTPUT:\n");
    }
    add(out, v, "output");
    json_array_foreach(results, i, one)
    {
        if (strcmp(text_of(one, "mime"), "text/plain") == 0 && !is_picture_too(results, one))
            (void)buf_addf(out, "%s%s", out->len ? "\n" : "", text_of(one, "data"));
    }
}

static void content_text(const json_t *v, const json_t *in, struct buf *out)
{
    (void)in;
    (void)buf_add(out, json_string_value(v), json_string_length(v));
}

static void output_text(const json_t *v, const json_t *in, struct buf *out)
{
    (void)in;
    add(out, v, "output");
}

static void written_text(const json_t *v, const json_t *in, struct buf *out)
{
    (void)v;
    (void)buf_addf(out, "Written to %s", text_of(in, "path"));
}

static void killed_text(const json_t *v, const json_t *in, struct buf *out)
{
    (void)v;
    (void)buf_addf(out, "Sandbox %s killed", text_of(in, "sandboxId"));
}

static void variable_text(const json_t *v, const json_t *in, struct buf *out)
{
    (void)in;
    if (json_is_true(json_object_get(v, "exists")))
        (void)buf_addf(out, "%s=%s", text_of(v, "key"), text_of(v, "value"));
    else
        (void)buf_addf(out, "%s is not set", text_of(v, "key"));
}

static void variables_text(const json_t *v, const json_t *in, struct buf *out)
{
    const json_t *name;
    size_t i;

    (void)in;
    (void)buf_addf(
        out, "Set %lld variable(s): ", (long long)json_integer_value(json_object_get(v, "count")));
    json_array_foreach(json_object_get(v, "set"), i, name)
    {
        (void)buf_addf(out, "%s%s", i ? ", " : "", json_string_value(name));
    }
}

static void diff_text(const json_t *v, const json_t *in, struct buf *out)
{
    (void)in;
    (void)buf_add_str(out, *text_of(v, "diff") ? text_of(v, "diff") : "(no diff)");
}

static void signal_text(const json_t *v, const json_t *in, struct buf *out)
{
    (void)in;
    (void)buf_addf(out, "Killed PID %lld with signal %s",
                   (long long)json_integer_value(json_object_get(v, "killed")),
                   text_of(v, "signal"));
}

static void connected_text(const json_t *v, const json_t *in, struct buf *out)
{
    (void)v;
    (void)buf_addf(out, "Connected sandbox %s to network %s", text_of(in, "sandboxId"),
                   text_of(in, "networkId"));
}

static void attached_text(const json_t *v, const json_t *in, struct buf *out)
{
    (void)buf_addf(out, "Volume %s attached to %s at %s", text_of(in, "volumeId"),
                   text_of(in, "sandboxId"), text_of(v, "mountPath"));
}

/* Lines of the main process; or, when a command is named, its output. */
static void logs_text(const json_t *v, const json_t *in, struct buf *out)
{
    const json_t *line;
    size_t i;

    if (json_is_object(v)) {
        command_text(v, in, out);
        return;
    }
    json_array_foreach(v, i, line)
    {
        if (strcmp(text_of(line, "type"), "end") != 0)
            (void)buf_addf(out, "[%s] %s\n", text_of(line, "type"), text_of(line, "data"));
    }
    if (out->len == 0)
        (void)buf_add_str(out, "(no logs)");
}

bool tool_failed(const struct tool_look *look, const json_t *v)
{
    const json_t *code = json_object_get(v, "exitCode");

    return look->can_fail &&
           (json_integer_value(code) != 0 || json_is_string(json_object_get(v, "error")));
}

/* ---- the table ---- */

#define NARROWER "ask for less with limit and offset"

const struct tool_look tool_looks[] = {
    {"sandbox_create", "Create a sandbox", .core = true, .effect = TOOL_ADDS, .open_world = true,
     .takes_image = true},
    {"sandbox_exec", "Run a command", .can_fail = true, .core = true, .effect = TOOL_DESTROYS,
     .open_world = true, .text = command_text},
    {"sandbox_run_code", "Run code", .can_fail = true, .core = true, .effect = TOOL_DESTROYS,
     .open_world = true, .text = code_text,
     .read_on = "print less, or write to a file and use sandbox_read_file"},
    {"sandbox_read_file", "Read a file", .core = true, .text = content_text},
    {"sandbox_write_file", "Write a file", .core = true, .effect = TOOL_DESTROYS,
     .idempotent = true, .text = written_text},
    {"sandbox_list_files", "List files", .core = true, .read_on = "list one of the folders in it"},
    {"sandbox_install_package", "Install packages", .core = true, .effect = TOOL_ADDS,
     .idempotent = true, .open_world = true, .text = output_text},
    {"sandbox_list", "List sandboxes", .core = true, .inner = "items",
     .read_on = "ask for other pages with page and pageSize"},
    {"sandbox_kill", "Remove a sandbox", .core = true, .effect = TOOL_DESTROYS, .idempotent = true,
     .text = killed_text},
    {"sandbox_metrics", "What a sandbox uses"},
    {"sandbox_env_get", "Read a variable", .text = variable_text},
    {"sandbox_env_set", "Set variables", .effect = TOOL_DESTROYS, .idempotent = true,
     .text = variables_text},
    {"sandbox_env_list", "List variables", .inner = "vars", .read_on = "use sandbox_env_get"},
    {"sandbox_git_clone", "Clone a repository", .can_fail = true, .effect = TOOL_ADDS,
     .open_world = true, .text = command_text},
    {"sandbox_git_status", "Status of a repository"},
    {"sandbox_git_commit", "Make a commit", .can_fail = true, .effect = TOOL_ADDS,
     .text = command_text},
    {"sandbox_git_diff", "Changes in a repository", .text = diff_text,
     .read_on = "name one file with file"},
    {"sandbox_process_list", "List processes", .inner = "processes"},
    {"sandbox_process_kill", "Send a signal to a process", .effect = TOOL_DESTROYS,
     .text = signal_text},
    {"sandbox_template_list", "List templates", .inner = "templates"},
    {"sandbox_snapshot_create", "Take a snapshot", .effect = TOOL_ADDS},
    {"sandbox_snapshot_restore", "Go back to a snapshot", .effect = TOOL_DESTROYS,
     .idempotent = true},
    {"sandbox_snapshot_list", "List snapshots", .inner = "snapshots"},
    {"sandbox_clone", "Clone a sandbox", .effect = TOOL_ADDS},
    {"sandbox_port_expose", "Expose a port", .effect = TOOL_ADDS, .open_world = true},
    {"sandbox_port_list", "List exposed ports", .inner = "ports"},
    {"sandbox_exec_queue", "Queue a command", .effect = TOOL_DESTROYS, .open_world = true},
    {"sandbox_queue_status", "State of a queued command"},
    {"sandbox_events_history", "What has happened", .read_on = NARROWER},
    {"sandbox_events_publish", "Publish an event", .effect = TOOL_ADDS},
    {"sandbox_network_create", "Create a network", .effect = TOOL_ADDS},
    {"sandbox_network_connect", "Connect a sandbox to a network", .effect = TOOL_ADDS,
     .text = connected_text},
    {"sandbox_stream_logs", "Output of the main process, or of a command", .core = true,
     .text = logs_text, .with = "cmd::get", .with_param = "execId", .forced = "{\"follow\": false}",
     .read_on = "ask for fewer lines with tail"},
    {"sandbox_traces", "Calls of the daemon", .read_on = NARROWER},
    {"sandbox_metrics_dashboard", "Calls and failures in all"},
    {"sandbox_set_alert", "Set an alert", .effect = TOOL_ADDS},
    {"sandbox_alert_history", "Alerts that fired", .read_on = "ask for less with limit"},
    {"sandbox_volume_create", "Create a volume", .effect = TOOL_ADDS},
    {"sandbox_volume_attach", "Attach a volume", .effect = TOOL_ADDS, .text = attached_text},
    {0},
};
