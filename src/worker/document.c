/* An image's configuration as it is kept: text whose digest is the image's id. Settings are always
 * read from the text, so that what is shown is what the id stands for. */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "oci/config.h"
#include "worker/worker.h"

void text_digest(const void *text, size_t len, char ret[DIGEST_HEX])
{
    EVP_MD_CTX *sha = digest_new();

    digest_add(sha, text, len);
    digest_end(sha, ret);
}

/* No time: the same layer is the same image, whenever it is imported. */
json_t *document_new(const char *diff_id)
{
    const char *here = platform_here(), *slash = strchr(here, '/');
    auto_free char *os = xstrndup(here, (size_t)(slash - here));
    auto_free char *arch = xstrndup(slash + 1, strcspn(slash + 1, "/"));
    json_t *ids = json_array();

    if (diff_id)
        (void)json_array_append_new(ids, json_sprintf(DIGEST_PREFIX "%s", diff_id));
    return json_pack("{s:s, s:s, s:{}, s:{s:s, s:o}}", "os", os, "architecture", arch, "config",
                     "rootfs", "type", "layers", "diff_ids", ids);
}

static json_t *time_json(void)
{
    time_t now = time(NULL);
    struct tm tm;
    char text[32];

    (void)gmtime_r(&now, &tm);
    (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    return json_string(text);
}

static int change_settings(json_t *config, const json_t *changes, struct err *err)
{
    static const struct {
        const char *ours, *theirs;
        json_type type;
    } fields[] = {
        {"env", "Env", JSON_ARRAY},
        {"workdir", "WorkingDir", JSON_STRING},
        {"user", "User", JSON_STRING},
        {"entrypoint", "Entrypoint", JSON_ARRAY},
        {"cmd", "Cmd", JSON_ARRAY},
        {"labels", "Labels", JSON_OBJECT},
        {"ports", "ExposedPorts", JSON_OBJECT},
        {"stop_signal", "StopSignal", JSON_STRING},
    };

    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        json_t *value = json_object_get(changes, fields[i].ours);
        json_t *there = json_object_get(config, fields[i].theirs);

        if (!value || json_is_null(value))
            continue;
        if (json_typeof(value) != fields[i].type)
            return err_code(err, ERR_INVALID, "bad_config", "%s has the wrong type",
                            fields[i].ours);
        /* Labels and ports are added to those that there are. */
        if (fields[i].type == JSON_OBJECT && json_is_object(there))
            (void)json_object_update(there, value);
        else
            (void)json_object_set(config, fields[i].theirs, value);
    }
    return 0;
}

int document_commit(json_t *document, const char *diff_id, const json_t *changes, struct err *err)
{
    json_t *ids = json_object_get(json_object_get(document, "rootfs"), "diff_ids");
    json_t *config = json_object_get(document, "config");
    json_t *history = json_object_get(document, "history");

    if (!json_is_array(ids))
        return err_set(err, ERR_INTERNAL, "the configuration of the image below is damaged");
    if (!json_is_object(config)) { /* there may be none */
        config = json_object();
        (void)json_object_set_new(document, "config", config);
    }
    if (diff_id)
        (void)json_array_append_new(ids, json_sprintf(DIGEST_PREFIX "%s", diff_id));
    (void)json_object_set_new(document, "created", time_json());
    if (json_is_array(history) && diff_id) /* one entry a layer, or none at all */
        (void)json_array_append_new(history, json_pack("{s:o, s:s}", "created", time_json(),
                                                       "created_by", "cay image commit"));
    return change_settings(config, changes, err);
}

void document_set_layers(json_t *document, const json_t *diff_ids)
{
    (void)json_object_set_new(document, "rootfs",
                              json_pack("{s:s, s:O}", "type", "layers", "diff_ids", diff_ids));
}

char *document_text(const json_t *document)
{
    char *text = json_dumps(document, JSON_COMPACT);

    if (!text)
        abort();
    return text;
}

static json_t *platform_json(const struct oci_config *c)
{
    return json_sprintf("%s/%s%s%s", c->os[0] ? c->os : "linux",
                        c->arch[0] ? c->arch : PLATFORM_UNSAID, c->variant[0] ? "/" : "",
                        c->variant);
}

int document_image(const char *text, size_t len, json_t **ret, struct err *err)
{
    struct oci_config c;
    char id[DIGEST_HEX];
    json_t *image;

    if (oci_config_parse(text, len, &c, err) < 0)
        return -1;
    text_digest(text, len, id);
    image = json_pack("{s:s, s:s%, s:s, s:b, s:[], s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:s, s:o, "
                      "s:I}",
                      "id", id, "document", text, len, "digest", "", "host", 0, "names", "env",
                      json_of_strings(c.env), "entrypoint", json_of_strings(c.entrypoint), "cmd",
                      json_of_strings(c.cmd), "ports", json_of_strings(c.ports), "labels",
                      c.labels ? json_deep_copy(c.labels) : json_object(), "workdir", c.workdir,
                      "user", c.user, "stop_signal", c.stop_signal, "platform", platform_json(&c),
                      "created_ms", (json_int_t)c.created_ms);
    oci_config_done(&c);
    if (!image)
        return err_code(err, ERR_INVALID, "bad_config", "the configuration is not valid text");
    *ret = image;
    return 0;
}
