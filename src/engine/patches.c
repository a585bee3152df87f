#include "engine/patches_internal.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/mode.h"
#include "base/str.h"
#include "engine/agent_client_internal.h"
#include "engine/engine_internal.h"
#include "engine/files_internal.h"
#include "engine/path_internal.h"
#include "engine/sandbox_internal.h"
#include "model/patches.h"
#include "proto/call.h"
#include "proto/frame.h"
#include "proto/wire.h"

/* What each type has beside its path; no other may. */
enum { HAS_CONTENT = 1, HAS_TARGET = 2, HAS_FROM = 4, HAS_MODE = 8, HAS_REPLACE = 16 };

struct patch;
struct patch_kind {
    unsigned needs, takes;
    int (*apply)(struct engine *e, struct sandbox *sb, const struct patch *p, struct err *err);
    enum call_patch call; /* for call_patch() */
};

struct patch {
    enum patch_type type;
    const struct patch_kind *kind;
    char *path, *from;  /* absolute */
    const char *target; /* the input's */
    const char *mode_text;
    uint32_t mode;
    bool replace;
    struct buf content;
};

static void patch_done(struct patch *p)
{
    free(p->path);
    free(p->from);
    buf_done(&p->content);
}

/* ---- applying one ---- */

static int change_mode(struct engine *e, struct sandbox *sb, const struct patch *p, struct err *err)
{
    auto_buf struct buf args = {0};

    buf_init(&args, FRAME_MAX);
    wire_put_str(&args, p->path);
    wire_put_str(&args, "");
    wire_put_str(&args, p->mode_text);
    return agent_simple(e, sb, CALL_CHMOD, &args, err);
}

/* One that is there already gets the mode that was asked for too. */
static int make_dir(struct engine *e, struct sandbox *sb, const struct patch *p, struct err *err)
{
    auto_buf struct buf args = {0};

    buf_init(&args, FRAME_MAX);
    wire_put_str(&args, p->path);
    wire_put_str(&args, "");
    wire_put_u32(&args, p->mode);
    if (agent_simple(e, sb, CALL_MKDIR, &args, err) < 0)
        return -1;
    return p->mode_text ? change_mode(e, sb, p, err) : 0;
}

static int remove_all(struct engine *e, struct sandbox *sb, const struct patch *p, struct err *err)
{
    auto_buf struct buf args = {0};

    buf_init(&args, FRAME_MAX);
    wire_put_str(&args, p->path);
    wire_put_str(&args, "");
    wire_put_u32(&args, 1);
    return agent_simple(e, sb, CALL_REMOVE, &args, err);
}

static int call_patch(struct engine *e, struct sandbox *sb, const struct patch *p, struct err *err)
{
    auto_buf struct buf args = {0};

    buf_init(&args, FRAME_MAX);
    wire_put_u32(&args, p->kind->call);
    wire_put_str(&args, p->path);
    wire_put_str(&args, p->from ? p->from : p->target ? p->target : "");
    wire_put_u32(&args, p->mode);
    wire_put_u32(&args, p->replace);
    if (p->kind->needs & HAS_CONTENT)
        return file_send(e, sb, CALL_PATCH, &args, p->content.data, p->content.len, err);
    return agent_simple(e, sb, CALL_PATCH, &args, err);
}

static const struct patch_kind kinds[PATCH_TYPES] = {
    [PATCH_TYPE_TEXT] = {HAS_CONTENT, HAS_MODE | HAS_REPLACE, call_patch, PATCH_FILE},
    [PATCH_TYPE_FILE] = {HAS_CONTENT, HAS_MODE | HAS_REPLACE, call_patch, PATCH_FILE},
    [PATCH_TYPE_APPEND] = {HAS_CONTENT, HAS_MODE, call_patch, PATCH_APPEND},
    [PATCH_TYPE_MKDIR] = {0, HAS_MODE, make_dir},
    [PATCH_TYPE_SYMLINK] = {HAS_TARGET, HAS_REPLACE, call_patch, PATCH_LINK},
    [PATCH_TYPE_COPY] = {HAS_FROM, HAS_MODE | HAS_REPLACE, call_patch, PATCH_COPY},
    [PATCH_TYPE_REMOVE] = {0, 0, remove_all},
    [PATCH_TYPE_CHMOD] = {HAS_MODE, 0, change_mode},
};

/* ---- reading one ---- */

static const struct {
    const char *key;
    unsigned bit;
} parts[] = {{"content", HAS_CONTENT},
             {"target", HAS_TARGET},
             {"from", HAS_FROM},
             {"mode", HAS_MODE},
             {"replace", HAS_REPLACE}};

static int read_type(const json_t *o, struct patch *p, struct err *err)
{
    const char *word = json_string_value(json_object_get(o, "type"));
    int type = 0;

    while (word && patch_words[type] && strcmp(word, patch_words[type]) != 0)
        type++;
    if (!word || !patch_words[type])
        return err_set(err, ERR_INVALID,
                       "type must be text, file, append, mkdir, symlink, copy, "
                       "remove or chmod");
    p->type = (enum patch_type)type;
    p->kind = &kinds[type];
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const json_t *part = json_object_get(o, parts[i].key);
        bool there = part && !json_is_false(part); /* "replace": false says nothing */

        if (!there && (p->kind->needs & parts[i].bit))
            return err_set(err, ERR_INVALID, "%s needs %s", word, parts[i].key);
        if (there && !((p->kind->needs | p->kind->takes) & parts[i].bit))
            return err_set(err, ERR_INVALID, "%s has no %s", word, parts[i].key);
    }
    return 0;
}

static int read_mode(const json_t *o, struct patch *p, struct err *err)
{
    p->mode = CALL_MODE_KEEP;
    p->mode_text = json_string_value(json_object_get(o, "mode"));
    if (!json_object_get(o, "mode"))
        return 0;
    if (!p->mode_text || mode_octal(p->mode_text, &p->mode) < 0)
        return err_set(err, ERR_INVALID, "mode must be 3 or 4 octal digits, such as \"0644\"");
    return 0;
}

static int read_content(const json_t *content, struct patch *p, struct err *err)
{
    const char *text = json_string_value(content);
    size_t len = json_string_length(content);
    int r;

    if (!content)
        return 0;
    if (!text)
        return err_set(err, ERR_INVALID, "content must be a string");
    buf_init(&p->content, PATCH_BYTES_MAX);
    r = p->type == PATCH_TYPE_FILE ? base64_decode(&p->content, text, len)
        : len > 0                  ? buf_add(&p->content, text, len)
                                   : 0;
    if (r == -EINVAL)
        return err_set(err, ERR_INVALID, "content must be base64");
    return r < 0 ? err_set(err, ERR_TOO_LARGE, "content must be at most %u MiB",
                           PATCH_BYTES_MAX >> 20)
                 : 0;
}

static int read_paths(const struct engine *e, const json_t *o, struct patch *p, struct err *err)
{
    const char *from = json_string_value(json_object_get(o, "from"));

    p->target = json_string_value(json_object_get(o, "target"));
    if (path_resolve(e->config.workspace, json_string_value(json_object_get(o, "path")), true,
                     &p->path, err) < 0)
        return -1;
    if (strcmp(p->path, "/") == 0)
        return err_set(err, ERR_INVALID, "path must name something below /");
    if ((p->kind->needs & HAS_TARGET) && (!p->target || !*p->target))
        return err_set(err, ERR_INVALID, "target is required");
    if (!(p->kind->needs & HAS_FROM))
        return 0;
    return path_resolve(e->config.workspace, from, true, &p->from, err);
}

/* Says which it is of. */
static int of_patch(struct err *err, size_t i, const json_t *o)
{
    const char *path = json_string_value(json_object_get(o, "path"));

    return err_wrap(err, "patches[%zu]%s%.80s", i, path ? " " : "", path ? path : "");
}

static int read_patch(const struct engine *e, const json_t *o, struct patch *ret, struct err *err)
{
    *ret = (struct patch){0};
    if (read_type(o, ret, err) < 0 || read_paths(e, o, ret, err) < 0 ||
        read_mode(o, ret, err) < 0 || read_content(json_object_get(o, "content"), ret, err) < 0) {
        patch_done(ret);
        return -1;
    }
    ret->replace = json_is_true(json_object_get(o, "replace"));
    return 0;
}

/* ---- all of them ---- */

int patches_check(const struct engine *e, const json_t *patches, struct err *err)
{
    size_t i, bytes = 0;
    json_t *o;

    if (json_array_size(patches) > PATCHES_MAX)
        return err_set(err, ERR_TOO_LARGE, "patches must have at most %d items", PATCHES_MAX);
    json_array_foreach(patches, i, o)
    {
        struct patch p;

        if (read_patch(e, o, &p, err) < 0)
            return of_patch(err, i, o);
        bytes += p.content.len;
        patch_done(&p);
        if (bytes > PATCH_BYTES_MAX)
            return err_set(err, ERR_TOO_LARGE,
                           "the contents of patches must be at most %u MiB in total",
                           PATCH_BYTES_MAX >> 20);
    }
    return 0;
}

/* What the caller asked for cannot be done with this image: that nothing is there is no 404 of the
 * sandbox that was to be. */
static void is_refused(const struct patch *p, struct err *err)
{
    if (!err || (err->kind != ERR_INVALID && err->kind != ERR_NOT_FOUND &&
                 err->kind != ERR_CONFLICT && err->kind != ERR_FORBIDDEN))
        return;
    if (err->kind == ERR_CONFLICT && !p->replace && (p->kind->takes & HAS_REPLACE))
        (void)err_set(err, ERR_INVALID,
                      "it exists already; \"replace\": true puts another in its place");
    err->kind = ERR_INVALID;
    err->code = "patch_failed";
}

int patches_apply(struct engine *e, struct sandbox *sb, const json_t *patches, struct err *err)
{
    size_t i;
    json_t *o;

    json_array_foreach(patches, i, o)
    {
        struct patch p;
        int r;

        if (read_patch(e, o, &p, err) < 0)
            return of_patch(err, i, o);
        r = p.kind->apply(e, sb, &p, err);
        if (r < 0)
            is_refused(&p, err);
        patch_done(&p);
        if (r < 0)
            return of_patch(err, i, o);
    }
    return 0;
}
