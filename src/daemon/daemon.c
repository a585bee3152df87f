#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/budget.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/remove.h"
#include "daemon/config.h"
#include "daemon/handover.h"
#include "daemon/launcher.h"
#include "daemon/listeners.h"
#include "daemon/process.h"
#include "daemon/sockets.h"
#include "daemon/starting.h"
#include "daemon/worker_mode.h"
#include "engine/engine.h"
#include "engine/health.h"
#include "engine/image_policy.h"
#include "engine/metrics.h"
#include "engine/network.h"
#include "functions/function.h"
#include "http/server.h"
#include "iii/iii.h"
#include "image/image.h"
#include "mcp/face.h"
#include "mcp/server.h"
#include "rest/rest.h"
#include "runtime/native/native.h"
#include "runtime/runtime.h"
#include "service/build/build.h"
#include "service/services.h"
#include "store/store.h"

/* What strangers can make the daemon hold at once: bodies and outputs; what streams have not sent.
 * Apart, so that streams that nobody reads do not keep commands and uploads waiting. */
#define MEMORY_MAX  (112u << 20)
#define STREAMS_MAX (48u << 20)

#define LAUNCHER_DOWN "launcher_down"

/* A program that is linked in as it is. */
extern const unsigned char _binary_cay_image_start[], _binary_cay_image_end[];
extern const unsigned char _binary_cay_gateway_start[], _binary_cay_gateway_end[];
extern const unsigned char _binary_cay_courier_start[], _binary_cay_courier_end[];

struct daemon {
    struct daemon_config config;
    char *data, *run; /* real paths */
    bool made_run;    /* it was not there */
    char *socket_path, *port_path;
    struct starting starting;
    struct launcher_keeper launcher;
    int launcher_fd, signal_fd;
    struct listeners at; /* the server has copies */
    gid_t socket_group;
    struct handover handover;
    struct heir heir;
    uint32_t port;
    struct budget memory, streams;
    struct store *store;
    struct image_store *images;
    struct runtime *runtime;
    struct engine_config engine_config;
    struct engine *engine;
    bool engine_runs;
    struct services_config services_config;
    struct services services;
    struct rest_config rest_config;
    char **hosts;
    struct rest *rest;
    struct mcp_face *mcp_face;
    struct mcp_server *mcp;
    struct iii_hub *iii;
    struct worker_mode worker;
    struct http_server *http;
};

/* ---- start, in order ---- */

static int open_folders(struct daemon *d, struct err *err)
{
    bool made;

    if (process_folder(d->config.data, 0700, &d->data, &made, err) < 0)
        return -1;
    /* Others may pass through to cay.sock, whose own mode says who may connect. */
    return process_folder(d->config.run, 0755, &d->run, &d->made_run, err);
}

/* Before the first thread, so that every thread inherits the mask. */
static int block_signals(struct daemon *d, struct err *err)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return err_sys(err, errno, "block signals");
    d->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (d->signal_fd < 0)
        return err_sys(err, errno, "signalfd");
    return 0;
}

/* Sealed: what runs later is what was built. */
static int open_worker(int *ret_fd, struct err *err)
{
    int fd = fd_sealed("cay-image", _binary_cay_image_start,
                       (size_t)(_binary_cay_image_end - _binary_cay_image_start), 0500);

    if (fd < 0)
        return err_sys(err, -fd, "make a sealed file of the image worker");
    *ret_fd = fd;
    return 0;
}

/* The store first: its lock keeps a second daemon away from everything else in the folder. */
static int open_state(struct daemon *d, struct err *err)
{
    int rebuilt = 0, worker = -1;

    if (store_open(d->data, &d->store, &rebuilt, err) < 0)
        return -1;
    if (rebuilt)
        log_warn("the database was lost; starting with a new one", "data", d->data);
    if (open_worker(&worker, err) < 0)
        return -1;
    return image_store_open(d->data, worker, &d->images, err);
}

static int open_tcp(struct daemon *d, struct err *err)
{
    const char *place = config_host_place(&d->config);

    if (listeners_open_tcp(&d->at, &d->config, &d->port, err) == 0)
        return 0;
    return place && err && err->kind == ERR_INVALID ? err_wrap(err, "%s", place) : -1;
}

/* Only when all that can be looked at ahead is as it should be does the other one give up. */
static int take_over(struct daemon *d, struct err *err)
{
    if (!d->config.replace)
        return 0;
    if (heir_join(&d->heir, d->run, d->data, err) < 0)
        return -1;
    if (d->heir.fd < 0)
        return 0;
    d->at = d->heir.listeners;
    d->heir.listeners = NO_LISTENERS;
    if (open_tcp(d, err) < 0 || listeners_open_iii(&d->at, &d->config, err) < 0)
        return -1;
    return heir_go(&d->heir, err);
}

static void set_registries(struct daemon *d)
{
    const struct daemon_config *c = &d->config;

    image_set_registries(d->images, &(struct image_registries){
                                        .insecure = c->insecure_registries,
                                        .mirrors = c->registry_mirrors,
                                        .realms = c->registry_realms,
                                        .ca_file = c->registry_ca,
                                        .docker_config = c->docker_config,
                                        .max_bytes = (uint64_t)c->max_image_mb << 20,
                                    });
}

static void set_engine_config(struct daemon *d)
{
    const struct daemon_config *c = &d->config;

    d->engine_config = (struct engine_config){
        .data_dir = d->data,
        .run_dir = d->run,
        .gateway = c->network ? _binary_cay_gateway_start : NULL,
        .gateway_bytes = (size_t)(_binary_cay_gateway_end - _binary_cay_gateway_start),
        .api_port = (uint16_t)(c->no_tcp ? 0 : d->port),
        .net_pool = c->net_pool,
        .net_pool6 = c->net_pool6,
        .net_ipv6 = c->net_ipv6,
        .net_uplink = c->net_uplink,
        .net_nameservers = c->net_nameservers,
        .default_image = c->default_image,
        .default_timeout_s = c->default_timeout,
        .default_limits = {.memory_mb = c->default_memory,
                           .cpu_millis = c->default_cpu_millis,
                           .pids = c->default_pids,
                           .disk_mb = c->default_disk},
        .ceilings = {.memory_mb = c->max_memory,
                     .cpu_millis = c->max_cpu_millis,
                     .pids = c->max_pids,
                     .timeout_s = c->max_timeout},
        .max_sandboxes = c->max_sandboxes,
        .max_stopped = c->max_stopped,
        .max_snapshots = c->max_snapshots,
        .max_templates = c->max_templates,
        .max_volumes = c->max_volumes,
        .max_networks = c->max_networks,
        .default_volume_mb = c->default_volume_mb,
        .volume_delete_s = c->volume_delete,
        .bind_allow = c->bind_allow,
        .port_addresses = c->port_addresses,
        .allowed_images = c->allowed_images,
        .custom_images = c->custom_images,
        .image_caps = c->image_caps,
        .image_strict = c->image_strict,
        .auto_install = c->auto_install,
        .pull_policy = c->pull_policy,
        .image_budget = (uint64_t)c->image_budget_mb << 20,
        .workspace = c->workspace,
        .max_command_s = c->max_command,
        .stopped_ttl_s = c->stopped_ttl,
        .stopped_disk_percent = c->stopped_disk,
        .waits = {.main = c->stop_timeout * 1000},
        .sweep_s = c->sweep,
        .prepared = c->prepared,
        .pool_size = c->pool_size,
        .pool_profiles = c->pool_profiles,
        .disk_overcommit = c->disk_overcommit,
        .disk_reserve_mb = c->disk_reserve_mb,
        .memory = &d->memory,
    };
}

static void set_services_config(struct daemon *d)
{
    const struct daemon_config *c = &d->config;

    d->services_config = (struct services_config){
        .data_dir = d->data,
        .run_dir = d->run,
        .courier = {.program = _binary_cay_courier_start,
                    .program_bytes = (size_t)(_binary_cay_courier_end - _binary_cay_courier_start),
                    .allow = c->webhook_allow,
                    .ca_file = c->webhook_ca},
        .max_tokens = c->max_tokens,
        .webhooks = {.max = c->max_webhooks,
                     .retry_ms = c->webhook_retry_ms,
                     .retry_hours = c->webhook_retry_hours,
                     .timeout_s = c->webhook_timeout,
                     .allow = c->webhook_allow},
        .audit_file_mb = c->audit_file_mb,
        .audit_files = c->audit ? c->audit_files : 0,
        .events_max = c->events_max,
        .events_days = c->events_days,
        .alert_interval_s = c->alert_interval,
        .traces_keep = c->traces ? c->traces_max : 0,
        .usage_interval_s = c->metrics_interval,
        .otlp_endpoint = c->otlp_endpoint,
        .otlp_headers = c->otlp_headers,
        .otlp_service = c->otlp_service,
        .queue = {.concurrency = c->queue_concurrency,
                  .running = c->queue_running,
                  .sandbox_max = c->queue_sandbox_max,
                  .total_max = c->queue_max,
                  .keep = c->queue_keep,
                  .keep_days = c->queue_days},
    };
}

static int start_engine(struct daemon *d, struct err *err)
{
    const struct daemon_config *c = &d->config;
    char nameserver[NETWORK_ADDRESS_TEXT];
    struct native_config native = {
        .data_dir = d->data,
        .run_dir = d->run,
        .cgroup = c->cgroup,
        .memory_mb = c->total_memory,
        .pids = c->total_pids,
        .launcher_fd = d->launcher_fd,
        .launcher_hung_fd = d->launcher.hung_fd,
        .launcher_s = c->launcher_timeout,
    };

    set_engine_config(d);
    set_registries(d);
    if (engine_nameserver(&d->engine_config, nameserver))
        native.nameserver = nameserver;
    d->runtime = native_new(&native, err);
    d->launcher_fd = -1; /* the runtime's from here on, also when it failed */
    if (!d->runtime || runtime_probe(d->runtime, err) < 0)
        return -1;
    if (engine_new(&d->engine_config, d->store, d->images, d->runtime, &d->engine, err) < 0)
        return -1;
    set_services_config(d);
    if (services_open(&d->services, &d->services_config, d->engine, err) < 0 ||
        engine_start(d->engine, err) < 0)
        return -1;
    d->engine_runs = true;
    build_recover(d->engine);
    return services_start(&d->services, err);
}

static void add_mount(struct daemon *d, struct rest_mount mount)
{
    struct rest_mount *m = d->rest_config.mounts;

    while (m->path)
        m++;
    *m = mount;
}

/* Beside the REST face, which looks at where its requests come from and who sends them. */
static void start_mcp(struct daemon *d)
{
    const struct daemon_config *c = &d->config;
    struct mcp_face_config face = {.engine = d->engine,
                                   .services = &d->services,
                                   .about = rest_about(d->rest),
                                   .output = c->mcp_output,
                                   .image = c->default_image};
    struct mcp_config config = {.name = "cay",
                                .title = "cay sandboxes",
                                .version = CAY_VERSION,
                                .instructions = mcp_face_instructions,
                                .limits = MCP_LIMITS_DEFAULT,
                                .memory = &d->memory,
                                .services = &d->services};

    config.limits.sessions = c->mcp_sessions;
    config.limits.idle_s = c->mcp_idle;
    config.limits.output = c->mcp_output;
    d->mcp_face = mcp_face_new(&face);
    d->mcp = mcp_server_new(&config, mcp_face_providers(d->mcp_face));
    add_mount(
        d, (struct rest_mount){.face = "mcp", .path = "/mcp", .handle = mcp_handle, .arg = d->mcp});
}

/* For clients of iii, who come to a port of their own or to any of ours. */
static void mount_iii(struct daemon *d)
{
    add_mount(d, (struct rest_mount){.face = "iii",
                                     .path = "/",
                                     .socket = true,
                                     .handle = iii_handle_worker,
                                     .arg = d->iii});
    add_mount(d, (struct rest_mount){.face = "iii",
                                     .path = "/otel",
                                     .socket = true,
                                     .handle = iii_handle_otel,
                                     .arg = d->iii});
    add_mount(d, (struct rest_mount){.face = "iii",
                                     .path = "/ws/channels/",
                                     .socket = true,
                                     .open = true,
                                     .handle = iii_handle_channel,
                                     .arg = d->iii});
}

static int start_iii(struct daemon *d, struct err *err)
{
    struct iii_config config = {.engine = d->engine,
                                .services = &d->services,
                                .about = rest_about(d->rest),
                                .grace_ms = d->config.iii_grace_ms,
                                .memory = &d->memory,
                                .streams = &d->streams};
    bool serves = d->config.ws_port || d->config.n_listeners;

    if (!serves && !d->config.link.url)
        return 0;
    d->iii = iii_hub_new(&config);
    if (serves)
        mount_iii(d);
    return iii_hub_start(d->iii, err);
}

static int start_http(struct daemon *d, struct err *err)
{
    const struct daemon_config *c = &d->config;
    struct http_limits limits = HTTP_LIMITS_DEFAULT;

    d->hosts = listeners_hosts(c);
    d->rest_config = (struct rest_config){
        .prefix = c->prefix,
        .token = c->token,
        .require_token = c->require_token,
        .hosts = d->hosts,
        .origins = c->origins,
        .proxy_domain = c->proxy_domain,
        .port = d->port,
        .socket_group = d->socket_group == SOCKET_NO_GROUP ? NULL : &d->socket_group,
        .rate_enabled = c->rate_enabled,
        .rates = {.caller_rpm = c->rate_rpm,
                  .caller_burst = c->rate_burst,
                  .exec_pm = c->rate_exec_pm,
                  .file_pm = c->rate_file_pm},
        .runtime = d->runtime->ops->name,
        .boundary = d->runtime->ops->boundary,
        .memory = &d->memory,
        .streams = &d->streams,
        .iii = &c->iii,
    };
    limits.memory = &d->memory;
    limits.head_timeout_ms = (int)c->head_timeout * 1000;
    limits.body_timeout_ms = (int)c->stall_timeout * 1000;
    d->rest = rest_new(&d->rest_config, d->engine, &d->services);
    if (c->mcp)
        start_mcp(d);
    if (start_iii(d, err) < 0)
        return -1;
    d->http = http_server_new(&limits, rest_handle, d->rest);
    if (listeners_serve(&d->at, c, d->http, err) < 0)
        return -1;
    return http_server_start(d->http, err);
}

static void take_all(struct daemon *d, struct conns *conns)
{
    while (conns->n > 0) {
        int fd = conns->list[--conns->n].fd;
        bool is_tcp = conns->list[conns->n].is_tcp;

        /* What an address means is for who listens there to say; nobody does, of one that only the
         * daemon before us had. */
        if (is_tcp && !listeners_have(&d->at, fd))
            (void)close(fd);
        else
            http_server_take(d->http, fd, is_tcp);
    }
}

static int write_port(struct daemon *d, struct err *err)
{
    auto_close int fd = -1;
    char text[16];
    int n, r;

    free(d->port_path);
    d->port_path = xasprintf("%s/port", d->run);
    if (d->config.no_tcp) {
        (void)unlink(d->port_path); /* of one before us */
        return 0;
    }
    n = snprintf(text, sizeof(text), "%u\n", d->port);
    fd = regular_open(AT_FDCWD, d->port_path, O_WRONLY | O_CREAT | O_TRUNC, 0644, err);
    if (fd < 0)
        return -1;
    (void)fchmod(fd, 0644);
    r = write_all(fd, text, (size_t)n);
    return r < 0 ? err_sys(err, -r, "write %s", d->port_path) : 0;
}

static int check_policy(const struct daemon_config *c, struct err *err)
{
    const struct image_policy_config config = {.allowed = c->allowed_images,
                                               .custom = c->custom_images,
                                               .caps = c->image_caps,
                                               .strict = c->image_strict};
    struct image_policy *policy;

    if (image_policy_new(&config, &policy, err) < 0)
        return -1;
    image_policy_free(policy);
    return 0;
}

/* What is refused here leaves nothing behind, and takes no other's place. The port only where cay
 * never ran: else the lock of its folder may tell who has it. */
static int check_ahead(struct daemon *d, struct err *err)
{
    set_services_config(d);
    if (check_policy(&d->config, err) < 0 || services_check(&d->services_config, err) < 0)
        return -1;
    if (d->config.replace || access(d->config.data, F_OK) == 0)
        return 0;
    return open_tcp(d, err);
}

/* What is done once. */
static int set_up(struct daemon *d, struct err *err)
{
    if (process_check_root(err) < 0 || process_check_kernel(err) < 0 || process_setup(err) < 0 ||
        socket_group(d->config.socket_group, &d->socket_group, err) < 0 ||
        check_ahead(d, err) < 0 || open_folders(d, err) < 0)
        return -1;
    return block_signals(d, err);
}

/* A daemon that ends its sandboxes with itself has to take them over first. */
static int goes_on(struct daemon *d, struct err *err)
{
    return !d->config.stop_sandboxes && starting_is_to_end(&d->starting)
               ? err_set(err, ERR_UNAVAILABLE, "told to stop")
               : 0;
}

static int open_sockets(struct daemon *d, struct err *err)
{
    if (open_tcp(d, err) < 0 || listeners_open_iii(&d->at, &d->config, err) < 0)
        return -1;
    return listeners_open_unix(&d->at, d->run, d->socket_group, &d->socket_path, err);
}

static int start(struct daemon *d, struct err *err)
{
    static int (*const steps[])(struct daemon * d, struct err * err) = {
        take_over, open_state, open_sockets, start_engine, start_http};

    if (keeper_start(&d->launcher, &d->launcher_fd, err) < 0)
        return -1;
    starting_begin(&d->starting, d->signal_fd, d->config.parent_fd, d->config.link.lifeline_fd,
                   d->config.stop_sandboxes ? STARTING_WHOLE_MS : STARTING_GRACE_MS);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        if (goes_on(d, err) < 0 || steps[i](d, err) < 0)
            return -1;
    /* Those of the one before us, or that we gave to one that did not come up. */
    take_all(d, &d->heir.conns);
    take_all(d, &d->handover.given);
    if (handover_listen(&d->handover, d->run, err) < 0 ||
        worker_start(&d->worker, &d->config.link, d->iii, d->run, err) < 0)
        return -1;
    return write_port(d, err);
}

static void tell_ready(struct daemon *d)
{
    auto_free char *tcp = NULL, *ws = listeners_iii(&d->at, &d->config);

    if (!d->config.no_tcp)
        tcp = xasprintf("%s:%u", d->config.host, d->port);
    log_info("ready", "version", CAY_VERSION, "tcp", tcp, "iii", ws, "unix", d->socket_path,
             "runtime", d->runtime->ops->name);
    if (d->config.ready_fd >= 0) {
        (void)write_all(d->config.ready_fd, "ready\n", 6);
        close_fd(&d->config.ready_fd);
    }
    process_ready();
    heir_serves(&d->heir);
    d->config.replace = false; /* if we have to start again, it is in our own place */
}

/* ---- serve ---- */

static bool parent_gone(int fd)
{
    char c;

    return read_some(fd, &c, 1) <= 0;
}

/* Sandboxes go on without it; who creates one waits a moment for the next. */
static void launcher_ended(struct daemon *d)
{
    char how[PROGRAM_ENDED_MAX];

    native_set_launcher(d->runtime, -1);
    keeper_ended(&d->launcher, how);
    if (engine_trouble(d->engine, LAUNCHER_DOWN, "", "the launcher has ended"))
        log_error("the launcher has ended; starting another", "with", how);
}

static void launcher_hung(struct daemon *d)
{
    if (!keeper_hung(&d->launcher))
        return;
    log_error("the launcher has not answered for CAY_LAUNCHER_TIMEOUT seconds; it is killed");
    (void)engine_trouble(d->engine, LAUNCHER_DOWN, "", "the launcher hung");
}

static void launcher_left(struct daemon *d)
{
    log_error("the launcher does not end though it was killed (it waits in the kernel); starting "
              "another beside it");
    (void)engine_trouble(d->engine, LAUNCHER_DOWN, "", "the launcher hung and does not end");
}

static void launcher_again(struct daemon *d)
{
    struct err err = {0};
    int fd;

    if (keeper_again(&d->launcher, &fd, &err) < 0) {
        if (engine_trouble(d->engine, LAUNCHER_DOWN, "", err.text))
            log_error("the launcher cannot be started; trying again", "error", err.text);
        return;
    }
    native_set_launcher(d->runtime, fd);
}

/* True when it is time to end. */
static bool take_signal(struct daemon *d)
{
    struct signalfd_siginfo info;

    if (read_exact(d->signal_fd, &info, sizeof(info)) < 0)
        return false;
    if (info.ssi_signo != SIGHUP) {
        log_info("stopping", "signal", strsignal((int)info.ssi_signo));
        return true;
    }
    log_info("SIGHUP: the configuration is read at start only; restart to change it");
    return false;
}

/* The sooner of two times, of which -1 is never. */
static int sooner(int a, int b)
{
    return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

enum ending { END_STOP, END_BROKEN, END_REPLACED };

static enum ending serve(struct daemon *d)
{
    struct handover *h = &d->handover;

    for (;;) {
        struct pollfd p[] = {
            {.fd = d->signal_fd, .events = POLLIN},
            {.fd = d->launcher.pidfd, .events = POLLIN},
            {.fd = d->config.parent_fd, .events = POLLIN},
            {.fd = h->listen_fd, .events = POLLIN},
            {.fd = h->peer, .events = POLLIN},
            {.fd = d->config.link.lifeline_fd, .events = POLLIN},
            {.fd = d->launcher.hung_fd, .events = POLLIN},
            {.fd = d->launcher.left_fd, .events = POLLIN}, /* keeper_leave() reaps it */
        };
        int wait_ms = sooner(keeper_wait_ms(&d->launcher), handover_wait_ms(h));
        int n = poll(p, ARRAY_LEN(p), wait_ms);

        if (n < 0 && errno != EINTR) {
            log_error("poll failed", "error", strerror(errno));
            return END_BROKEN;
        }
        if (n > 0 && p[0].revents && take_signal(d))
            return END_STOP;
        if (n > 0 && p[2].revents && parent_gone(d->config.parent_fd)) {
            log_info("stopping: the parent has gone");
            return END_STOP;
        }
        if (n > 0 && p[5].revents && parent_gone(d->config.link.lifeline_fd)) {
            log_info("stopping: the engine that started us has gone");
            return END_STOP;
        }
        if (n > 0 && p[4].revents && handover_hear(h) == HANDOVER_GO)
            return END_REPLACED;
        if (n > 0 && p[3].revents)
            handover_accept(h, d->data, &d->at);
        if (handover_wait_ms(h) == 0)
            handover_drop_peer(h);
        if (n > 0 && p[6].revents)
            launcher_hung(d);
        if (n > 0 && p[1].revents)
            launcher_ended(d);
        else if (keeper_leave(&d->launcher))
            launcher_left(d);
        if (keeper_is_due(&d->launcher))
            launcher_again(d);
        if (keeper_recovered(&d->launcher))
            engine_trouble_over(d->engine, LAUNCHER_DOWN, "");
    }
}

/* ---- stop: what start made, backwards; any part of it may be missing ---- */

static void stop_http(struct daemon *d, bool replaced)
{
    const struct http_heir heir = {handover_give, &d->handover};
    int drain_ms = (int)d->config.drain_timeout * 1000;

    if (d->http)
        http_server_drain(d->http);
    if (d->engine)
        engine_drain(d->engine);
    if (d->http && replaced)
        http_server_hand_over(d->http, drain_ms, &heir);
    else if (d->http)
        http_server_stop(d->http, drain_ms);
}

/* All but the sockets. With replaced, connections go to the one that takes over. */
static void end(struct daemon *d, bool stop_sandboxes, bool replaced)
{
    if (d->runtime)
        native_end_soon(d->runtime);
    worker_stop(&d->worker);
    stop_http(d, replaced);
    mcp_server_free(d->mcp); /* its subscriptions use what is stopped below */
    mcp_face_free(d->mcp_face);
    iii_hub_stop(d->iii);
    services_stop(&d->services);
    if (d->engine_runs)
        engine_stop(d->engine, stop_sandboxes);
    http_server_free(d->http);
    worker_done(&d->worker);
    iii_hub_free(d->iii);
    rest_free(d->rest);
    services_close(&d->services);
    engine_free(d->engine);
    if (d->runtime)
        runtime_free(d->runtime);
    image_store_free(d->images);
    store_close(d->store);
    close_fd(&d->launcher_fd);
    keeper_end(&d->launcher);
    strv_free(d->hosts);
    /* For another start. */
    d->engine_runs = false;
    d->http = NULL;
    d->mcp = NULL;
    d->mcp_face = NULL;
    d->iii = NULL;
    d->rest = NULL;
    d->engine = NULL;
    d->runtime = NULL;
    d->images = NULL;
    d->store = NULL;
    d->hosts = NULL;
}

/* True when another serves in our place. */
static bool hand_over(struct daemon *d)
{
    log_info("giving up for the daemon that replaces this one");
    end(d, false, true);
    if (handover_finish(&d->handover, d->signal_fd))
        return true;
    log_error("the daemon that was to replace this one did not come up; going on");
    return false;
}

/* What is left; with ours false the names are another's by now; with broken nothing was served. */
static void let_go(struct daemon *d, bool ours, bool broken)
{
    if (ours && d->socket_path)
        (void)unlink(d->socket_path);
    if (ours && d->port_path)
        (void)unlink(d->port_path);
    handover_close(&d->handover, ours);
    if (broken && d->made_run)
        (void)rmdir(d->run); /* unless it is needed for what is in it */
    heir_done(&d->heir);
    listeners_close(&d->at);
    close_fd(&d->signal_fd);
    free(d->socket_path);
    free(d->port_path);
    free(d->data);
    free(d->run);
}

static int print_openapi(const struct daemon_config *c)
{
    json_t *doc = functions_openapi(c->prefix);
    int r = json_dumpf(doc, stdout, JSON_INDENT(2));

    json_decref(doc);
    return r < 0 || putchar('\n') == EOF || fflush(stdout) != 0;
}

static enum ending start_and_serve(struct daemon *d)
{
    struct err err = {0};
    bool failed = start(d, &err) < 0;
    bool told = failed && d->starting.runs && goes_on(d, NULL) < 0;

    starting_end(&d->starting);
    if (told) {
        log_info("stopping", "start", err.text);
        return END_STOP;
    }
    if (failed) {
        log_error("cannot start", "error", err.text);
        return END_BROKEN;
    }
    tell_ready(d);
    return serve(d);
}

/* Who ends the daemon may think that all is over. */
static void tell_of_sandboxes(struct daemon *d)
{
    json_t *metrics = NULL;
    char count[24];
    int64_t n;

    if (engine_metrics(d->engine, &metrics, NULL) < 0)
        return;
    n = json_integer_value(json_object_get(metrics, "activeSandboxes"));
    (void)snprintf(count, sizeof(count), "%" PRId64, n);
    if (n > 0)
        log_info("sandboxes go on, and the next start takes them over; --stop-sandboxes ends them",
                 "count", count);
    json_decref(metrics);
}

static enum ending live(struct daemon *d)
{
    enum ending ending;

    do {
        ending = start_and_serve(d);
        if (ending == END_REPLACED && hand_over(d))
            return END_REPLACED;
    } while (ending == END_REPLACED);
    process_notify("STOPPING=1");
    if (ending == END_STOP && d->engine_runs && !d->config.stop_sandboxes)
        tell_of_sandboxes(d);
    end(d, ending == END_STOP && d->config.stop_sandboxes, false);
    return ending;
}

static int run(struct daemon *d)
{
    enum ending ending = END_BROKEN;
    struct err err = {0};

    budget_init(&d->memory, MEMORY_MAX);
    budget_init(&d->streams, STREAMS_MAX);
    log_setup(d->config.log_level, d->config.log_format == LOG_AS_JSON);
    for (char **w = d->config.warnings; w && *w; w++)
        log_warn("configuration", "warning", *w);
    if ((d->config.detach && process_detach(&d->config.ready_fd, &err) < 0) || set_up(d, &err) < 0)
        log_error("cannot start", "error", err.text);
    else
        ending = live(d);
    /* One that was to replace another and did not come up has borrowed them. */
    let_go(d, ending != END_REPLACED && !d->config.replace, ending == END_BROKEN);
    budget_done(&d->memory);
    budget_done(&d->streams);
    if (ending == END_STOP && d->config.remove)
        (void)remove_tree(AT_FDCWD, d->config.remove);
    if (ending != END_BROKEN)
        log_info(ending == END_STOP ? "stopped" : "replaced");
    return ending == END_BROKEN;
}

int daemon_main(int argc, char **argv)
{
    struct daemon d = {.launcher = LAUNCHER_KEEPER_NONE,
                       .launcher_fd = -1,
                       .signal_fd = -1,
                       .at = NO_LISTENERS,
                       .handover = {.listen_fd = -1, .peer = -1},
                       .heir = {.fd = -1, .pidfd = -1, .listeners = NO_LISTENERS}};
    struct err err = {0};
    int status;

    if (config_read(&d.config, argc, argv, &err) < 0) {
        (void)fprintf(stderr, "cay %s: %s\n", argv[0], err.text);
        status = 2;
    } else if (d.config.help) {
        config_help(stdout, d.config.link.worker);
        status = 0;
    } else if (d.config.openapi) {
        status = print_openapi(&d.config);
    } else {
        status = run(&d);
    }
    config_done(&d.config);
    return status;
}
