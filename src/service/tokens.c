#include "service/tokens.h"

#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/digest.h"
#include "store/documents.h"

#define ID_DIGITS    24
#define SHOWN_MS     (30 * 86400000ll) /* how long one that has expired is still listed */
#define HEX          "0123456789abcdef"
#define SECRET_BYTES (TOKEN_SECRET_HEX / 2)

/* In memory, for who asks with every call. */
struct held {
    struct token token;
    char digest[DIGEST_HEX];
    atomic_bool revoked;  /* its document could not be deleted yet */
    atomic_llong used_ms; /* 0 = not since the daemon started */
};

struct tokens {
    uint32_t max;
    struct documents *documents;
    pthread_rwlock_t lock; /* the tree and what is in it */
    void *tree;            /* of struct held, by id */
    pthread_mutex_t making;
};

const char *const token_scope_words[] = {"read", "exec", "write", "admin", NULL};

/* ---- the tree ---- */

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct held *)a)->token.id, ((const struct held *)b)->token.id);
}

/* With the lock. */
static struct held *find(struct tokens *t, const char *id)
{
    struct held key = {0}, **at;

    (void)snprintf(key.token.id, sizeof(key.token.id), "%s", id);
    at = tfind(&key, &t->tree, compare);
    return at ? *at : NULL;
}

static void hold(struct tokens *t, struct held *h)
{
    (void)pthread_rwlock_wrlock(&t->lock);
    if (!tsearch(h, &t->tree, compare))
        abort();
    (void)pthread_rwlock_unlock(&t->lock);
}

/* ---- documents ---- */

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

static unsigned scopes_of(const json_t *words)
{
    unsigned scopes = 0;

    for (size_t i = 0; i < json_array_size(words); i++)
        for (unsigned s = 0; token_scope_words[s]; s++)
            if (strcmp(token_scope_words[s], json_string_value(json_array_get(words, i))) == 0)
                scopes |= 1u << s;
    return scopes;
}

static json_t *scopes_json(unsigned scopes)
{
    json_t *words = json_array();

    for (unsigned s = 0; token_scope_words[s]; s++)
        if (scopes & 1u << s)
            (void)json_array_append_new(words, json_string(token_scope_words[s]));
    return words;
}

static bool is_strings(const json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        if (!json_is_string(json_array_get(array, i)))
            return false;
    return json_is_array(array);
}

/* {key: value} with one member, both as long as they may be. */
static bool read_label(const json_t *label, char key[TOKEN_LABEL_MAX + 1],
                       char value[TOKEN_LABEL_MAX + 1])
{
    void *one = json_object_iter((json_t *)(uintptr_t)label);
    const char *name = json_object_iter_key(one);
    const char *text = json_string_value(json_object_iter_value(one));

    if (json_object_size(label) != 1 || !*name || strlen(name) > TOKEN_LABEL_MAX || !text ||
        strlen(text) > TOKEN_LABEL_MAX)
        return false;
    (void)snprintf(key, TOKEN_LABEL_MAX + 1, "%s", name);
    (void)snprintf(value, TOKEN_LABEL_MAX + 1, "%s", text);
    return true;
}

/* What would make a token be for more than it was made for is none. */
static bool is_token(json_t *o)
{
    const json_t *label = json_object_get(o, "label"), *sandbox = json_object_get(o, "sandboxId");
    char key[TOKEN_LABEL_MAX + 1], value[TOKEN_LABEL_MAX + 1];

    return digest_valid(text_of(o, "digest")) && is_strings(json_object_get(o, "scopes")) &&
           json_is_integer(json_object_get(o, "createdAt")) && id_valid(text_of(o, "id"), "tok") &&
           (!sandbox || id_valid(text_of(o, "sandboxId"), "sbx")) &&
           (!label || read_label(label, key, value)) &&
           (!json_object_get(o, "expiresAt") || json_is_integer(json_object_get(o, "expiresAt")));
}

static struct held *held_of(const json_t *o)
{
    struct held *h = xcalloc(1, sizeof(*h));
    struct token *k = &h->token;

    (void)snprintf(k->id, sizeof(k->id), "%s", text_of(o, "id"));
    (void)snprintf(h->digest, sizeof(h->digest), "%s", text_of(o, "digest"));
    k->scopes = scopes_of(json_object_get(o, "scopes"));
    (void)snprintf(k->sandbox_id, sizeof(k->sandbox_id), "%s", text_of(o, "sandboxId"));
    (void)read_label(json_object_get(o, "label"), k->label_key, k->label_value);
    k->expires_ms = json_integer_value(json_object_get(o, "expiresAt"));
    return h;
}

int tokens_open(const char *data_dir, uint32_t max, struct tokens **ret, struct err *err)
{
    struct tokens *t = xcalloc(1, sizeof(*t));
    json_t *all, *one;
    size_t i;

    t->max = max;
    (void)pthread_rwlock_init(&t->lock, NULL);
    (void)pthread_mutex_init(&t->making, NULL);
    if (documents_open(data_dir, "tokens", is_token, &t->documents, err) < 0) {
        tokens_close(t);
        return -1;
    }
    all = documents_all(t->documents);
    json_array_foreach(all, i, one)
    {
        hold(t, held_of(one));
    }
    json_decref(all);
    *ret = t;
    return 0;
}

void tokens_close(struct tokens *t)
{
    if (!t)
        return;
    documents_close(t->documents);
    tdestroy(t->tree, free);
    (void)pthread_rwlock_destroy(&t->lock);
    (void)pthread_mutex_destroy(&t->making);
    free(t);
}

/* ---- who has it ---- */

static void digest_text(const char *secret, char ret[DIGEST_HEX])
{
    EVP_MD_CTX *sha = digest_new();

    digest_add(sha, secret, strlen(secret));
    digest_end(sha, ret);
}

static bool is_text(const char *text)
{
    const char *id = text + strlen(TOKEN_TEXT_PREFIX);

    return strlen(text) == TOKEN_TEXT_SIZE - 1 && str_starts(text, TOKEN_TEXT_PREFIX) &&
           strspn(id, HEX) == ID_DIGITS && id[ID_DIGITS] == '_' &&
           strspn(id + ID_DIGITS + 1, HEX) == TOKEN_SECRET_HEX;
}

bool token_is_admin(const struct token *k)
{
    return k->scopes & 1u << 3;
}

static bool is_over(const struct token *k)
{
    return k->expires_ms && k->expires_ms <= now_ms();
}

/* The digest is compared whether there is such an id or not. With the lock. */
static int judge(struct held *h, const char *digest, struct err *err)
{
    static const char none[DIGEST_HEX] =
        "0000000000000000000000000000000000000000000000000000000000000000";

    if (!str_equal_secret(h ? h->digest : none, digest) || !h || atomic_load(&h->revoked))
        return err_code(err, ERR_FORBIDDEN, "invalid_token", "Invalid token");
    if (is_over(&h->token))
        return err_code(err, ERR_FORBIDDEN, "token_expired", "the token %s has expired",
                        h->token.id);
    atomic_store_explicit(&h->used_ms, now_ms(), memory_order_relaxed);
    return 0;
}

int tokens_find(struct tokens *t, const char *text, struct token *ret, struct err *err)
{
    char id[ID_SIZE], digest[DIGEST_HEX];
    struct held *h;
    int r;

    if (!is_text(text))
        return err_code(err, ERR_FORBIDDEN, "invalid_token", "Invalid token");
    (void)snprintf(id, sizeof(id), "tok_%.*s", ID_DIGITS, text + strlen(TOKEN_TEXT_PREFIX));
    digest_text(text + strlen(TOKEN_TEXT_PREFIX) + ID_DIGITS + 1, digest);
    (void)pthread_rwlock_rdlock(&t->lock);
    h = find(t, id);
    r = judge(h, digest, err);
    if (r == 0)
        *ret = h->token;
    (void)pthread_rwlock_unlock(&t->lock);
    return r;
}

bool tokens_live(struct tokens *t, const char *id)
{
    const struct held *h;
    bool live;

    (void)pthread_rwlock_rdlock(&t->lock);
    h = find(t, id);
    live = h && !atomic_load(&h->revoked) && !is_over(&h->token);
    (void)pthread_rwlock_unlock(&t->lock);
    return live;
}

size_t tokens_count(struct tokens *t)
{
    return documents_count(t->documents);
}

/* Expired ones are, for a while. */
static bool is_listed(int64_t expires_ms)
{
    return !expires_ms || expires_ms + SHOWN_MS >= now_ms();
}

static void put_label_key(const void *node, VISIT visit, void *keys)
{
    const struct held *h = *(struct held *const *)node;

    if ((visit == postorder || visit == leaf) && h->token.label_key[0] &&
        is_listed(h->token.expires_ms))
        (void)json_object_set_new(keys, h->token.label_key, json_true());
}

json_t *tokens_label_keys(struct tokens *t)
{
    json_t *keys = json_object();

    (void)pthread_rwlock_rdlock(&t->lock);
    twalk_r(t->tree, put_label_key, keys);
    (void)pthread_rwlock_unlock(&t->lock);
    return keys;
}

/* ---- made, listed, revoked ---- */

static void put_hex(char *ret, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

static json_t *document_of(const char *name, const char *made_by, const struct token *k,
                           const char *digest)
{
    json_t *o = json_pack("{s:s, s:s, s:o, s:I, s:s, s:s}", "id", k->id, "name", name, "scopes",
                          scopes_json(k->scopes), "createdAt", (json_int_t)now_ms(), "createdBy",
                          made_by, "digest", digest);

    if (k->sandbox_id[0])
        (void)json_object_set_new(o, "sandboxId", json_string(k->sandbox_id));
    if (k->label_key[0])
        (void)json_object_set_new(o, "label", json_pack("{s:s}", k->label_key, k->label_value));
    if (k->expires_ms)
        (void)json_object_set_new(o, "expiresAt", json_integer(k->expires_ms));
    return o;
}

/* Of a document; when it was used is only in memory. */
static json_t *shown(struct tokens *t, const json_t *document)
{
    json_t *o = json_deep_copy(document);
    const struct held *h;

    (void)json_object_del(o, "digest");
    (void)pthread_rwlock_rdlock(&t->lock);
    h = find(t, text_of(document, "id"));
    if (h && atomic_load_explicit(&h->used_ms, memory_order_relaxed))
        (void)json_object_set_new(o, "lastUsedAt", json_integer(atomic_load(&h->used_ms)));
    if (h && is_over(&h->token))
        (void)json_object_set_new(o, "expired", json_true());
    (void)pthread_rwlock_unlock(&t->lock);
    return o;
}

/* Those that nobody is shown any more. */
static void drop_old(struct tokens *t)
{
    json_t *all = documents_all(t->documents), *one;
    size_t i;

    json_array_foreach(all, i, one)
    {
        int64_t expires = json_integer_value(json_object_get(one, "expiresAt"));

        if (!is_listed(expires))
            (void)tokens_revoke(t, text_of(one, "id"), NULL);
    }
    json_decref(all);
}

static int put(struct tokens *t, json_t *document, struct err *err)
{
    int r;

    (void)pthread_mutex_lock(&t->making);
    if (documents_count(t->documents) >= t->max)
        drop_old(t);
    if (documents_count(t->documents) >= t->max)
        r = err_code(err, ERR_LIMIT, "token_limit",
                     "there are %u tokens, as many as there may be (CAY_MAX_TOKENS): revoke some "
                     "(`cay token revoke`)",
                     t->max);
    else
        r = documents_put(t->documents, text_of(document, "id"), json_incref(document), err);
    (void)pthread_mutex_unlock(&t->making);
    return r;
}

int tokens_create(struct tokens *t, const char *name, const char *made_by, const struct token *what,
                  json_t **ret, struct err *err)
{
    unsigned char bytes[SECRET_BYTES];
    char secret[TOKEN_SECRET_HEX + 1], digest[DIGEST_HEX], text[TOKEN_TEXT_SIZE];
    struct token k = *what;
    json_t *document;
    int r;

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        abort();
    put_hex(secret, bytes, sizeof(bytes));
    digest_text(secret, digest);
    id_new(k.id, "tok");
    (void)snprintf(text, sizeof(text), TOKEN_TEXT_PREFIX "%.*s_%s", ID_DIGITS,
                   k.id + strlen("tok_"), secret);
    document = document_of(name && *name ? name : k.id, made_by, &k, digest);
    r = put(t, document, err);
    if (r == 0) {
        hold(t, held_of(document));
        *ret = shown(t, document);
        (void)json_object_set_new(*ret, "token", json_string(text));
    }
    json_decref(document);
    explicit_bzero(bytes, sizeof(bytes));
    explicit_bzero(secret, sizeof(secret));
    explicit_bzero(text, sizeof(text));
    return r;
}

void tokens_list(struct tokens *t, json_t **ret)
{
    json_t *all = documents_all(t->documents), *list = json_array();

    for (size_t i = json_array_size(all); i-- > 0;) {
        const json_t *one = json_array_get(all, i);
        int64_t expires = json_integer_value(json_object_get(one, "expiresAt"));

        if (is_listed(expires))
            (void)json_array_append_new(list, shown(t, one));
    }
    json_decref(all);
    *ret = json_pack("{s:o}", "tokens", list);
}

int tokens_revoke(struct tokens *t, const char *id, struct err *err)
{
    struct held *h;

    (void)pthread_rwlock_rdlock(&t->lock);
    h = find(t, id);
    if (h)
        atomic_store(&h->revoked, true);
    (void)pthread_rwlock_unlock(&t->lock);
    if (!h)
        return err_code(err, ERR_NOT_FOUND, "token_not_found", "Token not found: %.80s", id);
    if (documents_delete(t->documents, id, err) < 0)
        return err_wrap(err, "%s opens nothing until the daemon starts again, but is on the disk",
                        id);
    (void)pthread_rwlock_wrlock(&t->lock);
    h = find(t, id); /* somebody else may have been as quick */
    if (h)
        (void)tdelete(h, &t->tree, compare);
    (void)pthread_rwlock_unlock(&t->lock);
    free(h);
    return 0;
}
