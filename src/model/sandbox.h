#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

struct err;

/* The nouns of the API. JSON forms follow contracts of the REST API: times are Unix milliseconds,
 * timeouts are seconds, memory is MB. */

enum sandbox_state {
    SANDBOX_PREPARED, /* an id whose spec-independent parts are ready; never shown to clients */
    SANDBOX_CREATING,
    SANDBOX_RUNNING,
    SANDBOX_PAUSED,
    SANDBOX_STOPPED, /* its processes are gone (by a call, a reboot, a lost agent), its disk is kept
                        and can be started again; reason says why */
    SANDBOX_REMOVING,
    SANDBOX_STATES,
};

/* By state, ended by NULL. Clients see those from SANDBOX_CREATING on. */
extern const char *const sandbox_state_words[SANDBOX_STATES + 1];

/* What a list can be filtered by, ended by NULL: the states that clients can see, and "expired":
 * the stopped sandboxes whose time was over. */
extern const char *const sandbox_status_words[];
#define SANDBOX_STATUS_EXPIRED "expired"

/* What happens when the time of a sandbox is over, by expiry_stops; ended by NULL. */
extern const char *const sandbox_timeout_words[];

const char *sandbox_state_name(enum sandbox_state state);
int sandbox_state_parse(const char *name, enum sandbox_state *ret); /* 0 or -EINVAL */

/* ERR_CONFLICT naming both states when the move is not allowed. */
int sandbox_check_move(enum sandbox_state from, enum sandbox_state to, struct err *err);

/* What begins so is an id, or meant to be one, and is never looked up as a name. */
#define SANDBOX_ID_START "sbx_"
bool sandbox_name_is_like_id(const char *name);

/* NAME@KEY=VALUE means the sandbox called NAME whose metadata has the entry KEY: VALUE. The first
 * "@KEY=" that has a NAME before it cuts the text; KEY is not empty and has no @ and no =. */
struct sandbox_selector {
    char *name, *key;
    const char *value; /* a part of the text */
};

/* False when the text is no selector. */
bool sandbox_selector_parse(const char *text, struct sandbox_selector *ret);
void sandbox_selector_done(struct sandbox_selector *s);
#define auto_selector __attribute__((cleanup(sandbox_selector_done)))

/* What a sandbox is given at least, and at most whatever the operator says: his own ceilings
 * (CAY_MAX_…) are below. */
#define MEMORY_MB_MIN  64
#define MEMORY_MB_MAX  (1 << 24)
#define CPU_MILLIS_MIN 500
#define CPU_MILLIS_MAX 1024000
#define PIDS_MIN       16
#define PIDS_MAX       (1 << 22) /* the kernel has no more */
#define TIMEOUT_S_MIN  60
#define TIMEOUT_S_MAX  315360000 /* ten years */
#define IDLE_S_MAX     TIMEOUT_S_MAX
#define DISK_MB_MIN    64
#define DISK_MB_MAX    (1 << 20)

struct sandbox_limits {
    uint32_t memory_mb;
    uint32_t cpu_millis; /* thousandths of a core */
    uint32_t pids;
    uint32_t disk_mb;
};

/* The most that a caller may ask for. */
struct sandbox_ceilings {
    uint32_t memory_mb, cpu_millis, pids;
    uint32_t timeout_s; /* 0 = none, and a caller may ask for no end at all */
};

struct sandbox_spec {
    char *image;        /* echoed verbatim */
    char *name;         /* NULL = the id */
    uint32_t timeout_s; /* 0 = it has no end */
    uint32_t idle_s;    /* it is stopped when nothing was done with it for so long; 0 = never */
    bool idle_removes;  /* and then it is removed instead */
    bool expiry_stops;  /* when its time is over it is stopped; else it is removed */
    struct sandbox_limits limits;
    json_t
        *network; /* NULL = none, true, or an object: what it may reach (docs/network-policy.md) */
    json_t *networks; /* ids of the named networks that it is in; NULL = none */
    char *workdir;
    json_t *env;          /* object of strings; changes with env set and delete */
    json_t *metadata;     /* object of strings */
    char **entrypoint;    /* NULL = none: the box just stays up */
    char *template;       /* what the template was called that it was made from; NULL = none */
    char *template_build; /* the image that the template had become then; NULL = none */
    json_t *mounts;       /* model/mount.h: changes with attach and detach; NULL = none */
    json_t *ports;        /* model/port.h: changes with expose and unexpose; NULL = none */
};

/* What has no end is said to end in the year 2200: to compare it needs no rule of its own, and a
 * daemon of before, which knows only times, keeps it. Callers see 0. */
#define EXPIRES_NEVER 7258118400000

/* When a life of so many seconds (0 = no end) that begins now is over. */
int64_t sandbox_expiry(int64_t now_ms, uint32_t timeout_s);

void sandbox_spec_done(struct sandbox_spec *spec);

/* Is it the same to be made with? NULL = none. */
bool sandbox_network_same(const json_t *a, const json_t *b);

/* The `config` object of the contract, and back again from a stored row. */
json_t *sandbox_spec_json(const struct sandbox_spec *spec);
int sandbox_spec_load(const json_t *config, struct sandbox_spec *ret, struct err *err);

/* A background exec. */
struct exec_record {
    char id[ID_SIZE]; /* bg_… */
    char sandbox_id[ID_SIZE];
    char *command;
    uint32_t pid;
    int64_t started_ms;
};
