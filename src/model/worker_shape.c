#include "model/shapes.h"

#define EXAMPLE_WORKER_ID "\"wrk_1f7c3a9e5b2d4f6e8a0c1b3d\""

static const struct field memory_fields[] = {
    {"totalMb", FIELD_INT, .example = "16384", .help = "of the machine"},
    {"freeMb", FIELD_INT, .example = "8192", .help = "that nothing uses, not even as a cache"},
    {0},
};
static const struct shape memory_shape = {"WorkerMemory", memory_fields,
                                          .help = "memory of a machine"};

static const struct field worker_fields[] = {
    {"workerId", FIELD_STRING, .example = EXAMPLE_WORKER_ID,
     .help = "wrk_ and 24 hex digits: the same after a restart"},
    {"hostname", FIELD_STRING, .example = "\"node1\"", .help = "of the machine"},
    {"activeSandboxes", FIELD_INT, .example = "3", .help = "that run or are paused"},
    {"stoppedSandboxes", FIELD_INT, .example = "0", .help = "whose disks are kept"},
    {"maxSandboxes", FIELD_INT, .example = "1000", .help = "how many there may be in all"},
    {"cpuPercent", FIELD_NUMBER, .example = "12.5",
     .help = "of all cores of the machine, since the look before"},
    {"cores", FIELD_INT, .example = "8", .help = "of the machine"},
    {"memory", FIELD_OBJECT, .of = &memory_shape, .help = "of the machine"},
    {"diskFreeMb", FIELD_INT, .example = "76800", .help = "where the disks of sandboxes are"},
    {"version", FIELD_STRING, .example = "\"0.1.0\"", .help = "of cay"},
    {"lastHeartbeat", FIELD_INT, .example = "1767225600000", .help = "now, in Unix milliseconds"},
    {0},
};
const struct shape worker_shape = {"Worker", worker_fields, .help = "a machine with sandboxes"};

static const struct field list_fields[] = {
    {"workers", FIELD_ARRAY, .of = &worker_shape, .help = "this machine"},
    {"alive", FIELD_INT, .example = "1", .help = "how many answer"},
    {"dead", FIELD_INT, .example = "0", .help = "how many do not"},
    {0},
};
const struct shape worker_list_shape = {"WorkerList", list_fields,
                                        .help = "the machines with sandboxes"};

static const struct field selected_fields[] = {
    {"workerId", FIELD_STRING, .example = EXAMPLE_WORKER_ID, .help = "that has room"},
    {0},
};
const struct shape worker_selected_shape = {"WorkerSelected", selected_fields,
                                            .help = "where another sandbox can be made"};

static const struct field reaped_fields[] = {
    {"reaped", FIELD_INT, .example = "0", .help = "machines that did not answer"},
    {"reassigned", FIELD_INT, .example = "0", .help = "sandboxes of theirs that were taken over"},
    {"expired", FIELD_INT, .example = "0", .help = "sandboxes of theirs that are lost"},
    {0},
};
const struct shape workers_reaped_shape = {"WorkersReaped", reaped_fields,
                                           .help = "what was done about machines that are gone"};

static const struct field migrated_fields[] = {
    {"migrated", FIELD_INT, .example = "0", .help = "sandboxes that had no machine yet"},
    {0},
};
const struct shape workers_migrated_shape = {"WorkersMigrated", migrated_fields,
                                             .help = "what was given to this machine"};
