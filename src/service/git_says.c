#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "service/git.h"

/* What git puts out, taken apart. It comes out of a box, so nothing is trusted to have the form
 * that git gives it: what has another is left out. */

json_t *git_text(const char *data, size_t len)
{
    auto_buf struct buf clean = {0};

    buf_init(&clean, 3 * len + 1); /* U+FFFD is three bytes */
    (void)utf8_clean(&clean, data ? data : "", len);
    return json_stringn_nocheck(clean.data ? clean.data : "", clean.len);
}

/* The next piece that ends with c, or with the end. */
struct pieces {
    const char *at, *end;
};

static bool next_piece(struct pieces *p, char c, const char **ret, size_t *ret_len)
{
    const char *stop;

    if (p->at >= p->end)
        return false;
    stop = memchr(p->at, c, (size_t)(p->end - p->at));
    *ret = p->at;
    *ret_len = (size_t)((stop ? stop : p->end) - p->at);
    p->at = stop ? stop + 1 : p->end;
    return true;
}

static struct pieces pieces_of(const struct buf *out)
{
    return (struct pieces){out->data, out->data ? out->data + out->len : NULL};
}

static bool starts(const char *s, size_t len, const char *prefix)
{
    return len >= strlen(prefix) && memcmp(s, prefix, strlen(prefix)) == 0;
}

/* ---- status ---- */

static void put_ahead(json_t *o, const char *s, size_t len)
{
    auto_free char *text = xstrndup(s, len);
    long ahead, behind;

    if (sscanf(text, "+%ld -%ld", &ahead, &behind) != 2)
        return;
    (void)json_object_set_new(o, "ahead", json_integer(ahead));
    (void)json_object_set_new(o, "behind", json_integer(behind));
}

static void put_header(json_t *o, const char *s, size_t len)
{
    static const char head[] = "# branch.head ", upstream[] = "# branch.upstream ",
                      ab[] = "# branch.ab ";

    if (starts(s, len, head) && !starts(s, len, "# branch.head (detached)"))
        (void)json_object_set_new(o, "branch", git_text(s + strlen(head), len - strlen(head)));
    else if (starts(s, len, upstream))
        (void)json_object_set_new(o, "upstream",
                                  git_text(s + strlen(upstream), len - strlen(upstream)));
    else if (starts(s, len, ab))
        put_ahead(o, s + strlen(ab), len - strlen(ab));
}

/* Where the nth field of a line begins, counted from 0; NULL = there is none. */
static const char *field_at(const char *s, size_t len, unsigned n)
{
    const char *end = s + len;

    for (; n > 0; n--) {
        const char *space = memchr(s, ' ', (size_t)(end - s));

        if (!space)
            return NULL;
        s = space + 1;
    }
    return s;
}

/* The two letters as `git status --short` has them, without what is blank. */
static json_t *letters(const char *xy)
{
    char text[3];
    size_t n = 0;

    for (size_t i = 0; i < 2; i++)
        if (xy[i] != '.')
            text[n++] = xy[i];
    return json_stringn(text, n);
}

static void add_file(json_t *files, const char *s, size_t len, struct pieces *p)
{
    /* By the first letter: in which field the path is. */
    unsigned n = s[0] == '1' ? 8 : s[0] == '2' ? 9 : s[0] == 'u' ? 10 : s[0] == '?' ? 1 : 0;
    const char *path = n > 0 && len > 4 ? field_at(s, len, n) : NULL, *from;
    size_t from_len;
    json_t *file;

    if (s[0] == '?' && len > 2)
        path = s + 2;
    if (!path)
        return;
    file = json_pack("{s:o, s:o, s:b}", "status", n == 1 ? json_string("??") : letters(s + 2),
                     "path", git_text(path, (size_t)(s + len - path)), "staged",
                     n > 1 && n < 10 && s[2] != '.');
    if (n == 9 && next_piece(p, '\0', &from, &from_len))
        (void)json_object_set_new(file, "from", git_text(from, from_len));
    (void)json_array_append_new(files, file);
}

json_t *git_status_json(const struct buf *out)
{
    json_t *files = json_array();
    json_t *o = json_pack("{s:s, s:b, s:o}", "branch", "HEAD", "repository", 1, "files", files);
    struct pieces p = pieces_of(out);
    const char *s;
    size_t len;

    while (next_piece(&p, '\0', &s, &len)) {
        if (json_array_size(files) >= GIT_FILES_MAX) {
            (void)json_object_set_new(o, "truncated", json_true());
            break;
        }
        if (len > 0 && s[0] == '#')
            put_header(o, s, len);
        else if (len > 0)
            add_file(files, s, len, &p);
    }
    (void)json_object_set_new(o, "clean", json_boolean(json_array_size(files) == 0));
    return o;
}

/* ---- log ---- */

json_t *git_log_json(const struct buf *out)
{
    static const char *const keys[] = {"hash", "author", "email", "date", "message"};
    json_t *entries = json_array(), *entry = NULL;
    struct pieces p = pieces_of(out);
    const char *s;
    size_t len;

    for (size_t i = 0; json_array_size(entries) < GIT_ENTRIES_MAX && next_piece(&p, '\0', &s, &len);
         i = (i + 1) % ARRAY_LEN(keys)) {
        if (i == 0)
            entry = json_object();
        (void)json_object_set_new(entry, keys[i], git_text(s, len));
        if (i == ARRAY_LEN(keys) - 1) {
            (void)json_array_append_new(entries, entry);
            entry = NULL;
        }
    }
    json_decref(entry); /* one that was cut */
    return entries;
}

/* ---- branch ---- */

/* "*\0refs/heads/main"; a name that only points to another one is none. */
static void add_branch(json_t *o, const char *s, size_t len)
{
    const char *ref = memchr(s, '\0', len);
    json_t *name;

    if (!ref || ref != s + 1)
        return;
    ref++;
    len -= (size_t)(ref - s);
    if (starts(ref, len, "refs/heads/"))
        name = git_text(ref + 11, len - 11);
    else if (starts(ref, len, "refs/remotes/"))
        name = git_text(ref + 5, len - 5);
    else
        return; /* "(HEAD detached at 1234567)" */
    if (s[0] == '*')
        (void)json_object_set(o, "current", name);
    (void)json_array_append_new(json_object_get(o, "branches"), name);
}

json_t *git_branches_json(const struct buf *out)
{
    json_t *o = json_pack("{s:[], s:s}", "branches", "current", "");
    struct pieces p = pieces_of(out);
    const char *s;
    size_t len;

    while (next_piece(&p, '\n', &s, &len)) {
        if (json_array_size(json_object_get(o, "branches")) >= GIT_BRANCHES_MAX) {
            (void)json_object_set_new(o, "truncated", json_true());
            break;
        }
        add_branch(o, s, len);
    }
    return o;
}

/* ---- progress ---- */

json_t *git_progress_json(const char *line, size_t len)
{
    auto_free char *text = NULL;
    unsigned percent;
    long long current, total;
    char *colon, *phase;

    while (len > 0 && isspace((unsigned char)line[len - 1]))
        len--;
    text = xstrndup(line, len);
    phase = str_starts(text, "remote: ") ? text + strlen("remote: ") : text;
    colon = strchr(phase, ':');
    if (!colon || colon - phase > 64 ||
        sscanf(colon, ": %3u%% (%19lld/%19lld)", &percent, &current, &total) != 3 || percent > 100)
        return NULL;
    *colon = '\0';
    return json_pack("{s:s, s:o, s:i, s:I, s:I, s:o}", "event", "progress", "phase",
                     git_text(phase, strlen(phase)), "percent", (int)percent, "current",
                     (json_int_t)current, "total", (json_int_t)total, "text", git_text(line, len));
}
