#include "model/limits.h"
#include "model/shapes.h"

#define TEXT_(n)            #n
#define TEXT(n)             TEXT_(n)
#define EXAMPLE_TEMPLATE_ID "\"tpl_1c7a04d9be5f4a53a6e0d2c8\""

static const struct field file_fields[] = {
    {"path", FIELD_STRING, .min = 1, .max = PATH_BYTES_MAX, .example = "\"/app/main.py\"",
     .help = "where it is in the sandbox; not absolute: below workdir"},
    {"content", FIELD_STRING, .optional = true, .example = "\"print('hello')\\n\"",
     .help = "text of the file; not told in lists"},
    {"source", FIELD_STRING, .optional = true, .max = PATH_BYTES_MAX,
     .help = "in cay.json, in place of content: a file or folder beside it"},
    {"mode", FIELD_STRING, .optional = true, .max = 4, .example = "\"0755\"",
     .help = "octal; 0644 when absent, or as the source"},
    {"size", FIELD_INT, .optional = true, .example = "15", .help = "bytes, told in lists"},
    {0},
};
static const struct shape template_file_shape = {"TemplateFile", file_fields,
                                                 .help = "a file that a template brings along"};

static const struct field command_value = {
    .type = FIELD_COMMAND, .max = ARG_BYTES_MAX, .example = "\"pip install requests\""};
static const struct shape setup_command_shape = {
    "SetupCommand", .value = &command_value,
    .help = "a text for the shell, or a program with its arguments"};

static const struct field config_fields[] = {
    {"image", FIELD_STRING, .min = 1, .max = IMAGE_NAME_MAX, .example = "\"python:3.12-slim\"",
     .help = "image to begin with"},
    {"timeout", FIELD_INT, .optional = true, .min = 0, .max = 315360000,
     .help = "seconds that a sandbox lives, as in a create"},
    {"memory", FIELD_INT, .optional = true, .min = 0, .max = 1 << 24, .help = "MB of memory"},
    {"cpu", FIELD_NUMBER, .optional = true, .min = 0, .max = 1024, .help = "cores"},
    {"pids", FIELD_INT, .optional = true, .min = 0, .max = 1 << 22,
     .help = "processes and threads at a time"},
    {"disk", FIELD_INT, .optional = true, .min = 0, .max = 1 << 20, .help = "MB of disk"},
    {"network", FIELD_NETWORK, .optional = true, .max = NETWORK_TEXT_MAX,
     .of = &network_policy_shape, .help = "what it may reach, as in a create"},
    {"env", FIELD_STRING_MAP, .optional = true, .max = ARG_BYTES_MAX,
     .help = "environment of every command, also of setup"},
    {"workdir", FIELD_STRING, .optional = true, .max = PATH_BYTES_MAX,
     .help = "where commands start, also those of setup"},
    {"user", FIELD_STRING, .optional = true, .max = 256,
     .help = "who runs commands: name, uid, or either with :group; setup runs as the image's user"},
    {"metadata", FIELD_STRING_MAP, .optional = true, .max = 65536,
     .help = "kept with each sandbox"},
    {"entrypoint", FIELD_STRINGS, .optional = true, .max = ARG_BYTES_MAX,
     .help = "main process, as arguments"},
    {"runEntrypoint", FIELD_BOOL, .optional = true,
     .help = "the image's own entrypoint and command are the main process"},
    {"files", FIELD_ARRAY, .optional = true, .of = &template_file_shape,
     .help = "written before setup"},
    {"setup", FIELD_ARRAY, .optional = true, .of = &setup_command_shape,
     .help = "commands that are run once; what they leave is kept as a layer"},
    {"ready", FIELD_COMMAND, .optional = true, .max = ARG_BYTES_MAX,
     .help = "a command that must succeed in a new sandbox before the create answers; tried again "
             "until it does"},
    {"readyTimeout", FIELD_INT, .optional = true, .min = 1, .max = 600,
     .help = "seconds that ready may take in all; " TEXT(TEMPLATE_READY_S) " when absent"},
    {0},
};
const struct shape template_config_shape = {"TemplateConfig", config_fields,
                                            .help = "what its sandboxes are made from"};

static const char *const source_words[] = {"config", "directory", NULL};

static const struct field build_fields[] = {
    {"imageId", FIELD_STRING, .example = "\"sha256:0f3b1c…\"",
     .help = "the image that files and setup have become"},
    {"baseId", FIELD_STRING, .optional = true, .help = "what the image's name meant then"},
    {"source", FIELD_STRING, .choices = source_words, .example = "\"config\"",
     .help = "directory: it was built from a folder, and is built again from there"},
    {"builtAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"durationMs", FIELD_INT, .optional = true, .example = "5210", .help = "of the build"},
    {"steps", FIELD_INT, .optional = true, .example = "3", .help = "of the build"},
    {"size", FIELD_INT, .optional = true, .example = "131072000", .help = "bytes of the image"},
    {"cached", FIELD_BOOL, .optional = true, .help = "true when nothing had to be done"},
    {"stale", FIELD_BOOL, .optional = true,
     .help = "true when the image's name means another image by now"},
    {0},
};
const struct shape template_build_shape = {"TemplateBuild", build_fields,
                                           .help = "what a template was built into"};

static const struct field template_fields[] = {
    {"id", FIELD_STRING, .example = EXAMPLE_TEMPLATE_ID,
     .help = "tpl_ and 24 hex digits; tpl_ and the name of one that is built in"},
    {"name", FIELD_STRING, .example = "\"web\"", .help = "no other template has it"},
    {"description", FIELD_STRING, .example = "\"a web server\"", .help = "for people"},
    {"config", FIELD_OBJECT, .of = &template_config_shape,
     .help = "what its sandboxes are made from"},
    {"builtin", FIELD_BOOL, .help = "true when it is part of cay"},
    {"createdAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"build", FIELD_OBJECT, .optional = true, .of = &template_build_shape,
     .help = "absent when it has no files, setup or user, or was not built yet"},
    {0},
};
const struct shape template_shape = {"Template", template_fields,
                                     .help = "what sandboxes are made from by one word"};

static const struct field list_fields[] = {
    {"templates", FIELD_ARRAY, .of = &template_shape, .help = "built-in ones first, then by age"},
    {0},
};
const struct shape template_list_shape = {"TemplateList", list_fields, .help = "all templates"};

static const struct field deleted_fields[] = {
    {"deleted", FIELD_STRING, .example = EXAMPLE_TEMPLATE_ID, .help = "its id"},
    {0},
};
const struct shape template_deleted_shape = {"TemplateDeleted", deleted_fields,
                                             .help = "a template is gone"};

/* ---- events of a build ---- */

static const char *const step_word[] = {"step", NULL}, *const output_word[] = {"output", NULL},
                         *const step_done_word[] = {"stepDone", NULL},
                         *const template_word[] = {"template", NULL},
                         *const stream_words[] = {"stdout", "stderr", NULL};

static const struct field step_fields[] = {
    {"event", FIELD_STRING, .choices = step_word, .help = "a step begins"},
    {"step", FIELD_INT, .example = "2", .help = "counted from 1"},
    {"steps", FIELD_INT, .example = "5", .help = "in all"},
    {"text", FIELD_STRING, .example = "\"RUN make\"", .help = "what it does"},
    {"line", FIELD_INT, .optional = true, .example = "7", .help = "of its file"},
    {"stage", FIELD_STRING, .optional = true, .help = "of a build with several"},
    {0},
};
const struct shape build_step_event_shape = {"BuildStepEvent", step_fields,
                                             .help = "a step of a build begins"};

static const struct field output_fields[] = {
    {"event", FIELD_STRING, .choices = output_word, .help = "a command says something"},
    {"step", FIELD_INT, .example = "2", .help = "whose command it is"},
    {"stream", FIELD_STRING, .choices = stream_words, .example = "\"stdout\"", .help = "of which"},
    {"data", FIELD_STRING, .example = "\"done\\n\"", .help = "as text"},
    {0},
};
const struct shape build_output_event_shape = {"BuildOutputEvent", output_fields,
                                               .help = "output of a build"};

static const struct field step_done_fields[] = {
    {"event", FIELD_STRING, .choices = step_done_word, .help = "a step is done"},
    {"step", FIELD_INT, .example = "2", .help = "which"},
    {"cached", FIELD_BOOL, .help = "true when it had been done before"},
    {"durationMs", FIELD_INT, .example = "812", .help = "how long it took"},
    {0},
};
const struct shape build_step_done_event_shape = {"BuildStepDoneEvent", step_done_fields,
                                                  .help = "a step of a build is done"};

static const struct field template_event_fields[] = {
    {"event", FIELD_STRING, .choices = template_word, .help = "the last one"},
    {"template", FIELD_OBJECT, .of = &template_shape, .help = "it can be used"},
    {0},
};
static const struct shape template_done_event_shape = {"TemplateEvent", template_event_fields,
                                                       .help = "a template is there"};

static const struct shape *const build_events[] = {
    &resolving_event_shape,       &resolved_event_shape,
    &layer_event_shape,           &storing_event_shape,
    &build_step_event_shape,      &build_output_event_shape,
    &build_step_done_event_shape, &template_done_event_shape,
    &error_event_shape,           NULL,
};
const struct shape template_event_shape = {
    "TemplateBuildEvent", .one_of = build_events,
    .help = "what a pull of the image and a build do, then the template or an error"};
