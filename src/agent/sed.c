#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/regex.h"
#include "agent/text_search.h"
#include "agent/upload.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

/* Rules:
 *  1. All files are known before the first is changed: a directory that is changed while it is read
 *     may tell of a file twice.
 *  2. A file is written anew from its first match on (upload.h); what was before is copied. One
 *     without a match is left alone.
 *  3. What is wrong with one file is told of it and the others go on.
 *  4. A line is held as a whole, so it has a maximum; a file with a longer one is left alone. Lines
 *     that are not UTF-8 stay as they are. The end of a line, \n or \r\n, is no part of it.
 *  5. While there is a temporary file nothing may end the process: who is gone is noted only. */

#define CHUNK          (32u << 10)
#define LINE_BYTES_MAX (1u << 20)
#define PATHS_BYTES    (8u << 20)
#define FILES_MAX      50000
#define OUT_AT_ONCE    (16u << 10)

struct sed {
    struct text_search text; /* first, as walk_tree() wants it */
    const char *replacement;
    bool literal, first_only;
    uint32_t *slots;

    struct buf paths; /* of the files, each with its NUL */
    size_t n_paths;
};

/* A file that is being edited. */
struct edit {
    struct sed *sed;
    const char *path;
    int fd;
    struct buf in;     /* what was read and is not done */
    uint64_t line_at;  /* where in the file the line begins that is done next */
    struct buf out;    /* not written yet */
    struct upload new; /* from the first match on */
    bool begun;
    uint64_t replacements;
};

/* ---- what is written ---- */

static int flush_out(struct edit *e, struct err *err)
{
    int r = write_all(e->new.fd, e->out.data, e->out.len);

    buf_clear(&e->out);
    return r < 0 ? file_error(err, -r, e->path) : 0;
}

static int put(struct edit *e, const char *data, size_t len, struct err *err)
{
    int r;

    if (len == 0 || !e->begun)
        return 0;
    if (e->out.len + len > OUT_AT_ONCE && flush_out(e, err) < 0)
        return -1;
    if (len <= OUT_AT_ONCE)
        return buf_add(&e->out, data, len);
    r = write_all(e->new.fd, data, len);
    return r < 0 ? file_error(err, -r, e->path) : 0;
}

/* The first match: what came before it is the same in the new file. */
static int begin_new(struct edit *e, struct err *err)
{
    off_t at = 0;

    if (upload_begin(&e->new, e->path, false, err) < 0)
        return -1;
    while ((uint64_t)at < e->line_at) {
        size_t left =
            e->line_at - (uint64_t)at < (1u << 20) ? (size_t)(e->line_at - (uint64_t)at) : 1u << 20;
        ssize_t n = sendfile(e->new.fd, e->fd, &at, left);

        if (n <= 0)
            return n < 0 ? file_error(err, errno, e->path)
                         : err_set(err, ERR_CONFLICT, "%.150s became shorter meanwhile", e->path);
    }
    e->begun = true;
    return 0;
}

/* ---- what a match becomes ---- */

static bool is_name_char(char c)
{
    return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* A group by its number or name; -1 when there is none. */
static int group_of(const struct regex *re, const char *name, size_t len)
{
    size_t n = 0;

    if (len == 0)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (name[i] < '0' || name[i] > '9')
            return regex_group(re, name, len);
        n = n < regex_groups(re) ? n * 10 + (size_t)(name[i] - '0') : n;
    }
    return n < regex_groups(re) ? (int)n : -1;
}

static int put_group(struct edit *e, const char *line, const char *name, size_t len,
                     struct err *err)
{
    int group = group_of(e->sed->text.re, name, len);
    uint32_t begin, end;

    if (group < 0)
        return 0;
    begin = e->sed->slots[2 * group];
    end = e->sed->slots[2 * group + 1];
    return begin == REGEX_UNSET || end == REGEX_UNSET ? 0 : put(e, line + begin, end - begin, err);
}

/* Behind a $: how much of the replacement says which group. 0 = the $ stands for itself. */
static size_t name_at(const char *p, const char **ret, size_t *ret_len)
{
    const char *end;

    if (*p == '{') {
        end = strchr(p, '}');
        *ret = p + 1;
        *ret_len = end ? (size_t)(end - p) - 1 : 0;
        return end ? (size_t)(end - p) + 1 : 0;
    }
    for (end = p; is_name_char(*end); end++)
        ;
    *ret = p;
    *ret_len = (size_t)(end - p);
    return *ret_len;
}

/* $1, $name, ${name} and $$, as Rust has them: a name is as long as it can be, and what is no group
 * is empty. */
static int put_replacement(struct edit *e, const char *line, struct err *err)
{
    const char *p = e->sed->replacement, *dollar, *name;

    if (e->sed->literal)
        return put(e, p, strlen(p), err);
    while ((dollar = strchr(p, '$'))) {
        size_t len, used = name_at(dollar + 1, &name, &len);

        if (dollar[1] == '$')
            used = 1;
        if (put(e, p, (size_t)(dollar - p) + (used == 0 || dollar[1] == '$'), err) < 0)
            return -1;
        if (used > 0 && dollar[1] != '$' && put_group(e, line, name, len, err) < 0)
            return -1;
        p = dollar + 1 + used;
    }
    return put(e, p, strlen(p), err);
}

/* ---- lines ---- */

/* Where to look for the next match behind one: past it, and past a character if it was empty. */
static size_t past(const char *line, size_t len, size_t at)
{
    at++;
    while (at < len && (line[at] & 0xc0) == 0x80)
        at++;
    return at;
}

/* 1 = one was replaced, up to *done, 0 = there is none, -1. */
static int edit_match(struct edit *e, const char *line, size_t len, size_t from, size_t *done,
                      bool may_be_empty, struct err *err)
{
    uint32_t *slots = e->sed->slots;
    int r = from > len ? 0 : regex_find(e->sed->text.re, line, len, from, slots);

    /* Right behind a match nothing is no match. */
    if (r == 1 && slots[0] == slots[1] && slots[0] == *done && !may_be_empty)
        r = *done >= len ? 0
                         : regex_find(e->sed->text.re, line, len, past(line, len, *done), slots);
    if (r < 0)
        return err_code(err, ERR_CONFLICT, "cancelled", "nobody waits for it any more");
    if (r == 0)
        return 0;
    if (!e->begun && begin_new(e, err) < 0)
        return -1;
    if (put(e, line + *done, slots[0] - *done, err) < 0)
        return -1;
    *done = slots[1];
    return put_replacement(e, line, err) < 0 ? -1 : 1;
}

/* Without its end. */
static int edit_line(struct edit *e, const char *line, size_t len, struct err *err)
{
    size_t done = 0;
    int r = utf8_valid(line, len);

    for (bool first = true; r == 1; first = false) {
        r = edit_match(e, line, len, done, &done, first, err);
        if (r == 1)
            e->replacements++;
        if (e->sed->first_only)
            break;
    }
    return r < 0 ? -1 : put(e, line + done, len - done, err);
}

static int edit_with_end(struct edit *e, const char *line, size_t len, struct err *err)
{
    size_t text = len;

    if (text > 0 && line[text - 1] == '\n') {
        text--;
        if (text > 0 && line[text - 1] == '\r')
            text--;
    }
    if (edit_line(e, line, text, err) < 0 || put(e, line + text, len - text, err) < 0)
        return -1;
    e->line_at += len;
    if (!text_search_goes_on(&e->sed->text))
        return err_code(err, ERR_CONFLICT, "cancelled", "nobody waits for it any more");
    return 0;
}

/* All lines that are there as a whole; at the end of the file also the last one. */
static int edit_lines(struct edit *e, bool at_end, struct err *err)
{
    size_t done = 0;

    while (done < e->in.len) {
        const char *line = e->in.data + done, *end = memchr(line, '\n', e->in.len - done);
        size_t len = end ? (size_t)(end - line) + 1 : e->in.len - done;

        if (!end && !at_end)
            break;
        if (edit_with_end(e, line, len, err) < 0)
            return -1;
        done += len;
    }
    buf_shift(&e->in, done);
    return 0;
}

/* ---- files ---- */

static int too_long(const struct edit *e, struct err *err)
{
    return err_set(err, ERR_TOO_LARGE, "%.150s has a line of more than %u bytes", e->path,
                   LINE_BYTES_MAX);
}

/* The next bytes behind what there is: how many, 0 at the end, -1. */
static ssize_t read_more(struct edit *e, struct err *err)
{
    char *room;
    ssize_t n;

    if (e->in.len > HEAVY_FROM && heavy_turn(e->sed->text.walk.call, err) < 0)
        return -1;
    room = buf_room(&e->in, CHUNK);
    if (!room)
        return too_long(e, err);
    do
        n = read(e->fd, room, CHUNK);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return file_error(err, errno, e->path);
    e->in.len += (size_t)n;
    return n;
}

/* What else stays with a file: what users have noted of it, and its access list, without which its
 * mode would give its group what the list keeps from it. Not what a program may do that is another
 * one now. */
static int keep_xattrs(const struct edit *e, struct err *err)
{
    static char names[XATTR_LIST_MAX], value[XATTR_SIZE_MAX];
    ssize_t n = flistxattr(e->fd, names, sizeof(names)), len;

    for (char *name = names; n > 0 && name < names + n; name += strlen(name) + 1) {
        if (!str_starts(name, "user.") && strcmp(name, "system.posix_acl_access") != 0)
            continue;
        len = fgetxattr(e->fd, name, value, sizeof(value));
        if (len >= 0 && fsetxattr(e->new.fd, name, value, (size_t)len, 0) < 0)
            return file_error(err, errno, e->path);
    }
    return 0;
}

static int edit_all(struct edit *e, struct err *err)
{
    bool first = true;
    ssize_t n;

    do {
        n = read_more(e, err);
        if (n < 0)
            return -1;
        if (first && is_binary(e->in.data, e->in.len))
            return err_code(err, ERR_INVALID, "not_a_file", "%.150s is not a text file", e->path);
        first = false;
        if (edit_lines(e, n == 0, err) < 0)
            return -1;
    } while (n > 0);
    if (!e->begun)
        return 0;
    if (flush_out(e, err) < 0 || keep_xattrs(e, err) < 0)
        return -1;
    if (fsync(e->new.fd) < 0)
        return file_error(err, errno, e->path);
    return upload_commit(&e->new, err);
}

static void send_edit(struct sed *s, const char *path, uint64_t replacements, const struct err *err)
{
    struct call_edit item = {.path = (char *)(uintptr_t)path,
                             .replacements = replacements,
                             .error = (char *)(uintptr_t)(err ? err->text : "")};
    auto_buf struct buf b = {0};

    buf_init(&b, FRAME_MAX);
    call_edit_put(&b, &item);
    call_reply_buf(s->text.walk.call, FRAME_ITEM, &b);
}

static void edit_file(struct sed *s, const char *path)
{
    struct edit e = {.sed = s, .path = path, .new = UPLOAD_INIT(CALL_MODE_KEEP)};
    struct err why = {0};
    struct stat st;
    int r = -1;

    buf_init(&e.in, LINE_BYTES_MAX + CHUNK);
    buf_init(&e.out, OUT_AT_ONCE);
    e.fd = path_check(path, &why) < 0 ? -1 : open_regular(path, &st, &why);
    if (e.fd >= 0)
        r = edit_all(&e, &why);
    upload_done(&e.new);
    close_fd(&e.fd);
    buf_done(&e.in);
    buf_done(&e.out);
    if (s->text.gone)
        _exit(0);
    send_edit(s, path, r < 0 ? 0 : e.replacements, r < 0 ? &why : NULL);
}

/* ---- which ---- */

static int add_path(struct sed *s, const char *path, struct err *err)
{
    if (s->paths.len > HEAVY_FROM && heavy_turn(s->text.walk.call, err) < 0)
        return -1;
    if (s->n_paths++ == FILES_MAX || buf_add(&s->paths, path, strlen(path) + 1) < 0)
        return err_set(err, ERR_TOO_LARGE,
                       "there are more than %d files; start further down, or say which are meant",
                       FILES_MAX);
    return 0;
}

/* Of what a walk finds, only texts are meant. */
static bool looks_like_text(int dirfd, const char *name)
{
    auto_close int fd =
        openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    static char begin[TEXT_LOOK_BYTES];
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    n = read(fd, begin, sizeof(begin));
    return n >= 0 && !is_binary(begin, (size_t)n);
}

static int found_file(struct walk *w, int dirfd, const char *path, const char *name,
                      struct err *err)
{
    struct sed *s = (struct sed *)w;

    if (!text_search_goes_on(&s->text))
        _exit(0);
    if (!text_search_takes(&s->text, path) || !looks_like_text(dirfd, name))
        return 0;
    return add_path(s, path, err);
}

static int find_files(struct sed *s, char **files, bool recursive, struct err *err)
{
    int dir;

    for (char **path = files; *path; path++)
        if (add_path(s, *path, err) < 0)
            return -1;
    if (!s->text.root[0])
        return 0;
    dir = text_search_look(&s->text, recursive, err);
    if (dir < 0)
        return -1;
    if (dir)
        return walk_tree(&s->text.walk, s->text.root, err);
    return text_search_takes(&s->text, s->text.root) ? add_path(s, s->text.root, err) : 0;
}

/* ---- the call ---- */

static int sed_run(struct sed *s, const char *pattern, uint32_t flags, char **files,
                   struct err *err)
{
    struct call_edit alive = {.alive = 1};
    unsigned how = (flags & TEXT_IGNORE_CASE ? REGEX_IGNORE_CASE : 0) |
                   (flags & TEXT_LITERAL ? REGEX_LITERAL : 0);
    size_t at = 0;

    buf_init(&s->text.alive, 64);
    buf_init(&s->paths, PATHS_BYTES);
    call_edit_put(&s->text.alive, &alive);
    if (text_search_compile(&s->text, pattern, how, err) < 0 ||
        text_search_check_globs(&s->text, err) < 0 ||
        find_files(s, files, flags & TEXT_RECURSIVE, err) < 0)
        return -1;
    s->slots = xcalloc(2 * regex_groups(s->text.re), sizeof(*s->slots));
    for (; at < s->paths.len; at += strlen(s->paths.data + at) + 1)
        edit_file(s, s->paths.data + at);
    return 0;
}

static int check_which(const char *path, char **files, struct err *err)
{
    if ((path[0] != '\0') != (files[0] != NULL))
        return path[0] ? path_check(path, err) : 0;
    return err_code(err, ERR_INVALID, "bad_fs_request", "say either files or a path");
}

int sed_call(struct agent_call *c, struct err *err)
{
    auto_free char *path = wire_get_str(&c->args);
    auto_free char *user = wire_get_str(&c->args);
    auto_strv char **files = wire_get_list(&c->args, CALL_PATHS_MAX);
    auto_free char *pattern = wire_get_str(&c->args);
    auto_free char *replacement = wire_get_str(&c->args);
    uint32_t flags = wire_get_u32(&c->args);
    auto_strv char **include = wire_get_list(&c->args, CALL_GLOBS_MAX);
    auto_strv char **exclude = wire_get_list(&c->args, CALL_GLOBS_MAX);
    struct sed s = {.text = {.walk = {.call = c, .file = found_file, .skips = text_search_skips},
                             .root = path,
                             .include = include,
                             .exclude = exclude},
                    .replacement = replacement,
                    .literal = flags & TEXT_LITERAL,
                    .first_only = flags & TEXT_FIRST_ONLY};
    int r;

    if (call_args_ok(c, err) < 0 || check_which(path, files, err) < 0 ||
        identity_become(c, user, err) < 0)
        return -1;
    r = sed_run(&s, pattern, flags, files, err);
    text_search_done(&s.text);
    buf_done(&s.paths);
    free(s.slots);
    if (r == 0)
        call_reply(c, FRAME_END, NULL, 0);
    return r;
}
