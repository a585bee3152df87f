#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/args.h"

/* Exit statuses of cay itself; run and exec give the command's own. */
enum {
    STATUS_OK = 0,
    STATUS_FAILED = 1,
    STATUS_USAGE = 2,
    STATUS_NO_DAEMON = 69, /* EX_UNAVAILABLE of sysexits.h */
    STATUS_TIMEOUT = 124,
    STATUS_CAY = 125, /* run and exec: cay failed, not the command */
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNAL = 128, /* + signal */
};

struct command {
    const char *name;  /* one word, or two: "file read" */
    const char *alias; /* other names, separated by ", "; NULL = none */
    const char *usage; /* what follows the name; several lines = several ways */
    const char *help;  /* one line, no full stop */
    const char *about; /* paragraphs; NULL = none */
    const char *examples;
    const struct flag *flags; /* ended by {0}; NULL = none */
    size_t words_min, words_max;
    bool rest; /* takes a command line after its first word, or after "--" */
    /* What completion offers for each word, as names of completion.c: "sandbox", "sandbox job",
     * "sandbox..." for any number; NULL = nothing. */
    const char *offers;
    int (*run)(struct args *args); /* NULL: handled before this table is reached (serve) */
    bool apart;    /* the command line stands behind "--" only, and flags anywhere before it */
    bool own_help; /* --help behind a word is for it to answer */
};

/* The one table; ended by {0}. */
extern const struct command commands[];

/* The command that argv starts with; *ret_used is how many words its name took. NULL if unknown. */
const struct command *command_find(int argc, char **argv, int *ret_used);

/* Is word one of the command's other names? */
bool command_is_alias(const struct command *command, const char *word);

/* Other names that are not in the table but begin one there ("file", "image")? */
bool command_is_group(const char *word);

int cmd_run(struct args *args);
int cmd_create(struct args *args);
int cmd_exec(struct args *args);
int cmd_attach(struct args *args);
int cmd_shell(struct args *args);
int cmd_code(struct args *args);
int cmd_context_create(struct args *args);
int cmd_context_ls(struct args *args);
int cmd_context_restart(struct args *args);
int cmd_context_interrupt(struct args *args);
int cmd_context_rm(struct args *args);
int cmd_ls(struct args *args);
int cmd_inspect(struct args *args);
int cmd_logs(struct args *args);
int cmd_events(struct args *args);
int cmd_pause(struct args *args);
int cmd_resume(struct args *args);
int cmd_stop(struct args *args);
int cmd_touch(struct args *args);
int cmd_update(struct args *args);
int cmd_start(struct args *args);
int cmd_rm(struct args *args);
int cmd_kill(struct args *args);
int cmd_renew(struct args *args);
int cmd_jobs(struct args *args);
int cmd_job_logs(struct args *args);
int cmd_job_stop(struct args *args);
int cmd_job_wait(struct args *args);
int cmd_queue_submit(struct args *args);
int cmd_queue_ls(struct args *args);
int cmd_queue_status(struct args *args);
int cmd_queue_logs(struct args *args);
int cmd_queue_cancel(struct args *args);
int cmd_queue_dlq(struct args *args);
int cmd_net_show(struct args *args);
int cmd_net_set(struct args *args);
int cmd_net_explain(struct args *args);
int cmd_net_log(struct args *args);
int cmd_env_list(struct args *args);
int cmd_env_get(struct args *args);
int cmd_env_set(struct args *args);
int cmd_env_unset(struct args *args);
int cmd_top(struct args *args);
int cmd_cp(struct args *args);
int cmd_file_read(struct args *args);
int cmd_file_write(struct args *args);
int cmd_file_ls(struct args *args);
int cmd_file_watch(struct args *args);
int cmd_file_rm(struct args *args);
int cmd_file_upload(struct args *args);
int cmd_ps(struct args *args);
int cmd_stats(struct args *args);
int cmd_image_ls(struct args *args);
int cmd_image_pull(struct args *args);
int cmd_image_import(struct args *args);
int cmd_image_export(struct args *args);
int cmd_image_commit(struct args *args);
int cmd_image_tag(struct args *args);
int cmd_image_rm(struct args *args);
int cmd_image_prune(struct args *args);
int cmd_image_inspect(struct args *args);
int cmd_image_catalog(struct args *args);
int cmd_snapshot_create(struct args *args);
int cmd_snapshot_ls(struct args *args);
int cmd_snapshot_inspect(struct args *args);
int cmd_snapshot_label(struct args *args);
int cmd_snapshot_restore(struct args *args);
int cmd_snapshot_clone(struct args *args);
int cmd_snapshot_rm(struct args *args);
int cmd_snapshot_export(struct args *args);
int cmd_snapshot_import(struct args *args);
int cmd_diff(struct args *args);
int cmd_fork(struct args *args);
int cmd_template_ls(struct args *args);
int cmd_template_show(struct args *args);
int cmd_template_create(struct args *args);
int cmd_template_build(struct args *args);
int cmd_template_rm(struct args *args);
int cmd_network_create(struct args *args);
int cmd_network_ls(struct args *args);
int cmd_network_inspect(struct args *args);
int cmd_network_rm(struct args *args);
int cmd_network_connect(struct args *args);
int cmd_network_disconnect(struct args *args);
int cmd_volume_create(struct args *args);
int cmd_volume_ls(struct args *args);
int cmd_url(struct args *args);
int cmd_audit(struct args *args);
int cmd_audit_verify(struct args *args);
int cmd_audit_head(struct args *args);
int cmd_webhook_create(struct args *args);
int cmd_webhook_ls(struct args *args);
int cmd_webhook_rm(struct args *args);
int cmd_webhook_test(struct args *args);
int cmd_webhook_deliveries(struct args *args);
int cmd_webhook_pause(struct args *args);
int cmd_webhook_resume(struct args *args);
int cmd_token_create(struct args *args);
int cmd_token_ls(struct args *args);
int cmd_token_revoke(struct args *args);
int cmd_alert_set(struct args *args);
int cmd_alert_ls(struct args *args);
int cmd_alert_history(struct args *args);
int cmd_alert_rm(struct args *args);
int cmd_pool_ls(struct args *args);
int cmd_pool_add(struct args *args);
int cmd_pool_rm(struct args *args);
int cmd_volume_inspect(struct args *args);
int cmd_volume_rm(struct args *args);
int cmd_volume_cp(struct args *args);
int cmd_volume_attach(struct args *args);
int cmd_volume_detach(struct args *args);
int cmd_port(struct args *args);
int cmd_port_add(struct args *args);
int cmd_port_rm(struct args *args);
int cmd_forward(struct args *args);
int cmd_mcp(struct args *args);
int cmd_mcp_install(struct args *args);
int cmd_mcp_uninstall(struct args *args);
int cmd_sandbox_run(struct args *args);
int cmd_sandbox_create(struct args *args);
int cmd_sandbox_exec(struct args *args);
int cmd_sandbox_list(struct args *args);
int cmd_sandbox_stop(struct args *args);
int cmd_sandbox_upload(struct args *args);
int cmd_sandbox_download(struct args *args);
int cmd_trigger(struct args *args);
int cmd_doctor(struct args *args);
int cmd_version(struct args *args);
int cmd_completion(struct args *args);
int cmd_help(struct args *args);
