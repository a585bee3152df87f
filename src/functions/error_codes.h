#pragma once

#include <stdbool.h>

/* Every code that an answer can have. Rows list those of their own, by name; the others can come
 * from any row: from the way to it, from its input or from the daemon's own trouble. */
struct error_code {
    const char *code;
    int status, also; /* of the answers that have it; also: 0 = always the same */
    bool general;     /* from any row */
    bool elsewhere;   /* only from rows that have no route, so that documents of REST lack it */
    const char *help; /* one line: what it means */
};

extern const struct error_code error_codes[]; /* ends with {0} */

/* NULL when there is none. The name need not end at its end. */
const struct error_code *error_code_find(const char *code, unsigned long len);

/* What rows have in common, for .errors. */
/* Of what comes up with a network. */
#define ERRORS_NET  "bad_policy network_unsupported network_full gateway_down gateway_failed"
#define ERRORS_GONE "sandbox_not_found sandbox_expired sandbox_removed"
#define ERRORS_AGENT                                                                               \
    ERRORS_GONE " sandbox_not_running agent_lost agent_timeout agent_protocol sandbox_busy "       \
                "limit disk_damaged"
#define ERRORS_COMMAND                                                                             \
    ERRORS_AGENT                                                                                   \
    " sandbox_draining bad_cwd bad_user command_not_found not_executable process_limit "           \
    "permission_denied"
#define ERRORS_PATH "file_not_found not_a_file not_a_directory is_a_directory"
#define ERRORS_FILE                                                                                \
    ERRORS_AGENT " " ERRORS_PATH " " ERRORS_BOOT " path_traversal permission_denied no_space "     \
                 "conflict"
#define ERRORS_VOLUME "volume_not_found"
/* Of what names networks to be in. */
#define ERRORS_JOIN "network_not_found network_limit"
#define ERRORS_MOUNT                                                                               \
    ERRORS_VOLUME " mount_limit mount_path_taken mount_unmappable bad_mount_path bad_sub_path "    \
                  "volume_attached volume_limit volume_busy bad_bind bind_not_allowed"
#define ERRORS_PORT "port_in_use port_exposed port_limit port_not_allowed address_not_allowed"
/* Of a box that is brought up again, with all that the sandbox has. */
#define ERRORS_BOOT                                                                                \
    ERRORS_VOLUME " mount_unmappable bad_mount_path bad_sub_path bad_bind bind_not_allowed "       \
                  "machine_full launcher_lost image_not_found " ERRORS_NET
#define ERRORS_VOLUME_FILE ERRORS_VOLUME " " ERRORS_PATH " path_traversal no_space disk_damaged"
#define ERRORS_IMAGE_NAME  "image_not_found bad_image_name ambiguous_image"
#define ERRORS_WORKER                                                                              \
    "bad_image bad_config bad_manifest digest_mismatch image_too_large no_space cancelled "        \
    "image_worker_died image_limit"
#define ERRORS_PULL                                                                                \
    ERRORS_IMAGE_NAME " " ERRORS_WORKER " image_not_allowed image_pull_failed registry_denied "    \
                      "bad_registry_auth bad_registry_config bad_docker_config bad_platform "      \
                      "no_platform pull_limit"
#define ERRORS_BUILD_FILES                                                                         \
    "bad_dockerfile no_source no_stage no_context context_too_large read_only file_not_found "     \
    "not_a_directory is_a_directory bad_path"
#define ERRORS_BUILD ERRORS_PULL " " ERRORS_COMMAND " build_failed too_many_steps"
