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
