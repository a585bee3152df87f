#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "functions/iii.h"

struct err;

/* What `cay serve` is told: a file of settings of iii if there is one, then the environment, then
 * flags. What comes later wins. */

enum config_log_format { LOG_AS_TEXT, LOG_AS_JSON };

/* Of the engine whose worker we are. */
struct link_config {
    bool worker;                    /* `cay worker`: that is what we are for */
    char *url;                      /* NULL = there is none */
    char *token, *name, *namespace; /* NULL = none */
    bool extra, standby;
    uint32_t retry_ms; /* ms between two checks which worker owns our functions */
    int lifeline_fd;   /* that ends with the engine that started us; -1 = none */
};

#define LISTENERS_MAX 8

/* Of iii's protocol, beside the first, and only in a file of settings. */
struct listener_config {
    char *place; /* where the file has it, for messages */
    char *host;
    uint32_t port;
};

struct daemon_config {
    char *data, *run;
    char *host;
    uint32_t port; /* 0 = any free one */
    char *prefix;
    char *ws_host;
    uint32_t ws_port;   /* of iii's protocol; 0 = none */
    bool ws_port_given; /* somebody has set it: that it is taken is then no small thing */
    struct listener_config listeners[LISTENERS_MAX];
    unsigned n_listeners;
    struct iii_settings iii;
    uint32_t iii_grace_ms;
    struct link_config link;
    bool network;                                       /* may sandboxes have one? */
    char *net_pool, *net_pool6, *net_ipv6, *net_uplink; /* NULL = as the gateway has it */
    char *net_nameservers;
    char *token; /* NULL = none */
    uint32_t max_tokens;
    bool audit;
    uint32_t audit_file_mb, audit_files;
    bool require_token; /* over TCP one of `cay token` is needed even so */
    char *socket_group; /* as sockets.h says; NULL = not named */
    char *default_image, *workspace;
    char *pool_profiles; /* as engine/pool.h says */
    char *allowed_images, *custom_images,
        *image_caps; /* as engine/image_policy.h says; NULL = none */
    bool image_strict, auto_install;
    uint32_t pull_policy;                                              /* enum pull_policy */
    char **insecure_registries, **registry_mirrors, **registry_realms; /* NULL = none */
    char *registry_ca, *docker_config;                                 /* NULL = none */
    uint32_t max_image_mb, image_budget_mb;                            /* of the second 0 = any */
    uint32_t default_timeout, default_memory, default_cpu_millis, default_pids, default_disk;
    uint32_t max_timeout, max_memory, max_cpu_millis, max_pids; /* what a caller may ask for */
    uint32_t max_sandboxes, max_snapshots, max_templates, max_stopped, stopped_disk, stopped_ttl,
        sweep, max_command, prepared;
    uint32_t stop_timeout; /* seconds */
    uint32_t pool_size, max_networks, max_volumes, default_volume_mb, volume_delete,
        launcher_timeout;
    char **port_addresses; /* NULL = none */
    char **bind_allow;     /* NULL = none */
    uint32_t events_max, events_days;
    uint32_t total_memory, total_pids; /* MB, and how many; of all sandboxes; 0 = by the machine */
    char *cgroup;                      /* NULL = as runtime/native/cgroup.h says */
    uint32_t disk_overcommit, disk_reserve_mb; /* of both 0 has a meaning: engine.h */
    char **webhook_allow;                      /* as policy/targets.h says; NULL = none */
    char *webhook_ca;                          /* NULL = none */
    uint32_t max_webhooks, webhook_retry_ms, webhook_retry_hours, webhook_timeout;
    uint32_t queue_concurrency, queue_running, queue_sandbox_max, queue_max, queue_keep, queue_days;
    bool rate_enabled;
    uint32_t rate_rpm, rate_burst, rate_exec_pm, rate_file_pm;
    char **origins, **hosts; /* NULL = none */
    char *proxy_domain;      /* as rest.h says */
    bool traces;
    uint32_t traces_max, metrics_interval;
    char *otlp_endpoint, *otlp_headers,
        *otlp_service; /* service/otlp.h; of the first two NULL = none */
    uint32_t alert_interval;
    bool mcp;
    uint32_t mcp_sessions, mcp_idle, mcp_output;
    uint32_t head_timeout, stall_timeout, drain_timeout; /* seconds */
    uint32_t log_level;                                  /* enum log_level */
    uint32_t log_format;

    bool listen_given; /* on the command line */
    bool insecure, stop_sandboxes, no_tcp, replace, detach, openapi, help;
    int ready_fd, parent_fd; /* -1 = none */
    char *remove;            /* the folder that goes at the end; NULL = none */

    char *config_path;     /* of the file of settings; NULL = none */
    json_t *file;          /* what it says, as config_internal.h has it; NULL = nothing */
    char **file_variables; /* that it names as ${NAME}; NULL = none */
    char **warnings; /* what the environment has that is not as it was meant; NULL = nothing */
};

/* A value that does not parse fails and names the variable or flag: a daemon that guesses is worse
 * than one that does not start. Two things only warn: a number of a variable of the contract
 * (III_), which falls back to its default as it does there, and a CAY_ or III_ variable that nobody
 * reads. Free with config_done, also after a failure. */
int config_read(struct daemon_config *c, int argc, char **argv, struct err *err);
void config_done(struct daemon_config *c);
/* Where the file of settings has the address to listen on, "FILE:7: host"; NULL when the address is
 * of a flag, a variable or the default. */
const char *config_host_place(const struct daemon_config *c);
void config_help(FILE *out, bool worker);
