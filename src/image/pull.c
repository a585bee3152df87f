/* Images from registries. The daemon itself never talks to one. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/image_internal.h"
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

static int pull_as(struct image_store *s, const struct image_pull *pull,
                   const struct reference *ref, char *name, image_progress progress, void *arg,
                   struct image **ret, struct err *err)
{
    auto_free char *full = reference_full(ref);
    json_t *request = pull_request(s, pull, ref, full), *made = NULL;
    char *names[] = {name, NULL};
    struct work w;
    int r;

    if (work_begin(s, &w, err) < 0) {
        json_decref(request);
        return -1;
    }
    r = work_run(&w, request, -1, progress, arg, &made, err);
    if (r == 0)
        r = work_publish(&w, made, full, names, ret, err);
    work_end(&w);
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
