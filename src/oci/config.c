#include "oci/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/digest.h"
#include "oci/manifest.h"
#include "oci/oci_internal.h"

#define LIST_MAX 4096 /* strings in one list */

static const struct document_kind doc = {"bad_config", "image's configuration"};

/* ---- reading ---- */

static int take_string(const json_t *object, const char *key, char **ret, struct err *err)
{
    const char *value;

    if (document_string(&doc, object, key, &value, err) < 0)
        return -1;
    *ret = xstrdup(value);
    return 0;
}

static bool absent(const json_t *value)
{
    return !value || json_is_null(value);
}

static int take_strings(const json_t *object, const char *key, char ***ret, struct err *err)
{
    const json_t *list = json_object_get(object, key);

    if (absent(list))
        return 0;
    if (!json_is_array(list))
        return document_bad(&doc, err, "%s is not a list", key);
    if (json_array_size(list) > LIST_MAX)
        return document_bad(&doc, err, "%s has more than %d entries", key, LIST_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *s = json_string_value(json_array_get(list, i));

        if (!s)
            return document_bad(&doc, err, "%s has something in it that is not a string", key);
        *ret = strv_add(*ret, s);
    }
    return 0;
}

/* Builders from before schema 2 wrote a command as one string, for the shell. */
static int take_command(const json_t *object, const char *key, char ***ret, struct err *err)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_string(value))
        return take_strings(object, key, ret, err);
    *ret = strv_add(strv_add(strv_add(NULL, "/bin/sh"), "-c"), json_string_value(value));
    return 0;
}

static int take_env(const json_t *object, char ***ret, struct err *err)
{
    if (take_strings(object, "Env", ret, err) < 0)
        return -1;
    for (size_t i = 0; *ret && (*ret)[i]; i++)
        if ((*ret)[i][0] == '=' || !strchr((*ret)[i], '='))
            return document_bad(&doc, err, "its variable \"%.60s\" is not NAME=VALUE", (*ret)[i]);
    return 0;
}

/* A set, which JSON writes as an object of empty objects. */
static int take_ports(const json_t *object, char ***ret, struct err *err)
{
    json_t *ports = json_object_get(object, "ExposedPorts");
    const char *port;
    json_t *empty;

    if (absent(ports))
        return 0;
    if (!json_is_object(ports) || json_object_size(ports) > LIST_MAX)
        return document_bad(&doc, err, "ExposedPorts is not an object of at most %d", LIST_MAX);
    json_object_foreach(ports, port, empty) *ret = strv_add(*ret, port);
    return 0;
}

static int take_labels(const json_t *object, json_t **ret, struct err *err)
{
    json_t *labels = json_object_get(object, "Labels"), *value;
    const char *key;

    *ret = json_object();
    if (absent(labels))
        return 0;
    if (!json_is_object(labels))
        return document_bad(&doc, err, "Labels is not an object");
    json_object_foreach(labels, key, value)
    {
        if (!json_is_string(value))
            return document_bad(&doc, err, "its label \"%.60s\" is not a string", key);
        (void)json_object_set(*ret, key, value);
    }
    return 0;
}

static int take_diff_ids(const json_t *root, char ***ret, struct err *err)
{
    const json_t *rootfs = json_object_get(root, "rootfs");
    auto_strv char **ids = NULL;

    if (take_strings(rootfs, "diff_ids", &ids, err) < 0)
        return -1;
    if (!ids || !ids[0])
        return document_bad(&doc, err, "it lists no layers (rootfs.diff_ids)");
    if (strv_len(ids) > MANIFEST_MAX_LAYERS)
        return document_bad(&doc, err, "it has %zu layers and may have %d", strv_len(ids),
                            MANIFEST_MAX_LAYERS);
    for (size_t i = 0; ids[i]; i++) {
        if (!str_starts(ids[i], DIGEST_PREFIX) || !digest_valid(ids[i] + strlen(DIGEST_PREFIX)))
            return document_bad(&doc, err, "its layer \"%.80s\" is not a sha256 digest", ids[i]);
        *ret = strv_add(*ret, ids[i] + strlen(DIGEST_PREFIX));
    }
    return 0;
}

/* 2024-05-01T10:20:30.123456789Z or with +02:00. What cannot be read is as good as not said: no
 * image is refused for its date, and one from before 1970 has none. */
static int64_t read_time(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int64_t ms = 0, offset = 0;
    int hours, minutes, end = 0;

    if (!rest)
        return 0;
    if (*rest == '.') {
        size_t digits = strspn(++rest, "0123456789");

        for (size_t i = 0; i < 3; i++)
            ms = ms * 10 + (i < digits ? rest[i] - '0' : 0);
        rest += digits;
    }
    if ((*rest == '+' || *rest == '-') &&
        sscanf(rest + 1, "%2d:%2d%n", &hours, &minutes, &end) == 2 && end == 5)
        offset = (*rest == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    else if (strcmp(rest, "Z") != 0)
        return 0;
    ms += ((int64_t)timegm(&tm) - offset) * 1000;
    return ms > 0 ? ms : 0;
}

static int take_settings(const json_t *root, struct oci_config *c, struct err *err)
{
    const json_t *config = json_object_get(root, "config");

    if (!absent(config) && !json_is_object(config))
        return document_bad(&doc, err, "config is not an object");
    if (take_env(config, &c->env, err) < 0 ||
        take_command(config, "Entrypoint", &c->entrypoint, err) < 0 ||
        take_command(config, "Cmd", &c->cmd, err) < 0 ||
        take_string(config, "WorkingDir", &c->workdir, err) < 0 ||
        take_string(config, "User", &c->user, err) < 0 ||
        take_string(config, "StopSignal", &c->stop_signal, err) < 0 ||
        take_ports(config, &c->ports, err) < 0)
        return -1;
    return take_labels(config, &c->labels, err);
}

int oci_config_parse(const char *bytes, size_t len, struct oci_config *ret, struct err *err)
{
    auto_json json_t *root = NULL;
    struct oci_config c = {0};
    const char *created;

    if (document_load(&doc, bytes, len, CONFIG_MAX_BYTES, &root, err) < 0)
        return -1;
    if (take_string(root, "os", &c.os, err) < 0 ||
        take_string(root, "architecture", &c.arch, err) < 0 ||
        take_string(root, "variant", &c.variant, err) < 0 ||
        document_string(&doc, root, "created", &created, err) < 0 ||
        take_diff_ids(root, &c.diff_ids, err) < 0 || take_settings(root, &c, err) < 0) {
        oci_config_done(&c);
        return -1;
    }
    c.created_ms = read_time(created);
    *ret = c;
    return 0;
}

void oci_config_done(struct oci_config *c)
{
    free(c->os);
    free(c->arch);
    free(c->variant);
    strv_free(c->diff_ids);
    strv_free(c->env);
    strv_free(c->entrypoint);
    strv_free(c->cmd);
    free(c->workdir);
    free(c->user);
    free(c->stop_signal);
    strv_free(c->ports);
    json_decref(c->labels);
    *c = (struct oci_config){0};
}
