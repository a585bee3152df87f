#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/regex.h"
#include "agent/text_search.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

/* A line can have any length: it is matched piece by piece as it is read, and of what it says only
 * the beginning is kept, as much as may be answered. */

#define CHUNK         (32u << 10)
#define PIECE         4096 /* so that the caller is looked after, however slow the pattern is */
#define LINE_MAX_MOST (64u << 10)
#define LINE_LIGHT    (16u << 10)
#define CUT           "…"

struct grep {
    struct text_search text; /* first, as walk_tree() wants it */
    uint32_t left;           /* matches that may still be answered */
    uint32_t line_max;

    /* the file that is read */
    const char *path;
    uint64_t number; /* of the line */
    uint64_t len;    /* of what has come of it */
    char *head;      /* line_max bytes of it, with room for CUT */
    bool held;       /* a \r has come, which may be a part of the line's end */
};

static void line_begin(struct grep *g)
{
    g->number++;
    g->len = 0;
    g->held = false;
    regex_begin(g->text.re);
}

static void line_put(struct grep *g, const char *data, size_t len)
{
    size_t room = g->len < g->line_max ? (size_t)(g->line_max - g->len) : 0;

    if (room > 0)
        memcpy(g->head + g->len, data, len < room ? len : room);
    g->len += len;
    while (len > 0 && !g->text.gone) {
        size_t n = len < PIECE ? len : PIECE;

        regex_feed(g->text.re, data, n);
        data += n;
        len -= n;
    }
}

static void line_add(struct grep *g, const char *data, size_t len)
{
    if (len == 0)
        return;
    if (g->held)
        line_put(g, "\r", 1);
    g->held = data[len - 1] == '\r';
    line_put(g, data, len - g->held);
}

static void send_match(struct grep *g, uint32_t kind)
{
    struct call_match m = {.kind = kind, .path = (char *)(uintptr_t)g->path, .line = g->number};
    auto_buf struct buf b = {0};

    buf_init(&b, FRAME_MAX);
    if (kind == MATCH_LINE) {
        m.text = g->head;
        m.len = (size_t)g->len;
        if (g->len > g->line_max) {
            m.len = utf8_cut(g->head, g->line_max);
            memcpy(g->head + m.len, CUT, strlen(CUT));
            m.len += strlen(CUT);
        }
    }
    call_match_put(&b, &m);
    call_reply_buf(g->text.walk.call, FRAME_ITEM, &b);
}

/* 1 = enough */
static int line_end(struct grep *g, bool newline)
{
    if (g->held && !newline)
        line_put(g, "\r", 1);
    if (regex_end(g->text.re) != REGEX_YES)
        return 0;
    if (g->left == 0) {
        send_match(g, MATCH_MORE);
        return 1;
    }
    g->left--;
    send_match(g, MATCH_LINE);
    return 0;
}

static int add_chunk(struct grep *g, const char *data, size_t len)
{
    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len;

        line_add(g, data, n);
        if (!text_search_goes_on(&g->text))
            _exit(0);
        if (!end)
            return 0;
        if (line_end(g, true))
            return 1;
        line_begin(g);
        data += n + 1;
        len -= n + 1;
    }
    return 0;
}

/* 0, 1 = enough, or -errno. */
static int read_lines(struct grep *g, int fd, const char *path)
{
    static char chunk[CHUNK];
    bool first = true;
    ssize_t n;

    g->path = path;
    g->number = 0;
    line_begin(g);
    while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (first && is_binary(chunk, (size_t)n))
            return 0;
        first = false;
        if (add_chunk(g, chunk, (size_t)n))
            return 1;
    }
    return g->len > 0 || g->held ? line_end(g, false) : 0;
}

/* One that cannot be read, or is gone, has no match. */
static int grep_file(struct walk *w, int dirfd, const char *path, const char *name, struct err *err)
{
    struct grep *g = (struct grep *)w;
    auto_close int fd = -1;
    struct stat st;

    (void)err;
    if (!text_search_goes_on(&g->text))
        _exit(0);
    if (!text_search_takes(&g->text, path))
        return 0;
    fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    return read_lines(g, fd, path) == 1;
}

static int grep_one(struct grep *g, struct err *err)
{
    struct stat st;
    auto_close int fd = open_regular(g->text.root, &st, err);
    int r;

    if (fd < 0)
        return -1;
    if (!text_search_takes(&g->text, g->text.root))
        return 0;
    r = read_lines(g, fd, g->text.root);
    return r < 0 ? file_error(err, -r, g->text.root) : 0;
}

static int grep_run(struct grep *g, const char *pattern, uint32_t flags, struct err *err)
{
    struct call_match alive = {.kind = MATCH_ALIVE};
    unsigned how = REGEX_NO_GROUPS | (flags & TEXT_IGNORE_CASE ? REGEX_IGNORE_CASE : 0);
    int dir;

    buf_init(&g->text.alive, 64);
    call_match_put(&g->text.alive, &alive);
    if (text_search_compile(&g->text, pattern, how, err) < 0 ||
        text_search_check_globs(&g->text, err) < 0)
        return -1;
    dir = text_search_look(&g->text, flags & TEXT_RECURSIVE, err);
    if (dir < 0)
        return -1;
    return dir ? walk_tree(&g->text.walk, g->text.root, err) : grep_one(g, err);
}

int grep_call(struct agent_call *c, struct err *err)
{
    auto_free char *path = wire_get_str(&c->args);
    auto_free char *user = wire_get_str(&c->args);
    auto_free char *pattern = wire_get_str(&c->args);
    uint32_t flags = wire_get_u32(&c->args);
    auto_strv char **include = wire_get_list(&c->args, CALL_GLOBS_MAX);
    auto_strv char **exclude = wire_get_list(&c->args, CALL_GLOBS_MAX);
    struct grep g = {.text = {.walk = {.call = c, .file = grep_file, .skips = text_search_skips},
                              .root = path,
                              .include = include,
                              .exclude = exclude}};
    int r;

    g.left = wire_get_u32(&c->args);
    g.line_max = wire_get_u32(&c->args);
    if (call_args_ok(c, err) < 0 || path_check(path, err) < 0 || identity_become(c, user, err) < 0)
        return -1;
    if (g.line_max > LINE_MAX_MOST)
        return err_set(err, ERR_INVALID, "at most %u bytes of a line are told", LINE_MAX_MOST);
    if (g.line_max > LINE_LIGHT && heavy_turn(c, err) < 0)
        return -1;
    g.head = xmalloc(g.line_max + sizeof(CUT));
    r = grep_run(&g, pattern, flags, err);
    text_search_done(&g.text);
    free(g.head);
    if (r == 0)
        call_reply(c, FRAME_END, NULL, 0);
    return r;
}
