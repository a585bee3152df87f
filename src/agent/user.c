#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

/* passwd and group belong to the box and may hold anything; nothing here trusts a line. */

#define ACCOUNTS_MAX (1u << 20)
#define ID_MAX       (UINT32_MAX - 1) /* the last one means "no change" to the kernel */

static char *read_accounts(const char *path)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    auto_free char *text = NULL;
    struct stat st;
    size_t size;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > ACCOUNTS_MAX)
        return NULL;
    size = (size_t)st.st_size;
    text = xmalloc(size + 1);
    if (read_exact(fd, text, size) < 0 || memchr(text, '\0', size))
        return NULL;
    text[size] = '\0';
    return steal_ptr(text);
}

void accounts_load(struct accounts *a)
{
    *a = (struct accounts){0};
    a->passwd = read_accounts("/etc/passwd");
    a->group = read_accounts("/etc/group");
}

void accounts_done(struct accounts *a)
{
    free(a->passwd);
    free(a->group);
    a->passwd = a->group = NULL;
}

/* Fields of a line, NUL-terminated copies; false when there are fewer or one is too long. */
struct line {
    char field[7][1024];
};

static bool read_line(const char *text, size_t fields, struct line *ret)
{
    for (size_t i = 0; i < fields; i++) {
        size_t n = strcspn(text, ":\n");

        if (n >= sizeof(ret->field[i]) || (i + 1 < fields && text[n] != ':'))
            return false;
        memcpy(ret->field[i], text, n);
        ret->field[i][n] = '\0';
        text += n + 1;
    }
    return true;
}

static const char *next_line(const char *text)
{
    const char *end = strchr(text, '\n');

    return end && end[1] ? end + 1 : NULL;
}

static bool read_id(const char *s, uint32_t *ret)
{
    uint64_t v;

    if (strlen(s) > 10 || str_u64(s, &v) < 0 || v > ID_MAX)
        return false;
    *ret = (uint32_t)v;
    return true;
}

/* The passwd line of a name, or of an id when name is NULL. */
static bool find_user(const char *passwd, const char *name, uint32_t uid, struct identity *ret)
{
    static struct line line;

    for (const char *p = passwd; p; p = next_line(p)) {
        uint32_t found, gid;

        if (name && (strncmp(p, name, strlen(name)) != 0 || p[strlen(name)] != ':'))
            continue;
        if (!read_line(p, 6, &line) || !read_id(line.field[2], &found) ||
            !read_id(line.field[3], &gid) || (!name && found != uid))
            continue;
        ret->uid = found;
        ret->gid = gid;
        (void)snprintf(ret->home, sizeof(ret->home), "%s", line.field[5]);
        return true;
    }
    return false;
}

static bool list_has(const char *list, const char *name)
{
    size_t len = strlen(name);

    while (*list && *list != '\n') {
        size_t n = strcspn(list, ",\n");

        if (n == len && memcmp(list, name, n) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

/* Lines may be long, so members are searched in place. Group 0 is not given away by a list. */
static void find_groups(const char *group, const char *name, struct identity *ret)
{
    for (const char *p = group; p && ret->ngroups < GROUPS_MAX; p = next_line(p)) {
        const char *pw = strpbrk(p, ":\n"), *id, *members;
        char digits[12];
        uint32_t gid;

        id = pw && *pw == ':' ? strpbrk(pw + 1, ":\n") : NULL;
        members = id && *id == ':' ? strpbrk(id + 1, ":\n") : NULL;
        if (!members || *members != ':' || members - id > (long)sizeof(digits))
            continue;
        memcpy(digits, id + 1, (size_t)(members - id - 1));
        digits[members - id - 1] = '\0';
        if (read_id(digits, &gid) && gid != 0 && gid != ret->gid && list_has(members + 1, name))
            ret->groups[ret->ngroups++] = gid;
    }
}

static bool name_ok(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    return n >= 1 && n <= 32 && s[n] == '\0' && s[0] != '-';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A bare uid takes the group of its passwd line; without one, root's, as images expect. */
static int find_number(const struct accounts *a, const char *spec, struct identity *ret,
                       struct err *err)
{
    uint32_t uid;

    if (!read_id(spec, &uid))
        return err_code(err, ERR_INVALID, "bad_user",
                        "\"%.40s\" is not a user id; write uid or uid:gid in digits", spec);
    if (!find_user(a->passwd, NULL, uid, ret)) {
        ret->uid = uid;
        (void)snprintf(ret->home, sizeof(ret->home), "%s", uid == 0 ? "/root" : "/");
    }
    return 0;
}

static int find_named(const struct accounts *a, const char *spec, struct identity *ret,
                      struct err *err)
{
    if (!name_ok(spec))
        return err_code(err, ERR_INVALID, "bad_user",
                        "that user name has characters or a length that no user can have");
    if (!find_user(a->passwd, spec, 0, ret) && strcmp(spec, "root") != 0)
        return err_code(err, ERR_INVALID, "bad_user",
                        "the sandbox has no user \"%s\" in /etc/passwd; add it or use uid:gid",
                        spec);
    return 0;
}

static int find_group(const struct accounts *a, const char *spec, struct identity *ret,
                      struct err *err)
{
    static struct line line;

    if (is_digit(spec[0]) && read_id(spec, &ret->gid))
        return 0;
    for (const char *p = name_ok(spec) ? a->group : NULL; p; p = next_line(p))
        if (strncmp(p, spec, strlen(spec)) == 0 && p[strlen(spec)] == ':' &&
            read_line(p, 3, &line) && read_id(line.field[2], &ret->gid))
            return 0;
    return err_code(err, ERR_INVALID, "bad_user",
                    "the sandbox has no group \"%.40s\" in /etc/group; add it or use its number",
                    name_ok(spec) ? spec : "?");
}

int identity_find(const struct accounts *a, const char *spec, struct identity *ret, struct err *err)
{
    const char *group = strchr(spec, ':');
    char user[64];

    *ret = (struct identity){.home = "/root"};
    if (spec[0] == '\0') {
        (void)find_user(a->passwd, NULL, 0, ret);
        ret->gid = 0;
        return 0;
    }
    (void)snprintf(user, sizeof(user), "%.*s", group ? (int)(group - spec) : 63, spec);
    if ((is_digit(user[0]) ? find_number : find_named)(a, user, ret, err) < 0)
        return -1;
    /* As a login does it; who names a group means that one alone. */
    if (group)
        return find_group(a, group + 1, ret, err);
    if (!is_digit(user[0]))
        find_groups(a->group, user, ret);
    return 0;
}

int identity_load(const char *spec, struct identity *ret, struct err *err)
{
    auto_accounts struct accounts a = {0};

    accounts_load(&a);
    return identity_find(&a, spec, ret, err);
}

int identity_become(struct agent_call *c, const char *spec, struct err *err)
{
    struct identity id;

    if (spec[0] == '\0')
        return 0;
    c->again = false;
    if (identity_load(spec, &id, err) < 0)
        return -1;
    /* By way of root: capabilities go when it is left. */
    if (setgroups(id.ngroups, id.groups) < 0 || setresgid(id.gid, id.gid, id.gid) < 0 ||
        setresuid(0, 0, 0) < 0 || setresuid(id.uid, id.uid, id.uid) < 0)
        return err_code(err, ERR_INVALID, "bad_user",
                        "the sandbox cannot run as %u:%u; ids go from 0 to 65535", id.uid, id.gid);
    return 0;
}

/* Both files start a line with name:password:id. */
static void find_name(const char *text, uint32_t id, char *ret, size_t size)
{
    static struct line line;

    (void)snprintf(ret, size, "%u", id);
    for (const char *p = text; p; p = next_line(p)) {
        uint32_t found;

        if (read_line(p, 3, &line) && read_id(line.field[2], &found) && found == id &&
            name_ok(line.field[0])) {
            (void)snprintf(ret, size, "%.63s", line.field[0]);
            return;
        }
    }
}

const char *accounts_user(struct accounts *a, uint32_t uid)
{
    size_t i = uid % ARRAY_LEN(a->users);

    if (!a->users[i].set || a->users[i].id != uid) {
        find_name(a->passwd, uid, a->users[i].name, sizeof(a->users[i].name));
        a->users[i].id = uid;
        a->users[i].set = true;
    }
    return a->users[i].name;
}

const char *accounts_group(struct accounts *a, uint32_t gid)
{
    size_t i = gid % ARRAY_LEN(a->groups);

    if (!a->groups[i].set || a->groups[i].id != gid) {
        find_name(a->group, gid, a->groups[i].name, sizeof(a->groups[i].name));
        a->groups[i].id = gid;
        a->groups[i].set = true;
    }
    return a->groups[i].name;
}
