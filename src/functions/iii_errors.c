#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "functions/errors.h"
#include "functions/iii.h"
#include "functions/iii_internal.h"

/* How failures are told to clients of iii. Each of its codes has a type, and most a line that says
 * what to do; which of them one of ours is, the second table says. */

#define DOCS                                                                                       \
    "https://github.com/iii-hq/iii/blob/main/crates/iii-worker/src/sandbox_daemon/README.md#"

#define NOT_FOUND "Sandbox not found: " /* how engine/gone.c begins */

static const struct iii_kind {
    const char *code, *type;
    bool retryable;
    const char *note; /* NULL = there is nothing to say */
} kinds[] = {
    {"S001", "validation", .note = "fix the request and send it again"},
    {"S002", "validation", .note = "the sandbox is gone; create another with sandbox::create"},
    {"S003", "validation",
     .note = "wait for a command to end, or raise max_concurrent_exec_per_sandbox"},
    {"S004", "validation", .note = "the sandbox has stopped; create another with sandbox::create"},
    {"S100", "config",
     .note = "use a name of sandbox::catalog::list that the operator's image_allowlist has"},
    {"S101", "internal",
     .note = "let the operator pull the image (cay image pull), or allow pulls"},
    {"S102", "transient", .retryable = true, .note = "try again; the registry may be back by then"},
    {"S200", "execution", .note = "raise timeout_ms, or split the work"},
    {"S210", "filesystem"},
    {"S211", "filesystem"},
    {"S212", "filesystem"},
    {"S213", "filesystem"},
    {"S214", "filesystem"},
    {"S215", "filesystem"},
    {"S216", "filesystem"},
    {"S217", "filesystem"},
    {"S218", "transient", .retryable = true},
    {"S219", "filesystem"},
    {"S300", "platform", .note = "the daemon's log says more; `cay doctor` looks at the machine"},
    {"S400", "config", .note = "ask for less, stop other sandboxes, or raise the limit"},
};

/* By code, and where a code means several things by kind. */
static const struct iii_row {
    const char *code, *iii;
    bool retryable;     /* beside what its kind is */
    enum err_kind kind; /* ERR_NONE = any */
    const char *note;   /* in place of that of its kind; NULL = that one */
} codes[] = {
    {"bad_uuid", "S001"},
    {"bad_command", "S001"},
    {"bad_base64", "S001"},
    {"bad_channel", "S001"},
    {"bad_policy", "S001"},
    {"sandbox_not_found", "S002"},
    {"sandbox_expired", "S004"},
    {"sandbox_removed", "S004"},
    {"exec_not_found", "S002"},
    {"exec_slots_full", "S003"},
    {"exec_exists", "S001"},
    {"sandbox_not_running", "S004"},
    {"sandbox_draining", "S004"},
    {"image_not_allowed", "S100"},
    {"bad_image", "S100"},
    {"bad_image_name", "S100"},
    {"ambiguous_image", "S100"},
    {"image_not_installed", "S101"},
    {"image_not_found", "S102", .note = "check the name and the tag of the image, then try again"},
    {"image_pull_failed", "S102"},
    {"registry_denied", "S102"},
    {"no_platform", "S102"},
    {"digest_mismatch", "S102"},
    {"bad_manifest", "S102"},
    {"bad_config", "S102"},
    {"image_too_large", "S102"},
    {"image_limit", "S102"},
    {"pull_limit", "S102"},
    {"image_worker_died", "S102"},
    {"bad_registry_auth", "S102"},
    {"bad_registry_config", "S102"},
    {"bad_docker_config", "S102"},
    {"command_timeout", "S200"},
    {"path_traversal", "S210"},
    {"bad_fs_request", "S210"},
    {"file_not_found", "S211"},
    {"is_a_directory", "S212"},
    {"not_a_directory", "S212"},
    {"not_a_file", "S212"},
    {"file_exists", "S213"},
    {"directory_not_empty", "S214"},
    {"permission_denied", "S215"},
    {"no_space", "S216", .kind = ERR_LIMIT},
    {"no_space", "S300"},
    {"file_failed", "S216"},
    {"bad_regex", "S217"},
    {"stream_stalled", "S218"},
    {"stream_lost", "S218"},
    {"channel_not_found", "S218"},
    {"agent_too_old", "S219"},
    {"image_cap_exceeded", "S400"},
    {"machine_full", "S400", .retryable = true},
    {"rate_limited", "S400", .retryable = true},
    {"agent_timeout", "S300", .retryable = true},
    {"sandbox_busy", "S300", .retryable = true},
    {"busy", "S300", .retryable = true},
    {"launcher_lost", "S300", .retryable = true},
    {"gateway_down", "S300", .retryable = true},
    {"cancelled", "S300", .retryable = true},
};

static const char *of_kind(enum err_kind kind)
{
    switch (kind) {
    case ERR_INVALID:
    case ERR_TOO_LARGE:
    case ERR_UNAUTHORIZED:
    case ERR_FORBIDDEN:
        return "S001";
    case ERR_NOT_FOUND:
        return "S002";
    case ERR_CONFLICT:
        return "S004";
    case ERR_TIMEOUT:
        return "S200";
    case ERR_LIMIT:
        return "S400";
    case ERR_NONE:
    case ERR_UNSUPPORTED:
    case ERR_UNAVAILABLE:
    case ERR_INTERNAL:
    case ERR_KINDS:
        break;
    }
    return "S300";
}

static struct iii_row row_of(const struct err *err)
{
    for (size_t i = 0; err->code && i < ARRAY_LEN(codes); i++)
        if (strcmp(codes[i].code, err->code) == 0 &&
            (codes[i].kind == ERR_NONE || codes[i].kind == err->kind))
            return codes[i];
    return (struct iii_row){.iii = of_kind(err->kind)};
}

const char *iii_code(const struct err *err)
{
    return row_of(err).iii;
}

static bool is_gone(const struct err *err)
{
    return err->code &&
           (strcmp(err->code, "sandbox_removed") == 0 || strcmp(err->code, "sandbox_expired") == 0);
}

/* A call for a removed sandbox is S004, but a second stop is S002, as in iii. */
static bool is_second_stop(const struct err *err, const char *function)
{
    return is_gone(err) && strcmp(function, "sandbox::stop") == 0;
}

static const struct iii_kind *kind_of(const char *code)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].code, code) == 0)
            return &kinds[i];
    abort();
}

/* Callers know sandboxes by other ids than the engine does. */
static void add_text(struct buf *out, const char *text)
{
    const char *id;

    while ((id = strstr(text, "sbx_"))) {
        char one[ID_SIZE], uuid[UUID_SIZE];

        (void)buf_add(out, text, (size_t)(id - text));
        (void)snprintf(one, sizeof(one), "%.28s", id);
        if (id_valid(one, "sbx")) {
            iii_uuid_of_id(one, uuid);
            (void)buf_add_str(out, uuid);
            text = id + strlen(one);
        } else {
            (void)buf_add(out, id, 4);
            text = id + 4;
        }
    }
    (void)buf_add_str(out, text);
}

static char *message_of(const struct err *err, const char *function)
{
    json_t *told = error_told(err, "iii", function);
    const char *text = json_string_value(json_object_get(told, "error"));
    auto_buf struct buf out = {0};

    buf_init(&out, 16384);
    if (is_gone(err) && !is_second_stop(err, function) && str_starts(text, NOT_FOUND)) {
        (void)buf_add_str(&out, "sandbox is stopped: ");
        text += strlen(NOT_FOUND);
    }
    add_text(&out, text);
    json_decref(told);
    return buf_steal(&out);
}

static json_t *or_null(json_t *value)
{
    return value ? json_incref(value) : json_null();
}

char *iii_error_text(const struct err *err, const char *function, const json_t *out)
{
    auto_free char *message = message_of(err, function);
    auto_free char *json = NULL;
    struct iii_row row = row_of(err);
    const struct iii_kind *kind;
    json_t *o, *note = json_object_get(out, "fix_note");

    if (err->code && strcmp(err->code, "bad_payload") == 0)
        return xasprintf("serialization error: %s", message);
    if (is_second_stop(err, function))
        row.iii = "S002";
    kind = kind_of(row.iii);
    if (!row.note)
        row.note = kind->note;
    o = json_pack("{s:s, s:s, s:s, s:s+, s:b, s:o, s:o}", "type", kind->type, "code", row.iii,
                  "message", message, "docs_url", DOCS, row.iii, "retryable",
                  row.retryable || kind->retryable, "fix", or_null(json_object_get(out, "fix")),
                  "fix_note",
                  note       ? json_incref(note)
                  : row.note ? json_string(row.note)
                             : json_null());
    json = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    return xasprintf("handler error: %s", json ? json : "{}");
}
