#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/setting.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/spec_internal.h"
#include "engine/templates.h"
#include "engine/warm_internal.h"
#include "model/limits.h"
#include "model/sandbox.h"
#include "store/documents.h"

/* What the pool is to hold: profiles of the configuration, which are what it says at each start,
 * and those that callers have added, of which each is a document. */

struct warm_profile *warm_profile_ref(struct warm_profile *p)
{
    p->refs++;
    return p;
}

void warm_profile_unref(struct warm_profile *p)
{
    if (!p || --p->refs > 0)
        return;
    free(p->image);
    free(p->template);
    json_decref(p->network);
    json_decref(p->helper);
    free(p->error);
    free(p);
}

struct warm_profile *warm_profile_new(const struct pool_request *want, const char *id)
{
    struct warm_profile *p = xcalloc(1, sizeof(*p));

    p->refs = 1;
    p->want = *want;
    p->want.image = p->image = want->image ? xstrdup(want->image) : NULL;
    p->want.template = p->template = want->template ? xstrdup(want->template) : NULL;
    p->want.network = p->network =
        json_is_false(want->network) ? NULL : json_deep_copy(want->network);
    p->want.helper = p->helper = json_deep_copy(want->helper);
    (void)snprintf(p->id, sizeof(p->id), "%s", id);
    p->created_ms = now_ms();
    return p;
}

const char *warm_profile_word(const struct warm_profile *p)
{
    return p->template ? p->template : p->image;
}

static struct maybe_number get_number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return (struct maybe_number){.given = json_is_number(v), .value = json_number_value(v)};
}

static void take_number(const json_t *config, const char *key, struct maybe_number *n)
{
    if (!n->given)
        *n = get_number(config, key);
}

/* Of what a create with it would take from the template: what a box has to be made with. */
static int take_template(struct engine *e, const char *word, struct sandbox_request *req,
                         json_t **ret, struct err *err)
{
    json_t *config;

    if (engine_template_use(e, word, ret, err) < 0)
        return -1;
    config = json_object_get(*ret, "config");
    req->image = json_string_value(json_object_get(config, "image"));
    req->image_id = json_string_value(json_object_get(json_object_get(*ret, "build"), "imageId"));
    req->template = json_string_value(json_object_get(*ret, "name"));
    req->workdir = json_string_value(json_object_get(config, "workdir"));
    take_number(config, "memory", &req->memory_mb);
    take_number(config, "cpu", &req->cpu_cores);
    take_number(config, "pids", &req->pids);
    take_number(config, "disk", &req->disk_mb);
    if (!req->network)
        req->network = json_object_get(config, "network");
    if (!req->image_id && (json_array_size(json_object_get(config, "files")) > 0 ||
                           json_array_size(json_object_get(config, "setup")) > 0 ||
                           json_string_length(json_object_get(config, "user")) > 0))
        return err_code(err, ERR_UNAVAILABLE, "template_not_ready",
                        "template %s is not built yet: it is by the first create that uses it",
                        word);
    return 0;
}

int warm_profile_request(struct engine *e, const struct warm_profile *p,
                         struct sandbox_request *ret, json_t **ret_hold, struct err *err)
{
    *ret_hold = NULL;
    *ret = (struct sandbox_request){
        .image = p->image,
        .memory_mb = p->want.memory_mb,
        .cpu_cores = p->want.cpu_cores,
        .pids = p->want.pids,
        .disk_mb = p->want.disk_mb,
        .network = p->want.network,
    };
    return p->template ? take_template(e, p->template, ret, ret_hold, err) : 0;
}

int warm_profile_limits(struct engine *e, const struct warm_profile *p, struct sandbox_limits *ret,
                        struct err *err)
{
    struct sandbox_request req;
    struct sandbox_spec spec;
    struct err why = {0};
    json_t *hold = NULL;
    int r = warm_profile_request(e, p, &req, &hold, &why);

    if (r == 0 || why.kind == ERR_UNAVAILABLE) { /* it is built later */
        r = spec_read(e, &req, &spec, err);
        if (r == 0) {
            *ret = spec.limits;
            sandbox_spec_done(&spec);
        }
    } else if (err) {
        *err = why;
    }
    json_decref(hold);
    return r;
}

/* ---- the configuration ---- */

static int read_number(const char *text, struct maybe_number *ret)
{
    char *end;
    double n = strtod(text, &end);

    if (!*text)
        return 0; /* the default */
    if (*end || !isfinite(n) || n <= 0)
        return -1;
    *ret = (struct maybe_number){.given = true, .value = n};
    return 0;
}

static int read_network(const char *text, const json_t **ret)
{
    *ret = strcmp(text, "true") == 0 ? json_true() : NULL;
    return *ret || !*text || strcmp(text, "false") == 0 ? 0 : -1;
}

/* image,memoryMB,cpu,network: what comes after the image may be left out. Cuts text. */
static int read_profile(char *text, struct pool_request *ret)
{
    char *part[4] = {text, (char[]){""}, (char[]){""}, (char[]){""}};
    unsigned n = 1;

    for (char *p = text; (p = strchr(p, ',')); n++) {
        if (n == ARRAY_LEN(part))
            return -1;
        *p++ = '\0';
        part[n] = p;
    }
    for (unsigned i = 0; i < n; i++) {
        part[i] += strspn(part[i], " ");
        part[i][strcspn(part[i], " ")] = '\0';
    }
    *ret = (struct pool_request){.image = part[0]};
    if (!*part[0] || strlen(part[0]) > IMAGE_NAME_MAX ||
        read_number(part[1], &ret->memory_mb) < 0 || read_number(part[2], &ret->cpu_cores) < 0 ||
        read_network(part[3], &ret->network) < 0)
        return -1;
    return 0;
}

/* Calls each for every profile in the text. */
static int each_profile(const char *text, void (*each)(const struct pool_request *req, void *arg),
                        void *arg, struct err *err)
{
    auto_free char *copy = xstrdup(text);
    unsigned n = 0;
    char *save;

    for (char *p = strtok_r(copy, ";", &save); p; p = strtok_r(NULL, ";", &save)) {
        struct pool_request req;

        if (!p[strspn(p, " ")])
            continue;
        if (read_profile(p, &req) < 0)
            return err_set(err, ERR_INVALID,
                           "must be IMAGE[,MEMORY_MB[,CPU[,true|false]]] and more of that after "
                           "a semicolon, not \"%.100s\"",
                           text);
        if (++n > POOL_PROFILES_MAX)
            return err_set(err, ERR_INVALID, "must have at most %d profiles", POOL_PROFILES_MAX);
        if (each)
            each(&req, arg);
    }
    return 0;
}

int pool_profiles_check(const char *text, struct err *err)
{
    return each_profile(text, NULL, NULL, err);
}

struct list {
    struct warm_profile **end;
    uint32_t size;
};

static void add_configured(const struct pool_request *req, void *arg)
{
    struct list *list = arg;
    struct warm_profile *p = warm_profile_new(req, "");

    p->want.size = list->size;
    *list->end = p;
    list->end = &p->next;
}

/* ---- documents ---- */

static void put_number(json_t *o, const char *key, struct maybe_number n)
{
    if (n.given)
        (void)json_object_set_new(o, key, json_real(n.value));
}

json_t *warm_profile_document(const struct warm_profile *p)
{
    json_t *o = json_pack("{s:s, s:s*, s:s*, s:O*, s:i, s:I}", "id", p->id, "image", p->image,
                          "template", p->template, "network", p->network, "size", (int)p->want.size,
                          "createdAt", (json_int_t)p->created_ms);

    if (p->helper)
        (void)json_object_set(o, "interpreter", p->helper);
    put_number(o, "memory", p->want.memory_mb);
    put_number(o, "cpu", p->want.cpu_cores);
    put_number(o, "pids", p->want.pids);
    put_number(o, "disk", p->want.disk_mb);
    return o;
}

static struct warm_profile *read_document(const json_t *o)
{
    const char *id = json_string_value(json_object_get(o, "id"));
    json_int_t size = json_integer_value(json_object_get(o, "size"));
    struct pool_request want = {
        .image = json_string_value(json_object_get(o, "image")),
        .template = json_string_value(json_object_get(o, "template")),
        .memory_mb = get_number(o, "memory"),
        .cpu_cores = get_number(o, "cpu"),
        .pids = get_number(o, "pids"),
        .disk_mb = get_number(o, "disk"),
        .network = json_object_get(o, "network"),
        .helper = json_object_get(o, "interpreter"),
        .size = size > 0 && size <= POOL_SIZE_MAX ? (uint32_t)size : 0,
    };
    struct warm_profile *p;

    if (!id || !want.image == !want.template || want.size == 0)
        return NULL;
    p = warm_profile_new(&want, id);
    p->created_ms = json_integer_value(json_object_get(o, "createdAt"));
    return p;
}

int warm_profiles_load(struct engine *e, struct documents *kept, struct warm_profile **ret,
                       struct err *err)
{
    struct list list = {.end = ret, .size = e->config.pool_size};
    json_t *all = documents_all(kept), *o;
    size_t i;
    int r = 0;

    *ret = NULL;
    if (list.size > 0 && e->config.pool_profiles)
        r = each_profile(e->config.pool_profiles, add_configured, &list, err);
    if (r < 0)
        (void)err_wrap(err, "%s", setting_name("CAY_POOL_PROFILES", "III_POOL_PROFILES"));
    json_array_foreach(all, i, o)
    {
        struct warm_profile *p = read_document(o);

        if (!p)
            log_warn("a profile of the pool cannot be read and is left alone", "id",
                     json_string_value(json_object_get(o, "id")));
        else {
            *list.end = p;
            list.end = &p->next;
        }
    }
    json_decref(all);
    for (struct warm_profile *p = *ret; p; p = p->next)
        if (warm_profile_limits(e, p, &p->limits, NULL) < 0)
            p->limits = e->config.default_limits; /* none can be made, which it is told for */
    return r;
}

/* ---- what callers see ---- */

char *warm_profile_key(const struct warm_profile *p)
{
    const char *network = !p->network ? "false" : json_is_true(p->network) ? "true" : "policy";

    return xasprintf("%s:%u:%g:%s", warm_profile_word(p), p->limits.memory_mb,
                     p->limits.cpu_millis / 1000.0, network);
}

bool warm_limits_same(const struct sandbox_limits *a, const struct sandbox_limits *b)
{
    return a->memory_mb == b->memory_mb && a->cpu_millis == b->cpu_millis && a->pids == b->pids &&
           a->disk_mb == b->disk_mb;
}

bool warm_profile_same(const struct warm_profile *p, const struct warm_profile *other)
{
    return !p->template == !other->template &&
           strcmp(warm_profile_word(p), warm_profile_word(other)) == 0 &&
           warm_limits_same(&p->limits, &other->limits) &&
           sandbox_network_same(p->network, other->network);
}

json_t *warm_profile_json(const struct warm_profile *p)
{
    const struct sandbox_limits *l = &p->limits;
    json_t *o = json_object();

    if (*p->id)
        (void)json_object_set_new(o, "id", json_string(p->id));
    (void)json_object_set_new(o, p->template ? "template" : "image",
                              json_string(warm_profile_word(p)));
    (void)json_object_set_new(o, "memory", json_integer(l->memory_mb));
    (void)json_object_set_new(o, "cpu", json_real(l->cpu_millis / 1000.0));
    (void)json_object_set_new(o, "pids", json_integer(l->pids));
    (void)json_object_set_new(o, "disk", json_integer(l->disk_mb));
    (void)json_object_set_new(o, "network", p->network ? json_deep_copy(p->network) : json_false());
    if (p->helper)
        (void)json_object_set_new(o, "interpreter", json_deep_copy(p->helper));
    (void)json_object_set_new(o, "size", json_integer(p->want.size));
    (void)json_object_set_new(o, "ready", json_integer(p->ready));
    (void)json_object_set_new(o, "source", json_string(*p->id ? "api" : "config"));
    if (p->error)
        (void)json_object_set_new(o, "error", json_string(p->error));
    return o;
}
