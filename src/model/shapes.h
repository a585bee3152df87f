#pragma once

#include "model/shape.h"

/* The nouns and the events of the API, a family a file: <family>_shape.c. */

#define EXAMPLE_SANDBOX_ID    "\"sbx_5f0c1e6b2a9d4c7e8f013b52\""
#define EXAMPLE_EXEC_ID       "\"ex_9b1deb4d3b7d4bad9bdd2b0d\""
#define EXAMPLE_BACKGROUND_ID "\"bg_9b1deb4d3b7d4bad9bdd2b0d\""
#define EXAMPLE_VOLUME_ID     "\"vol_3c5e1a7f9b2d4e6f8a0b1c2d\""
#define EXAMPLE_SNAPSHOT_ID   "\"snap_3f2a9c1e7b5d4e8a9c0b1d2e\""
#define EXAMPLE_IMAGE_ID                                                                           \
    "\"sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\""

/* sandboxes */
extern const struct shape patch_shape;
extern const struct shape sandbox_config_shape, sandbox_shape, sandbox_list_shape,
    create_event_shape;

/* commands */
extern const char *const exec_end_words[]; /* why a command ended */
extern const struct shape exec_result_shape, exec_event_shape, background_exec_shape,
    attach_event_shape, attach_end_shape, exec_logs_shape, interrupt_shape, log_event_shape,
    exec_info_shape, exec_state_shape, exec_list_shape;

/* snapshots */
extern const struct shape snapshot_shape, snapshot_list_shape, snapshot_deleted_shape, fork_shape,
    diff_shape;

/* volumes, and what is mounted */
extern const struct shape mount_shape, volume_mount_shape, tmpfs_mount_shape, volume_shape,
    volume_list_shape, volume_attached_shape, volume_detached_shape, volume_deleted_shape,
    volume_holder_shape;

/* files */
extern const struct shape file_text_shape, file_bytes_shape, file_info_shape, file_list_shape,
    file_meta_shape, file_meta_list_shape, file_meta_answer_shape, file_paths_shape,
    file_move_shape;

/* the environment of commands */
extern const struct shape env_value_shape, env_set_shape, env_list_shape, env_deleted_shape;

/* processes */
extern const struct shape process_list_shape, process_top_shape, process_killed_shape;

/* images and what is told while one comes */
extern const struct shape registry_auth_shape, image_shape, image_list_shape, image_catalog_shape,
    image_deleted_shape, image_prune_shape, pull_event_shape;
extern const struct shape resolving_event_shape, resolved_event_shape, layer_event_shape,
    storing_event_shape, error_event_shape;

/* templates and what is told while one is built */
extern const struct shape template_config_shape, template_build_shape, template_shape,
    template_list_shape, template_deleted_shape, template_event_shape;
extern const struct shape build_step_event_shape, build_output_event_shape,
    build_step_done_event_shape;

/* what is used */
extern const struct shape metrics_shape, global_metrics_shape;

/* the warm pool */
extern const struct shape pool_profile_shape, pool_profiles_shape, pool_status_shape;

/* the daemon itself, and what is common */
extern const struct shape health_shape, info_shape, openapi_shape, sweep_shape, strays_shape,
    success_shape, error_shape;
