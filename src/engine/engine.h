#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/pull_policy.h"
#include "model/sandbox.h"

struct budget;
struct engine;
struct err;
struct image_store;
struct runtime;
struct store;

/* What cay can do, once, for every face of it: this header starts and ends an engine, and there is
 * one header for each noun that it deals with (engine/sandboxes.h, exec.h, files.h, env.h,
 * processes.h, images.h, metrics.h). Any thread may call anything; calls on one sandbox that change
 * its state take turns. Everything that needs a running sandbox fails with ERR_CONFLICT otherwise
 * ("Sandbox is not running: paused"), with ERR_NOT_FOUND for an unknown id ("Sandbox not found: …",
 * code sandbox_not_found, sandbox_expired or sandbox_removed). */

/* How long the engine waits, in milliseconds. 0 = the default, which is the number at the start of
 * the comment. Tests set less. */
struct engine_waits {
    uint32_t agent;   /* 30000: for the next bytes of an agent */
    uint32_t look;    /* 1500: without bytes, before it probes the agent; at most half of silent */
    uint32_t silent;  /* 3000: for an agent that answers nothing at all */
    uint32_t turn;    /* 5000: for another call that changes the same sandbox */
    uint32_t server;  /* 5000: for a server in a sandbox to accept a connection */
    uint32_t gateway; /* 5000: for an answer of the network gateway; then another replaces it */
    uint32_t main;    /* 2000: for an entrypoint to end after its stop signal */
    uint32_t overrun; /* 5000: after the timeout of a command, for the agent to end it */
    uint32_t gone;  /* 1000: before rows of removed boxes are deleted, so that one sync is enough */
    uint32_t again; /* 50: after a removal that failed; then four times as long per attempt */
    uint32_t pool;  /* 5000: between two checks of the boxes in the pool when nothing changes */
};

struct engine_config {
    const char *data_dir; /* absolute: where nouns that last have their documents */
    const char *run_dir;  /* absolute: where the gateway's socket is */
    const void *gateway;  /* the program cay-gateway; NULL = no networks */
    size_t gateway_bytes;
    uint16_t api_port; /* of this machine that no sandbox gets to; 0 = none */
    /* As docs/network-policy.md says; NULL = the gateway's own. */
    const char *net_pool, *net_pool6, *net_ipv6, *net_uplink, *net_nameservers;
    const char *default_image;            /* python:3.12-slim */
    uint32_t default_timeout_s;           /* 3600; 0 = no end */
    struct sandbox_limits default_limits; /* 512 MB, 1 core, 1024 pids, 4096 MB */
    struct sandbox_ceilings ceilings;     /* 4096 MB, 4 cores, 4096 pids, a day */
    uint32_t max_sandboxes;               /* 50 */
    uint32_t max_stopped;                 /* 200; 0 = any */
    uint32_t max_snapshots;               /* 1000 */
    uint32_t max_volumes;                 /* 1000 */
    uint32_t max_networks;                /* 256 */
    uint32_t default_volume_mb;           /* 1024 */
    uint32_t volume_delete_s;             /* 30: for a folder of a volume */
    char *const *bind_allow;              /* folders of the host that may be mounted; NULL = none */
    char *const *port_addresses; /* of the host that ports may be on beside its loopback's */
    uint32_t max_templates;      /* 1000, beside those that are built in */
    const char *allowed_images;  /* "*"; these four as policy.h says */
    const char *custom_images, *image_caps;
    bool image_strict;
    bool auto_install;             /* a create may pull */
    enum pull_policy pull_policy;  /* of creates that name none */
    uint64_t image_budget;         /* bytes that images may take after a pull; 0 = any */
    const char *workspace;         /* /workspace */
    uint32_t max_command_s;        /* 300; 0 = any */
    uint32_t stopped_ttl_s;        /* 7 days: how long a stopped one is kept; 0 = for ever */
    uint32_t stopped_disk_percent; /* 25: of the host's disk, for stopped ones; 100 = any */
    uint32_t sweep_s;              /* 30: how often expired sandboxes are looked for */
    uint32_t prepared;             /* 4: how many prepared ids are kept ready */
    uint32_t pool_size;        /* 2: boxes of each profile that are up before they are asked for */
    const char *pool_profiles; /* IMAGE,MEMORY,CPU,NETWORK;… or NULL */
    uint32_t disk_overcommit;  /* 100: disks may add up to so many times what is free; 0 = any */
    uint32_t disk_reserve_mb;  /* of the host's disk that sandboxes do not get; 0 = a share */
    struct budget *memory;     /* that long outputs are taken from; NULL = no bound */
    struct engine_waits waits;
};

int engine_new(const struct engine_config *config, struct store *store, struct image_store *images,
               struct runtime *runtime, struct engine **ret, struct err *err);
/* Adopts what runs, removes what is half-made, starts the background threads. */
int engine_start(struct engine *e, struct err *err);
/* Ends the background threads and removes prepared ids; with stop_sandboxes also every sandbox. */
void engine_stop(struct engine *e, bool stop_sandboxes);
void engine_free(struct engine *e);
const struct engine_config *engine_config(const struct engine *e);

/* The daemon is about to end: pulls and commits end now, and who waits for one is told to come
 * again. */
void engine_drain(struct engine *e);
