/* Images from registries. The daemon itself never talks to one. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/image_internal.h"
#include "layer/layer.h"
#include "oci/reference.h"

static void set_string(json_t *o, const char *key, const char *value)
{
    if (value)
        (void)json_object_set_new(o, key, json_string(value));
}

void image_set_registries(struct image_store *s, const struct image_registries *r)
{
    json_t *o = json_pack("{s:o, s:o, s:o}", "insecure", json_of_strings(r->insecure), "mirrors",
                          json_of_strings(r->mirrors), "realms", json_of_strings(r->realms));

    set_string(o, "ca_file", r->ca_file);
    set_string(o, "docker_config", r->docker_config);
    if (r->max_bytes > 0)
        (void)json_object_set_new(o, "max_bytes", json_integer((json_int_t)r->max_bytes));
    json_decref(s->registries);
    s->registries = o;
}

static json_t *pull_request(const struct image_store *s, const struct image_pull *pull,
                            const struct reference *ref, const char *full)
{
    json_t *o = json_deep_copy(s->registries), *insecure;

    set_string(o, "op", "pull");
    set_string(o, "reference", full);
    set_string(o, "username", pull->username);
    set_string(o, "password", pull->password);
    set_string(o, "platform", pull->platform);
    if (pull->insecure) {
        insecure = json_object_get(o, "insecure");
        if (!insecure) {
            insecure = json_array();
            (void)json_object_set_new(o, "insecure", insecure);
        }
        (void)json_array_append_new(insecure, json_string(ref->host));
    }
    return o;
}

/* Takes the mirrors of the host out of the request; were there any? */
static bool leave_out_mirrors(json_t *request, const char *host)
{
    json_t *mirrors = json_object_get(request, "mirrors");
    size_t n = strlen(host), before = json_array_size(mirrors);

    for (size_t i = before; i > 0; i--) {
        const char *m = json_string_value(json_array_get(mirrors, i - 1));

        if (m && strncasecmp(m, host, n) == 0 && m[n] == '=')
            (void)json_array_remove(mirrors, i - 1);
    }
    return json_array_size(mirrors) < before;
}

/* It came, and it was not what it should be. What a registry's own host does not have or does not
 * give is no such thing: that one was asked already. */
static bool came_damaged(const struct err *err)
{
    static const char *const codes[] = {"digest_mismatch", "bad_manifest", "bad_config",
                                        "bad_image"};

    for (size_t i = 0; err->code && i < ARRAY_LEN(codes); i++)
        if (strcmp(err->code, codes[i]) == 0)
            return true;
    return false;
}

/* Layers are unpacked while they come, so that damage shows when it is on disk already: the worker
 * ends with it, and another one asks the registry itself. */
static int run_worker(struct work *w, json_t *request, const char *host, image_progress progress,
                      void *arg, json_t **ret, struct err *err)
{
    struct err damage = {0};

    if (work_run(w, request, -1, progress, arg, ret, &damage) == 0)
        return 0;
    if (!came_damaged(&damage) || !leave_out_mirrors(request, host) || work_again(w, err) < 0) {
        *err = damage;
        return -1;
    }
    log_warn("what came from a mirror is damaged, going on without it", "registry", host, "why",
             damage.text);
    if (work_run(w, request, -1, progress, arg, ret, err) == 0)
        return 0;
    if (err->kind == ERR_UNAVAILABLE && (!err->code || strcmp(err->code, "cancelled") != 0))
        *err = damage; /* nobody else has it: what is wrong is the damage */
    return -1;
}

static int pull_as(struct image_store *s, const struct image_pull *pull,
                   const struct reference *ref, char *name, image_progress progress, void *arg,
                   struct image **ret, struct err *err)
{
    auto_free char *full = reference_full(ref);
    json_t *request = pull_request(s, pull, ref, full), *made = NULL;
    char *names[] = {name, NULL};
    struct err unused = {0};
    struct work w;
    int r;

    if (!err)
        err = &unused;
    if (room_ask(s, name, err) < 0 || work_begin(s, &w, err) < 0) {
        json_decref(request);
        return -1;
    }
    do {
        json_decref(made);
        made = NULL;
        r = run_worker(&w, request, ref->host, progress, arg, &made, err);
        if (r == 0)
            r = work_publish(&w, made, full, names, ret, err);
    } while (r < 0 && work_lost(&w));
    work_end(&w);
    if (r < 0)
        (void)err_no_space(err, NO_SPACE_ADVICE);
    json_decref(made);
    json_decref(request);
    return r;
}

int image_pull(struct image_store *s, const struct image_pull *pull, image_progress progress,
               void *arg, struct image **ret, struct err *err)
{
    auto_free char *name = NULL;
    struct reference ref;
    int r;

    if (reference_parse(pull->reference, &ref, err) < 0)
        return -1;
    r = name_check_new(pull->name ? pull->name : pull->reference, !pull->name, &name, err);
    if (r == 0) {
        r = pull_as(s, pull, &ref, name, progress, arg, ret, err);
        if (r < 0)
            (void)err_wrap(err, "pull %.100s", pull->reference);
    }
    reference_done(&ref);
    return r;
}
