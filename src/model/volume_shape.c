#include "model/mount.h"
#include "model/shapes.h"

static const struct field mount_fields[] = {
    {"type", FIELD_STRING, .choices = mount_type_words, .example = "\"volume\"",
     .help = "what is mounted"},
    {"volumeId", FIELD_STRING, .optional = true, .example = EXAMPLE_VOLUME_ID,
     .help = "of a volume"},
    {"path", FIELD_STRING, .optional = true, .help = "on the host, of a bind"},
    {"mountPath", FIELD_STRING, .example = "\"/data\"", .help = "in the sandbox"},
    {"subPath", FIELD_STRING, .optional = true, .help = "the folder of it that is shown"},
    {"readOnly", FIELD_BOOL, .example = "false", .help = "nothing can be written there"},
    {"noexec", FIELD_BOOL, .example = "false", .help = "no program can be started from there"},
    {"sizeMb", FIELD_INT, .optional = true, .help = "of a tmpfs"},
    {0},
};
const struct shape mount_shape = {"Mount", mount_fields,
                                  .help = "what a sandbox has beside its own disk"};

static const struct field volume_mount_fields[] = {
    {"name", FIELD_STRING, .optional = true, .min = 1, .max = VOLUME_NAME_MAX,
     .example = "\"cache\"", .help = "name or id of a volume"},
    {"path", FIELD_STRING, .optional = true, .min = 1, .max = MOUNT_PATH_MAX,
     .help = "in place of a name: a folder of the host, below one of CAY_BIND_ALLOW"},
    {"mountPath", FIELD_STRING, .min = 1, .max = MOUNT_PATH_MAX, .example = "\"/data\"",
     .help = "where it is in the sandbox; made when it is missing"},
    {"readOnly", FIELD_BOOL, .optional = true, .help = "nothing can be written there"},
    {"noexec", FIELD_BOOL, .optional = true, .help = "no program can be started from there"},
    {"subPath", FIELD_STRING, .optional = true, .max = MOUNT_PATH_MAX,
     .help = "the folder of it that is mounted; of a volume it is made when it is missing"},
    {"create", FIELD_BOOL, .optional = true, .help = "make the volume when none has the name"},
    {"sizeMb", FIELD_INT, .optional = true, .min = VOLUME_MB_MIN, .max = VOLUME_MB_MAX,
     .help = "with create: of the new volume (default CAY_DEFAULT_VOLUME)"},
    {0},
};
const struct shape volume_mount_shape = {"VolumeMount", volume_mount_fields,
                                         .help = "what to mount, and where"};

static const struct field tmpfs_mount_fields[] = {
    {"mountPath", FIELD_STRING, .min = 1, .max = MOUNT_PATH_MAX, .example = "\"/scratch\"",
     .help = "where it is in the sandbox; made when it is missing"},
    {"sizeMb", FIELD_INT, .optional = true, .min = 1, .max = 1 << 24,
     .help = "at most the sandbox's memory (default: half of it)"},
    {"readOnly", FIELD_BOOL, .optional = true, .help = "nothing can be written there"},
    {"noexec", FIELD_BOOL, .optional = true, .help = "no program can be started from there"},
    {0},
};
const struct shape tmpfs_mount_shape = {"TmpfsMount", tmpfs_mount_fields,
                                        .help = "a folder in memory"};

static const struct field attachment_fields[] = {
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "who has it"},
    {"mountPath", FIELD_STRING, .example = "\"/data\"", .help = "where"},
    {"readOnly", FIELD_BOOL, .example = "false", .help = "nothing can be written there"},
    {0},
};
static const struct shape attachment_shape = {"VolumeAttachment", attachment_fields,
                                              .help = "a sandbox that has a volume"};

static const struct field volume_fields[] = {
    {"id", FIELD_STRING, .example = EXAMPLE_VOLUME_ID, .help = "vol_ and 24 hex digits"},
    {"name", FIELD_STRING, .example = "\"cache\"", .help = "for people; may repeat"},
    {"dockerVolumeName", FIELD_STRING, .example = EXAMPLE_VOLUME_ID,
     .help = "the id, for clients that want it"},
    {"mountPath", FIELD_STRING, .optional = true, .help = "of the first that has it"},
    {"sandboxId", FIELD_STRING, .optional = true, .help = "the first that has it"},
    {"size", FIELD_STRING, .example = "\"1024MB\"",
     .help = "sizeBytes as a text, which is what public clients take"},
    {"sizeBytes", FIELD_INT, .example = "1073741824",
     .help = "bytes that it can hold, with what the filesystem needs for itself"},
    {"usedBytes", FIELD_INT, .example = "4325376", .help = "what it takes on the host's disk"},
    {"createdAt", FIELD_INT, .example = "1767225600000", .help = "Unix milliseconds"},
    {"attachments", FIELD_ARRAY, .of = &attachment_shape, .help = "who has it, the oldest first"},
    {0},
};
const struct shape volume_shape = {"Volume", volume_fields,
                                   .help = "a folder that outlives sandboxes"};

static const struct field volume_list_fields[] = {
    {"volumes", FIELD_ARRAY, .of = &volume_shape, .help = "the oldest first"},
    {0},
};
const struct shape volume_list_shape = {"VolumeList", volume_list_fields, .help = "all of them"};

static const struct field attached_fields[] = {
    {"attached", FIELD_BOOL, .example = "true", .help = "always true"},
    {"mountPath", FIELD_STRING, .example = "\"/data\"", .help = "where it is in the sandbox"},
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "who has it now"},
    {"volumeId", FIELD_STRING, .example = EXAMPLE_VOLUME_ID, .help = "what"},
    {0},
};
const struct shape volume_attached_shape = {"VolumeAttached", attached_fields,
                                            .help = "it is mounted"};

static const struct field detached_fields[] = {
    {"detached", FIELD_BOOL, .example = "true", .help = "always true"},
    {"sandboxId", FIELD_STRING, .example = EXAMPLE_SANDBOX_ID, .help = "who had it"},
    {"volumeId", FIELD_STRING, .example = EXAMPLE_VOLUME_ID, .help = "what"},
    {"mountPath", FIELD_STRING, .example = "\"/data\"", .help = "where it was"},
    {0},
};
const struct shape volume_detached_shape = {"VolumeDetached", detached_fields,
                                            .help = "it is not mounted any more"};

static const struct field deleted_fields[] = {
    {"deleted", FIELD_STRING, .example = EXAMPLE_VOLUME_ID, .help = "its id"},
    {0},
};
const struct shape volume_deleted_shape = {"VolumeDeleted", deleted_fields,
                                           .help = "it is gone, with all that was in it"};

static const struct field holder_fields[] = {
    {"pid", FIELD_INT, .example = "15", .help = "as the sandbox knows it"},
    {"command", FIELD_STRING, .example = "\"sleep 1000\"", .help = "its command line"},
    {"path", FIELD_STRING, .example = "\"/data/log\"", .help = "what it has open, or is in"},
    {0},
};
const struct shape volume_holder_shape = {"VolumeHolder", holder_fields,
                                          .help = "a process that uses a volume"};
