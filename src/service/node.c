#include "service/node.h"

#include <inttypes.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/metrics.h"

#define SAMPLE_MIN_NS 200000000 /* closer samples say more about the clock than about the load */

struct node {
    struct engine *engine;
    char id[ID_SIZE], hostname[256];
    pthread_mutex_t lock; /* of all that follows */
    int64_t sample_ns;
    uint64_t busy, all; /* ticks of all cores, at the sample */
    double cpu_percent;
};

/* ---- who it is ---- */

static void make_id(struct node *n, const char *data_dir)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char machine[64];
    auto_free char *text = NULL;
    ssize_t len = read_file_at(-1, "/etc/machine-id", machine, sizeof(machine));

    text = xasprintf("%s\n%s", len > 0 ? machine : n->hostname, data_dir);
    (void)SHA256((const unsigned char *)text, strlen(text), digest);
    (void)snprintf(n->id, sizeof(n->id), "wrk_");
    for (size_t i = 0; i < 12; i++)
        (void)snprintf(n->id + 4 + 2 * i, 3, "%02x", digest[i]);
}

/* ---- how much it does ---- */

/* Of all cores, since the machine is up. */
static int read_ticks(uint64_t *ret_busy, uint64_t *ret_all)
{
    uint64_t t[8] = {0};
    char text[4096];

    if (read_file_at(-1, "/proc/stat", text, sizeof(text)) <= 0 ||
        sscanf(text,
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %" SCNu64,
               &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) != 8)
        return -1;
    *ret_all = 0;
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        *ret_all += t[i];
    *ret_busy = *ret_all - t[3] - t[4]; /* but for idle and waiting for disks */
    return 0;
}

/* Since the look before. */
static double cpu_percent(struct node *n)
{
    uint64_t busy, all;
    int64_t now = mono_ns();
    double percent;

    pthread_mutex_lock(&n->lock);
    if (now - n->sample_ns >= SAMPLE_MIN_NS && read_ticks(&busy, &all) == 0 && all > n->all) {
        n->cpu_percent = 100.0 * (double)(busy - n->busy) / (double)(all - n->all);
        n->sample_ns = now;
        n->busy = busy;
        n->all = all;
    }
    percent = n->cpu_percent;
    pthread_mutex_unlock(&n->lock);
    return percent;
}

/* ---- its life ---- */

struct node *node_new(struct engine *engine, const char *data_dir)
{
    struct node *n = xcalloc(1, sizeof(*n));

    n->engine = engine;
    pthread_mutex_init(&n->lock, NULL);
    if (gethostname(n->hostname, sizeof(n->hostname) - 1) < 0)
        (void)snprintf(n->hostname, sizeof(n->hostname), "localhost");
    make_id(n, data_dir);
    (void)read_ticks(&n->busy, &n->all);
    return n;
}

void node_free(struct node *n)
{
    if (!n)
        return;
    pthread_mutex_destroy(&n->lock);
    free(n);
}

/* ---- what is asked ---- */

static json_int_t count_of(const json_t *metrics, const char *key)
{
    return json_integer_value(json_object_get(metrics, key));
}

static json_t *memory_json(void)
{
    struct sysinfo info = {.mem_unit = 1};

    (void)sysinfo(&info);
    return json_pack("{s:I, s:I}", "totalMb",
                     (json_int_t)((uint64_t)info.totalram * info.mem_unit >> 20), "freeMb",
                     (json_int_t)((uint64_t)info.freeram * info.mem_unit >> 20));
}

int node_worker(struct node *n, json_t **ret, struct err *err)
{
    json_t *metrics;

    if (engine_metrics(n->engine, &metrics, err) < 0)
        return -1;
    *ret =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:f, s:i, s:o, s:I, s:s, s:I}", "workerId", n->id,
                  "hostname", n->hostname, "activeSandboxes", count_of(metrics, "activeSandboxes"),
                  "stoppedSandboxes", count_of(metrics, "stoppedSandboxes"), "maxSandboxes",
                  (json_int_t)engine_config(n->engine)->max_sandboxes, "cpuPercent", cpu_percent(n),
                  "cores", get_nprocs(), "memory", memory_json(), "diskFreeMb",
                  count_of(metrics, "diskFreeBytes") >> 20, "version", CAY_VERSION, "lastHeartbeat",
                  (json_int_t)now_ms());
    json_decref(metrics);
    return 0;
}

int node_select(struct node *n, const char **ret, struct err *err)
{
    json_t *metrics;
    bool full, low;

    if (engine_metrics(n->engine, &metrics, err) < 0)
        return -1;
    full =
        count_of(metrics, "activeSandboxes") >= (json_int_t)engine_config(n->engine)->max_sandboxes;
    low = json_is_true(json_object_get(metrics, "diskLow"));
    json_decref(metrics);
    if (full || low)
        return err_code(err, ERR_UNAVAILABLE, "no_capacity", "No worker capacity available: %s",
                        full ? "there are as many sandboxes as CAY_MAX_SANDBOXES allows"
                             : "the disk is nearly full");
    *ret = n->id;
    return 0;
}
