#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/str.h"
#include "service/audit.h"
#include "service/audit_internal.h"

/* ---- files ---- */

static bool is_name(const char *name)
{
    return strlen(name) == strlen("audit-0000000000000000.jsonl") && str_starts(name, "audit-") &&
           strspn(name + 6, "0123456789") == 16 && strcmp(name + 22, ".jsonl") == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

int audit_files_list(int dir, struct audit_files *ret, struct err *err)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    *ret = (struct audit_files){0};
    if (!list) {
        (void)err_sys(err, errno, "read the folder of the audit log");
        close_fd(&fd);
        return -1;
    }
    while ((e = readdir(list))) {
        if (!is_name(e->d_name))
            continue;
        ret->names = xrealloc(ret->names, (ret->n + 1) * sizeof(*ret->names));
        (void)snprintf(ret->names[ret->n++], AUDIT_NAME_SIZE, "%s", e->d_name);
    }
    (void)closedir(list);
    if (ret->n > 0)
        qsort(ret->names, ret->n, sizeof(*ret->names), by_name);
    return 0;
}

void audit_files_done(struct audit_files *files)
{
    free(files->names);
    *files = (struct audit_files){0};
}

/* ---- lines ---- */

#define HASH_MARK ",\"hash\":\""

/* Where `,"hash":` stands, or NULL: it ends the line, so its place is known. */
static const char *hash_at(const char *line, size_t len)
{
    const size_t tail = strlen(HASH_MARK) + DIGEST_HEX - 1 + strlen("\"}");
    const char *at = line + len - tail;

    if (len < tail || memcmp(at, HASH_MARK, strlen(HASH_MARK)) != 0 ||
        memcmp(line + len - 2, "\"}", 2) != 0)
        return NULL;
    return at;
}

bool audit_line_digest(const char *line, size_t len, char ret[DIGEST_HEX])
{
    const char *at = hash_at(line, len);
    EVP_MD_CTX *sha;

    if (!at)
        return false;
    sha = digest_new();
    digest_add(sha, line, (size_t)(at - line));
    digest_end(sha, ret);
    return true;
}

bool audit_line_place(const char *line, size_t len, struct audit_place *ret)
{
    json_t *o = hash_at(line, len) ? json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const char *prev = json_string_value(json_object_get(o, "prev"));
    const char *hash = json_string_value(json_object_get(o, "hash"));
    json_int_t n = json_integer_value(json_object_get(o, "n"));
    bool ok = n > 0 && prev && hash && digest_valid(prev) && digest_valid(hash);

    if (ok) {
        ret->n = (uint64_t)n;
        (void)snprintf(ret->prev, sizeof(ret->prev), "%s", prev);
        (void)snprintf(ret->hash, sizeof(ret->hash), "%s", hash);
    }
    json_decref(o);
    return ok;
}

/* Calls each line of a file's first `size` bytes, without its end and with a NUL behind it;
 * is_whole: it has one, and is not longer than a line can be. Of a longer one the beginning is
 * given. */
typedef int (*line_fn)(const char *line, size_t len, bool is_whole, void *arg);

static int each_line(int dir, const char *name, uint64_t size, line_fn each, void *arg,
                     struct err *err)
{
    int fd = regular_open(dir, name, O_RDONLY, 0, err), r = 0, c = 0;
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    auto_free char *line = xmalloc(AUDIT_LINE_MAX + 1);
    uint64_t at = 0;

    if (!f) {
        close_fd(&fd);
        return err_wrap(err, "the audit log in CAY_DATA/audit");
    }
    while (r == 0 && at < size && c != EOF) {
        uint64_t begin = at;
        size_t len = 0;

        while (at < size && (c = getc_unlocked(f)) != EOF && (at++, c != '\n'))
            if (len < AUDIT_LINE_MAX)
                line[len++] = (char)c;
        line[len] = '\0';
        if (at > begin)
            r = each(line, len, c == '\n' && at - begin == len + 1, arg);
    }
    if (ferror(f))
        r = err_sys(err, errno, "read the audit log %s", name);
    (void)fclose(f);
    return r;
}

/* ---- the last one ---- */

static int take_last(const char *line, size_t len, bool is_whole, void *arg)
{
    struct audit_last *l = arg;
    struct audit_place place;
    char digest[DIGEST_HEX];
    bool is_line = audit_line_place(line, len, &place);

    /* A daemon that is killed may have written all of a line but the end. */
    l->unended = !is_whole && is_line && audit_line_digest(line, len, digest) &&
                 strcmp(digest, place.hash) == 0;
    l->torn = is_whole || l->unended ? 0 : len;
    if (is_line && (is_whole || l->unended)) {
        l->place = place;
        l->found = true;
    }
    return 0;
}

int audit_files_last(int dir, const struct audit_files *files, struct audit_last *ret,
                     struct err *err)
{
    *ret = (struct audit_last){0};
    for (size_t i = files->n; i-- > 0 && !ret->found;) {
        size_t torn = ret->torn;

        if (each_line(dir, files->names[i], UINT64_MAX, take_last, ret, err) < 0)
            return -1;
        if (i + 1 < files->n) { /* only the end of the last file is torn */
            ret->torn = torn;
            ret->unended = false;
        }
    }
    return 0;
}

/* ---- verify ---- */

struct check {
    const char *file;
    struct audit_head *head;
    char hash[DIGEST_HEX]; /* of the line before */
    uint64_t n, first, lines;
    size_t line; /* in the file */
    size_t torn; /* bytes of a line that is none, if the next one explains it */
    bool any;
    const char *head_problem; /* NULL = its line is there */
    char problem[160], problem_file[AUDIT_NAME_SIZE];
    size_t problem_line;
    json_t *retired; /* numbers of last lines of files that went */
};

static int wrong(struct check *c, const char *problem)
{
    (void)snprintf(c->problem, sizeof(c->problem), "%s", problem);
    (void)snprintf(c->problem_file, sizeof(c->problem_file), "%s", c->file);
    c->problem_line = c->line;
    return 1;
}

static bool explains_torn(const char *line, size_t len, size_t bytes)
{
    json_t *o = json_loadb(line, len, 0, NULL);
    const char *word = json_string_value(json_object_get(o, "function"));
    json_int_t said = json_integer_value(json_object_get(json_object_get(o, "detail"), "bytes"));
    bool yes = word && strcmp(word, "audit.recovered") == 0 && said == (json_int_t)bytes;

    json_decref(o);
    return yes;
}

static void note_retired(struct check *c, const char *line, size_t len)
{
    json_t *o;

    if (!memmem(line, len, "\"audit.retired\"", strlen("\"audit.retired\"")))
        return;
    o = json_loadb(line, len, 0, NULL);
    (void)json_array_append(c->retired, json_object_get(json_object_get(o, "detail"), "last"));
    json_decref(o);
}

/* p is of a line that is right. The line before the oldest one that is kept is known by its hash;
 * so is the beginning of the log, which is the head of one without lines. */
static void look_for_head(struct check *c, const struct audit_place *p)
{
    const struct audit_head *h = c->head;

    if (!h || !c->head_problem)
        return;
    if (strcmp(h->hash, p->hash) == 0 && (h->n == 0 || h->n == p->n))
        c->head_problem = NULL;
    else if (c->lines == 1 && strcmp(h->hash, p->prev) == 0 &&
             (p->n == 1 ? h->empty : h->n == 0 || h->n == p->n - 1))
        c->head_problem = NULL;
    else if (h->n == p->n)
        c->head_problem = "the line of the head was replaced";
    else if (c->lines == 1 && h->n > 0 && h->n < p->n)
        c->head_problem = "the line of the head is older than all that are kept: its file was "
                          "retired";
}

static int check_line(const char *line, size_t len, bool is_whole, void *arg)
{
    struct check *c = arg;
    struct audit_place p;
    char digest[DIGEST_HEX];

    c->line++;
    if (!audit_line_place(line, len, &p) || !audit_line_digest(line, len, digest) || !is_whole) {
        if (c->torn)
            return wrong(c, "a line is not one of the log");
        c->torn = len;
        return len > 0 ? 0 : wrong(c, "an empty line was put in");
    }
    if (c->torn && !explains_torn(line, len, c->torn)) {
        c->line--;
        return wrong(c, "a line was changed, and is none of the log any more");
    }
    c->torn = 0;
    if (strcmp(digest, p.hash) != 0)
        return wrong(c, "a line was changed: its hash is another");
    if (!c->any) {
        c->first = p.n;
        if (p.n == 1 && strcmp(p.prev, AUDIT_FIRST) != 0)
            return wrong(c, "the first line does not begin the log");
    } else if (p.n != c->n + 1) {
        return wrong(c, p.n > c->n + 1 ? "lines were removed before this one"
                                       : "a line was put in or moved");
    } else if (strcmp(p.prev, c->hash) != 0) {
        return wrong(c, "the line before this one was replaced");
    }
    c->any = true;
    c->n = p.n;
    c->lines++;
    memcpy(c->hash, p.hash, sizeof(c->hash));
    look_for_head(c, &p);
    note_retired(c, line, len);
    return 0;
}

static bool was_retired(const struct check *c, uint64_t last)
{
    for (size_t i = 0; i < json_array_size(c->retired); i++)
        if ((uint64_t)json_integer_value(json_array_get(c->retired, i)) == last)
            return true;
    return false;
}

/* What only shows at the end: the writer remembers where it is, and what it has retired. */
static void check_ends(struct check *c, const struct audit_end *end)
{
    if (c->problem[0])
        return;
    if (c->torn)
        (void)wrong(c, "the last line is not whole");
    else if (c->n < end->n)
        (void)wrong(c, "lines were removed from the end");
    else if (c->any && strcmp(c->hash, end->hash) != 0)
        (void)wrong(c, "the last line was replaced");
    else if (c->any && c->first > 1 && !was_retired(c, c->first - 1))
        (void)wrong(c, "lines were removed from the beginning");
    else if (end->foreign) {
        c->line++;
        (void)wrong(c, end->foreign);
    }
}

static json_t *report(const struct check *c, const struct audit_end *end)
{
    json_t *o = json_pack("{s:b, s:I, s:I, s:I, s:s, s:I}", "ok", !c->problem[0], "entries",
                          (json_int_t)c->lines, "firstN", (json_int_t)c->first, "n",
                          (json_int_t)end->n, "hash", end->hash, "files", (json_int_t)end->files.n);

    if (c->problem[0]) {
        (void)json_object_set_new(o, "problem", json_string(c->problem));
        (void)json_object_set_new(o, "file", json_string(c->problem_file));
        (void)json_object_set_new(o, "line", json_integer((json_int_t)c->problem_line));
        (void)json_object_set_new(o, "lastGoodN", json_integer((json_int_t)c->n));
    }
    if (c->head) {
        (void)json_object_set_new(o, "headFound", json_boolean(!c->head_problem));
        if (c->head_problem)
            (void)json_object_set_new(o, "headProblem", json_string(c->head_problem));
    }
    return o;
}

int audit_head_parse(const char *text, struct audit_head *ret, struct err *err)
{
    const char *colon = strchr(text, ':'), *hash = colon ? colon + 1 : text;
    auto_free char *number = xstrndup(text, colon ? (size_t)(colon - text) : 0);

    *ret = (struct audit_head){0};
    ret->empty = strcmp(text, "0:" AUDIT_FIRST) == 0;
    if (!digest_valid(hash) ||
        (colon && !ret->empty && (str_u64(number, &ret->n) < 0 || ret->n == 0)))
        return err_set(err, ERR_INVALID,
                       "head must be what `cay audit head` has printed: NUMBER:HASH, or the hash "
                       "alone");
    (void)snprintf(ret->hash, sizeof(ret->hash), "%s", hash);
    return 0;
}

int audit_verify(struct audit *a, struct audit_head *head, json_t **ret, struct err *err)
{
    struct check c = {.head = head, .file = ""};
    struct audit_end end;
    int r = 0;

    if (audit_read_begin(a, &end, err) < 0)
        return -1;
    if (head && head->n > end.n)
        c.head_problem = "the log ends before the line of the head: lines were cut off";
    else if (head && !(head->empty && end.n == 0))
        c.head_problem = "the line of the head is not in the log: it was cut off or replaced, or "
                         "its file was retired";
    c.retired = json_array();
    for (size_t i = 0; r == 0 && i < end.files.n; i++) {
        int order = strcmp(end.files.names[i], end.file);

        if (order > 0)
            break; /* end.foreign says so */
        c.file = end.files.names[i];
        c.line = 0;
        r = each_line(end.dir, c.file, order < 0 ? UINT64_MAX : end.size, check_line, &c, err);
    }
    if (r >= 0) {
        check_ends(&c, &end);
        *ret = report(&c, &end);
    }
    audit_read_end(a, &end);
    json_decref(c.retired);
    return r < 0 ? -1 : 0;
}

/* ---- read ---- */

struct reading {
    const struct audit_query *q;
    json_t *found; /* of one file; at most limit, the last */
};

static bool says(const json_t *o, const char *key, const char *want)
{
    const char *text = json_string_value(json_object_get(o, key));

    return !want || (text && strcmp(text, want) == 0);
}

/* Every line begins with its number: who asks for new ones does not have all others parsed. */
static bool is_later(const char *line, uint64_t after)
{
    return !str_starts(line, "{\"n\":") || strtoull(line + strlen("{\"n\":"), NULL, 10) > after;
}

static int read_line(const char *line, size_t len, bool is_whole, void *arg)
{
    struct reading *r = arg;
    const struct audit_query *q = r->q;
    json_t *o = is_whole && is_later(line, q->after) ? json_loadb(line, len, 0, NULL) : NULL;

    if (json_is_object(o) && json_integer_value(json_object_get(o, "time")) >= q->since_ms &&
        (uint64_t)json_integer_value(json_object_get(o, "n")) > q->after &&
        says(o, "sandboxId", q->sandbox_id) && says(o, "who", q->who) &&
        says(o, "function", q->function)) {
        (void)json_array_append(r->found, o);
        if (json_array_size(r->found) > q->limit)
            (void)json_array_remove(r->found, 0);
    }
    json_decref(o);
    return 0;
}

/* From the newest file back, as far as is needed. */
int audit_read(struct audit *a, const struct audit_query *q, json_t **ret, struct err *err)
{
    json_t *entries;
    struct audit_end end;
    int r = 0;

    if (audit_read_begin(a, &end, err) < 0)
        return -1;
    entries = json_array();
    for (size_t i = end.files.n; r == 0 && i-- > 0 && json_array_size(entries) < q->limit;) {
        struct reading one = {.q = q, .found = json_array()};
        const char *name = end.files.names[i];
        unsigned long long first = strtoull(name + strlen("audit-"), NULL, 10);
        int order = strcmp(name, end.file);

        if (order <= 0)
            r = each_line(end.dir, name, order < 0 ? UINT64_MAX : end.there, read_line, &one, err);
        (void)json_array_extend(one.found, entries);
        json_decref(entries);
        entries = one.found;
        while (json_array_size(entries) > q->limit)
            (void)json_array_remove(entries, 0);
        if (first <= q->after + 1)
            break;
    }
    if (r == 0)
        *ret = json_pack("{s:o, s:I, s:s}", "entries", entries, "n", (json_int_t)end.n, "hash",
                         end.hash);
    else
        json_decref(entries);
    audit_read_end(a, &end);
    return r < 0 ? -1 : 0;
}
