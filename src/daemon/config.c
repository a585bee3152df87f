#include "daemon/config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/setting.h"
#include "base/str.h"
#include "daemon/config_internal.h"
#include "engine/pool.h"
#include "engine/pull_policy.h"
#include "iii/iii.h"
#include "iii/link.h"
#include "model/mount.h"
#include "model/sandbox.h"
#include "service/otlp.h"
#include "service/webhooks.h"

/* systemd kills a daemon that has not ended after TimeoutStopSec=30 of cay.service. A stop also
 * waits up to 2 s for calls of an engine (worker_mode.c), 3 s for traces that are not sent yet
 * (otlp.c), 2 s for the launcher to end (launcher.c), and 5 s for a gateway that does not answer.
 * Sandboxes outlive a daemon that is killed. */
#define DRAIN_S_MAX 15

enum type {
    TYPE_STRING,
    TYPE_U32,
    TYPE_MILLIS, /* a decimal number, kept in thousandths */
    TYPE_BOOL,
    TYPE_LIST,  /* separated by commas or semicolons */
    TYPE_SWEEP, /* seconds, or the cron text of every n seconds */
    TYPE_LEVEL,
    TYPE_FORMAT,
    TYPE_PULL,
    TYPE_PROFILES,
};

/* Why settings of the public worker's virtual machines do nothing. */
#define NO_MICROVMS "sandboxes are no virtual machines"

#define CONFIG_NOTHING                                                                             \
    ((struct daemon_config){.ready_fd = -1, .parent_fd = -1, .link = {.lifeline_fd = -1}})

/* Less would be no sandbox at all: its agent and the processes beside it count too. */
#define TOTAL_MB_MIN   MEMORY_MB_MIN
#define TOTAL_PIDS_MIN 32

#define TEXT_(n) #n
#define TEXT(n)  TEXT_(n)

static const struct variable {
    const char *name, *other; /* other: the name it has in the contract, or NULL */
    enum type type;
    size_t at;
    double min, max;
    const char *preset, *help;
    bool zero; /* 0 is fine too, whatever min says */
} variables[] = {
    {"CAY_DATA", NULL, TYPE_STRING, AT(data), 0, 0, "/var/lib/cay", "folder of all state"},
    {"CAY_RUN", NULL, TYPE_STRING, AT(run), 0, 0, "/run/cay", "folder of sockets"},
    {"CAY_CONFIG", NULL, TYPE_STRING, AT(config_path), 0, 0, NULL,
     "file of settings of iii, as --config reads it"},
    {"CAY_REST_HOST", NULL, TYPE_STRING, AT(host), 0, 0, "127.0.0.1", "address to listen on"},
    {"CAY_REST_PORT", "III_REST_PORT", TYPE_U32, AT(port), 0, 65535, "3111",
     "port to listen on; 0 = a free one, written to <run>/port"},
    {"CAY_API_PREFIX", "III_API_PREFIX", TYPE_STRING, AT(prefix), 0, 0, "sandbox",
     "first part of every path"},
    {"CAY_WS_HOST", NULL, TYPE_STRING, AT(ws_host), 0, 0, "127.0.0.1",
     "address to listen on for clients and workers of iii"},
    {"CAY_WS_PORT", NULL, TYPE_U32, AT(ws_port), 0, 65535, TEXT(WS_PORT_DEFAULT),
     "port of it, at which iii's own engine is; 0 = none"},
    {"CAY_AUTH_TOKEN", "III_AUTH_TOKEN", TYPE_STRING, AT(token), 0, 0, NULL,
     "what clients send as \"Authorization: Bearer …\""},
    {"CAY_MAX_TOKENS", NULL, TYPE_U32, AT(max_tokens), 0, 100000, "1000",
     "how many tokens of `cay token create` there may be"},
    {"CAY_AUDIT", NULL, TYPE_BOOL, AT(audit), 0, 0, "true",
     "false: who did what is not written down"},
    {"CAY_AUDIT_SIZE", NULL, TYPE_U32, AT(audit_file_mb), 1, 4096, "32",
     "MB of a file of the audit log"},
    {"CAY_AUDIT_FILES", NULL, TYPE_U32, AT(audit_files), 2, 10000, "16",
     "how many of them are kept"},
    {"CAY_REQUIRE_TOKEN", NULL, TYPE_BOOL, AT(require_token), 0, 0, "false",
     "over TCP a token is needed also where CAY_AUTH_TOKEN is not set: one of `cay token create`"},
    {"CAY_NO_TCP", NULL, TYPE_BOOL, AT(no_tcp), 0, 0, "false",
     "serve the unix socket only, as --no-tcp does"},
    {"CAY_SOCKET_GROUP", NULL, TYPE_STRING, AT(socket_group), 0, 0, NULL,
     "group whose members may use the unix socket without a token; else cay, if there is such a "
     "group"},
    {"CAY_DEFAULT_IMAGE", "III_DEFAULT_IMAGE", TYPE_STRING, AT(default_image), 0, 0,
     "python:3.12-slim", "image for callers that ask for the default"},
    {"CAY_DEFAULT_TIMEOUT", "III_DEFAULT_TIMEOUT", TYPE_U32, AT(default_timeout), TIMEOUT_S_MIN,
     TIMEOUT_S_MAX, "3600", "seconds until a sandbox expires; 0 = it does not", .zero = true},
    {"CAY_DEFAULT_MEMORY", "III_DEFAULT_MEMORY", TYPE_U32, AT(default_memory), MEMORY_MB_MIN,
     MEMORY_MB_MAX, "512", "MB of memory of a sandbox"},
    {"CAY_DEFAULT_CPU", "III_DEFAULT_CPU", TYPE_MILLIS, AT(default_cpu_millis),
     CPU_MILLIS_MIN / 1000.0, CPU_MILLIS_MAX / 1000.0, "1", "cores of a sandbox"},
    {"CAY_DEFAULT_PIDS", NULL, TYPE_U32, AT(default_pids), PIDS_MIN, PIDS_MAX, "1024",
     "processes and threads of a sandbox"},
    {"CAY_DEFAULT_DISK", NULL, TYPE_U32, AT(default_disk), DISK_MB_MIN, DISK_MB_MAX, "4096",
     "MB of disk of a sandbox"},
    {"CAY_MAX_TIMEOUT", NULL, TYPE_U32, AT(max_timeout), TIMEOUT_S_MIN, TIMEOUT_S_MAX, "86400",
     "seconds that a caller may ask for; 0 = any, and a sandbox may be made that does not expire",
     .zero = true},
    {"CAY_MAX_MEMORY", NULL, TYPE_U32, AT(max_memory), MEMORY_MB_MIN, MEMORY_MB_MAX, "4096",
     "MB of memory that a caller may ask for"},
    {"CAY_MAX_CPU", NULL, TYPE_MILLIS, AT(max_cpu_millis), CPU_MILLIS_MIN / 1000.0,
     CPU_MILLIS_MAX / 1000.0, "4", "cores that a caller may ask for"},
    {"CAY_MAX_PIDS", NULL, TYPE_U32, AT(max_pids), PIDS_MIN, PIDS_MAX, "4096",
     "processes and threads that a caller may ask for"},
    {"CAY_MAX_SANDBOXES", "III_MAX_SANDBOXES", TYPE_U32, AT(max_sandboxes), 1, 20000, "50",
     "how many sandboxes there may be that are not stopped"},
    {"CAY_MAX_SNAPSHOTS", NULL, TYPE_U32, AT(max_snapshots), 0, 100000, "1000",
     "how many snapshots there may be"},
    {"CAY_MAX_TEMPLATES", NULL, TYPE_U32, AT(max_templates), 0, 100000, "1000",
     "how many templates there may be beside those that are built in"},
    {"CAY_MAX_NETWORKS", NULL, TYPE_U32, AT(max_networks), 0, 4096, "256",
     "how many named networks there may be"},
    {"CAY_MAX_VOLUMES", NULL, TYPE_U32, AT(max_volumes), 0, 100000, "1000",
     "how many volumes there may be"},
    {"CAY_DEFAULT_VOLUME", NULL, TYPE_U32, AT(default_volume_mb), VOLUME_MB_MIN, VOLUME_MB_MAX,
     "1024", "MB of a volume"},
    {"CAY_LAUNCHER_TIMEOUT", NULL, TYPE_U32, AT(launcher_timeout), 1, 300, "20",
     "seconds without an answer after which the launcher is replaced"},
    {"CAY_VOLUME_DELETE_TIMEOUT", NULL, TYPE_U32, AT(volume_delete), 1, 3600, "30",
     "seconds that the removal of a folder in a volume may take"},
    {"CAY_EVENTS_MAX", NULL, TYPE_U32, AT(events_max), 1000, 10000000, "100000",
     "how many events are kept"},
    {"CAY_EVENTS_DAYS", NULL, TYPE_U32, AT(events_days), 1, 3650, "7", "days that events are kept"},
    {"CAY_BIND_ALLOW", NULL, TYPE_LIST, AT(bind_allow), 0, 0, NULL,
     "folders of the host that may be mounted in sandboxes, with all below them: "
     "/srv/data,/home/ann/projects; none by default"},
    {"CAY_PORT_ADDRESSES", NULL, TYPE_LIST, AT(port_addresses), 0, 0, NULL,
     "addresses of the host that ports of sandboxes may be on beside its loopback's: "
     "192.0.2.7,0.0.0.0, or * for any; none by default"},
    {"CAY_TOTAL_MEMORY", NULL, TYPE_U32, AT(total_memory), TOTAL_MB_MIN, 1 << 30, "0",
     "MB of memory of all sandboxes together; 0 = the machine's, less a reserve", .zero = true},
    {"CAY_TOTAL_PIDS", NULL, TYPE_U32, AT(total_pids), TOTAL_PIDS_MIN, PIDS_MAX, "0",
     "processes of all sandboxes together; 0 = three quarters of what the kernel allows",
     .zero = true},
    {"CAY_CGROUP", NULL, TYPE_STRING, AT(cgroup), 0, 0, NULL,
     "cgroup v2 only: the group that sandboxes are in, e.g. "
     "/system.slice/cay-sandboxes.service; else "
     "the daemon's own if it was delegated, else the root"},
    {"CAY_DISK_OVERCOMMIT", NULL, TYPE_U32, AT(disk_overcommit), 0, 1000000, "100",
     "disks of sandboxes may add up to so many times what is free; 1 = all have their room, 0 = "
     "any"},
    {"CAY_DISK_RESERVE", NULL, TYPE_U32, AT(disk_reserve_mb), 0, 1 << 30, "0",
     "MB of the host's disk that sandboxes do not get; 0 = a fiftieth, from 64 to 1024"},
    {"CAY_STOPPED_TTL", NULL, TYPE_U32, AT(stopped_ttl), 0, TIMEOUT_S_MAX, "604800",
     "seconds that a stopped sandbox is kept before it expires; 0 = for ever"},
    {"CAY_MAX_STOPPED", NULL, TYPE_U32, AT(max_stopped), 1, 20000, "200",
     "how many sandboxes may be stopped beside CAY_MAX_SANDBOXES; beyond it the one that expired "
     "first is removed"},
    {"CAY_STOPPED_DISK", NULL, TYPE_U32, AT(stopped_disk), 0, 100, "25",
     "percent of the host's disk that stopped sandboxes may take before the one that expired first "
     "is removed; 0 = none that expired is kept, 100 = any"},
    {"CAY_STOP_TIMEOUT", NULL, TYPE_U32, AT(stop_timeout), 1, DRAIN_S_MAX, "2",
     "seconds that an entrypoint has to end after its stop signal, where a stop says no time"},
    {"CAY_TTL_SWEEP", "III_TTL_SWEEP", TYPE_SWEEP, AT(sweep), 1, 3600, "30",
     "seconds between looks for expired sandboxes, or */N * * * * *"},
    {"CAY_ALLOWED_IMAGES", "III_ALLOWED_IMAGES", TYPE_STRING, AT(allowed_images), 0, 0, "*",
     "images that may be used: a comma list of names and globs (* and ? match no /, ** does), or a "
     "JSON list of names"},
    {"CAY_CUSTOM_IMAGES", NULL, TYPE_STRING, AT(custom_images), 0, 0, NULL,
     "short names of your own: NAME=IMAGE,NAME=IMAGE or {\"NAME\": \"IMAGE\"}"},
    {"CAY_IMAGE_CAPS", NULL, TYPE_STRING, AT(image_caps), 0, 0, NULL,
     "the most that sandboxes of an image get: python:cpu=2,memory=1024;node*:memory=512 or "
     "{\"NAME\": {\"cpu\": 2, \"memory\": 1024}}"},
    {"CAY_IMAGE_STRICT", NULL, TYPE_BOOL, AT(image_strict), 0, 0, "false",
     "only short names, and only those in CAY_ALLOWED_IMAGES, which is empty unless set"},
    {"CAY_AUTO_INSTALL", NULL, TYPE_BOOL, AT(auto_install), 0, 0, "true",
     "a create may pull its image"},
    {"CAY_PULL_POLICY", NULL, TYPE_PULL, AT(pull_policy), 0, 0, "missing",
     "when a create pulls its image: missing, always or never"},
    {"CAY_INSECURE_REGISTRIES", NULL, TYPE_LIST, AT(insecure_registries), 0, 0, NULL,
     "HOST[:PORT] of registries that are asked over plain http"},
    {"CAY_REGISTRY_MIRRORS", NULL, TYPE_LIST, AT(registry_mirrors), 0, 0, NULL,
     "asked before the registry itself: docker.io=https://mirror.example;quay.io=https://…"},
    {"CAY_REGISTRY_REALMS", NULL, TYPE_LIST, AT(registry_realms), 0, 0, NULL,
     "token services of another domain that may see a registry's logins: "
     "registry.example=auth.example"},
    {"CAY_REGISTRY_CA", NULL, TYPE_STRING, AT(registry_ca), 0, 0, NULL,
     "file of certificates (PEM) to trust beside the system's, for registries"},
    {"CAY_WEBHOOK_ALLOW", NULL, TYPE_LIST, AT(webhook_allow), 0, 0, NULL,
     "where webhooks may go beside the public internet: addresses, ranges, names, or loopback, "
     "private, link-local, host; none by default"},
    {"CAY_MAX_WEBHOOKS", NULL, TYPE_U32, AT(max_webhooks), 1, WEBHOOKS_MAX, "100",
     "how many webhooks there may be"},
    {"CAY_WEBHOOK_RETRY_MS", NULL, TYPE_U32, AT(webhook_retry_ms), 1, 3600000, "1000",
     "milliseconds until a webhook is tried again; twice as long each time, an hour at most"},
    {"CAY_WEBHOOK_RETRY_HOURS", NULL, TYPE_U32, AT(webhook_retry_hours), 1, 720, "24",
     "hours after which an event is given up for a webhook that does not take it"},
    {"CAY_WEBHOOK_TIMEOUT", NULL, TYPE_U32, AT(webhook_timeout), 1, WEBHOOK_TIMEOUT_S_MAX, "10",
     "seconds that a webhook has to answer"},
    {"CAY_WEBHOOK_CA", NULL, TYPE_STRING, AT(webhook_ca), 0, 0, NULL,
     "file of certificates (PEM) to trust beside the system's, for webhooks and collectors of "
     "traces"},
    {"CAY_DOCKER_CONFIG", NULL, TYPE_STRING, AT(docker_config), 0, 0, NULL,
     "file with the credentials of registries; else $DOCKER_CONFIG/config.json, else "
     "~/.docker/config.json"},
    {"CAY_MAX_IMAGE_SIZE", NULL, TYPE_U32, AT(max_image_mb), 1, 1 << 24, "20480",
     "MB that an image may take when it is unpacked"},
    {"CAY_IMAGE_BUDGET", NULL, TYPE_U32, AT(image_budget_mb), 0, 1 << 30, "0",
     "MB on disk past which the images that were not used for longest go; 0 = any"},
    {"CAY_WORKSPACE_DIR", "III_WORKSPACE_DIR", TYPE_STRING, AT(workspace), 0, 0, "/workspace",
     "where files and commands are, in a sandbox"},
    {"CAY_MAX_CMD_TIMEOUT", "III_MAX_CMD_TIMEOUT", TYPE_U32, AT(max_command), 1, 86400, "300",
     "seconds a command may run; 0 = any", .zero = true},
    {"CAY_QUEUE_CONCURRENCY", NULL, TYPE_U32, AT(queue_concurrency), 1, 64, "4",
     "jobs of the queue that run at a time in a sandbox"},
    {"CAY_QUEUE_RUNNING", NULL, TYPE_U32, AT(queue_running), 1, 1024, "64",
     "jobs of the queue that run at a time in all sandboxes together"},
    {"CAY_QUEUE_SANDBOX_MAX", NULL, TYPE_U32, AT(queue_sandbox_max), 1, 1000000, "10000",
     "jobs of a sandbox that wait or run"},
    {"CAY_QUEUE_MAX", NULL, TYPE_U32, AT(queue_max), 1, 1000000, "100000",
     "jobs that wait or run, of all sandboxes together"},
    {"CAY_QUEUE_KEEP", NULL, TYPE_U32, AT(queue_keep), 0, 1000000, "10000",
     "jobs that are over and can still be looked at; the oldest go"},
    {"CAY_QUEUE_DAYS", NULL, TYPE_U32, AT(queue_days), 1, 3650, "7",
     "days after which a job that is over goes"},
    {"CAY_RATE_LIMIT_ENABLED", "III_RATE_LIMIT_ENABLED", TYPE_BOOL, AT(rate_enabled), 0, 0, "false",
     "limit requests over TCP: of a caller, and for each sandbox"},
    {"CAY_RATE_TOKEN_RPM", "III_RATE_TOKEN_RPM", TYPE_U32, AT(rate_rpm), 1, 1e9, "600",
     "requests a minute"},
    {"CAY_RATE_TOKEN_BURST", "III_RATE_TOKEN_BURST", TYPE_U32, AT(rate_burst), 1, 1e9, "100",
     "requests at once"},
    {"CAY_RATE_SBX_EXEC_PM", "III_RATE_SBX_EXEC_PM", TYPE_U32, AT(rate_exec_pm), 1, 1e9, "120",
     "commands a minute in one sandbox"},
    {"CAY_RATE_SBX_FS_PM", "III_RATE_SBX_FS_PM", TYPE_U32, AT(rate_file_pm), 1, 1e9, "300",
     "calls a minute for files of one sandbox"},
    {"CAY_CORS_ORIGINS", NULL, TYPE_LIST, AT(origins), 0, 0, NULL,
     "web origins that may call, e.g. https://app.example; none by default"},
    {"CAY_PROXY_DOMAIN", NULL, TYPE_STRING, AT(proxy_domain), 0, 0, "localhost",
     "ports of sandboxes are reached at PORT-ID.<this>; with https:// in front when a proxy before "
     "the daemon speaks it"},
    {"CAY_ALLOWED_HOSTS", NULL, TYPE_LIST, AT(hosts), 0, 0, NULL,
     "names for the Host header beside localhost; * = any, with a token only"},
    {"CAY_POOL", NULL, TYPE_U32, AT(prepared), 0, 256, "4", "sandboxes that are made ready ahead"},
    {"CAY_POOL_SIZE", "III_POOL_SIZE", TYPE_U32, AT(pool_size), 0, POOL_SIZE_MAX, "2",
     "sandboxes of each profile that are up before somebody asks for one; 0 = none"},
    {"CAY_POOL_PROFILES", "III_POOL_PROFILES", TYPE_PROFILES, AT(pool_profiles), 0, 0, "host",
     "what these are: IMAGE,MEMORY_MB,CPU,true|false (network);… All but the image may be left "
     "out"},
    {"CAY_NETWORK", NULL, TYPE_BOOL, AT(network), 0, 0, "true",
     "false: no sandbox can have a network, and nothing is made for one"},
    {"CAY_NET_POOL", NULL, TYPE_STRING, AT(net_pool), 0, 0, "10.241.0.0/16",
     "IPv4 addresses of sandboxes with a network; nothing else may use them"},
    {"CAY_NET_POOL6", NULL, TYPE_STRING, AT(net_pool6), 0, 0, "fd63:6179::/64",
     "IPv6 addresses of sandboxes with a network"},
    {"CAY_NET_IPV6", NULL, TYPE_STRING, AT(net_ipv6), 0, 0, "auto",
     "auto, on or off: whether sandboxes have IPv6; auto = this machine has a way out by it"},
    {"CAY_NET_NAMESERVERS", NULL, TYPE_STRING, AT(net_nameservers), 0, 0, NULL,
     "name servers that sandboxes' questions go to, 9.9.9.9,10.0.0.53#5353; else those of "
     "/etc/resolv.conf"},
    {"CAY_NET_UPLINK", NULL, TYPE_STRING, AT(net_uplink), 0, 0, NULL,
     "the /30 between this machine and the network gateway; else a free one of 169.254.0.0/16"},
    {"CAY_TRACES", NULL, TYPE_BOOL, AT(traces), 0, 0, "true",
     "remember calls: how long each took and how it ended, and the counters of /metrics"},
    {"CAY_TRACES_MAX", NULL, TYPE_U32, AT(traces_max), 100, 10000000, "100000",
     "how many calls are remembered one by one; the oldest go"},
    {"CAY_METRICS_INTERVAL", NULL, TYPE_U32, AT(metrics_interval), 1, 3600, "5",
     "seconds between two looks at what each sandbox uses; an hour of them is kept in memory; 0 = "
     "nobody looks",
     .zero = true},
    {"CAY_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", TYPE_STRING, AT(otlp_endpoint), 0, 0, NULL,
     "collector that traces are sent to, as OTLP over HTTP: http://localhost:4318; none by "
     "default"},
    {"CAY_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS", TYPE_STRING, AT(otlp_headers), 0, 0, NULL,
     "headers for it: name=value,name=value, percent-encoded"},
    {"CAY_OTLP_SERVICE", "OTEL_SERVICE_NAME", TYPE_STRING, AT(otlp_service), 0, 0, "cay",
     "the name by which it is told who sends them"},
    {"CAY_ALERT_INTERVAL", NULL, TYPE_U32, AT(alert_interval), 1, 3600, "5",
     "seconds between two looks at sandboxes that have alerts"},
    {"CAY_MCP", NULL, TYPE_BOOL, AT(mcp), 0, 0, "true", "serve the Model Context Protocol at /mcp"},
    {"CAY_MCP_SESSIONS", NULL, TYPE_U32, AT(mcp_sessions), 1, 100000, "1000",
     "MCP sessions at once; past it the one that has been idle for longest goes"},
    {"CAY_MCP_IDLE", NULL, TYPE_U32, AT(mcp_idle), 10, 604800, "3600",
     "seconds after which an MCP session that nobody uses is forgotten"},
    {"CAY_MCP_OUTPUT_MAX", NULL, TYPE_U32, AT(mcp_output), 1024, 16777216, "32768",
     "bytes that one MCP call gives; more is cut, and the answer says how to read on"},
    {"CAY_ENGINE", "III_ENGINE_URL", TYPE_STRING, AT(link.url), 0, 0, NULL,
     "be the worker of the iii engine there, ws://host:port, as --engine does; none by default"},
    {"CAY_ENGINE_TOKEN", NULL, TYPE_STRING, AT(link.token), 0, 0, NULL,
     "what that engine is sent as \"Authorization: Bearer …\""},
    {"CAY_ENGINE_NAMESPACE", NULL, TYPE_STRING, AT(link.namespace), 0, 0, NULL,
     "namespace of the engine that our functions are in; else its default"},
    {"CAY_ENGINE_NAME", "III_WORKER_NAME", TYPE_STRING, AT(link.name), 0, 0, "iii-sandbox",
     "name of the worker that we are for it"},
    {"CAY_ENGINE_EXTRA", NULL, TYPE_BOOL, AT(link.extra), 0, 0, "false",
     "register cay's other functions at that engine too, beside sandbox::* of iii"},
    {"CAY_ENGINE_STANDBY", NULL, TYPE_BOOL, AT(link.standby), 0, 0, "false",
     "another worker with our name or functions there is expected, as with --standby"},
    {"CAY_ENGINE_RETRY_MS", NULL, TYPE_U32, AT(link.retry_ms), 100, 600000, "5000",
     "milliseconds between two checks whether another worker has our functions, and whether the "
     "engine still has them; a lost engine is dialled again after this time, but at most 1 s, and "
     "after twice as long for each further try, at most 30 s"},
    {"CAY_III_IDLE", NULL, TYPE_U32, AT(iii.idle_s), 0, TIMEOUT_S_MAX, "300",
     "seconds after which an idle sandbox of an iii client is removed, unless the client gives "
     "another time; 0 = never"},
    {"CAY_III_SANDBOXES", NULL, TYPE_U32, AT(iii.sandboxes_max), 0, 20000, "0",
     "how many sandboxes iii clients may have; 0 = as CAY_MAX_SANDBOXES"},
    {"CAY_III_EXECS", NULL, TYPE_U32, AT(iii.execs_max), 1, 1024, "4",
     "commands of iii clients that run at a time in one sandbox"},
    {"CAY_III_EXEC_MS", NULL, TYPE_U32, AT(iii.exec_ms_max), 1, 86400000, "300000",
     "milliseconds that a command of an iii client may run"},
    {"CAY_III_EXEC_TIMEOUT", NULL, TYPE_MILLIS, AT(iii.exec_ms), 1, 86400, TEXT(III_EXEC_S),
     "seconds that a command of an iii client may run if the call has no timeout_ms; at most "
     "CAY_III_EXEC_MS"},
    {"CAY_III_STALL", NULL, TYPE_U32, AT(iii.stall_s), 1, 300, TEXT(III_STALL_S),
     "seconds without a byte after which an upload of an iii client fails"},
    {"CAY_III_GRACE_MS", "III_NAMESPACE_GRACE_MS", TYPE_U32, AT(iii_grace_ms), 1, III_GRACE_MS_MAX,
     "5000",
     "milliseconds that registrations of an iii client wait for the client to say its name"},
    {"CAY_HEAD_TIMEOUT", NULL, TYPE_U32, AT(head_timeout), 1, 60, "10",
     "seconds that a client may take to send the head of a request"},
    {"CAY_STALL_TIMEOUT", NULL, TYPE_U32, AT(stall_timeout), 1, 600, "30",
     "seconds without progress after which a client that sends a body or reads an answer is "
     "disconnected"},
    {"CAY_DRAIN_TIMEOUT", NULL, TYPE_U32, AT(drain_timeout), 0, DRAIN_S_MAX, "10",
     "seconds that running calls have to end when the daemon stops or is replaced; then they are "
     "cut off"},
    {"CAY_LOG_LEVEL", NULL, TYPE_LEVEL, AT(log_level), 0, 0, "info", "debug, info, warn or error"},
    {"CAY_LOG_FORMAT", NULL, TYPE_FORMAT, AT(log_format), 0, 0, "text", "text or json"},
};

static int parse_u32(const struct variable *v, const char *name, const char *text, uint32_t *ret,
                     struct err *err)
{
    uint64_t n;

    if (str_u64(text, &n) < 0 ||
        (((double)n < v->min || (double)n > v->max) && !(v->zero && n == 0)))
        return err_set(err, ERR_INVALID,
                       "%s must be %sa whole number from %.0f to %.0f, not \"%s\"", name,
                       v->zero ? "0 or " : "", v->min, v->max, text);
    *ret = (uint32_t)n;
    return 0;
}

static int parse_millis(const struct variable *v, const char *name, const char *text, uint32_t *ret,
                        struct err *err)
{
    char *end;
    double n = strtod(text, &end);

    if (end == text || *end || !(n >= v->min && n <= v->max))
        return err_set(err, ERR_INVALID, "%s must be a number from %g to %g, not \"%s\"", name,
                       v->min, v->max, text);
    *ret = (uint32_t)lround(n * 1000);
    return 0;
}

static int parse_sweep(const struct variable *v, const char *name, const char *text, uint32_t *ret,
                       struct err *err)
{
    static const char rest[] = " * * * * *";
    auto_free char *seconds = NULL;

    if (str_starts(text, "*/") && str_ends(text, rest))
        seconds = xstrndup(text + 2, strlen(text) - 2 - strlen(rest));
    if (parse_u32(v, name, seconds ? seconds : text, ret, NULL) == 0)
        return 0;
    return err_set(err, ERR_INVALID,
                   "%s must be seconds from 1 to 3600, or \"*/N * * * * *\", not \"%s\"", name,
                   text);
}

static int parse_bool(const char *name, const char *text, bool *ret, struct err *err)
{
    if (strcmp(text, "true") == 0 || strcmp(text, "1") == 0)
        *ret = true;
    else if (strcmp(text, "false") == 0 || strcmp(text, "0") == 0)
        *ret = false;
    else
        return err_set(err, ERR_INVALID, "%s must be true or false, not \"%s\"", name, text);
    return 0;
}

static int parse_word(const char *name, const char *text, const char *const *words, uint32_t *ret,
                      struct err *err)
{
    for (uint32_t i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0) {
            *ret = i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "%s has no value \"%s\"; see cay serve --help", name, text);
}

static char **parse_list(const char *text)
{
    char **list = NULL;

    while (*text) {
        size_t len = strcspn(text, ",;");
        const char *start = text + strspn(text, " ");
        size_t n = start < text + len ? len - (size_t)(start - text) : 0;

        while (n > 0 && start[n - 1] == ' ')
            n--;
        if (n > 0) {
            auto_free char *item = xstrndup(start, n);

            list = strv_add(list, item);
        }
        text += len;
        text += *text != '\0';
    }
    return list;
}

static int parse_profiles(const char *name, const char *text, char **ret, struct err *err)
{
    if (pool_profiles_check(text, err) < 0)
        return err_wrap(err, "%s", name);
    *ret = xstrdup(text);
    return 0;
}

static int set_variable(struct daemon_config *c, const struct variable *v, const char *name,
                        const char *text, struct err *err)
{
    static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
    static const char *const formats[] = {"text", "json", NULL};
    void *at = (char *)c + v->at;

    switch (v->type) {
    case TYPE_STRING:
        *(char **)at = xstrdup(text);
        return 0;
    case TYPE_U32:
        return parse_u32(v, name, text, at, err);
    case TYPE_MILLIS:
        return parse_millis(v, name, text, at, err);
    case TYPE_BOOL:
        return parse_bool(name, text, at, err);
    case TYPE_LIST:
        *(char ***)at = parse_list(text);
        return 0;
    case TYPE_SWEEP:
        return parse_sweep(v, name, text, at, err);
    case TYPE_LEVEL:
        return parse_word(name, text, levels, at, err);
    case TYPE_FORMAT:
        return parse_word(name, text, formats, at, err);
    case TYPE_PULL:
        return parse_word(name, text, pull_policy_words, at, err);
    case TYPE_PROFILES:
        return parse_profiles(name, text, at, err);
    }
    return err_set(err, ERR_INTERNAL, "%s has no known type", name);
}

bool config_list_has(char *const *list, const char *word)
{
    for (; list && *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

const char *config_preset(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(variables); i++)
        if (strcmp(variables[i].name, name) == 0)
            return variables[i].preset ? variables[i].preset : "";
    return "";
}

uint64_t config_most(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(variables); i++)
        if (strcmp(variables[i].name, name) == 0)
            return (uint64_t)variables[i].max;
    return 0;
}

const char *config_file_place(const struct daemon_config *c, const char *name)
{
    return json_string_value(json_object_get(json_object_get(c->file, name), "where"));
}

const char *config_host_place(const struct daemon_config *c)
{
    return c->listen_given || setting_text("CAY_REST_HOST") ? NULL
                                                            : config_file_place(c, "CAY_REST_HOST");
}

void config_warn(struct daemon_config *c, char *text)
{
    c->warnings = strv_add(c->warnings, text);
    free(text);
}

/* By the name of the contract. The public worker takes its default for what it cannot read, and
 * who comes from there has such files. */
static int set_other(struct daemon_config *c, const struct variable *v, const char *text,
                     struct err *err)
{
    struct err bad = {0};

    if (set_variable(c, v, v->other, text, &bad) == 0)
        return 0;
    config_warn(c, xasprintf("%s; going on with %s", bad.text, v->preset));
    return set_variable(c, v, v->name, v->preset, err);
}

static int read_variable(struct daemon_config *c, const struct variable *v, struct err *err)
{
    const char *text = setting_text(v->name), *other = setting_text(v->other);
    const char *place = config_file_place(c, v->name);

    if (!text && other)
        return set_other(c, v, other, err);
    if (!text && place)
        return set_variable(c, v, place, json_text(json_object_get(c->file, v->name), "text"), err);
    if (!text)
        text = v->preset;
    return text ? set_variable(c, v, v->name, text, err) : 0;
}

static int read_environment(struct daemon_config *c, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(variables); i++)
        if (read_variable(c, &variables[i], err) < 0)
            return -1;
    return 0;
}

/* Variables that begin like ours and are no settings of the table: those of the command line, of
 * fault injection, of the tests, of iii's clients, and those that an iii engine starts its workers
 * with. */
static bool is_of_others(const struct daemon_config *c, const char *name)
{
    static const char *const names[] = {"CAY_HOST",          "CAY_TOKEN",
                                        "CAY_FAULT",         "CAY_BIN",
                                        "CAY_PASSED_ON",     "III_SANDBOX_URL",
                                        "III_SANDBOX_TOKEN", "III_URL",
                                        "III_ENGINE_PID",    "III_LIFELINE_FD",
                                        "III_CONFIG_PATH",   "III_ISOLATION",
                                        CONFIG_ISOLATION,    NULL};

    return config_list_has((char *const *)names, name) ||
           config_list_has(c->file_variables, name) || str_starts(name, "CAY_TEST_");
}

/* The name that a variable has here, in the spelling that begins like name; NULL if none does. */
static const char *spelling(const struct variable *v, const char *name)
{
    return str_starts(name, "CAY_")                   ? v->name
           : v->other && str_starts(v->other, "III_") ? v->other
                                                      : NULL;
}

/* The name of the variable that is nearest, name itself if there is one; NULL if none is near. */
static const char *nearest(const char *name)
{
    size_t least = strlen(name) / 3;
    const char *best = NULL;

    for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
        const char *near = spelling(&variables[i], name);
        size_t d = near ? str_distance(name, near) : least;

        if (d < least) {
            least = d;
            best = near;
        }
    }
    return best;
}

/* Returns why a variable that earlier versions or the public worker have does nothing; NULL for any
 * other name. */
static const char *why_without_effect(const char *name)
{
    static const struct {
        const char *name, *why;
    } names[] = {
        {"CAY_ENGINE_STRICT", "only the sandbox::* functions of iii are registered unless "
                              "CAY_ENGINE_EXTRA=true"},
        {"III_METRICS_INTERVAL", "CAY_METRICS_INTERVAL is a number of seconds"},
        {"III_POOL_REPLENISH", "the pool is refilled as soon as a sandbox is taken"},
        {"III_FIRECRACKER_KERNEL", NO_MICROVMS},
        {"III_FIRECRACKER_ROOTFS", NO_MICROVMS},
        {"III_FIRECRACKER_VCPUS", NO_MICROVMS},
        {"III_FIRECRACKER_MEM_MIB", NO_MICROVMS},
        {"III_UPLINK_IFACE", NO_MICROVMS},
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].why;
    return NULL;
}

/* A limit that was misspelt is no limit, and nobody would notice. */
static void name_unknown(struct daemon_config *c)
{
    const char *backend = setting_text(CONFIG_ISOLATION);

    for (char **e = environ; e && *e; e++) {
        auto_free char *name = xstrndup(*e, strcspn(*e, "="));
        const char *best, *why;

        if ((!str_starts(name, "CAY_") && !str_starts(name, "III_")) || !setting_text(name) ||
            is_of_others(c, name))
            continue;
        why = why_without_effect(name);
        if (why) {
            config_warn(c, xasprintf("%s has no effect: %s", name, why));
            continue;
        }
        best = nearest(name);
        if (best && strcmp(best, name) == 0)
            continue;
        config_warn(c, best ? xasprintf("there is no variable %.80s: did you mean %s?", name, best)
                            : xasprintf("there is no variable %.80s: see cay serve --help", name));
    }
    if (backend && strcmp(backend, "docker") == 0)
        config_warn(c,
                    xstrdup(CONFIG_ISOLATION "=docker: cay makes sandboxes without Docker; they "
                                             "share the kernel of this machine as containers do"));
}

/* Where docker keeps credentials, if there is such a file. */
static char *find_docker_config(void)
{
    const char *dir = setting_text("DOCKER_CONFIG"), *home = setting_text("HOME");
    auto_free char *path = NULL;

    if (dir)
        path = xasprintf("%s/config.json", dir);
    else if (home)
        path = xasprintf("%s/.docker/config.json", home);
    return path && access(path, R_OK) == 0 ? steal_ptr(path) : NULL;
}

/* A variable that is meant for all programs of a machine may be for another protocol (gRPC's have
 * no scheme): that must not keep the daemon from starting. */
static void check_otlp(struct daemon_config *c)
{
    if (!c->otlp_endpoint || setting_text("CAY_OTLP_ENDPOINT") ||
        otlp_is_endpoint(c->otlp_endpoint))
        return;
    config_warn(c, xasprintf("OTEL_EXPORTER_OTLP_ENDPOINT is no http:// or https:// address: "
                             "traces are not sent"));
    free(c->otlp_endpoint);
    c->otlp_endpoint = NULL;
}

/* For who runs it beside an engine: that is where calls come from. */
static void fill_in_worker(struct daemon_config *c)
{
    if (c->link.worker && !c->link.url)
        c->link.url = xstrdup(III_ENGINE_URL);
    if (c->link.worker && !c->listen_given && !setting_text("CAY_REST_PORT") &&
        !setting_text("CAY_REST_HOST") && !setting_text("III_REST_PORT"))
        c->no_tcp = true;
    /* Its port is the engine's. */
    if (c->link.url && !c->ws_port_given)
        c->ws_port = 0;
}

/* An engine that starts us hands us the reading end of a pipe, at whose end it is gone. Of a number
 * that is something else, the pipe of some program above us was meant. */
static void fill_in_lifeline(struct daemon_config *c)
{
    const char *text = setting_text("III_LIFELINE_FD");
    struct stat st;
    uint64_t fd;

    if (c->link.url && text && str_u64(text, &fd) == 0 && fd > 2 && fd <= INT_MAX &&
        fstat((int)fd, &st) == 0 && S_ISFIFO(st.st_mode))
        c->link.lifeline_fd = (int)fd;
}

const char *config_source(const struct daemon_config *c, const char *name)
{
    const char *place = config_file_place(c, name), *given = name;

    for (size_t i = 0; i < ARRAY_LEN(variables); i++)
        if (strcmp(variables[i].name, name) == 0)
            given = setting_name(name, variables[i].other);
    return setting_text(given) || !place ? given : place;
}

static void fill_in(struct daemon_config *c)
{
    for (int i = 0; i < III_LIMITS; i++)
        c->iii.sources[i] = config_source(c, iii_limit_variables[i]);
    if (setting_text("CAY_WS_PORT") || config_file_place(c, "CAY_WS_PORT"))
        c->ws_port_given = true;
    fill_in_worker(c);
    fill_in_lifeline(c);
    check_otlp(c);
    if (!c->docker_config)
        c->docker_config = find_docker_config();
    /* The strict rule is that of iii workers, whose list is empty until someone fills it. */
    if (c->image_strict && !setting_text("CAY_ALLOWED_IMAGES") &&
        !setting_text("III_ALLOWED_IMAGES") && !config_file_place(c, "CAY_ALLOWED_IMAGES"))
        c->allowed_images[0] = '\0';
}

int config_read(struct daemon_config *c, int argc, char **argv, struct err *err)
{
    const char *file = config_flag_file(argc, argv);
    bool listens;

    *c = CONFIG_NOTHING;
    c->link.worker = argc > 0 && strcmp(argv[0], "worker") == 0;
    if (!file)
        file = setting_text("CAY_CONFIG");
    /* Of a worker's file the addresses are those of its engine. */
    listens = !c->link.worker && !config_flag_engine(argc, argv) && !setting_text("CAY_ENGINE");
    if (file && config_yaml(c, file, listens, &c->file, err) < 0)
        return -1;
    if (read_environment(c, err) < 0 || config_flags(c, argc, argv, err) < 0)
        return -1;
    fill_in(c);
    name_unknown(c);
    if (c->help)
        return 0;
    return config_ceilings(c, err) < 0 ? -1 : config_check(c, err);
}

void config_done(struct daemon_config *c)
{
    for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
        void *at = (char *)c + variables[i].at;

        if (variables[i].type == TYPE_STRING || variables[i].type == TYPE_PROFILES)
            free(*(char **)at);
        else if (variables[i].type == TYPE_LIST)
            strv_free(*(char ***)at);
    }
    for (unsigned i = 0; i < c->n_listeners; i++) {
        free(c->listeners[i].place);
        free(c->listeners[i].host);
    }
    json_decref(c->file);
    strv_free(c->file_variables);
    strv_free(c->warnings);
    free(c->remove);
    *c = CONFIG_NOTHING;
}

void config_help(FILE *out, bool worker)
{
    config_help_flags(out, worker);
    (void)fprintf(out, "\nA flag wins over a variable that begins with CAY_, that over one with "
                       "III_, that over the\nfile of --config, and that over the default.\n");
    (void)fprintf(
        out, "\nEnvironment (a value that does not parse stops the start; a number of an III_ name "
             "falls back to the default):\n");
    for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
        const struct variable *v = &variables[i];

        (void)fprintf(out, "  %s=%s\n      %s%s%s%s\n", v->name, v->preset ? v->preset : "",
                      v->help, v->other ? " (also " : "", v->other ? v->other : "",
                      v->other ? ")" : "");
    }
}
