#include "iii/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_file.h"
#include "base/log.h"
#include "base/mem.h"
#include "functions/input.h"
#include "http/websocket_client.h"
#include "iii/link_internal.h"
#include "iii/wire.h"

#define BACK_OFF_MS     1000
#define BACK_OFF_MAX_MS 30000
#define STANDBY_MS      5000
#define SELF_MS         300000 /* between looks whether an engine is there in place of ourselves */
#define PING_MS         20000
#define STALL_MS        300000
#define PATIENCE        2  /* pings: the third finds that nothing has come since the first */
#define ROUND           64 /* messages that are taken before others are sent */
#define WEIGHT_FREE     (64u << 10) /* what the budget is not asked for */
#define BYE_MS          200         /* for the Close of an engine that we leave */

/* ---- what a process after us needs ---- */

static int open_memory(const struct iii_link *l)
{
    return l->config.memory_dir ? open(l->config.memory_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                : -1;
}

/* Of an engine that still takes a connection of ours for alive which is not, that connection can be
 * ended with what it told us. */
static void remember(struct iii_link *l)
{
    auto_close int dir = open_memory(l);
    struct err err = {0};

    if (dir >= 0 && json_file_write(dir, III_LINK_FILE,
                                    json_pack("{s:s, s:s, s:s}", "url", l->config.url, "worker_id",
                                              l->worker_id, "reattach_token", l->token),
                                    &err) < 0)
        log_warn("cannot remember the engine's token", "error", err.text);
}

static void put_uuid(char to[UUID_SIZE], const json_t *m, const char *key)
{
    const char *text = wire_name(m, key, UUID_SIZE - 1);

    (void)snprintf(to, UUID_SIZE, "%s", text ? text : "");
}

static void recall(struct iii_link *l)
{
    auto_close int dir = open_memory(l);
    json_t *kept = NULL;

    if (dir < 0 || json_file_read(dir, III_LINK_FILE, &kept, NULL) < 0)
        return;
    if (strcmp(json_text(kept, "url"), l->config.url) == 0) {
        put_uuid(l->worker_id, kept, "worker_id");
        put_uuid(l->token, kept, "reattach_token");
    }
    json_decref(kept);
}

/* ---- what the engine says ---- */

static void take_identity(struct iii_link *l, const json_t *m)
{
    if (l->identified || !wire_name(m, "worker_id", UUID_SIZE - 1))
        return;
    l->identified = true;
    (void)pthread_mutex_lock(&l->lock);
    put_uuid(l->worker_id, m, "worker_id");
    put_uuid(l->token, m, "reattach_token");
    (void)pthread_mutex_unlock(&l->lock);
    remember(l);
}

static void take_answer(struct iii_link *l, json_t *m)
{
    if (!link_look_take(l, m))
        link_take_answer(l, l->connections, m);
}

static void take_error(struct iii_link *l, const json_t *m)
{
    const json_t *error = json_object_get(m, "error");

    if (l->told_error)
        return;
    l->told_error = true;
    log_warn("the engine refuses the connection", "engine", l->config.url, "code",
             json_text(error, "code"), "error", json_text(error, "message"));
}

static void dispatch(struct iii_link *l, json_t *m, size_t weight)
{
    const char *type = json_text(m, "type");

    if (strcmp(type, "invokefunction") == 0)
        link_called(l, l->connections, m, weight);
    else if (strcmp(type, "invocationresult") == 0)
        take_answer(l, m);
    else if (strcmp(type, "workerregistered") == 0)
        take_identity(l, m);
    else if (strcmp(type, "registrationrejected") == 0)
        link_take_rejection(l, m);
    else if (strcmp(type, "ping") == 0)
        (void)link_say(l, l->connections, xstrdup("{\"type\":\"pong\"}"));
    else if (strcmp(type, "error") == 0)
        take_error(l, m);
}

static void refuse(struct iii_link *l, const struct websocket_message *text, const char *code,
                   const char *why)
{
    char id[UUID_SIZE];

    if (wire_find_id(text->data, text->len, id) == WIRE_CALL)
        link_refuse(l, l->connections, id, code, why);
    else
        log_debug("a message of the engine is dropped", "because", why);
}

static void take_message(struct iii_link *l, const struct websocket_message *text)
{
    struct budget *memory = l->hub->config.memory;
    size_t weight = input_weight(text->data, text->len);
    struct err err = {0};
    json_t *m;

    if (weight <= WEIGHT_FREE)
        weight = 0;
    if (weight && !budget_take(memory, weight)) {
        refuse(l, text, "invocation_error", "busy: as much is held for other calls as may be");
        return;
    }
    m = input_parse(text->data, text->len, &err);
    if (m)
        dispatch(l, m, weight || text->len > WEIGHT_FREE ? weight + text->len : 0);
    else
        refuse(l, text, "deserialization_error", err.text);
    json_decref(m);
    budget_give(memory, weight);
}

/* ---- a connection ---- */

/* For who waits until all has left. */
static void note_sending(struct iii_link *l)
{
    (void)pthread_mutex_lock(&l->lock);
    l->sending = websocket_client_wants_write(l->client);
    if (l->drains)
        (void)pthread_cond_broadcast(&l->told);
    (void)pthread_mutex_unlock(&l->lock);
}

/* As far as it leaves at once; the rest waits where its bound is. */
static int send_texts(struct iii_link *l)
{
    while (!websocket_client_wants_write(l->client)) {
        struct link_text *t = link_take_text(l);
        int r;

        if (!t)
            return 0;
        r = websocket_send(websocket_client_socket(l->client), true, t->text, t->len);
        free(t);
        if (r < 0)
            return -1;
    }
    return 0;
}

static bool stops(struct iii_link *l)
{
    bool now;

    (void)pthread_mutex_lock(&l->lock);
    now = l->stops;
    (void)pthread_mutex_unlock(&l->lock);
    return now;
}

void link_send_now(struct iii_link *l, char *text)
{
    (void)websocket_send(websocket_client_socket(l->client), true, text, strlen(text));
    free(text);
}

/* Who we are first: what comes before that is kept back by the engine for a while. */
static void introduce(struct iii_link *l)
{
    if (*l->worker_id)
        link_send_now(l, link_reattach_text(l->worker_id, l->token));
    link_send_now(l, link_metadata_text(&l->config));
    link_look_begin(l);
}

void link_offer(struct iii_link *l)
{
    struct websocket *ws = websocket_client_socket(l->client);

    l->offers = true;
    l->pongs = websocket_pongs(ws);
    link_offer_each(l, link_send_now);
    websocket_ping(ws);
}

/* Nothing is known of a new connection. */
static void forget(struct iii_link *l)
{
    link_look_reset(l);
    (void)json_object_clear(l->offered);
    (void)json_object_clear(l->taken);
    (void)snprintf(l->previous_id, sizeof(l->previous_id), "%s", l->worker_id);
    l->identified = l->offers = l->registered = l->steps_back = false;
    l->told_odd = l->told_error = l->told_replaced = false;
}

static int dial(struct iii_link *l, struct err *err)
{
    const struct websocket_dial how = {.url = l->config.url,
                                       .headers = l->config.headers,
                                       .timeout_ms = LINK_DIAL_MS,
                                       .stop_fd = l->stop_fd,
                                       .message_max = III_MESSAGE_MAX,
                                       .unsent_max = LINK_OUTBOX_MAX};

    l->client = websocket_dial(&how, err);
    if (!l->client)
        return -1;
    websocket_set_pings(websocket_client_socket(l->client), l->config.ping_ms * 1000000ll,
                        PATIENCE);
    forget(l);
    introduce(l);
    (void)pthread_mutex_lock(&l->lock);
    l->connection = ++l->connections;
    (void)pthread_mutex_unlock(&l->lock);
    return 0;
}

static void hang_up(struct iii_link *l)
{
    struct link_text *t;

    (void)pthread_mutex_lock(&l->lock);
    l->connection = 0;
    l->is_up = false;
    (void)pthread_cond_broadcast(&l->told);
    (void)pthread_mutex_unlock(&l->lock);
    while ((t = link_take_text(l)))
        free(t);
    websocket_client_close(l->client, WEBSOCKET_NORMAL, NULL, BYE_MS);
    websocket_client_free(steal_ptr(l->client));
}

/* Until one of the sockets has something, or a ping or a look is due. */
static void await_events(struct iii_link *l)
{
    struct websocket *ws = websocket_client_socket(l->client);
    int64_t ping_ns = websocket_ping_ns(ws), look_ns = l->look.due_ns;
    int64_t left = ((ping_ns < look_ns ? ping_ns : look_ns) - mono_ns()) / 1000000 + 1;
    struct pollfd p[] = {
        {.fd = websocket_client_fd(l->client), .events = websocket_client_events(l->client)},
        {.fd = l->wake_fd, .events = POLLIN},
        {.fd = l->stop_fd, .events = POLLIN},
    };
    eventfd_t count;

    if (websocket_has_message(ws))
        left = 0;
    (void)poll(p, ARRAY_LEN(p), left < 0 ? 0 : (int)left);
    (void)eventfd_read(l->wake_fd, &count);
}

/* False when there is no link any more. */
static bool take_messages(struct iii_link *l)
{
    struct websocket_message m;
    int r = 0;

    for (int i = 0; i < ROUND && !l->steps_back; i++) {
        r = websocket_next(websocket_client_socket(l->client), &m);
        if (r <= 0)
            break;
        take_message(l, &m);
    }
    return r >= 0;
}

/* Successes are told by nobody. But it takes one message after the other: who has answered the ping
 * behind the registrations has looked at them, and has said before what it does not want. */
static void look_registered(struct iii_link *l)
{
    struct websocket *ws = websocket_client_socket(l->client);
    char count[24];

    if (l->registered || !l->offers || websocket_pongs(ws) == l->pongs || websocket_has_message(ws))
        return;
    l->registered = true;
    l->registered_ns = mono_ns();
    l->failures = 0;
    (void)pthread_mutex_lock(&l->lock);
    l->is_up = true;
    (void)pthread_mutex_unlock(&l->lock);
    (void)snprintf(count, sizeof(count), "%zu", json_object_size(l->offered));
    log_info("worker of an engine", "engine", l->config.url, "name", l->config.name, "worker_id",
             l->worker_id, "functions", count);
}

static void serve(struct iii_link *l)
{
    struct websocket *ws = websocket_client_socket(l->client);

    for (;;) {
        await_events(l);
        if (stops(l))
            return;
        if (!take_messages(l))
            break;
        if (!l->steps_back)
            link_look_step(l);
        if (l->steps_back)
            return;
        look_registered(l);
        if (websocket_client_flush(l->client) < 0 || send_texts(l) < 0)
            break;
        if (websocket_keep_alive(ws, true) < 0) {
            log_warn("the engine is silent", "engine", l->config.url);
            break;
        }
        note_sending(l);
    }
    if (l->registered)
        log_warn("the engine is gone; dialling it again", "engine", l->config.url);
}

/* After a while as its worker a conflict is a new one, and is logged again. */
static void settle_conflict(struct iii_link *l)
{
    if (l->registered && mono_ns() - l->registered_ns > l->config.standby_ms * 1000000ll)
        l->told_conflict = false;
}

/* ---- one after the other ---- */

/* Up to three tenths more or less, so that not all workers of an engine come back at once. */
static int64_t jittered_ms(int64_t ms)
{
    uint16_t random;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        abort();
    return ms * (700 + 600 * random / UINT16_MAX) / 1000;
}

static int64_t wait_ms(struct iii_link *l)
{
    int64_t ms = l->config.back_off_ms, most = ms > BACK_OFF_MAX_MS ? ms : BACK_OFF_MAX_MS;

    if (l->steps_back)
        return jittered_ms(l->is_self ? SELF_MS : l->config.standby_ms);
    for (unsigned i = 1; i < l->failures && ms < BACK_OFF_MAX_MS; i++)
        ms *= 2;
    return jittered_ms(ms < most ? ms : most);
}

static void back_off(struct iii_link *l)
{
    struct pollfd p = {.fd = l->stop_fd, .events = POLLIN};

    l->failures = l->steps_back ? 0 : l->failures + 1;
    (void)poll(&p, 1, (int)wait_ms(l));
    l->steps_back = l->is_self = false; /* the next dial may fail for another reason */
}

static void *run(void *arg)
{
    struct iii_link *l = arg;
    bool told = false;

    (void)pthread_setname_np(pthread_self(), "iii-link");
    while (!stops(l)) {
        struct err err = {0};

        if (dial(l, &err) == 0) {
            serve(l);
            settle_conflict(l);
            hang_up(l);
            told = false;
        } else if (!told && !stops(l)) {
            log_warn("cannot reach the engine: start it, or give its address with --engine or "
                     "CAY_ENGINE; cay keeps trying",
                     "engine", l->config.url, "error", err.text);
            told = true;
        }
        if (!stops(l))
            back_off(l);
    }
    return NULL;
}

/* ---- life ---- */

/* Where its channels are: without a query, and without a slash at the end. */
static char *base_of(const char *url)
{
    size_t len = strcspn(url, "?");

    while (len > 0 && url[len - 1] == '/')
        len--;
    return xstrndup(url, len);
}

static char *copy_of(const char *text)
{
    return text && *text ? xstrdup(text) : NULL;
}

static void copy_config(struct iii_link *l, const struct iii_link_config *c)
{
    l->config = *c;
    l->config.url = xstrdup(c->url);
    l->config.headers = c->headers ? strv_copy(c->headers) : NULL;
    l->config.name = xstrdup(c->name && *c->name ? c->name : III_WORKER_NAME);
    l->config.namespace = copy_of(c->namespace);
    l->config.isolation = copy_of(c->isolation);
    l->config.memory_dir = copy_of(c->memory_dir);
    if (!c->in_flight_max)
        l->config.in_flight_max = III_IN_FLIGHT_MAX;
    if (!c->back_off_ms)
        l->config.back_off_ms = BACK_OFF_MS;
    if (!c->standby_ms)
        l->config.standby_ms = STANDBY_MS;
    if (!c->ask_ms)
        l->config.ask_ms = LINK_ASK_MS;
    if (!c->ping_ms)
        l->config.ping_ms = PING_MS;
    if (!c->stall_ms)
        l->config.stall_ms = STALL_MS;
}

/* Who has told the daemon to be a worker of that engine has given its callers all rights but those
 * to hand out rights. */
static struct iii_asker *asker_new(const struct iii_link_config *c)
{
    struct caller caller = {.face = "iii",
                            .name = "iii-engine",
                            .scopes = 1u << SCOPE_NONE | 1u << SCOPE_READ | 1u << SCOPE_EXEC |
                                      1u << SCOPE_WRITE};

    return iii_asker_new(&caller, NULL, c->namespace ? c->namespace : III_NAMESPACE);
}

int iii_link_new(struct iii_hub *hub, const struct iii_link_config *config, struct iii_link **ret,
                 struct err *err)
{
    struct websocket_url url = {0};
    pthread_condattr_t monotonic;
    struct iii_link *l;

    if (websocket_url_parse(config->url, &url, err) < 0)
        return -1;
    websocket_url_done(&url);
    l = xcalloc(1, sizeof(*l));
    l->hub = hub;
    copy_config(l, config);
    l->base = base_of(config->url);
    l->asker = asker_new(&l->config);
    l->offered = json_object();
    l->taken = json_object();
    l->look.due_ns = INT64_MAX;
    l->last = &l->first;
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&l->told, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    l->pipes = link_pipes_new(l);
    recall(l);
    *ret = l;
    return 0;
}

int iii_link_start(struct iii_link *l, struct err *err)
{
    if (l->wake_fd < 0 || l->stop_fd < 0)
        return err_sys(err, EMFILE, "make an eventfd");
    if (link_pipes_start(l->pipes, err) < 0)
        return -1;
    if (pthread_create(&l->thread, NULL, run, l) != 0)
        return err_set(err, ERR_UNAVAILABLE, "cannot start a thread");
    l->runs = true;
    return 0;
}

/* Under the lock. The thread tells when it has sent the last of it. */
static bool is_idle(const struct iii_link *l)
{
    return !l->connection || (l->in_flight == 0 && l->outbox == 0 && !l->sending);
}

void iii_link_drain(struct iii_link *l, int ms)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (ms % 1000) * 1000000l;
    if (until.tv_nsec >= 1000000000l) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000l;
    }
    (void)pthread_mutex_lock(&l->lock);
    l->drains = true;
    while (l->runs && !is_idle(l))
        if (pthread_cond_timedwait(&l->told, &l->lock, &until) == ETIMEDOUT)
            break;
    (void)pthread_mutex_unlock(&l->lock);
}

void iii_link_stop(struct iii_link *l)
{
    if (!l)
        return;
    (void)pthread_mutex_lock(&l->lock);
    l->stops = true;
    (void)pthread_cond_broadcast(&l->told);
    (void)pthread_mutex_unlock(&l->lock);
    atomic_store(&l->asker->gone, true);
    (void)eventfd_write(l->stop_fd, 1);
    if (l->runs)
        (void)pthread_join(l->thread, NULL);
    l->runs = false;
    link_pipes_stop(l->pipes);
}

void iii_link_free(struct iii_link *l)
{
    if (!l)
        return;
    link_pipes_free(l->pipes);
    iii_asker_unref(l->asker);
    link_look_reset(l);
    json_decref(l->offered);
    json_decref(l->taken);
    close_fd(&l->wake_fd);
    close_fd(&l->stop_fd);
    (void)pthread_cond_destroy(&l->told);
    (void)pthread_mutex_destroy(&l->lock);
    strv_free((char **)l->config.headers);
    free((char *)l->config.url);
    free((char *)l->config.name);
    free((char *)l->config.namespace);
    free((char *)l->config.isolation);
    free((char *)l->config.memory_dir);
    free(l->base);
    free(l);
}

bool iii_link_is_up(struct iii_link *l)
{
    bool is_up;

    (void)pthread_mutex_lock(&l->lock);
    is_up = l->is_up;
    (void)pthread_mutex_unlock(&l->lock);
    return is_up;
}
