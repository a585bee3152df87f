#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;
struct image_policy;
struct sandbox_limits;

/* Which images may be used, by which short names, and with how much. Decisions only: nothing here
 * looks at what images there are.
 *
 * A name means, in this order: a short name of the operator's own (any name but python and node), a
 * preset (python, node …), or a reference. What faces make of a refusal, among them the codes of
 * iii workers:
 *
 *   image_not_allowed     403   not in the list                               S100
 *   image_not_found       404   neither here nor in its registry              S102
 *   image_not_installed   404   not here, and it may not be pulled by itself  S101
 *   image_pull_failed     503   the registry, or its answer; try again        S102
 *   registry_denied       403   the registry wants (other) credentials        S102
 *   image_cap_exceeded    403   more cpu or memory than the image may have    S400
 *   sandbox_limit         429   too many sandboxes                            S400
 *   image_reserved        403   a new image cannot have that name             –
 */

struct image_policy_config {
    /* Comma list of names and globs: '*' and '?' match no '/', "**" does, and "*" alone is
     * everything. An entry that names a host is for that host; one that does not is for docker.io
     * and what is made here; one that begins with '*' is for all. Or a JSON array of names without
     * wildcards. */
    const char *allowed;
    const char *custom; /* NAME=REFERENCE,… or a JSON object of them, or NULL */
    const char *caps; /* GLOB:cpu=N,memory=MB;… or {"NAME": {"cpu": N, "memory": MB}} of JSON, or
                         NULL; what is left out has no cap, and nothing fits into 0 */
    bool strict;      /* the rule of iii workers: short names only, each of them in the list */
};

/* ERR_INVALID names the variable that is wrong. */
int image_policy_new(const struct image_policy_config *config, struct image_policy **ret,
                     struct err *err);
void image_policy_free(struct image_policy *p);

/* What a name stands for: what to look up and to pull. Free it. */
char *image_policy_reference(const struct image_policy *p, const char *name);

/* ERR_FORBIDDEN image_not_allowed; ERR_INVALID when it is no name at all. */
int image_policy_check(const struct image_policy *p, const char *name, struct err *err);

/* Lowers what was not asked for to the caps of the image; ERR_FORBIDDEN image_cap_exceeded for what
 * was. */
int image_policy_limit(const struct image_policy *p, const char *name, bool asked_cpu,
                       bool asked_memory, struct sandbox_limits *limits, struct err *err);

/* The same for an image whose name is not known: the smallest of all caps applies, but limits up to
 * `granted` (NULL = none) are kept. */
int image_policy_limit_nameless(const struct image_policy *p, bool asked_cpu, bool asked_memory,
                                const struct sandbox_limits *granted, struct sandbox_limits *limits,
                                struct err *err);

/* May a new image be called that? Short names and host keep their meaning: ERR_FORBIDDEN
 * image_reserved. With targets, also what they stand for keeps its own. */
int image_policy_check_new_name(const struct image_policy *p, const char *name, bool targets,
                                struct err *err);

/* The first short name that stands for the image kept as name; NULL = none. */
const char *image_policy_word_for(const struct image_policy *p, const char *name);

/* Is it a short name, so that the image kept as NAME must be asked for as NAME:latest? */
bool image_policy_is_short_name(const struct image_policy *p, const char *name);

/* [{name, reference, kind}]: presets, then own names in order. */
json_t *image_policy_catalog(const struct image_policy *p);
