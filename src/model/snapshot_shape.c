#include "model/shapes.h"

static const struct field snapshot_fields[] = {
    {"id", FIELD_STRING, .example = EXAMPLE_SNAPSHOT_ID, .help = "snap_ and 24 hex digits"},
    {"snapshotId", FIELD_STRING, .example = EXAMPLE_SNAPSHOT_ID, .help = "the same as id"},
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID,
     .help = "whose disk it was; that sandbox may be gone"},
    {"name", FIELD_STRING, .example = "\"before the upgrade\"",
     .help = "for people; the id when none was given"},
    {"imageId", FIELD_STRING, .example = EXAMPLE_IMAGE_ID, .help = "of the image that it is"},
    {"size", FIELD_INT, .example = "1048576",
     .help = "bytes that it takes beside what the sandbox was made from"},
    {"createdAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"config", FIELD_OBJECT, .optional = true, .of = &sandbox_config_shape,
     .help = "of the sandbox, which clones get"},
    {"entrypoint", FIELD_STRINGS, .optional = true, .help = "of the sandbox, which clones get"},
    {"metadata", FIELD_STRING_MAP, .optional = true, .help = "of the sandbox, which clones get"},
    {"labels", FIELD_STRING_MAP, .optional = true, .example = "{\"step\": \"3\"}",
     .help = "of the caller"},
    {"warnings", FIELD_STRINGS, .optional = true,
     .help = "of a new one: which files it does not have, and why"},
    {0},
};
const struct shape snapshot_shape = {"Snapshot", snapshot_fields,
                                     .help = "what the disk of a sandbox was at one moment"};

static const struct field list_fields[] = {
    {"snapshots", FIELD_ARRAY, .of = &snapshot_shape, .help = "the oldest first"},
    {0},
};
const struct shape snapshot_list_shape = {"SnapshotList", list_fields, .help = "snapshots"};

static const struct field deleted_fields[] = {
    {"deleted", FIELD_STRING, .example = EXAMPLE_SNAPSHOT_ID, .help = "its id"},
    {0},
};
const struct shape snapshot_deleted_shape = {"SnapshotDeleted", deleted_fields,
                                             .help = "a snapshot is gone"};

static const struct field fork_fields[] = {
    {"sandboxes", FIELD_ARRAY, .of = &sandbox_shape, .help = "the new ones"},
    {0},
};
const struct shape fork_shape = {"Fork", fork_fields, .help = "clones of one sandbox"};

static const char *const kind_words[] = {"A", "M", "D", NULL};
static const char *const type_words[] = {"file", "directory", "symlink", "other", NULL};

static const struct field change_fields[] = {
    {"kind", FIELD_STRING, .choices = kind_words, .example = "\"M\"",
     .help = "added, modified or deleted"},
    {"path", FIELD_STRING, .example = "\"/etc/hosts\"", .help = "in the sandbox"},
    {"type", FIELD_STRING, .choices = type_words, .example = "\"file\"", .help = "what it is"},
    {"size", FIELD_INT, .example = "12", .help = "bytes of a file"},
    {0},
};
static const struct shape change_shape = {"Change", change_fields, .help = "of one path"};

static const struct field diff_fields[] = {
    {"changes", FIELD_ARRAY, .of = &change_shape, .help = "by path"},
    {"truncated", FIELD_BOOL, .example = "false", .help = "true when there are more"},
    {0},
};
const struct shape diff_shape = {"Diff", diff_fields, .help = "what a sandbox changed"};
