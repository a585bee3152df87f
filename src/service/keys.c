#include "service/keys.h"

#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/sandboxes.h"

#define BUCKETS    256 /* by the first byte of an id, which is a digest */
#define WAITS_MAX  64  /* for one key */
#define ANSWER_MAX (256u << 10)
#define RETRY_S    1

/* A request that runs with its key. It stays while somebody waits for its result. */
struct key_hold {
    struct keys *keys;
    struct key_hold *next; /* of its bucket, while it runs */
    struct key_row row;
    /* Under the lock of keys: */
    unsigned refs;
    bool done, failed;
    char *answer; /* JSON text; NULL = it failed, or is not to be given */
    struct err err;
    struct key_wait *waits;
    unsigned n_waits;
};

struct key_wait {
    struct key_hold *hold;
    struct key_wait *next;
    int fd;
};

struct keys {
    struct store_keys *store;
    struct engine *engine;
    pthread_mutex_t lock;
    struct key_hold *buckets[BUCKETS];
};

int keys_open(const char *data_dir, struct engine *engine, struct keys **ret, struct err *err)
{
    struct keys *k = xcalloc(1, sizeof(*k));

    if (store_keys_open(data_dir, &k->store, err) < 0) {
        free(k);
        return -1;
    }
    k->engine = engine;
    (void)pthread_mutex_init(&k->lock, NULL);
    *ret = k;
    return 0;
}

void keys_close(struct keys *k)
{
    if (!k)
        return;
    store_keys_close(k->store);
    (void)pthread_mutex_destroy(&k->lock);
    free(k);
}

/* ---- what an earlier daemon left ---- */

static char *text_of(const json_t *answer)
{
    char *text = json_dumps(answer, JSON_COMPACT);

    if (!text)
        abort();
    return text;
}

/* An id that was chosen is given to nobody else before this is over: nothing is served yet. */
static int settle(struct keys *k, const struct key_row *row, struct err *err)
{
    auto_free char *text = NULL;
    json_t *sandbox = NULL;
    struct err why = {0};

    if (row->tells && !row->made)
        return store_keys_forget(k->store, row->id, err);
    if (!row->made || !id_valid(row->made, "sbx"))
        return store_keys_end(k->store, row->id, KEY_UNKNOWN, NULL, NULL, err);
    if (engine_get(k->engine, row->made, &sandbox, &why) < 0)
        return why.kind == ERR_NOT_FOUND
                   ? store_keys_forget(k->store, row->id, err)
                   : store_keys_end(k->store, row->id, KEY_UNKNOWN, NULL, NULL, err);
    text = text_of(sandbox);
    json_decref(sandbox);
    return store_keys_end(k->store, row->id, KEY_ANSWERED, NULL, text, err);
}

/* What cannot be settled stays begun, and nobody runs with it: a full disk is no reason not to
 * start. */
void keys_start(struct keys *k)
{
    struct err err = {0};
    struct key_row row;
    int r;

    while ((r = store_keys_next_begun(k->store, &row, &err)) > 0) {
        r = settle(k, &row, &err);
        key_row_done(&row);
        if (r < 0)
            break;
    }
    if (r < 0)
        log_error("requests of an earlier daemon with a key have no answer", "error", err.text);
}

/* ---- holds ---- */

static void put_digest(unsigned char ret[KEY_DIGEST], const char *caller, const char *key)
{
    EVP_MD_CTX *sha = EVP_MD_CTX_new();

    /* The end of the first is part of it, so that no two pairs are the same bytes. */
    if (!sha || EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1 ||
        EVP_DigestUpdate(sha, caller, strlen(caller) + 1) != 1 ||
        EVP_DigestUpdate(sha, key, strlen(key)) != 1 || EVP_DigestFinal_ex(sha, ret, NULL) != 1)
        abort();
    EVP_MD_CTX_free(sha);
}

static struct key_hold *hold_new(struct keys *k, const struct key_ask *ask)
{
    struct key_hold *h = xcalloc(1, sizeof(*h));
    const char *caller = ask->caller ? ask->caller : "";

    h->keys = k;
    h->refs = 1;
    h->row.state = KEY_BEGUN;
    h->row.tells = ask->tells;
    h->row.at_ms = now_ms();
    memcpy(h->row.body, ask->body, KEY_DIGEST);
    put_digest(h->row.id, caller, ask->key);
    put_digest(h->row.caller, caller, "");
    return h;
}

static void hold_unref(struct key_hold *h)
{
    struct keys *k = h->keys;
    unsigned left;

    pthread_mutex_lock(&k->lock);
    left = --h->refs;
    pthread_mutex_unlock(&k->lock);
    if (left > 0)
        return;
    key_row_done(&h->row);
    free(h->answer);
    free(h);
}

static struct key_hold **find_hold(struct keys *k, const unsigned char id[KEY_DIGEST])
{
    struct key_hold **at = &k->buckets[id[0]];

    while (*at && memcmp((*at)->row.id, id, KEY_DIGEST) != 0)
        at = &(*at)->next;
    return at;
}

/* What became of it is decided: nobody finds it any more, and who waits is woken. */
static void let_go(struct key_hold *h, char *answer, const struct err *err)
{
    struct keys *k = h->keys;
    struct key_hold **at;

    pthread_mutex_lock(&k->lock);
    at = find_hold(k, h->row.id);
    if (*at == h)
        *at = h->next;
    h->done = true;
    h->failed = err != NULL;
    if (err)
        h->err = *err;
    h->answer = answer;
    for (struct key_wait *w = h->waits; w; w = w->next)
        (void)eventfd_write(w->fd, 1);
    pthread_mutex_unlock(&k->lock);
    hold_unref(h);
}

/* ---- who comes with a key ---- */

static int other_body(struct err *err)
{
    return err_code(err, ERR_CONFLICT, "idempotency_key_reused",
                    "this Idempotency-Key came with another request within the last 24 hours; send "
                    "this one with a key of its own");
}

static int not_known(const char *made, struct err *err)
{
    return err_code(err, ERR_CONFLICT, "idempotency_unknown",
                    "a request with this Idempotency-Key was begun and its answer is not kept%s%s; "
                    "look whether what it makes is there, and if not send it with another key",
                    made ? ": it made " : "", made ? made : "");
}

static int in_progress(struct err *err)
{
    (void)err_code(err, ERR_CONFLICT, "idempotency_in_progress",
                   "a request with this Idempotency-Key is not done yet; send it again");
    if (err)
        err->retry_s = RETRY_S;
    return -1;
}

/* Under the lock. */
static int join(struct key_hold *h, struct key_wait **ret, struct err *err)
{
    struct key_wait *w;
    int fd;

    if (h->n_waits >= WAITS_MAX)
        return in_progress(err);
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return err_sys(err, errno, "wait for the same request");
    w = xcalloc(1, sizeof(*w));
    *w = (struct key_wait){.hold = h, .next = h->waits, .fd = fd};
    h->waits = w;
    h->n_waits++;
    h->refs++;
    *ret = w;
    return KEY_WAIT;
}

/* Puts mine in its place unless another is there. */
static int take_place(struct keys *k, struct key_hold *mine, struct key_wait **wait,
                      struct err *err)
{
    struct key_hold **at;
    int r = KEY_RUN;

    pthread_mutex_lock(&k->lock);
    at = find_hold(k, mine->row.id);
    if (!*at)
        *at = mine;
    else if (memcmp((*at)->row.body, mine->row.body, KEY_DIGEST) != 0)
        r = other_body(err);
    else
        r = join(*at, wait, err);
    pthread_mutex_unlock(&k->lock);
    return r;
}

static int replay(const struct key_row *row, const struct key_hold *mine, json_t **answer,
                  struct err *err)
{
    if (memcmp(row->body, mine->row.body, KEY_DIGEST) != 0)
        return other_body(err);
    if (row->state == KEY_ANSWERED && row->answer)
        *answer = json_loads(row->answer, 0, NULL);
    return *answer ? KEY_REPLAY : not_known(row->made, err);
}

/* What is known of it from before; else it is written that it begins. */
static int begin(struct keys *k, struct key_hold *mine, json_t **answer, struct err *err)
{
    struct key_row row;
    int r = store_keys_find(k->store, mine->row.id, &row, err);

    if (r > 0) {
        r = replay(&row, mine, answer, err);
        key_row_done(&row);
        return r;
    }
    if (r < 0 || store_keys_add(k->store, &mine->row, err) < 0 ||
        (!mine->row.tells && store_keys_sync(k->store, err) < 0))
        return -1;
    return KEY_RUN;
}

int keys_take(struct keys *k, const struct key_ask *ask, struct key_hold **hold, json_t **answer,
              struct key_wait **wait, struct err *err)
{
    struct key_hold *mine = hold_new(k, ask);
    struct err why = {0};
    int r = take_place(k, mine, wait, err);

    *answer = NULL;
    if (r != KEY_RUN) {
        hold_unref(mine);
        return r;
    }
    r = begin(k, mine, answer, &why);
    if (r == KEY_RUN) {
        *hold = mine;
        return KEY_RUN;
    }
    if (r < 0 && err)
        *err = why;
    let_go(mine, r == KEY_REPLAY ? text_of(*answer) : NULL, r < 0 ? &why : NULL);
    return r;
}

/* ---- who runs ---- */

int keys_makes(struct key_hold *hold, const char *id, struct err *err)
{
    struct keys *k = hold->keys;

    if (store_keys_set_made(k->store, hold->row.id, id, err) < 0)
        return -1;
    free(hold->row.made);
    hold->row.made = xstrdup(id);
    return store_keys_sync(k->store, err);
}

void keys_answer(struct key_hold *hold, const json_t *answer, bool secret)
{
    struct keys *k = hold->keys;
    const char *made = json_string_value(json_object_get(answer, "id"));
    char *text = text_of(answer);
    bool keep = !secret && strlen(text) <= ANSWER_MAX;
    struct err err = {0};

    /* What could not be written is begun, and stays so: nobody runs with the key again. */
    if (store_keys_end(k->store, hold->row.id, keep ? KEY_ANSWERED : KEY_UNKNOWN, made,
                       keep ? text : NULL, &err) < 0)
        log_error("the answer of a request with a key could not be kept", "error", err.text);
    let_go(hold, text, NULL);
}

void keys_fail(struct key_hold *hold, const struct err *err)
{
    struct keys *k = hold->keys;
    struct err why = {0};

    if (store_keys_forget(k->store, hold->row.id, &why) < 0)
        log_error("the key of a request that failed could not be forgotten", "error", why.text);
    let_go(hold, NULL, err);
}

/* ---- who waits ---- */

int key_wait_fd(const struct key_wait *wait)
{
    return wait->fd;
}

int key_wait_result(struct key_wait *wait, json_t **answer, struct err *err)
{
    struct key_hold *h = wait->hold;
    int r = 1;

    pthread_mutex_lock(&h->keys->lock);
    if (h->done && h->failed && h->err.code && strcmp(h->err.code, "cancelled") == 0) {
        r = in_progress(err); /* its caller went away, not this one */
    } else if (h->done && h->failed) {
        if (err)
            *err = h->err;
        r = -1;
    } else if (h->done) {
        *answer = json_loads(h->answer, 0, NULL);
        r = 0;
    }
    pthread_mutex_unlock(&h->keys->lock);
    return r;
}

void key_wait_free(struct key_wait *wait)
{
    struct key_hold *h;
    struct key_wait **at;

    if (!wait)
        return;
    h = wait->hold;
    pthread_mutex_lock(&h->keys->lock);
    for (at = &h->waits; *at != wait;)
        at = &(*at)->next;
    *at = wait->next;
    h->n_waits--;
    pthread_mutex_unlock(&h->keys->lock);
    close_fd(&wait->fd);
    free(wait);
    hold_unref(h);
}
