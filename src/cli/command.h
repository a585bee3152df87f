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
int cmd_ls(struct args *args);
int cmd_inspect(struct args *args);
int cmd_logs(struct args *args);
int cmd_pause(struct args *args);
int cmd_resume(struct args *args);
int cmd_stop(struct args *args);
int cmd_start(struct args *args);
int cmd_rm(struct args *args);
int cmd_kill(struct args *args);
int cmd_renew(struct args *args);
int cmd_jobs(struct args *args);
int cmd_job_logs(struct args *args);
int cmd_job_stop(struct args *args);
int cmd_job_wait(struct args *args);
int cmd_env_list(struct args *args);
int cmd_env_get(struct args *args);
int cmd_env_set(struct args *args);
int cmd_env_unset(struct args *args);
int cmd_top(struct args *args);
int cmd_cp(struct args *args);
int cmd_file_read(struct args *args);
int cmd_file_write(struct args *args);
int cmd_file_ls(struct args *args);
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
int cmd_volume_create(struct args *args);
int cmd_volume_ls(struct args *args);
int cmd_pool_ls(struct args *args);
int cmd_pool_add(struct args *args);
int cmd_pool_rm(struct args *args);
int cmd_volume_inspect(struct args *args);
int cmd_volume_rm(struct args *args);
int cmd_volume_cp(struct args *args);
int cmd_volume_attach(struct args *args);
int cmd_volume_detach(struct args *args);
int cmd_doctor(struct args *args);
int cmd_version(struct args *args);
int cmd_completion(struct args *args);
int cmd_help(struct args *args);
