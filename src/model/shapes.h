#pragma once

#include "model/shape.h"

/* The nouns and the events of the API, a family a file: <family>_shape.c. */

#define EXAMPLE_SANDBOX_ID    "\"sbx_5f0c1e6b2a9d4c7e8f013b52\""
#define EXAMPLE_SANDBOX_UUID  "\"5f0c1e6b-2a9d-44c7-ba3c-04ed4ae80a2a\""
#define EXAMPLE_JOB_ID        "\"job_000000000000001f5b7d4bad\""
#define EXAMPLE_EXEC_ID       "\"ex_9b1deb4d3b7d4bad9bdd2b0d\""
#define EXAMPLE_BACKGROUND_ID "\"bg_9b1deb4d3b7d4bad9bdd2b0d\""
#define EXAMPLE_CONTEXT_ID    "\"ctx_9b1deb4d3b7d4bad9bdd2b0d\""
#define EXAMPLE_TERMINAL_ID   "\"term_9b1deb4d3b7d4bad9bdd2b0d\""
#define EXAMPLE_VOLUME_ID     "\"vol_3c5e1a7f9b2d4e6f8a0b1c2d\""
#define EXAMPLE_NETWORK_ID    "\"net_7b2e9d4f1c8a4e3b9f6d0a5c\""
#define EXAMPLE_SNAPSHOT_ID   "\"snap_3f2a9c1e7b5d4e8a9c0b1d2e\""
#define EXAMPLE_EVENT_ID      "\"evt_019b76da000000010f3c5a7e\""
#define EXAMPLE_TOKEN_ID      "\"tok_5f0c1e6b2a9d4c7e8f013b52\""
#define EXAMPLE_WEBHOOK_ID    "\"wh_8e1b4d7a2c5f4a9b8d3e6f01\""
#define EXAMPLE_IMAGE_ID                                                                           \
    "\"sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\""

/* sandboxes */
extern const struct shape patch_shape;
extern const struct shape sandbox_config_shape, sandbox_shape, sandbox_list_shape,
    create_event_shape;

/* commands */
extern const char *const exec_end_words[]; /* why a command ended */
extern const char *const job_status_words[];
extern const struct shape job_shape, job_list_shape, job_cancelled_shape, job_purged_shape,
    job_logs_shape;
extern const struct shape exec_result_shape, rlimit_shape, exec_event_shape, background_exec_shape,
    attach_event_shape, attach_end_shape, exec_logs_shape, interrupt_shape, log_event_shape,
    exec_info_shape, exec_state_shape, exec_list_shape;

/* code */
extern const struct shape code_result_shape, code_exception_shape, execution_shape,
    execution_event_shape, installed_shape, kernels_shape, code_context_shape,
    code_context_list_shape;

/* terminals */
extern const struct shape terminal_shape, terminal_list_shape, terminal_size_shape,
    terminal_closed_shape, terminal_event_shape, terminal_exit_shape;

/* snapshots */
extern const struct shape snapshot_shape, snapshot_list_shape, snapshot_deleted_shape, fork_shape,
    diff_shape;

/* volumes, and what is mounted */
extern const struct shape mount_shape, volume_mount_shape, tmpfs_mount_shape, volume_shape,
    volume_list_shape, volume_attached_shape, volume_detached_shape, volume_deleted_shape,
    volume_holder_shape;

/* networks, and what a sandbox may reach */
extern const struct shape network_policy_shape, sandbox_network_shape, network_verdict_shape,
    network_denial_shape, network_log_shape, network_shape, network_list_shape,
    network_connected_shape, network_disconnected_shape, network_deleted_shape;

/* ports on the host */
extern const struct field port_request_fields[];
extern const struct shape port_record_shape, port_request_shape, port_shape, port_list_shape,
    port_removed_shape;

/* files */
extern const struct shape file_text_shape, file_bytes_shape, file_info_shape, file_list_shape,
    file_change_shape, file_meta_shape, file_meta_list_shape, file_meta_answer_shape,
    file_paths_shape, file_move_shape;

/* the environment of commands */
extern const struct shape env_value_shape, env_set_shape, env_list_shape, env_deleted_shape;

/* events */
extern const struct shape event_shape, event_list_shape;

/* alerts */
#define EXAMPLE_ALERT_ID "\"alrt_4d1f8e2a6c3b4f5e9a7d0c1b\""
extern const struct shape alert_shape, alert_list_shape, alert_deleted_shape, alert_history_shape;

/* machines */
extern const struct shape worker_shape, worker_list_shape, worker_selected_shape,
    workers_reaped_shape, workers_migrated_shape;

/* git */
extern const struct shape git_credentials_shape, git_status_shape, git_diff_shape, git_log_shape,
    git_branches_shape, git_event_shape;
/* webhooks */
extern const struct shape webhook_shape, webhook_made_shape, webhook_list_shape,
    webhook_deleted_shape, delivery_shape, delivery_list_shape;

/* processes */
extern const struct shape process_list_shape, process_top_shape, process_killed_shape;

/* requests that are passed on to ports */
extern const struct shape proxy_answer_shape, proxy_config_shape, proxy_signed_shape;

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
extern const struct shape metrics_history_shape;

/* calls that have ended */
extern const struct shape trace_shape, traces_shape, trace_summary_shape, traces_cleared_shape;

/* the warm pool */
extern const struct shape token_shape, token_list_shape;
extern const struct shape audit_list_shape, audit_report_shape;
extern const struct shape pool_interpreter_shape, pool_profile_shape, pool_profiles_shape,
    pool_status_shape;

/* the daemon itself, and what is common */
extern const struct shape health_shape, info_shape, openapi_shape, sweep_shape, strays_shape,
    success_shape, error_shape;

/* the functions of the worker `iii-sandbox` */
extern const struct shape iii_created_shape, iii_stopped_shape, iii_list_shape, iii_catalog_shape,
    iii_exec_shape, iii_run_shape, iii_cancelled_shape, iii_code_file_shape, iii_entry_shape,
    iii_ls_shape, iii_mkdir_shape, iii_written_shape, iii_read_shape, iii_removed_shape,
    iii_updated_shape, iii_moved_shape;

/* searching and replacing in files, for iii */
extern const struct shape iii_grep_match_shape, iii_grep_shape, iii_sed_file_shape, iii_sed_shape;
