/* A manifest or an index, and the same bytes as a configuration. What is taken keeps the bounds
 * that the worker relies on. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "oci/config.h"
#include "oci/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_blob(const struct blob *b)
{
    require(digest_valid(b->digest) && b->size >= 0 && b->size <= (int64_t)1 << 40);
}

static void check_manifest(const struct manifest *m)
{
    const struct blob *chosen;
    struct err err = {0};

    require(m->is_index ? m->n_layers == 0 : m->n_images == 0);
    if (!m->is_index) {
        require(m->n_layers >= 1 && m->n_layers <= MANIFEST_MAX_LAYERS);
        check_blob(&m->config);
    }
    for (size_t i = 0; i < m->n_layers; i++)
        check_blob(&m->layers[i]);
    require(m->n_images <= 1000);
    for (size_t i = 0; i < m->n_images; i++) {
        check_blob(&m->images[i].blob);
        require(m->images[i].os && m->images[i].arch && m->images[i].variant && m->images[i].name);
    }
    if (m->is_index && manifest_choose(m, "linux/amd64", &chosen, &err) == 0)
        check_blob(chosen);
}

static void check_config(const char *text, size_t size)
{
    struct oci_config c;
    struct err err = {0};

    if (oci_config_parse(text, size, &c, &err) < 0) {
        require(err.kind == ERR_INVALID && err.code && err.text[0]);
        return;
    }
    for (size_t i = 0; c.env && c.env[i]; i++)
        require(c.env[i][0] != '=' && strchr(c.env[i], '='));
    for (size_t i = 0; c.diff_ids[i]; i++)
        require(digest_valid(c.diff_ids[i]));
    require(c.created_ms >= 0 && json_is_object(c.labels));
    oci_config_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct manifest m;

    if (manifest_parse((const char *)data, size, NULL, &m, &err) == 0) {
        check_manifest(&m);
        manifest_done(&m);
    } else {
        require(err.kind == ERR_INVALID && err.code && err.text[0]);
    }
    check_config((const char *)data, size);
    return 0;
}
