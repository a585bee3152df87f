#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/templates.h"
#include "engine/watch.h"
#include "functions/functions_internal.h"
#include "model/sandbox.h"
#include "service/build/directory.h"

/* archive: NULL = the build has no files. */
static int build_of(struct call *call, struct build_archive *archive, struct err *err)
{
    auto_build_context struct build_context *context = NULL;
    struct engine_watch watch = call_watch(call);
    struct directory_request req = {
        .name = in_str(call, "name"),
        .description = in_str(call, "description"),
        .file = in_str(call, "file"),
        .dockerfile = in_str(call, "dockerfile"),
        .build = {.target = in_str(call, "target"),
                  .args = json_object_get(call->in, "buildArgs"),
                  .no_cache = in_bool(call, "noCache"),
                  .memory_mb = in_maybe(call, "memory"),
                  .cpu_cores = in_maybe(call, "cpu"),
                  .disk_mb = in_maybe(call, "disk"),
                  .network = json_object_get(call->in, "network"),
                  .step_timeout_ms = (uint64_t)in_int(call, "stepTimeout") * 1000},
    };
    json_t *failure = NULL;

    if (archive && build_context_open(archive, in_str(call, "apart"), &watch, &context, err) < 0)
        return -1;
    req.build.context = context;
    if (build_directory(call->engine, &req, &watch, &call->out, &failure, err) == 0)
        return 0;
    call->out = failure;
    return -1;
}

/* The archive is taken whole before anything is said: who sends it may not listen yet. */
struct upload {
    struct taker taker; /* first */
    struct build_archive *archive;
};

static int upload_take(struct taker *t, const char *data, size_t len, struct err *err)
{
    return build_archive_add(((struct upload *)t)->archive, data, len, err);
}

static int upload_end(struct taker *t, struct call *call, struct err *err)
{
    return build_of(call, ((struct upload *)t)->archive, err);
}

static void upload_free(struct taker *t)
{
    build_archive_close(((struct upload *)t)->archive);
    free(t);
}

static const struct taker_ops upload_ops = {upload_take, upload_end, upload_free};

static int build(struct call *call, struct err *err)
{
    struct build_archive *archive;
    struct upload *u;

    if (!call->uploads)
        return build_of(call, NULL, err);
    if (build_archive_open(call->engine, &archive, err) < 0)
        return -1;
    u = xcalloc(1, sizeof(*u));
    u->taker.ops = &upload_ops;
    u->archive = archive;
    call->taker = &u->taker;
    return 0;
}

static const struct field build_fields[] = {
    {"name", FIELD_STRING, .min = 1, .max = TEMPLATE_NAME_MAX, .example = "\"web\"",
     .help = "of the template; one of that name is replaced"},
    {"description", FIELD_STRING, .optional = true, .max = 4096, .help = "for people"},
    {"file", FIELD_STRING, .optional = true, .min = 1, .max = PATH_BYTES_MAX,
     .help = "in the archive; Dockerfile when absent, or cay.json where there is none"},
    {"apart", FIELD_STRING, .optional = true, .min = 1, .max = 255,
     .help = "a file at the top of the archive that is the Dockerfile, or the cay.json, and that "
             "COPY does not see; file is then only what it is called"},
    {"dockerfile", FIELD_STRING, .optional = true, .max = DOCKERFILE_BYTES_MAX,
     .example = "\"FROM host\\nRUN echo hello >/etc/motd\\n\"",
     .help = "in place of a file: the text itself"},
    {"target", FIELD_STRING, .optional = true, .min = 1, .max = 255,
     .help = "the stage to end with; the last when absent"},
    {"buildArgs", FIELD_STRING_MAP, .optional = true, .max = ARG_BYTES_MAX,
     .help = "values for ARG; an object in JSON, also in the query"},
    {"noCache", FIELD_BOOL, .optional = true, .help = "do every step again"},
    {"memory", FIELD_INT, .optional = true, .max = MEMORY_MB_MAX,
     .help = "MB of memory for each RUN; brought into its range as with a create"},
    {"cpu", FIELD_NUMBER, .optional = true, .max = 1024, .help = "cores for each RUN"},
    {"disk", FIELD_INT, .optional = true, .clamp = true, .min = DISK_MB_MIN, .max = DISK_MB_MAX,
     .help = "MB of disk for each RUN"},
    {"network", FIELD_NETWORK, .optional = true, .max = NETWORK_TEXT_MAX,
     .help =
         "what each RUN may reach, as in a create; nothing when absent, or what a cay.json says"},
    {"stepTimeout", FIELD_INT, .optional = true, .min = 1, .max = BUILD_STEP_TIMEOUT_MS / 1000,
     .help = "seconds that a RUN may take; 1800 when absent"},
    {0},
};

const struct function build_functions[] = {
    {"template::build_directory", "POST", "/templates/build", build_fields, build, NULL,
     SCOPE_WRITE, .reach = REACH_NEVER, .flags = FUNCTION_RAW_IN | FUNCTION_EVENTS,
     .done = "template", .key = "template", .body_max = 4 * DOCKERFILE_BYTES_MAX,
     .help = "Builds a template from a Dockerfile or a cay.json; its files come as a tar archive, "
             "application/octet-stream, and the rest in the query",
     .gives = &template_shape, .events = &template_event_shape,
     .errors = ERRORS_BUILD
     " " ERRORS_BUILD_FILES " template_exists template_limit machine_full " ERRORS_NET " "
     "sandbox_limit stopped_limit too_many_layers launcher_lost image_not_installed"},
    {0},
};
