#include "engine/networks.h"

#include <ctype.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/gateway_internal.h"
#include "engine/network_internal.h"
#include "engine/networks_internal.h"
#include "engine/roster_internal.h"
#include "engine/sandbox_internal.h"
#include "engine/turn_internal.h"
#include "engine/writer_internal.h"
#include "model/sandbox.h"
#include "store/documents.h"

#define NETWORK_ID_START "net_"

struct networks {
    struct documents *documents;
    pthread_mutex_t changing; /* one create, remove or connect's count at a time; no waiting in it
                                 but for the disk */
};

static bool is_network(json_t *o)
{
    return json_unpack_ex(o, NULL, JSON_VALIDATE_ONLY, "{s:s, s:I}", "name", "createdAt") == 0;
}

int networks_open(struct engine *e, struct err *err)
{
    struct networks *n = xcalloc(1, sizeof(*n));

    e->networks = n;
    (void)pthread_mutex_init(&n->changing, NULL);
    return documents_open(e->config.data_dir, "networks", is_network, &n->documents, err);
}

void networks_close(struct engine *e)
{
    if (!e->networks)
        return;
    documents_close(e->networks->documents);
    (void)pthread_mutex_destroy(&e->networks->changing);
    free(e->networks);
    e->networks = NULL;
}

/* ---- which there are ---- */

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

static bool is_removing(const json_t *network)
{
    return json_is_true(json_object_get(network, "removing"));
}

/* A copy, or NULL. */
static json_t *find(struct engine *e, const char *word)
{
    json_t *all, *one, *found = NULL;
    size_t i;

    if (str_starts(word, NETWORK_ID_START))
        return id_valid(word, "net") ? documents_get(e->networks->documents, word) : NULL;
    all = documents_all(e->networks->documents);
    json_array_foreach(all, i, one)
    {
        if (!found && strcmp(text_of(one, "name"), word) == 0)
            found = json_incref(one);
    }
    json_decref(all);
    return found;
}

static json_t *get(struct engine *e, const char *word, struct err *err)
{
    json_t *network = find(e, word);

    if (!network)
        (void)err_code(err, ERR_NOT_FOUND, "network_not_found", "Network not found: %.80s", word);
    return network;
}

/* As get, of one that can still be joined. */
static json_t *get_lasting(struct engine *e, const char *word, struct err *err)
{
    json_t *network = get(e, word, err);

    if (!network || !is_removing(network))
        return network;
    json_decref(network);
    (void)err_code(err, ERR_NOT_FOUND, "network_not_found",
                   "Network not found: %.80s is being removed", word);
    return NULL;
}

/* ---- who is in one ---- */

static json_t *ids_of(struct sandbox *sb)
{
    json_t *ids;

    pthread_mutex_lock(&sb->lock);
    ids = sb->spec.networks ? json_deep_copy(sb->spec.networks) : json_array();
    pthread_mutex_unlock(&sb->lock);
    return ids;
}

/* Its place in the list, or -1. */
static int place_of(const json_t *ids, const char *id)
{
    for (size_t i = 0; i < json_array_size(ids); i++)
        if (strcmp(json_string_value(json_array_get(ids, i)), id) == 0)
            return (int)i;
    return -1;
}

static bool is_member(struct sandbox *sb, const void *id)
{
    json_t *ids = ids_of(sb);
    bool yes = place_of(ids, id) >= 0;

    json_decref(ids);
    return yes;
}

bool networks_has(struct sandbox *sb)
{
    bool has;

    pthread_mutex_lock(&sb->lock);
    has = json_array_size(sb->spec.networks) > 0;
    pthread_mutex_unlock(&sb->lock);
    return has;
}

/* The caller lets go of each and frees the list. */
static struct sandbox **members_of(struct engine *e, const char *id, size_t *ret_n)
{
    return roster_select(e, is_member, id, 0, SIZE_MAX, ret_n, NULL);
}

static size_t count_members(struct engine *e, const char *id)
{
    size_t n, total;
    auto_free struct sandbox **none = roster_select(e, is_member, id, 0, 0, &n, &total);

    return total;
}

/* ---- what is told ---- */

/* Takes network. */
static json_t *network_json(struct engine *e, json_t *network)
{
    const char *id = text_of(network, "id");
    json_t *list = json_array(), *o;
    size_t n;
    auto_free struct sandbox **members = members_of(e, id, &n);

    for (size_t i = n; i-- > 0; sandbox_unref(members[i]))
        (void)json_array_append_new(list, json_string(members[i]->box.id));
    o = json_pack("{s:s, s:s, s:s, s:o, s:I}", "id", id, "name", text_of(network, "name"),
                  "dockerNetworkId", id, "sandboxes", list, "createdAt",
                  json_integer_value(json_object_get(network, "createdAt")));
    json_decref(network);
    return o;
}

void engine_networks_list(struct engine *e, json_t **ret)
{
    json_t *all = documents_all(e->networks->documents), *list = json_array();

    for (size_t i = json_array_size(all); i-- > 0;) {
        json_t *one = json_array_get(all, i);

        if (!is_removing(one))
            (void)json_array_append_new(list, network_json(e, json_incref(one)));
    }
    json_decref(all);
    *ret = json_pack("{s:o}", "networks", list);
}

int engine_networks_get(struct engine *e, const char *word, json_t **ret, struct err *err)
{
    json_t *network = get_lasting(e, word, err);

    if (!network)
        return -1;
    *ret = network_json(e, network);
    return 0;
}

/* ---- create ---- */

/* It is a part of names: web.NETWORK. */
static int check_name(const char *name, struct err *err)
{
    bool ok = name && isalnum((unsigned char)name[0]) && strlen(name) <= NETWORK_NAME_MAX;

    for (const char *c = name; ok && *c; c++)
        ok = isalnum((unsigned char)*c) || strchr("_.-", *c);
    if (!ok)
        return err_set(err, ERR_INVALID,
                       "name must have 1 to %d letters, digits, _ . or -, and begin with a letter "
                       "or a digit",
                       NETWORK_NAME_MAX);
    if (str_starts(name, NETWORK_ID_START))
        return err_set(err, ERR_INVALID,
                       "the name of a network must not begin with \"%s\": that is taken for an id",
                       NETWORK_ID_START);
    return 0;
}

static int create(struct engine *e, const char *name, char id[ID_SIZE], struct err *err)
{
    json_t *other = find(e, name);
    int r;

    if (other) {
        r = err_code(err, ERR_CONFLICT, "network_exists", "there is a network %.80s already: %s",
                     name, text_of(other, "id"));
        json_decref(other);
        return r;
    }
    if (documents_count(e->networks->documents) >= e->config.max_networks)
        return err_code(err, ERR_LIMIT, "network_limit",
                        "there are %u networks, as many as there may be (CAY_MAX_NETWORKS): remove "
                        "one",
                        e->config.max_networks);
    id_new(id, "net");
    return documents_put(
        e->networks->documents, id,
        json_pack("{s:s, s:s, s:I}", "id", id, "name", name, "createdAt", (json_int_t)now_ms()),
        err);
}

int engine_networks_create(struct engine *e, const char *name, json_t **ret, struct err *err)
{
    char id[ID_SIZE];
    int r;

    if (check_name(name, err) < 0)
        return -1;
    (void)pthread_mutex_lock(&e->networks->changing);
    r = create(e, name, id, err);
    (void)pthread_mutex_unlock(&e->networks->changing);
    return r < 0 ? -1 : engine_networks_get(e, id, ret, err);
}

/* ---- what the gateway is told ---- */

static bool is_label(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");

    return len > 0 && len <= 63 && !name[len];
}

static char *small_letters(const char *text)
{
    char *small = xstrdup(text);

    for (char *c = small; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return small;
}

char *networks_name_of(struct sandbox *sb)
{
    char *name;

    pthread_mutex_lock(&sb->lock);
    name = small_letters(sb->spec.name ? sb->spec.name : sb->box.id);
    pthread_mutex_unlock(&sb->lock);
    if (is_label(name))
        return name;
    free(name);
    return xstrdup(sb->box.id);
}

/* Its names and addresses the gateway has from the attach; it is called NAME.NETWORK there, too. */
static int tell_join(struct engine *e, const struct sandbox *sb, const json_t *network,
                     struct err *err)
{
    auto_free char *name = small_letters(text_of(network, "name"));

    return gateway_call(e,
                        json_pack("{s:s, s:s, s:s, s:s}", "op", "join", "network",
                                  text_of(network, "id"), "name", name, "id", sb->box.id),
                        -1, NULL, err);
}

static int tell_leave(struct engine *e, const struct sandbox *sb, const char *id, struct err *err)
{
    return gateway_call(
        e, json_pack("{s:s, s:s, s:s}", "op", "leave", "network", id, "id", sb->box.id), -1, NULL,
        err);
}

int networks_join_all(struct engine *e, struct sandbox *sb, struct err *err)
{
    json_t *ids = ids_of(sb), *id;
    size_t i;
    int r = 0;

    json_array_foreach(ids, i, id)
    {
        json_t *network = documents_get(e->networks->documents, json_string_value(id));

        if (r == 0 && network && !is_removing(network))
            r = tell_join(e, sb, network, err);
        json_decref(network);
    }
    json_decref(ids);
    return r;
}

/* ---- connect and disconnect; in the sandbox's turn ---- */

/* Takes ids; stored when it returns, else all is as it was. */
static int set_ids(struct engine *e, struct sandbox *sb, json_t *ids, struct err *err)
{
    json_t *before;
    int r;

    pthread_mutex_lock(&sb->lock);
    before = sb->spec.networks;
    sb->spec.networks = ids;
    pthread_mutex_unlock(&sb->lock);
    r = writer_wait(e, writer_put(e, sb), err);
    if (r < 0) {
        pthread_mutex_lock(&sb->lock);
        sb->spec.networks = before;
        before = ids;
        pthread_mutex_unlock(&sb->lock);
    }
    json_decref(before);
    return r;
}

static int check_state(struct sandbox *sb, bool *ret_lives, struct err *err)
{
    enum sandbox_state state;

    pthread_mutex_lock(&sb->lock);
    state = sb->state;
    pthread_mutex_unlock(&sb->lock);
    *ret_lives = state == SANDBOX_RUNNING || state == SANDBOX_PAUSED;
    return *ret_lives || state == SANDBOX_STOPPED ? 0 : sandbox_check_running(sb, err);
}

/* Counted and stored under the lock that removals begin with: who is in it when one does is found.
 */
static int add_member(struct engine *e, struct sandbox *sb, const char *id, struct err *err)
{
    json_t *ids = ids_of(sb), *network;
    int r = 0;

    (void)pthread_mutex_lock(&e->networks->changing);
    network = get_lasting(e, id, err);
    if (!network)
        r = -1;
    else if (place_of(ids, id) >= 0)
        r = err_code(err, ERR_CONFLICT, "network_connected", "%s is connected to %s already",
                     sb->box.id, text_of(network, "name"));
    else if (json_array_size(ids) >= SANDBOX_NETWORKS_MAX)
        r = err_code(err, ERR_LIMIT, "network_limit",
                     "a sandbox can be in %d networks: disconnect it from one",
                     SANDBOX_NETWORKS_MAX);
    else if (count_members(e, id) >= NETWORK_MEMBERS_MAX)
        r = err_code(err, ERR_LIMIT, "network_limit",
                     "the network %s has %d sandboxes, as many as it may: disconnect one",
                     text_of(network, "name"), NETWORK_MEMBERS_MAX);
    if (r == 0) {
        (void)json_array_append_new(ids, json_string(id));
        r = set_ids(e, sb, json_incref(ids), err);
    }
    (void)pthread_mutex_unlock(&e->networks->changing);
    json_decref(network);
    json_decref(ids);
    return r;
}

static int drop_member(struct engine *e, struct sandbox *sb, const char *id, struct err *err)
{
    json_t *ids = ids_of(sb);
    int at = place_of(ids, id);

    if (at >= 0)
        (void)json_array_remove(ids, (size_t)at);
    return set_ids(e, sb, ids, err);
}

/* Without a policy and in no network it has no place at the gateway. */
static void settle_place(struct engine *e, struct sandbox *sb)
{
    if (!network_has(sb) && !networks_has(sb))
        network_detach(e, sb);
}

/* The row first: a start joins what is missing, so that a daemon that is killed in between has
 * connected it. */
static int connect_in_turn(struct engine *e, struct sandbox *sb, const json_t *network,
                           struct err *err)
{
    const char *id = text_of(network, "id");
    bool lives;

    if (check_state(sb, &lives, err) < 0 || add_member(e, sb, id, err) < 0)
        return -1;
    if (!lives || (network_ensure(e, sb, err) == 0 && tell_join(e, sb, network, err) == 0))
        return 0;
    if (network_is_refused(err))
        (void)tell_leave(e, sb, id, NULL);
    (void)drop_member(e, sb, id, NULL);
    settle_place(e, sb);
    return -1;
}

int engine_networks_connect(struct engine *e, const char *word, const char *sandbox_id,
                            struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    json_t *network = get_lasting(e, word, err);
    int r = -1;

    if (network && sandbox_get(e, sandbox_id, &sb, err) == 0 && turn_take(e, &sb->turn, err) == 0) {
        r = connect_in_turn(e, sb, network, err);
        turn_give(&sb->turn);
    }
    json_decref(network);
    return r;
}

/* The row last: a daemon that is killed in between connects it again. */
static int disconnect_in_turn(struct engine *e, struct sandbox *sb, const json_t *network,
                              struct err *err)
{
    const char *id = text_of(network, "id");
    bool lives, left;

    if (check_state(sb, &lives, err) < 0)
        return -1;
    if (!is_member(sb, id))
        return err_code(err, ERR_CONFLICT, "network_not_connected", "%s is not connected to %s",
                        sb->box.id, text_of(network, "name"));
    left = !lives || tell_leave(e, sb, id, err) == 0;
    if (!left || drop_member(e, sb, id, err) < 0) {
        if (lives && !is_removing(network) && (left || network_is_refused(err)))
            (void)tell_join(e, sb, network, NULL);
        return -1;
    }
    if (lives)
        settle_place(e, sb);
    return 0;
}

static int disconnect(struct engine *e, struct sandbox *sb, const json_t *network, struct err *err)
{
    int r;

    if (turn_take(e, &sb->turn, err) < 0)
        return -1;
    r = disconnect_in_turn(e, sb, network, err);
    turn_give(&sb->turn);
    return r;
}

int engine_networks_disconnect(struct engine *e, const char *word, const char *sandbox_id,
                               struct err *err)
{
    auto_sandbox struct sandbox *sb = NULL;
    json_t *network = get_lasting(e, word, err);
    int r = -1;

    if (network && sandbox_get(e, sandbox_id, &sb, err) == 0)
        r = disconnect(e, sb, network, err);
    json_decref(network);
    return r;
}

/* ---- remove ---- */

/* One that is on its way out, or gone meanwhile, is in no network soon. */
static bool is_leaving(struct sandbox *sb)
{
    bool lives;

    return check_state(sb, &lives, NULL) < 0;
}

static int disconnect_all(struct engine *e, const json_t *network, struct err *err)
{
    size_t n;
    auto_free struct sandbox **members = members_of(e, text_of(network, "id"), &n);
    int r = 0;

    for (size_t i = 0; i < n; sandbox_unref(members[i++])) {
        struct err why = {0};

        if (disconnect(e, members[i], network, &why) == 0 || why.kind == ERR_NOT_FOUND ||
            is_leaving(members[i]) || !is_member(members[i], text_of(network, "id")))
            continue;
        if (r == 0 && err)
            *err = why;
        r = -1;
    }
    return r;
}

/* Marked first, so that nobody joins it any more and a start goes on with it. */
static int mark_removing(struct engine *e, const char *word, json_t **ret, struct err *err)
{
    json_t *network;
    int r = -1;

    (void)pthread_mutex_lock(&e->networks->changing);
    network = get(e, word, err);
    if (network) {
        (void)json_object_set_new(network, "removing", json_true());
        r = documents_put(e->networks->documents, text_of(network, "id"), json_deep_copy(network),
                          err);
    }
    (void)pthread_mutex_unlock(&e->networks->changing);
    if (r == 0)
        *ret = network;
    else
        json_decref(network);
    return r;
}

int engine_networks_remove(struct engine *e, const char *word, char **ret_id, struct err *err)
{
    json_t *network = NULL;
    int r;

    if (mark_removing(e, word, &network, err) < 0)
        return -1;
    r = disconnect_all(e, network, err);
    if (r == 0)
        r = documents_delete(e->networks->documents, text_of(network, "id"), err);
    if (r == 0)
        *ret_id = xstrdup(text_of(network, "id"));
    json_decref(network);
    return r;
}

void networks_start(struct engine *e)
{
    json_t *all = documents_all(e->networks->documents), *one;
    size_t i;

    json_array_foreach(all, i, one)
    {
        auto_free char *id = NULL;
        struct err err = {0};

        if (is_removing(one) && engine_networks_remove(e, text_of(one, "id"), &id, &err) < 0)
            log_error("a network could not be removed to its end", "id", text_of(one, "id"),
                      "error", err.text);
    }
    json_decref(all);
}

/* ---- at a create ---- */

int networks_read(struct engine *e, const json_t *words, json_t **ret, struct err *err)
{
    json_t *ids = json_array(), *word;
    size_t i;
    int r = 0;

    if (json_array_size(words) > SANDBOX_NETWORKS_MAX)
        r = err_code(err, ERR_LIMIT, "network_limit", "a sandbox can be in %d networks",
                     SANDBOX_NETWORKS_MAX);
    json_array_foreach(words, i, word)
    {
        json_t *network = r == 0 ? get_lasting(e, json_string_value(word), err) : NULL;

        if (!network)
            r = -1;
        else if (place_of(ids, text_of(network, "id")) < 0)
            (void)json_array_append(ids, json_object_get(network, "id"));
        if (r == 0 && count_members(e, text_of(network, "id")) >= NETWORK_MEMBERS_MAX)
            r = err_code(err, ERR_LIMIT, "network_limit",
                         "the network %s has %d sandboxes, as many as it may: disconnect one",
                         text_of(network, "name"), NETWORK_MEMBERS_MAX);
        json_decref(network);
    }
    if (r == 0 && json_array_size(ids) > 0)
        *ret = json_incref(ids);
    json_decref(ids);
    return r;
}
