#include "model/shapes.h"

#define EXAMPLE_DIGEST "\"sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\""

static const struct field auth_fields[] = {
    {"username", FIELD_STRING, .min = 1, .max = 1024, .example = "\"me\"",
     .help = "at the registry"},
    {"password", FIELD_STRING, .max = 65536, .example = "\"secret\"", .help = "or a token"},
    {0},
};
const struct shape registry_auth_shape = {"RegistryAuth", auth_fields,
                                          .help = "who pulls an image"};

static const struct field image_fields[] = {
    {"name", FIELD_STRING, .example = "\"python:3.12-slim\"", .help = "what it is called here"},
    {"id", FIELD_STRING, .example = EXAMPLE_DIGEST, .help = "digest of its configuration, or host"},
    {"digest", FIELD_STRING, .example = EXAMPLE_DIGEST, .help = "in its registry; else empty"},
    {"origin", FIELD_STRING, .example = "\"docker.io/library/python:3.12-slim\"",
     .help = "where it came from"},
    {"platform", FIELD_STRING, .example = "\"linux/amd64\"", .help = "whose programs it has"},
    {"workdir", FIELD_STRING, .example = "\"\"", .help = "where commands start; may be empty"},
    {"user", FIELD_STRING, .example = "\"\"", .help = "who runs them; empty = root"},
    {"stopSignal", FIELD_STRING, .example = "\"SIGTERM\"", .help = "ends its main process"},
    {"size", FIELD_INT, .example = "128450560", .help = "bytes on disk"},
    {"createdAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"pulledAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"usedAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds; 0 = never"},
    {"layers", FIELD_INT, .example = "4", .help = "how many"},
    {"inUse", FIELD_BOOL, .example = "true", .help = "a sandbox is made from it"},
    {"env", FIELD_STRINGS, .example = "[\"PATH=/usr/local/bin:/usr/bin:/bin\"]",
     .help = "NAME=VALUE"},
    {"entrypoint", FIELD_STRINGS, .example = "[]", .help = "of its main process"},
    {"cmd", FIELD_STRINGS, .example = "[\"python3\"]", .help = "follows the entrypoint"},
    {"ports", FIELD_STRINGS, .example = "[]", .help = "as 8080/tcp"},
    {"labels", FIELD_STRING_MAP, .example = "{}", .help = "of its maker"},
    {"warnings", FIELD_STRINGS, .optional = true,
     .help = "of a commit: which files the image does not have, and why; of an import: what its "
             "name stands for"},
    {0},
};
const struct shape image_shape = {"Image", image_fields,
                                  .help = "a file system that sandboxes start from"};

static const struct field list_fields[] = {
    {"images", FIELD_ARRAY, .of = &image_shape, .help = "on this machine"},
    {0},
};
const struct shape image_list_shape = {"ImageList", list_fields,
                                       .help = "the images of this machine"};

static const char *const kind_words[] = {"preset", "custom", NULL};

static const struct field short_name_fields[] = {
    {"name", FIELD_STRING, .example = "\"python\"", .help = "short"},
    {"reference", FIELD_STRING, .example = "\"docker.io/library/python:3.12-slim\"",
     .help = "what it stands for"},
    {"kind", FIELD_STRING, .choices = kind_words, .help = "cay's own, or the operator's"},
    {0},
};
static const struct shape short_name_shape = {"ImageShortName", short_name_fields,
                                              .help = "a name and what it stands for"};

static const struct field catalog_fields[] = {
    {"images", FIELD_ARRAY, .of = &short_name_shape, .help = "presets first"},
    {0},
};
const struct shape image_catalog_shape = {"ImageCatalog", catalog_fields,
                                          .help = "the short names of images"};

static const struct field deleted_fields[] = {
    {"deleted", FIELD_STRING, .example = "\"python:3.12-slim\"", .help = "as it was asked for"},
    {0},
};
const struct shape image_deleted_shape = {"ImageDeleted", deleted_fields,
                                          .help = "an image that is gone"};

static const struct field prune_fields[] = {
    {"removed", FIELD_ARRAY, .of = &image_shape, .help = "that went, or would go"},
    {"bytes", FIELD_INT, .example = "128450560", .help = "that this frees"},
    {"dryRun", FIELD_BOOL, .example = "false", .help = "true when nothing went"},
    {0},
};
const struct shape image_prune_shape = {"ImagePrune", prune_fields,
                                        .help = "images that were not used"};

/* ---- events, while an image comes ---- */

static const char *const resolving_word[] = {"resolving", NULL};
static const char *const resolved_word[] = {"resolved", NULL};
static const char *const layer_word[] = {"layer", NULL};
static const char *const storing_word[] = {"storing", NULL};
static const char *const done_word[] = {"done", NULL};
static const char *const error_word[] = {"error", NULL};
static const char *const layer_states[] = {"waiting", "downloading", "unpacking",
                                           "done",    "present",     NULL};

static const struct field resolving_fields[] = {
    {"event", FIELD_STRING, .choices = resolving_word, .help = "the registry is asked"},
    {"reference", FIELD_STRING, .example = "\"docker.io/library/python:3.12-slim\"",
     .help = "for what"},
    {0},
};
const struct shape resolving_event_shape = {"ResolvingEvent", resolving_fields,
                                            .help = "the registry is asked for an image"};

static const struct field resolved_fields[] = {
    {"event", FIELD_STRING, .choices = resolved_word, .help = "what will come is known"},
    {"reference", FIELD_STRING, .example = "\"docker.io/library/python:3.12-slim\"",
     .help = "what was asked for"},
    {"digest", FIELD_STRING, .example = EXAMPLE_DIGEST, .help = "of the manifest"},
    {"platform", FIELD_STRING, .example = "\"linux/amd64\"", .help = "whose programs it has"},
    {"layers", FIELD_INT, .example = "4", .help = "how many"},
    {"bytes", FIELD_INT, .example = "46137344", .help = "of all of them, compressed"},
    {0},
};
const struct shape resolved_event_shape = {"ResolvedEvent", resolved_fields,
                                           .help = "the registry has said what an image is"};

static const struct field layer_fields[] = {
    {"event", FIELD_STRING, .choices = layer_word, .help = "a layer has come further"},
    {"index", FIELD_INT, .example = "0", .help = "counted from 0, the lowest first"},
    {"digest", FIELD_STRING, .example = EXAMPLE_DIGEST, .help = "may be empty in an import"},
    {"state", FIELD_STRING, .choices = layer_states, .example = "\"downloading\"",
     .help = "present: it was here already"},
    {"downloaded", FIELD_INT, .example = "1048576", .help = "bytes"},
    {"total", FIELD_INT, .example = "29360128", .help = "bytes; 0 = not known"},
    {"unpacked", FIELD_INT, .example = "3145728", .help = "bytes on disk"},
    {0},
};
const struct shape layer_event_shape = {"LayerEvent", layer_fields,
                                        .help = "how far a layer has come"};

static const struct field storing_fields[] = {
    {"event", FIELD_STRING, .choices = storing_word, .help = "all is here and is made to last"},
    {0},
};
const struct shape storing_event_shape = {"StoringEvent", storing_fields,
                                          .help = "an image is made to last"};

static const struct field done_fields[] = {
    {"event", FIELD_STRING, .choices = done_word, .help = "the last one"},
    {"image", FIELD_OBJECT, .of = &image_shape, .help = "it is here"},
    {0},
};
static const struct shape done_event_shape = {"DoneEvent", done_fields, .help = "an image is here"};

static const struct field error_event_fields[] = {
    {"event", FIELD_STRING, .choices = error_word, .help = "the last one"},
    {"status", FIELD_INT, .example = "503", .help = "that an answer would have had"},
    {"error", FIELD_STRING, .example = "\"the registry does not answer\"",
     .help = "what was wrong and what to do"},
    {"code", FIELD_STRING, .example = "\"image_pull_failed\"",
     .help = "a stable word for programs"},
    {"command", FIELD_STRING, .optional = true, .help = "of a build: the step that failed"},
    {"output", FIELD_STRING, .optional = true,
     .help = "of a build and of template_not_ready: the last lines of the command's output"},
    {"exitCode", FIELD_INT, .optional = true, .help = "of template_not_ready: the command's"},
    {0},
};
const struct shape error_event_shape = {"ErrorEvent", error_event_fields, .help = "it failed"};

static const struct shape *const pull_events[] = {
    &resolving_event_shape,
    &resolved_event_shape,
    &layer_event_shape,
    &storing_event_shape,
    &done_event_shape,
    &error_event_shape,
    NULL,
};
const struct shape pull_event_shape = {"PullEvent", .one_of = pull_events,
                                       .help = "what happens, then the image or an error"};
