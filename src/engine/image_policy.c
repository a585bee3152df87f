#include "engine/image_policy.h"

#include <ctype.h>
#include <fnmatch.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/sandbox.h"
#include "oci/digest.h"
#include "oci/reference.h"

#define HUB     "docker.io"
#define LIBRARY "library/"
#define LATEST  "latest"
#define HOST    "host"

#define CUSTOM_NAME_MAX 128

struct short_name {
    const char *name, *reference;
};

/* Where the plain name would be no image, or a larger one than code needs. */
static const struct short_name presets[] = {
    {"python", "docker.io/library/python:3.12-slim"},
    {"node", "docker.io/library/node:22-slim"},
    {"bun", "docker.io/oven/bun:1-slim"},
    {"deno", "docker.io/denoland/deno:debian"},
    {"go", "docker.io/library/golang:1"},
    {"rust", "docker.io/library/rust:1-slim"},
    {"ruby", "docker.io/library/ruby:3-slim"},
    {"java", "docker.io/library/eclipse-temurin:21"},
};

/* iii has these two, and no custom image may take their place. */
static const char *const reserved[] = {"python", "node"};

#define NO_CAP UINT32_MAX

struct cap {
    char *pattern;
    bool exact;                     /* it is a name, not a pattern */
    uint32_t cpu_millis, memory_mb; /* NO_CAP = none; 0 = nothing fits */
};

struct image_policy {
    char **allowed;             /* patterns */
    char **allowed_names;       /* without wildcards */
    char **names, **references; /* the operator's own, by name */
    struct cap *caps;
    size_t n_caps;
    bool strict;
};

/* ---- texts of the configuration ---- */

/* The next item before one of the separators, trimmed; NULL at the end. Free it. */
static char *next_item(const char **text, const char *separators)
{
    while (**text) {
        const char *start = *text + strspn(*text, " \t");
        size_t len = strcspn(start, separators);

        *text = start + len + (start[len] != '\0');
        while (len > 0 && isspace((unsigned char)start[len - 1]))
            len--;
        if (len > 0)
            return xstrndup(start, len);
    }
    return NULL;
}

/* Does the pattern name a host? As in a reference, but for wildcards. */
static size_t host_length(const char *pattern)
{
    size_t len = strcspn(pattern, "/");

    if (!pattern[len])
        return 0;
    if (memchr(pattern, '.', len) || memchr(pattern, ':', len) ||
        (len == 9 && strncasecmp(pattern, "localhost", 9) == 0))
        return len;
    return 0;
}

/* Host names are compared in lower case. */
static char *lower_host(char *pattern)
{
    size_t len = host_length(pattern);

    for (size_t i = 0; i < len; i++)
        pattern[i] = (char)tolower((unsigned char)pattern[i]);
    return pattern;
}

/* A list of JSON holds names that are taken as they are. False when the text is something else,
 * such as a pattern that begins with a bracket. */
static bool read_allowed_json(struct image_policy *p, const char *text)
{
    json_t *list = json_loads(text, 0, NULL), *name;
    bool is_list = json_is_array(list);
    size_t i;

    json_array_foreach(list, i, name)
    {
        is_list = is_list && json_is_string(name);
    }
    for (i = 0; is_list && i < json_array_size(list); i++)
        p->allowed_names = strv_add(p->allowed_names, json_string_value(json_array_get(list, i)));
    json_decref(list);
    return is_list;
}

static void read_allowed(struct image_policy *p, const char *text)
{
    char *item;

    if (read_allowed_json(p, text))
        return;
    while ((item = next_item(&text, ","))) {
        p->allowed = strv_add(p->allowed, lower_host(item));
        free(item);
    }
}

static const char *find_preset(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(presets); i++)
        if (strcmp(presets[i].name, name) == 0)
            return presets[i].reference;
    return NULL;
}

static const char *find_custom(const struct image_policy *p, const char *name)
{
    for (size_t i = 0; p->names && p->names[i]; i++)
        if (strcmp(p->names[i], name) == 0)
            return p->references[i];
    return NULL;
}

static const char *find_short_name(const struct image_policy *p, const char *name)
{
    const char *custom = find_custom(p, name);

    return custom ? custom : find_preset(name);
}

static bool is_reserved(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
        if (strcmp(reserved[i], name) == 0)
            return true;
    return false;
}

/* UTF-8 without control characters: names are shown in terminals. U+0080 to U+009F begin with C2.
 */
static bool is_custom_name(const char *s)
{
    size_t len = strlen(s);

    if (len == 0 || len > CUSTOM_NAME_MAX || !utf8_valid(s, len))
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i], next = (unsigned char)s[i + 1];

        if (c < ' ' || c == 0x7f || (c == 0xc2 && next < 0xa0))
            return false;
    }
    return true;
}

static int check_custom(const struct image_policy *p, const char *name, const char *reference,
                        struct err *err)
{
    struct reference ref;

    if (!is_custom_name(name))
        return err_set(err, ERR_INVALID,
                       "CAY_CUSTOM_IMAGES: a name must have 1 to %d bytes of UTF-8 without control "
                       "characters, as in tools=ghcr.io/team/tools:1",
                       CUSTOM_NAME_MAX);
    if (is_reserved(name))
        return err_set(err, ERR_INVALID,
                       "CAY_CUSTOM_IMAGES: %s is a name that cay gives a meaning; choose another",
                       name);
    if (find_custom(p, name))
        return err_set(err, ERR_INVALID, "CAY_CUSTOM_IMAGES: %.60s is given twice", name);
    if (reference_parse(reference, &ref, err) < 0)
        return err_wrap(err, "CAY_CUSTOM_IMAGES: %.60s", name);
    reference_done(&ref);
    return 0;
}

/* By name, so that the catalog is in order. */
static void add_custom(struct image_policy *p, const char *name, const char *reference)
{
    size_t n = p->names ? strv_len(p->names) : 0, i;

    p->names = strv_add(p->names, name);
    p->references = strv_add(p->references, reference);
    for (i = n; i > 0 && strcmp(p->names[i - 1], name) > 0; i--) {
        char *was = p->names[i], *meant = p->references[i];

        p->names[i] = p->names[i - 1];
        p->references[i] = p->references[i - 1];
        p->names[i - 1] = was;
        p->references[i - 1] = meant;
    }
}

/* {"NAME": "IMAGE"} */
static int read_custom_json(struct image_policy *p, json_t *all, struct err *err)
{
    const char *name;
    json_t *value;

    json_object_foreach(all, name, value)
    {
        const char *reference = json_string_value(value);

        if (!reference)
            return err_set(err, ERR_INVALID, "CAY_CUSTOM_IMAGES: %.60s must be a text", name);
        if (check_custom(p, name, reference, err) < 0)
            return -1;
        add_custom(p, name, reference);
    }
    return 0;
}

/* True when the text begins as an object of JSON does; *ret is NULL when it is no JSON even so. */
static bool object_of(const char *text, json_t **ret)
{
    if (text[strspn(text, " \t")] != '{')
        return false;
    *ret = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    return true;
}

static int read_custom(struct image_policy *p, const char *text, struct err *err)
{
    json_t *all;
    int r;

    if (object_of(text, &all)) {
        r = all ? read_custom_json(p, all, err)
                : err_set(err, ERR_INVALID,
                          "CAY_CUSTOM_IMAGES begins with { and must be JSON: {\"NAME\": "
                          "\"IMAGE\"}, each name once");
        json_decref(all);
        return r;
    }
    for (;;) {
        auto_free char *item = next_item(&text, ",");
        char *reference;

        if (!item)
            return 0;
        reference = strchr(item, '=');
        if (!reference)
            return err_set(err, ERR_INVALID,
                           "CAY_CUSTOM_IMAGES must be a list of NAME=IMAGE, not \"%.60s\"", item);
        *reference++ = '\0';
        if (check_custom(p, item, reference, err) < 0)
            return -1;
        add_custom(p, item, reference);
    }
}

static int read_cap(struct cap *cap, const char *text, struct err *err)
{
    const char *value = strchr(text, '=');
    char *end = NULL;
    double n = value ? strtod(value + 1, &end) : 0;

    if (value && end != value + 1 && !*end) {
        if (str_starts(text, "cpu=") && (n == 0 || n >= CPU_MILLIS_MIN / 1000.0) && n <= 1024) {
            cap->cpu_millis = (uint32_t)lround(n * 1000);
            return 0;
        }
        if (str_starts(text, "memory=") && (n == 0 || n >= MEMORY_MB_MIN) && n <= 1 << 24) {
            cap->memory_mb = (uint32_t)n;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID,
                   "CAY_IMAGE_CAPS: \"%.60s\" must be cpu=CORES (%g or more) or memory=MB (%d or "
                   "more)",
                   text, CPU_MILLIS_MIN / 1000.0, MEMORY_MB_MIN);
}

static void add_cap(struct image_policy *p, struct cap cap)
{
    p->caps = xrealloc(p->caps, (p->n_caps + 1) * sizeof(*p->caps));
    p->caps[p->n_caps++] = cap;
}

/* The last colon ends the pattern: names have some too. */
static int read_image_caps(struct image_policy *p, char *item, struct err *err)
{
    char *colon = strrchr(item, ':');
    const char *rest = colon ? colon + 1 : "";
    struct cap cap = {.cpu_millis = NO_CAP, .memory_mb = NO_CAP};

    if (!colon || colon == item || !strchr(rest, '='))
        return err_set(err, ERR_INVALID,
                       "CAY_IMAGE_CAPS must be like python:cpu=2,memory=1024;node*:memory=512, not "
                       "\"%.60s\"",
                       item);
    for (;;) {
        auto_free char *one = next_item(&rest, ",");

        if (!one)
            break;
        if (read_cap(&cap, one, err) < 0)
            return -1;
    }
    *colon = '\0';
    cap.pattern = xstrdup(lower_host(item));
    add_cap(p, cap);
    return 0;
}

static int read_cap_json(struct cap *cap, const char *name, json_t *limits, struct err *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(limits))
        return err_set(err, ERR_INVALID,
                       "CAY_IMAGE_CAPS: \"%.60s\" must have {\"cpu\": CORES, \"memory\": MB}",
                       name);
    json_object_foreach(limits, key, value)
    {
        auto_free char *number = json_is_number(value) ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
        auto_free char *text = xasprintf("%s=%s", key, number ? number : "");

        if (read_cap(cap, text, err) < 0)
            return -1;
    }
    return 0;
}

/* {"NAME": {"cpu": CORES, "memory": MB}} */
static int read_caps_json(struct image_policy *p, json_t *all, struct err *err)
{
    const char *name;
    json_t *limits;

    json_object_foreach(all, name, limits)
    {
        struct cap cap = {.exact = true, .cpu_millis = NO_CAP, .memory_mb = NO_CAP};

        if (read_cap_json(&cap, name, limits, err) < 0)
            return -1;
        cap.pattern = xstrdup(name);
        add_cap(p, cap);
    }
    return 0;
}

static int read_caps(struct image_policy *p, const char *text, struct err *err)
{
    json_t *all;
    int r;

    if (object_of(text, &all)) {
        r = all ? read_caps_json(p, all, err)
                : err_set(err, ERR_INVALID,
                          "CAY_IMAGE_CAPS begins with { and must be JSON: {\"NAME\": {\"cpu\": "
                          "CORES, \"memory\": MB}}, each name once");
        json_decref(all);
        return r;
    }
    for (;;) {
        auto_free char *item = next_item(&text, ";");

        if (!item)
            return 0;
        if (read_image_caps(p, item, err) < 0)
            return -1;
    }
}

int image_policy_new(const struct image_policy_config *config, struct image_policy **ret,
                     struct err *err)
{
    struct image_policy *p = xcalloc(1, sizeof(*p));

    p->strict = config->strict;
    read_allowed(p, config->allowed ? config->allowed : "*");
    if ((config->custom && read_custom(p, config->custom, err) < 0) ||
        (config->caps && read_caps(p, config->caps, err) < 0)) {
        image_policy_free(p);
        return -1;
    }
    *ret = p;
    return 0;
}

void image_policy_free(struct image_policy *p)
{
    if (!p)
        return;
    strv_free(p->allowed);
    strv_free(p->allowed_names);
    strv_free(p->names);
    strv_free(p->references);
    for (size_t i = 0; i < p->n_caps; i++)
        free(p->caps[i].pattern);
    free(p->caps);
    free(p);
}

/* ---- matching ---- */

/* Without "**": of the first len bytes of text. */
static bool matches_part(const char *pattern, const char *text, size_t len)
{
    auto_free char *part = xstrndup(text, len);

    return strcmp(pattern, part) == 0 || fnmatch(pattern, part, FNM_NOESCAPE | FNM_PATHNAME) == 0;
}

/* '*' and '?' stay within a part of a name: what stands between two slashes is chosen by whoever
 * owns what is before them, so that a '*' which reached over one would admit what others publish.
 * "**" reaches over slashes. */
static bool matches(const char *pattern, const char *text)
{
    const char *wide = strstr(pattern, "**");
    auto_free char *head = wide ? xstrndup(pattern, (size_t)(wide - pattern)) : NULL;
    size_t len = strlen(text);

    if (!wide)
        return matches_part(pattern, text, len);
    for (size_t n = 0; n <= len; n++) {
        if (!matches_part(head, text, n))
            continue;
        for (size_t rest = n; rest <= len; rest++)
            if (matches(wide + 2, text + rest))
                return true;
        return false; /* a longer head leaves less for the rest */
    }
    return false;
}

/* The path with its tag and digest, long or short, and without the tag that goes without saying. */
static bool matches_path(const char *pattern, const struct reference *ref)
{
    bool hub = strcmp(ref->host, HUB) == 0 && str_starts(ref->path, LIBRARY);
    const char *paths[] = {ref->path, hub ? ref->path + strlen(LIBRARY) : NULL};

    for (size_t i = 0; i < ARRAY_LEN(paths) && paths[i]; i++) {
        auto_free char *whole =
            xasprintf("%s%s%s%s%s", paths[i], ref->tag ? ":" : "", ref->tag ? ref->tag : "",
                      ref->digest ? "@sha256:" : "", ref->digest ? ref->digest : "");

        if (matches(pattern, whole))
            return true;
        if (!ref->digest && strcmp(ref->tag, LATEST) == 0 && matches(pattern, paths[i]))
            return true;
    }
    return false;
}

/* A wildcard never reaches from the host into the path or back, so that nobody can choose a host or
 * a path that looks like what the list means: python* is not python.example.com/x, and
 * *.corp.example/app is not example.com/x.corp.example/app. */
static bool matches_reference(const char *pattern, const struct reference *ref)
{
    size_t host_len = host_length(pattern);

    if (strcmp(pattern, "*") == 0)
        return true; /* alone it is everything */
    if (host_len > 0) {
        auto_free char *host = xstrndup(pattern, host_len);

        return matches(host, ref->host) && matches_path(pattern + host_len + 1, ref);
    }
    if (pattern[0] == '*') {
        auto_free char *full = reference_full(ref);

        if (matches(pattern, full))
            return true;
    }
    return strcmp(ref->host, HUB) == 0 && matches_path(pattern, ref);
}

/* A short name is matched as it is, too: its meaning is the operator's. */
static bool matches_name(const char *pattern, const char *short_name, const struct reference *ref)
{
    return (short_name && (strcmp(pattern, short_name) == 0 ||
                           (!host_length(pattern) && matches(pattern, short_name)))) ||
           matches_reference(pattern, ref);
}

/* An exact name stands for its image, however a caller writes that. With the strict rule callers
 * can write names only. */
static bool is_same(const struct image_policy *p, const char *exact, const char *name,
                    const struct reference *ref)
{
    const char *means = find_short_name(p, exact);
    auto_free char *one = NULL, *other = NULL;

    if (strcmp(exact, name) == 0)
        return true;
    if (p->strict)
        return false;
    one = reference_shorten(means ? means : exact);
    other = reference_short(ref);
    return one && strcmp(one, other) == 0;
}

/* ---- decisions ---- */

char *image_policy_reference(const struct image_policy *p, const char *name)
{
    const char *means = find_short_name(p, name);

    return xstrdup(means ? means : name);
}

bool image_policy_is_short_name(const struct image_policy *p, const char *name)
{
    return find_short_name(p, name) != NULL;
}

/* An id has neither host nor path: "*" and "sha256:*" match it, a pattern with a host does not. */
static bool matches_entry(const struct image_policy *p, const char *entry, const char *name,
                          const char *means, const struct reference *ref)
{
    if (p->strict || (!means && str_starts(name, DIGEST_PREFIX)))
        return matches(entry, name);
    return matches_name(entry, means ? name : NULL, ref);
}

static bool is_allowed(const struct image_policy *p, const char *name, const char *means,
                       const struct reference *ref)
{
    for (char **entry = p->allowed; entry && *entry; entry++)
        if (matches_entry(p, *entry, name, means, ref))
            return true;
    for (char **entry = p->allowed_names; entry && *entry; entry++)
        if (is_same(p, *entry, name, ref))
            return true;
    return false;
}

static int not_allowed(const char *name, struct err *err)
{
    return err_code(err, ERR_FORBIDDEN, "image_not_allowed", "Image not allowed: %s", name);
}

int image_policy_check(const struct image_policy *p, const char *name, struct err *err)
{
    const char *means = find_short_name(p, name);
    struct reference ref;
    bool allowed;

    if (p->strict && !means)
        return not_allowed(name, err); /* also what is no name of an image */
    if (reference_parse(means ? means : name, &ref, err) < 0)
        return -1;
    allowed = is_allowed(p, name, means, &ref);
    reference_done(&ref);
    return allowed ? 0 : not_allowed(name, err);
}

static int over(const char *name, const char *what, double cap, const char *unit, struct err *err)
{
    if (cap <= 0)
        return err_code(err, ERR_FORBIDDEN, "image_cap_exceeded",
                        "%s may have no %s at all (CAY_IMAGE_CAPS)", name, what);
    return err_code(err, ERR_FORBIDDEN, "image_cap_exceeded",
                    "%s of %s may be at most %g%s (CAY_IMAGE_CAPS): ask for less", what, name, cap,
                    unit);
}

static int apply_cap(const struct cap *cap, const char *name, bool asked_cpu, bool asked_memory,
                     struct sandbox_limits *limits, struct err *err)
{
    if (limits->cpu_millis > cap->cpu_millis) {
        if (asked_cpu || cap->cpu_millis == 0)
            return over(name, "cpu", cap->cpu_millis / 1000.0, "", err);
        limits->cpu_millis = cap->cpu_millis;
    }
    if (limits->memory_mb > cap->memory_mb) {
        if (asked_memory || cap->memory_mb == 0)
            return over(name, "memory", cap->memory_mb, " MB", err);
        limits->memory_mb = cap->memory_mb;
    }
    return 0;
}

int image_policy_limit(const struct image_policy *p, const char *name, bool asked_cpu,
                       bool asked_memory, struct sandbox_limits *limits, struct err *err)
{
    const char *means = find_short_name(p, name);
    struct reference ref;
    int r = 0;

    if (p->n_caps == 0)
        return 0;
    if (reference_parse(means ? means : name, &ref, err) < 0)
        return -1;
    for (size_t i = 0; r == 0 && i < p->n_caps; i++)
        if (p->caps[i].exact ? is_same(p, p->caps[i].pattern, name, &ref)
                             : matches_name(p->caps[i].pattern, means ? name : NULL, &ref))
            r = apply_cap(&p->caps[i], name, asked_cpu, asked_memory, limits, err);
    reference_done(&ref);
    return r;
}

static uint32_t min_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t max_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

int image_policy_limit_nameless(const struct image_policy *p, bool asked_cpu, bool asked_memory,
                                const struct sandbox_limits *granted, struct sandbox_limits *limits,
                                struct err *err)
{
    struct cap least = {.cpu_millis = NO_CAP, .memory_mb = NO_CAP};

    for (size_t i = 0; i < p->n_caps; i++) {
        least.cpu_millis = min_of(least.cpu_millis, p->caps[i].cpu_millis);
        least.memory_mb = min_of(least.memory_mb, p->caps[i].memory_mb);
    }
    if (granted) {
        least.cpu_millis = max_of(least.cpu_millis, granted->cpu_millis);
        least.memory_mb = max_of(least.memory_mb, granted->memory_mb);
    }
    return apply_cap(&least, "an image without a name", asked_cpu, asked_memory, limits, err);
}

static bool same_image(const char *reference, const char *name)
{
    auto_free char *text = reference_shorten(reference);

    return text && strcmp(text, name) == 0;
}

const char *image_policy_word_for(const struct image_policy *p, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(presets); i++)
        if (same_image(presets[i].reference, name))
            return presets[i].name;
    for (size_t i = 0; p->references && p->references[i]; i++)
        if (same_image(p->references[i], name))
            return p->names[i];
    return NULL;
}

int image_policy_check_new_name(const struct image_policy *p, const char *name, bool targets,
                                struct err *err)
{
    struct reference ref;
    auto_free char *text = NULL;

    if (reference_parse(name, &ref, err) < 0)
        return -1;
    text = reference_short(&ref);
    reference_done(&ref);
    if (strcmp(text, HOST) == 0 || find_short_name(p, text) ||
        (targets && image_policy_word_for(p, text)))
        return err_code(err, ERR_FORBIDDEN, "image_reserved",
                        "%s has a meaning already, which no new image can take: choose another "
                        "name, such as my-app:1",
                        name);
    return 0;
}

static json_t *catalog_item(const char *name, const char *reference, const char *kind)
{
    return json_pack("{s:s, s:s, s:s}", "name", name, "reference", reference, "kind", kind);
}

json_t *image_policy_catalog(const struct image_policy *p)
{
    json_t *list = json_array();

    for (size_t i = 0; i < ARRAY_LEN(presets); i++)
        if (!find_custom(p, presets[i].name))
            (void)json_array_append_new(
                list, catalog_item(presets[i].name, presets[i].reference, "preset"));
    for (size_t i = 0; p->names && p->names[i]; i++)
        (void)json_array_append_new(list, catalog_item(p->names[i], p->references[i], "custom"));
    return list;
}
