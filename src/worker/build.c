/* A step of a build that needs no sandbox: files from the context or another image, and folders and
 * files that the plan itself has, become a layer; settings change. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/mode.h"
#include "base/str.h"
#include "layer/stack.h"
#include "worker/worker.h"

#define NEW_LAYER    "0"
#define PASSWD_MAX   (1u << 20)
#define MATCHES_MAX  100000
#define DEFAULT_MODE 0644

struct build_work {
    const struct worker_request *q;
    bool only_digest;
    struct layer layer;
    int root;        /* of the layer; -1 = there is none */
    int *roots;      /* of the layer and those below it, topmost first; the layer's is first */
    size_t n_roots;  /* without the layer's */
    EVP_MD_CTX *sha; /* what the layer is named after, or the digest that is wanted */
};

static const char *text_of(const json_t *item, const char *key)
{
    return json_string_value(json_object_get(item, key));
}

/* ---- stacks ---- */

/* Lowest first in the request, topmost first here; with the host's layer below them all. Leaves
 * room for one before the first. */
static int open_stack(const json_t *layers, bool host, int **ret, size_t *ret_n, struct err *err)
{
    size_t n = json_array_size(layers);
    int *roots = xcalloc(n + 2, sizeof(*roots));

    for (size_t i = 0; i < n; i++) {
        const char *dir = text_of(json_array_get(layers, n - 1 - i), "dir");

        if (!dir || !digest_valid(dir))
            return err_set(err, ERR_INTERNAL, "the request names a layer that cannot be");
        roots[1 + i] = openat(FD_LAYERS, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (roots[1 + i] < 0)
            return err_sys(err, errno, "open a layer");
    }
    if (host)
        roots[1 + n] = FD_OTHER;
    *ret = roots;
    *ret_n = n + host;
    return 0;
}

static struct stack below(const struct build_work *b)
{
    return b->root >= 0 ? (struct stack){b->roots, b->n_roots + 1}
                        : (struct stack){b->roots + 1, b->n_roots};
}

/* ---- owners and modes ---- */

/* The third field of the line that begins with the name: of /etc/passwd the uid, of /etc/group the
 * gid. */
static int find_id(const struct build_work *b, const char *file, const char *name, int64_t *ret,
                   struct err *err)
{
    struct stack s = {b->roots + 1, b->n_roots};
    char path[LAYER_MAX_PATH + 1];
    auto_free char *text = NULL;
    size_t len, name_len = strlen(name);
    struct stat st;
    char *save = NULL;

    if (stack_resolve(&s, file, true, path, &st, err) < 0)
        return -1;
    if (stack_read(&s, path, PASSWD_MAX, &text, &len, NULL) == 0)
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            const char *id = strchr(line + strcspn(line, ":"), ':');
            auto_free char *digits = NULL;
            uint64_t number;

            if (strncmp(line, name, name_len) != 0 || line[name_len] != ':' || !id)
                continue;
            id = strchr(id + 1, ':');
            digits = xstrndup(id ? id + 1 : "", id ? strcspn(id + 1, ":") : 0);
            if (str_u64(digits, &number) == 0 && number < LAYER_MAX_ID) {
                *ret = (int64_t)number;
                return 0;
            }
        }
    return err_code(err, ERR_INVALID, "bad_user", "the image has no %.60s in %s", name, file);
}

static int read_id(const struct build_work *b, const char *file, const char *name, int64_t *ret,
                   struct err *err)
{
    uint64_t number;

    if (str_u64(name, &number) < 0)
        return find_id(b, file, name, ret, err);
    if (number >= LAYER_MAX_ID)
        return err_code(err, ERR_INVALID, "bad_user", "%.60s is not below 65536", name);
    *ret = (int64_t)number;
    return 0;
}

/* user, or user:group; without a group its number is that of the user. */
static int read_owner(const struct build_work *b, const char *chown, int64_t *uid, int64_t *gid,
                      struct err *err)
{
    auto_free char *user = xstrndup(chown, strcspn(chown, ":"));
    const char *group = chown[strlen(user)] ? chown + strlen(user) + 1 : NULL;

    if (read_id(b, "etc/passwd", user, uid, err) < 0)
        return -1;
    if (!group) {
        *gid = *uid;
        return 0;
    }
    return read_id(b, "etc/group", group, gid, err);
}

static int read_meta(const struct build_work *b, const json_t *item, uint32_t mode,
                     struct layer_meta *ret, struct err *err)
{
    const char *chown = text_of(item, "chown"), *chmod = text_of(item, "chmod");

    *ret = (struct layer_meta){.mode = mode, .mtime = time(NULL)};
    if (chmod && mode_octal(chmod, &ret->mode) < 0)
        return err_set(err, ERR_INVALID, "%.20s is not 3 or 4 octal digits", chmod);
    return chown ? read_owner(b, chown, &ret->uid, &ret->gid, err) : 0;
}

/* ---- where to ---- */

/* What the host shows there is not the image's, and would cover it. */
static int check_covered(const struct build_work *b, const char *path, struct err *err)
{
    const json_t *covered = json_object_get(b->q->json, "covered");

    for (size_t i = 0; i < json_array_size(covered); i++) {
        const char *top = json_string_value(json_array_get(covered, i));
        size_t len;

        top += strspn(top, "/");
        len = strlen(top);
        if (strncmp(path, top, len) == 0 && (!path[len] || path[len] == '/'))
            return err_code(err, ERR_INVALID, "read_only",
                            "/%.100s is in /%s, which is the machine's own in images on host", path,
                            top);
    }
    return 0;
}

static int find_place(const struct build_work *b, const char *path, bool last,
                      char ret[LAYER_MAX_PATH + 1], struct stat *st, struct err *err)
{
    struct stack s = below(b);
    int r = stack_resolve(&s, path, last, ret, st, err);

    return r < 0 || check_covered(b, ret, err) < 0 ? -1 : r;
}

/* A folder that is there, or is made. */
static int make_dir(struct build_work *b, const char *path, const struct layer_meta *meta,
                    char ret[LAYER_MAX_PATH + 1], struct err *err)
{
    struct stat st;
    int r = find_place(b, path, true, ret, &st, err);

    if (r < 0)
        return -1;
    if (r == 1 && !S_ISDIR(st.st_mode))
        return err_code(err, ERR_INVALID, "not_a_directory", "/%.100s is not a folder in the image",
                        ret);
    return r == 1 ? 0 : layer_dir(&b->layer, ret, meta, err);
}

/* ---- items ---- */

static int put_dir(struct build_work *b, const json_t *item, struct err *err)
{
    char path[LAYER_MAX_PATH + 1];
    struct layer_meta meta;

    if (read_meta(b, item, 0755, &meta, err) < 0)
        return -1;
    return make_dir(b, text_of(item, "dir"), &meta, path, err);
}

static int put_file(struct build_work *b, const json_t *item, struct err *err)
{
    const json_t *text = json_object_get(item, "text");
    size_t len = json_string_length(text);
    char path[LAYER_MAX_PATH + 1];
    struct layer_meta meta;
    auto_close int fd = -1;
    struct stat st;
    int r = find_place(b, text_of(item, "write"), true, path, &st, err);

    if (r < 0 || read_meta(b, item, DEFAULT_MODE, &meta, err) < 0)
        return -1;
    if (r == 1 && S_ISDIR(st.st_mode))
        return err_code(err, ERR_INVALID, "is_a_directory", "/%.100s is a folder in the image",
                        path);
    if (layer_file(&b->layer, path, &fd, err) < 0 || layer_grow(&b->layer, len, err) < 0)
        return -1;
    r = write_all(fd, json_string_value(text), len);
    if (r < 0)
        return err_sys(err, -r, "write a file of the layer");
    return layer_file_done(fd, path, &meta, err);
}

/* ---- what a pattern means ---- */

struct matches {
    char **paths;
    size_t n;
};

static int add_match(struct matches *m, const char *path, struct err *err)
{
    if (m->n >= MATCHES_MAX)
        return err_code(err, ERR_TOO_LARGE, "too_large", "more than %d files match", MATCHES_MAX);
    m->paths = xrealloc(m->paths, (m->n + 2) * sizeof(*m->paths));
    m->paths[m->n++] = xstrdup(path);
    m->paths[m->n] = NULL;
    return 0;
}

/* base was walked already, and has a slash behind it unless it is empty. */
static int match(const struct stack *s, const char *base, const char *pattern, struct matches *m,
                 struct err *err)
{
    size_t len = strcspn(pattern, "/");
    const char *rest = pattern + len + strspn(pattern + len, "/");
    auto_free char *part = xstrndup(pattern, len);
    auto_strv char **names = NULL;
    char dir[LAYER_MAX_PATH + 1];
    struct stat st;
    int r;

    if (!*pattern)
        return add_match(m, base, err);
    if (!strpbrk(part, "*?[\\")) {
        auto_free char *next = xasprintf("%s%s%s", base, part, *rest ? "/" : "");

        return match(s, next, rest, m, err);
    }
    r = stack_resolve(s, base, true, dir, &st, err);
    if (r <= 0 || !S_ISDIR(st.st_mode))
        return r;
    if (stack_names(s, dir, &names, err) < 0)
        return -1;
    for (char **name = names; *name; name++) {
        auto_free char *next = xasprintf("%s%s%s", base, *name, *rest ? "/" : "");

        if (fnmatch(part, *name, 0) == 0 && match(s, next, rest, m, err) < 0)
            return -1;
    }
    return 0;
}

/* All of them; each pattern must match something that is there. */
static int match_all(const struct stack *s, const json_t *patterns, struct matches *ret,
                     struct err *err)
{
    for (size_t i = 0; i < json_array_size(patterns); i++) {
        const char *pattern = json_string_value(json_array_get(patterns, i));
        char path[LAYER_MAX_PATH + 1];
        struct matches m = {0};
        size_t before = ret->n;
        struct stat st;

        if (match(s, "", pattern + strspn(pattern, "/"), &m, err) < 0)
            return -1;
        for (size_t k = 0; k < m.n; k++) {
            int r = stack_resolve(s, m.paths[k], true, path, &st, err);

            if (r < 0 || (r == 1 && add_match(ret, m.paths[k], err) < 0))
                return -1;
        }
        strv_free(m.paths);
        if (ret->n == before)
            return err_code(err, ERR_INVALID, "no_source", "there is no %.100s", pattern);
    }
    return 0;
}

/* ---- copying ---- */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* A file goes into a folder that is there or is meant, else it gets the name itself. */
static int file_place(struct build_work *b, const json_t *item, const char *name,
                      const struct layer_meta *dir, char ret[LAYER_MAX_PATH + 1], struct err *err)
{
    const char *to = text_of(item, "to");
    bool into = json_is_true(json_object_get(item, "into"));
    struct stat st;
    int r = find_place(b, to, true, ret, &st, err);

    if (r < 0)
        return -1;
    if (into || (r == 1 && S_ISDIR(st.st_mode))) {
        auto_free char *path = NULL;

        if (make_dir(b, to, dir, ret, err) < 0)
            return -1;
        path = xasprintf("%s/%s", ret, name);
        r = find_place(b, path, false, ret, &st, err);
    } else {
        r = find_place(b, to, false, ret, &st, err);
    }
    if (r < 0)
        return -1;
    if (r == 1 && S_ISDIR(st.st_mode))
        return err_code(err, ERR_INVALID, "is_a_directory", "/%.100s is a folder in the image",
                        ret);
    return 0;
}

/* Each archive that ADD would unpack is refused: to copy it as it is would be something else. */
static int check_added(const char *match, struct err *err)
{
    static const char *const archives[] = {".tar",  ".tar.gz", ".tgz", ".tar.bz2",
                                           ".tbz2", ".tar.xz", ".txz", ".tar.zst"};

    for (size_t i = 0; i < ARRAY_LEN(archives); i++)
        if (str_ends(match, archives[i]))
            return err_code(err, ERR_INVALID, "bad_dockerfile",
                            "ADD does not unpack archives here: COPY %.100s and RUN tar on it",
                            match);
    return 0;
}

static int copy_match(struct build_work *b, const json_t *item, struct stack_copy *c,
                      const char *match, const struct layer_meta *dir, struct err *err)
{
    char from[LAYER_MAX_PATH + 1], to[LAYER_MAX_PATH + 1] = "";
    struct stat st;

    if (stack_resolve(&c->from, match, true, from, &st, err) < 0)
        return -1;
    if (json_is_true(json_object_get(item, "add")) && S_ISREG(st.st_mode) &&
        check_added(match, err) < 0)
        return -1;
    if (!b->only_digest) {
        if ((S_ISDIR(st.st_mode) ? make_dir(b, text_of(item, "to"), dir, to, err)
                                 : file_place(b, item, last_part(match), dir, to, err)) < 0)
            return -1;
    } else {
        digest_add(b->sha, last_part(match), strlen(last_part(match)) + 1);
    }
    return stack_copy(c, from, to, err);
}

/* Only a folder takes several: one that is meant, or that is there. */
static int check_several(const struct build_work *b, const json_t *item, struct err *err)
{
    char path[LAYER_MAX_PATH + 1];
    struct stat st;
    int r;

    if (b->only_digest || json_is_true(json_object_get(item, "into")))
        return 0;
    r = find_place(b, text_of(item, "to"), true, path, &st, err);
    if (r == 0 || (r == 1 && !S_ISDIR(st.st_mode)))
        return err_code(err, ERR_INVALID, "not_a_directory",
                        "several files are copied: where to must end with /");
    return r < 0 ? -1 : 0;
}

static int copy_item(struct build_work *b, const json_t *item, struct err *err)
{
    const json_t *from = json_array_get(json_object_get(b->q->json, "stacks"),
                                        (size_t)json_integer_value(json_object_get(item, "stack")));
    struct stack_copy c = {
        .to = b->only_digest ? NULL : &b->layer, .sha = b->sha, .uid = -1, .gid = -1, .mode = -1};
    struct layer_meta dir;
    struct matches m = {0};
    size_t n;
    int *roots;

    if (open_stack(json_object_get(from, "layers"), json_is_true(json_object_get(from, "host")),
                   &roots, &n, err) < 0 ||
        read_meta(b, item, 0755, &dir, err) < 0)
        return -1;
    c.from = (struct stack){roots + 1, n};
    c.below = below(b);
    if (text_of(item, "chown") || !json_is_true(json_object_get(item, "keep_owners"))) {
        c.uid = dir.uid;
        c.gid = dir.gid;
    }
    if (text_of(item, "chmod"))
        c.mode = dir.mode;
    dir.mode = 0755;
    if (match_all(&c.from, json_object_get(item, "copy"), &m, err) < 0)
        return -1;
    if (m.n > 1 && check_several(b, item, err) < 0)
        return -1;
    for (size_t i = 0; i < m.n; i++)
        if (copy_match(b, item, &c, m.paths[i], &dir, err) < 0)
            return -1;
    return 0;
}

static int put_items(struct build_work *b, struct err *err)
{
    json_t *items = json_object_get(b->q->json, "items"), *item;
    size_t i;

    json_array_foreach(items, i, item)
    {
        int r;

        if (text_of(item, "dir"))
            r = b->only_digest ? 0 : put_dir(b, item, err);
        else if (text_of(item, "write"))
            r = b->only_digest ? 0 : put_file(b, item, err);
        else
            r = copy_item(b, item, err);
        if (r < 0)
            return -1;
    }
    return 0;
}

/* ---- the layer ---- */

/* No archive begins so, and no layer from elsewhere. What is copied adds itself. */
static void begin_digest(struct build_work *b)
{
    auto_free char *items =
        json_dumps(json_object_get(b->q->json, "items"), JSON_COMPACT | JSON_SORT_KEYS);
    auto_free char *layers = json_dumps(json_object_get(b->q->json, "layers"), JSON_COMPACT);
    unsigned char block[512];

    memset(block, 0xfe, sizeof(block));
    b->sha = digest_new();
    digest_add(b->sha, block, sizeof(block));
    if (!b->only_digest && items && layers) {
        digest_add(b->sha, layers, strlen(layers) + 1);
        digest_add(b->sha, items, strlen(items) + 1);
    }
}

static int make_layer(struct build_work *b, json_t **ret, char ret_diff_id[DIGEST_HEX],
                      struct err *err)
{
    if (layer_begin(b->q, NEW_LAYER, &b->layer, &b->root, err) < 0)
        return -1;
    b->layer.oci = true; /* folders may be those of layers below */
    b->roots[0] = b->root;
    begin_digest(b);
    if (put_items(b, err) < 0)
        return -1;
    layer_done(&b->layer);
    digest_end(b->sha, ret_diff_id);
    if (layer_resolve(&b->layer, b->roots + 1, b->n_roots, err) < 0 ||
        layer_check_points(b->roots, b->n_roots + 1, err) < 0)
        return -1;
    return layer_made(b->q, &b->layer, NEW_LAYER, ret_diff_id, ret, err);
}

static int new_image(const struct build_work *b, bool host, const char *diff_id, json_t *layers,
                     json_t **ret, struct err *err)
{
    const char *text = request_string(b->q, "document");
    json_t *document = text ? json_loads(text, 0, NULL) : document_new(NULL), *image;
    auto_free char *made = NULL;

    if (!document)
        return err_set(err, ERR_INTERNAL, "the configuration of the image below is damaged");
    if (host) /* as a commit does */
        (void)json_object_set_new(document, "cay_host", json_true());
    if (document_commit(document, diff_id, json_object_get(b->q->json, "config"), err) < 0)
        return -1;
    made = document_text(document);
    if (document_image(made, strlen(made), &image, err) < 0)
        return -1;
    (void)json_object_set_new(image, "layers", layers);
    (void)json_object_set_new(image, "host", json_boolean(host));
    *ret = image;
    return 0;
}

/* On nothing, and on the host's own, an empty one: an image without any is none. */
static bool needs_layer(const struct worker_request *q)
{
    return json_array_size(json_object_get(q->json, "items")) > 0 ||
           json_array_size(json_object_get(q->json, "layers")) == 0;
}

int worker_build(const struct worker_request *q, json_t **ret, struct err *err)
{
    bool host = json_is_true(json_object_get(q->json, "host"));
    json_t *layers = json_deep_copy(json_object_get(q->json, "layers")), *layer;
    struct build_work b = {
        .q = q, .root = -1, .only_digest = json_is_true(json_object_get(q->json, "digest"))};
    char diff_id[DIGEST_HEX] = "";

    if (open_stack(layers, host, &b.roots, &b.n_roots, err) < 0)
        return -1;
    if (b.only_digest) {
        begin_digest(&b);
        if (put_items(&b, err) < 0)
            return -1;
        digest_end(b.sha, diff_id);
        *ret = json_pack("{s:s}", "digest", diff_id);
        return 0;
    }
    if (needs_layer(q)) {
        if (make_layer(&b, &layer, diff_id, err) < 0)
            return -1;
        (void)json_array_append_new(layers, layer);
    }
    return new_image(&b, host, diff_id[0] ? diff_id : NULL, layers, ret, err);
}

/* ---- the context ---- */

static int text_json(const struct stack *s, const char *path, size_t max, json_t **ret,
                     struct err *err)
{
    char real[LAYER_MAX_PATH + 1];
    auto_free char *text = NULL;
    struct stat st;
    size_t len;

    if (stack_resolve(s, path, true, real, &st, err) < 0 ||
        stack_read(s, real, max, &text, &len, err) < 0)
        return -1;
    if (memchr(text, '\0', len) || !utf8_valid(text, len))
        return err_set(err, ERR_INVALID, "%.100s is not a text in UTF-8", path);
    *ret = json_stringn(text, len);
    return 0;
}

/* A file at the top that came along for the daemon, and is no part of the context. */
static int take_apart(const struct worker_request *q, int root, json_t **ret, struct err *err)
{
    size_t max = (size_t)json_integer_value(json_object_get(q->json, "max"));
    const char *name = request_string(q, "apart");
    struct stack s = {&root, 1};

    if (!name)
        return 0;
    if (strchr(name, '/') || str_is_dot(name))
        return err_set(err, ERR_INVALID, "%.100s is not the name of a file at the top", name);
    if (text_json(&s, name, max, ret, err) < 0)
        return -1;
    return unlinkat(root, name, 0) < 0 ? err_sys(err, errno, "take %s out", name) : 0;
}

/* A layer that no image has: without the check of mount points, since it is never a root. */
int worker_context(const struct worker_request *q, json_t **ret, struct err *err)
{
    char diff_id[DIGEST_HEX], name[DIGEST_HEX];
    auto_free char *text = NULL;
    auto_close int root = -1;
    json_t *document, *layer, *apart = NULL;
    struct layer l;

    if (layer_begin(q, NEW_LAYER, &l, &root, err) < 0 ||
        unpack_file(FD_OTHER, &l, diff_id, err) < 0 || take_apart(q, root, &apart, err) < 0)
        return -1;
    bound_name("context", diff_id, name);
    if (layer_made(q, &l, NEW_LAYER, name, &layer, err) < 0)
        return -1;
    document = document_new(diff_id);
    (void)json_object_set_new(document, "cay_context", json_true());
    text = document_text(document);
    json_decref(document);
    if (document_image(text, strlen(text), ret, err) < 0)
        return -1;
    (void)json_object_set_new(*ret, "layers", json_pack("[o]", layer));
    if (apart)
        (void)json_object_set_new(*ret, "text", apart);
    return 0;
}

/* ---- a file of it ---- */

int worker_show(const struct worker_request *q, json_t **ret, struct err *err)
{
    const json_t *stack = json_array_get(json_object_get(q->json, "stacks"), 0);
    size_t max = (size_t)json_integer_value(json_object_get(q->json, "max")), n;
    json_t *text;
    int *roots;

    if (open_stack(json_object_get(stack, "layers"), false, &roots, &n, err) < 0 ||
        text_json(&(struct stack){roots + 1, n}, request_string(q, "path"), max, &text, err) < 0)
        return -1;
    *ret = json_pack("{s:o}", "text", text);
    return 0;
}
