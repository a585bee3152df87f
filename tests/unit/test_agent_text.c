#include <sys/un.h>
#include <sys/xattr.h>

#include "agent_rig.h"

/* Searching and replacing in the files of a box. */

#define MATCHES 10000u
#define LINE    4096u

static void put_bytes(const char *path, const char *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    CHECK(fd >= 0);
    CHECK_INT(write_all(fd, data, len), 0);
    (void)close(fd);
}

static void put(const char *name, const char *text)
{
    put_bytes(in_files(name), text, strlen(text));
}

static void make_dir(const char *name)
{
    CHECK_INT(mkdir(in_files(name), 0755), 0);
}

/* Lives until the next call. */
static const char *text_of(const char *name)
{
    static char text[1 << 16];
    ssize_t n = read_file_at(-1, in_files(name), text, sizeof(text));

    CHECK(n >= 0);
    return text;
}

static char *none[] = {NULL};

/* ---- grep */

static int begin_grep(const char *path, const char *pattern, uint32_t flags, char **include,
                      char **exclude)
{
    return ctl(CALL_GREP, "sssulluu", path, "", pattern, flags, include, exclude, MATCHES, LINE);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "name:line:content" of each match, sorted, with a space between them; "+" if there are more. */
static const char *all_matches(int fd)
{
    static char said[1 << 16];
    char *lines[256];
    size_t n = 0, at = 0;
    struct buf b = {0};
    unsigned type = 0;

    for (;;) {
        struct call_match m;
        struct wire w;

        CHECK_INT(frame_recv(fd, &type, &b), 1);
        if (type == FRAME_END)
            break;
        CHECK_INT(type, FRAME_ITEM);
        wire_init(&w, b.data, b.len);
        call_match_get(&w, &m);
        CHECK(wire_ok(&w));
        CHECK(n < ARRAY_LEN(lines));
        if (m.kind == MATCH_LINE)
            lines[n++] = rig_keep(xasprintf("%s:%llu:%s", m.path + strlen(rig.files) + 1,
                                            (unsigned long long)m.line, m.text));
        else if (m.kind == MATCH_MORE)
            lines[n++] = rig_keep(xstrdup("+"));
        call_match_done(&m);
    }
    buf_done(&b);
    (void)close(fd);
    qsort(lines, n, sizeof(*lines), by_bytes);
    said[0] = '\0';
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(said + at, sizeof(said) - at, "%s%s", i ? " " : "", lines[i]);
    return said;
}

static const char *grep(const char *name, const char *pattern)
{
    return all_matches(begin_grep(in_files(name), pattern, TEXT_RECURSIVE, none, none));
}

TEST(lines_are_found_in_a_file_and_in_a_tree)
{
    rig_start();
    make_dir("d");
    make_dir("d/e");
    put("d/a", "one\ntwo\none two\n");
    put("d/e/b", "no\nlast one");
    CHECK_STR(grep("d/a", "one"), "d/a:1:one d/a:3:one two");
    CHECK_STR(grep("d", "^(one|last)"), "d/a:1:one d/a:3:one two d/e/b:2:last one");
    CHECK_STR(grep("d", "three"), "");
    CHECK_STR(grep("d/a", "^$"), "");
}

TEST(case_is_ignored_if_asked)
{
    rig_start();
    put("a", "HELLO w\xc3\x96rld\n");
    CHECK_STR(grep("a", "hello"), "");
    CHECK_STR(
        all_matches(begin_grep(in_files("a"), "hello w\xc3\xb6", TEXT_IGNORE_CASE, none, none)),
        "a:1:HELLO w\xc3\x96rld");
}

TEST(ends_of_lines_are_no_part_of_them)
{
    rig_start();
    put("a", "x\r\nx\n\r\nx\r");
    CHECK_STR(grep("a", "x$"), "a:1:x a:2:x");
    CHECK_STR(grep("a", "^$"), "a:3:");
    CHECK_STR(grep("a", "x\\r$"), "a:4:x\r");
}

TEST(only_regular_files_are_read)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    rig_start();
    make_dir("d");
    put("d/file", "needle\n");
    put("outside", "needle\n");
    CHECK_INT(mkfifo(in_files("d/fifo"), 0644), 0);
    CHECK_INT(symlink("../outside", in_files("d/link")), 0);
    CHECK_INT(symlink("..", in_files("d/up")), 0);
    CHECK_INT(symlink("nowhere", in_files("d/broken")), 0);
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", in_files("d/sock"));
    CHECK_INT(bind(sock, (struct sockaddr *)&sa, sizeof(sa)), 0);
    CHECK_STR(grep("d", "needle"), "d/file:1:needle");
    expect_error(begin_grep(in_files("d/fifo"), "needle", 0, none, none), ERR_INVALID,
                 "not_a_file");
    expect_error(begin_grep("/dev/zero", "needle", 0, none, none), ERR_INVALID, "not_a_file");
    /* What is named is followed, as any program that is given a path does. */
    CHECK_STR(grep("d/link", "needle"), "d/link:1:needle");
    CHECK_STR(grep("d/up", "needle"), "d/up/d/file:1:needle d/up/outside:1:needle");
    (void)close(sock);
}

TEST(binary_files_and_lines_that_are_no_text_are_passed_over)
{
    static char late[20000];

    rig_start();
    make_dir("d");
    put_bytes(in_files("d/binary"), "needle\n\0needle\n", 15);
    put_bytes(in_files("d/lines"), "needle \xff\nneedle\n\xe2\x82\nneedle \xe2\x82\xac\n", 29);
    memset(late, 'x', sizeof(late));
    memcpy(late + 9000, "\nneedle\n", 8);
    late[12000] = '\0';
    put_bytes(in_files("d/late"), late, sizeof(late));
    CHECK_STR(grep("d", "needle"),
              "d/late:2:needle d/lines:2:needle d/lines:4:needle \xe2\x82\xac");
}

TEST(a_line_of_any_length_is_matched_and_told_in_part)
{
    static char line[3 << 20];
    char want[64];

    rig_start();
    memset(line, 'x', sizeof(line));
    memcpy(line, "a\xc3\xa9", 3);
    memcpy(line + sizeof(line) - 8, "needle\nb", 8);
    put_bytes(in_files("long"), line, sizeof(line));
    snprintf(want, sizeof(want), "long:1:a\xc3\xa9xx\xe2\x80\xa6");
    CHECK_STR(all_matches(ctl(CALL_GREP, "sssulluu", in_files("long"), "", "^a.*needle$", 0u, none,
                              none, MATCHES, 5u)),
              want);
    /* Not within a character. */
    CHECK_STR(all_matches(ctl(CALL_GREP, "sssulluu", in_files("long"), "", "needle", 0u, none, none,
                              MATCHES, 2u)),
              "long:1:a\xe2\x80\xa6");
    CHECK_STR(grep("long", "b"), "long:2:b");
    CHECK_STR(grep("long", "needlex"), "");
    line[1 << 20] = (char)0xff;
    put_bytes(in_files("long"), line, sizeof(line));
    CHECK_STR(grep("long", "needle"), "");
}

TEST(there_may_be_more_than_are_told)
{
    rig_start();
    put("a", "x\nx\nx\n");
    CHECK_STR(
        all_matches(ctl(CALL_GREP, "sssulluu", in_files("a"), "", "x", 0u, none, none, 2u, LINE)),
        "+ a:1:x a:2:x");
    CHECK_STR(
        all_matches(ctl(CALL_GREP, "sssulluu", in_files("a"), "", "x", 0u, none, none, 3u, LINE)),
        "a:1:x a:2:x a:3:x");
}

TEST(globs_say_which_files)
{
    char *c[] = {"*.c", NULL}, *src[] = {"src/*", NULL}, *any[] = {"**/*.c", "*.h", NULL};
    char *below[] = {"src/**", NULL}, *deep[] = {"**/sub/**", NULL};

    rig_start();
    make_dir("d");
    make_dir("d/src");
    make_dir("d/src/sub");
    put("d/a.c", "x\n");
    put("d/a.h", "x\n");
    put("d/src/b.c", "x\n");
    put("d/src/sub/c.c", "x\n");
    put("d/src/sub/d", "x\n");
#define GREP(in, out) all_matches(begin_grep(in_files("d"), "x", TEXT_RECURSIVE, in, out))
    CHECK_STR(GREP(c, none), "d/a.c:1:x d/src/b.c:1:x d/src/sub/c.c:1:x");
    CHECK_STR(GREP(c, src), "d/a.c:1:x d/src/sub/c.c:1:x");
    CHECK_STR(GREP(src, none), "d/src/b.c:1:x");
    CHECK_STR(GREP(any, none), "d/a.c:1:x d/a.h:1:x d/src/b.c:1:x d/src/sub/c.c:1:x");
    CHECK_STR(GREP(none, below), "d/a.c:1:x d/a.h:1:x");
    CHECK_STR(GREP(none, deep), "d/a.c:1:x d/a.h:1:x d/src/b.c:1:x");
    CHECK_STR(GREP(none, any), "d/src/sub/d:1:x");
    CHECK_STR(all_matches(begin_grep(in_files("d/a.c"), "x", 0, c, none)), "d/a.c:1:x");
    CHECK_STR(all_matches(begin_grep(in_files("d/a.h"), "x", 0, c, none)), "");
}

TEST(a_wrong_search_is_refused)
{
    char *empty[] = {"", NULL};

    rig_start();
    make_dir("d");
    expect_error(begin_grep(in_files("none"), "(", 0, none, none), ERR_INVALID, "bad_regex");
    expect_error(begin_grep(in_files("none"), "((a{1000}){1000})", 0, none, none), ERR_INVALID,
                 "bad_regex");
    expect_error(begin_grep(in_files("none"), "a", 0, none, none), ERR_NOT_FOUND, "file_not_found");
    expect_error(begin_grep(in_files("d"), "a", 0, none, none), ERR_INVALID, "bad_fs_request");
    expect_error(begin_grep(in_files("d"), "a", TEXT_RECURSIVE, empty, none), ERR_INVALID,
                 "bad_fs_request");
    expect_error(ctl(CALL_GREP, "sssulluu", in_files("d"), "", "a", 0u, none, none, 1u, 1u << 20),
                 ERR_INVALID, "");
}

/* It takes a turn (heavy.c), and gives it back. */
TEST(a_large_pattern_is_matched_too)
{
    rig_start();
    put("a", "xxaaay\n");
    for (int i = 0; i < 5; i++)
        CHECK_STR(grep("a", "(a{1,2000}|b{2000})y"), "a:1:xxaaay");
}

/* A pattern that is slow, on a file that never ends for it; the handler says now and then that it
 * lives, and is gone when its caller is. */
TEST(a_search_that_takes_long_tells_that_it_lives_and_ends_with_its_caller)
{
    struct call_match m;
    struct buf b;
    struct wire w;
    int fd, big;

    rig_start();
    big = open(in_files("big"), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    CHECK(big >= 0);
    for (int i = 0; i < 256; i++) {
        static char block[1 << 16];

        memset(block, 'a', sizeof(block));
        CHECK_INT(write_all(big, block, sizeof(block)), 0);
    }
    (void)close(big);
    fd = begin_grep(in_files("big"), "(a|b|c|d){1,5000}x", 0, none, none);
    expect(fd, FRAME_ITEM, &b);
    wire_init(&w, b.data, b.len);
    call_match_get(&w, &m);
    CHECK(wire_ok(&w));
    CHECK_INT(m.kind, MATCH_ALIVE);
    call_match_done(&m);
    buf_done(&b);
    (void)close(fd);
    /* When nothing has it open any more, a lease on it can be had. */
    big = open(in_files("big"), O_WRONLY | O_CLOEXEC);
    CHECK(big >= 0);
    while (fcntl(big, F_SETLEASE, F_WRLCK) < 0)
        (void)poll(NULL, 0, 10);
    (void)close(big);
}

/* ---- sed */

static int begin_sed(const char *path, char **files, const char *pattern, const char *replacement,
                     uint32_t flags)
{
    return ctl(CALL_SED, "sslssull", path, "", files, pattern, replacement, flags, none, none);
}

/* "name:count" or "name!" of each file, sorted. */
static const char *all_edits(int fd)
{
    static char said[1 << 16];
    char *lines[256];
    size_t n = 0, at = 0;
    struct buf b = {0};
    unsigned type = 0;

    for (;;) {
        struct call_edit e;
        struct wire w;

        CHECK_INT(frame_recv(fd, &type, &b), 1);
        if (type == FRAME_END)
            break;
        CHECK_INT(type, FRAME_ITEM);
        wire_init(&w, b.data, b.len);
        call_edit_get(&w, &e);
        CHECK(wire_ok(&w));
        CHECK(n < ARRAY_LEN(lines));
        if (!e.alive)
            lines[n++] = rig_keep(e.error[0] ? xasprintf("%s!", e.path + strlen(rig.files) + 1)
                                             : xasprintf("%s:%llu", e.path + strlen(rig.files) + 1,
                                                         (unsigned long long)e.replacements));
        call_edit_done(&e);
    }
    buf_done(&b);
    (void)close(fd);
    qsort(lines, n, sizeof(*lines), by_bytes);
    said[0] = '\0';
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(said + at, sizeof(said) - at, "%s%s", i ? " " : "", lines[i]);
    return said;
}

static const char *sed(const char *name, const char *pattern, const char *replacement)
{
    return all_edits(begin_sed(in_files(name), none, pattern, replacement, TEXT_RECURSIVE));
}

static const char *edited(const char *before, const char *pattern, const char *replacement)
{
    put("edited", before);
    (void)sed("edited", pattern, replacement);
    return text_of("edited");
}

TEST(matches_are_replaced_line_by_line)
{
    rig_start();
    CHECK_STR(edited("a b a\na\n", "a", "X"), "X b X\nX\n");
    CHECK_STR(edited("a b a\r\na", "a$", "X"), "a b X\r\nX");
    CHECK_STR(edited("ab\ncd\n", "b\\nc", "X"), "ab\ncd\n");
    CHECK_STR(edited("ab\n", "^", "> "), "> ab\n");
    CHECK_STR(edited("ab\n\ncd", "$", ";"), "ab;\n;\ncd;");
    CHECK_STR(edited("baac\n", "a*", "-"), "-b-c-\n");
    CHECK_STR(edited("\xc3\xa9t\xc3\xa9\n", "", "."), ".\xc3\xa9.t.\xc3\xa9.\n");
    CHECK_STR(edited("abc\n", "b", ""), "ac\n");
    CHECK_STR(edited("", "^", "X"), "");
    CHECK_STR(edited("a\xff"
                     "a\na\n",
                     "a", "X"),
              "a\xff"
              "a\nX\n");
}

TEST(groups_are_put_in)
{
    rig_start();
    CHECK_STR(edited("name: alice, name: bob\n", "name: (\\w+)", "user=$1"),
              "user=alice, user=bob\n");
    CHECK_STR(edited("ab\n", "(?P<x>a)(?<y>b)", "$y$x"), "ba\n");
    CHECK_STR(edited("ab\n", "(a)(b)", "${2}x${1}"), "bxa\n");
    CHECK_STR(edited("ab\n", "(a)(b)", "$2x$1"), "a\n");
    CHECK_STR(edited("ab\n", "(a)(b)", "$0$0"), "abab\n");
    CHECK_STR(edited("ab\n", "(a)(b)", "$$1 $"), "$1 $\n");
    CHECK_STR(edited("ab\n", "(a)(b)", "$3[$none]${"), "[]${\n");
    CHECK_STR(edited("ab\n", "(a)(b)", "<${}>"), "<>\n");
    CHECK_STR(edited("b\n", "(a)?b", "<$1>"), "<>\n");
    CHECK_STR(edited("b\n", "b", "$99999999999999999999"), "\n");
}

TEST(texts_and_first_matches)
{
    rig_start();
    put("a", "a.c abc a.c\na.c\n");
    CHECK_STR(all_edits(begin_sed(in_files("a"), none, "a.c", "$0", TEXT_LITERAL)), "a:3");
    CHECK_STR(text_of("a"), "$0 abc $0\n$0\n");
    put("a", "a A a\nb a\n");
    CHECK_STR(
        all_edits(begin_sed(in_files("a"), none, "a", "Z", TEXT_FIRST_ONLY | TEXT_IGNORE_CASE)),
        "a:2");
    CHECK_STR(text_of("a"), "Z A a\nb Z\n");
}

TEST(a_tree_is_edited_and_each_file_is_told_of)
{
    rig_start();
    make_dir("d");
    make_dir("d/e");
    put("d/a", "x x\n");
    put("d/e/b", "x\n");
    put("d/none", "y\n");
    put_bytes(in_files("d/binary"), "x\0", 2);
    CHECK_INT(mkfifo(in_files("d/fifo"), 0644), 0);
    put("outside", "x\n");
    CHECK_INT(symlink("../outside", in_files("d/link")), 0);
    CHECK_STR(sed("d", "x", "xx"), "d/a:2 d/e/b:1 d/none:0");
    CHECK_STR(text_of("d/a"), "xx xx\n");
    CHECK_STR(text_of("outside"), "x\n");
}

TEST(what_fails_of_one_file_leaves_the_others)
{
    char *files[6] = {NULL};

    rig_start();
    make_dir("dir");
    put("good", "x\n");
    put_bytes(in_files("binary"), "x\0", 2);
    CHECK_INT(mkfifo(in_files("fifo"), 0644), 0);
    files[0] = rig_keep(xstrdup(in_files("missing")));
    files[1] = rig_keep(xstrdup(in_files("dir")));
    files[2] = rig_keep(xstrdup(in_files("binary")));
    files[3] = rig_keep(xstrdup(in_files("fifo")));
    files[4] = rig_keep(xstrdup(in_files("good")));
    CHECK_STR(all_edits(begin_sed("", files, "x", "y", 0)), "binary! dir! fifo! good:1 missing!");
    CHECK_STR(text_of("good"), "y\n");
}

/* user::rw-, user:1000:rw-, group::---, mask::rw-, other::--- */
static const unsigned char access_list[] = {
    2, 0,   0,   0,   1,   0,   6,  0, 255, 255, 255, 255, 2,   0,   6,
    0, 232, 3,   0,   0,   4,   0,  0, 0,   255, 255, 255, 255, 16,  0,
    6, 0,   255, 255, 255, 255, 32, 0, 0,   0,   255, 255, 255, 255,
};

TEST(an_edit_keeps_the_access_list_and_what_users_have_noted)
{
    char value[100];

    rig_start();
    put("a", "needle\n");
    if (setxattr(in_files("a"), "user.note", "kept", 4, 0) == 0 &&
        setxattr(in_files("a"), "system.posix_acl_access", access_list, sizeof(access_list), 0) ==
            0) {
        CHECK_STR(sed("a", "needle", "pin"), "a:1");
        CHECK_INT(getxattr(in_files("a"), "user.note", value, sizeof(value)), 4);
        CHECK_INT(getxattr(in_files("a"), "system.posix_acl_access", value, sizeof(value)),
                  sizeof(access_list));
        CHECK(memcmp(value, access_list, sizeof(access_list)) == 0);
    } /* else this filesystem has neither */
}

TEST(an_edit_keeps_mode_and_owner_and_leaves_no_other_file)
{
    struct stat before, st;

    rig_start();
    make_dir("d");
    put("d/a", "x\n");
    CHECK_INT(chmod(in_files("d/a"), 0751), 0);
    if (getuid() == 0)
        CHECK_INT(chown(in_files("d/a"), 1000, 1001), 0);
    CHECK_STR(sed("d", "x", "y"), "d/a:1");
    CHECK_INT(stat(in_files("d/a"), &st), 0);
    CHECK_INT(st.st_mode & 07777, 0751);
    CHECK(getuid() != 0 || (st.st_uid == 1000 && st.st_gid == 1001));
    before = st;
    /* One without a match is the same file as before. */
    CHECK_STR(sed("d", "x", "y"), "d/a:0");
    CHECK_INT(stat(in_files("d/a"), &st), 0);
    CHECK(st.st_ino == before.st_ino && st.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
    CHECK_INT(unlink(in_files("d/a")), 0);
    CHECK_INT(rmdir(in_files("d")), 0); /* nothing else was left in it */
}

TEST(a_link_that_is_named_leads_to_what_is_edited)
{
    struct stat st;

    rig_start();
    put("target", "x\n");
    CHECK_INT(symlink("target", in_files("link")), 0);
    CHECK_STR(sed("link", "x", "y"), "link:1");
    CHECK_STR(text_of("target"), "y\n");
    CHECK_INT(lstat(in_files("link"), &st), 0);
    CHECK(S_ISLNK(st.st_mode));
}

TEST(a_file_larger_than_what_is_read_at_once_is_edited)
{
    static char big[300000];
    struct stat st;

    rig_start();
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = i % 100 == 99 ? '\n' : 'a';
    big[250000] = 'b';
    put_bytes(in_files("big"), big, sizeof(big));
    CHECK_STR(sed("big", "b", "longer"), "big:1");
    CHECK_INT(stat(in_files("big"), &st), 0);
    CHECK_INT(st.st_size, (off_t)sizeof(big) + 5);
    CHECK_STR(sed("big", "longer", "b"), "big:1");
    {
        static char now[sizeof(big) + 1];

        CHECK_INT(read_file_at(-1, in_files("big"), now, sizeof(now)), (ssize_t)sizeof(big));
        CHECK(memcmp(now, big, sizeof(big)) == 0);
    }
}

TEST(a_line_can_be_long_but_not_longer)
{
    static char line[(1 << 20) + (64 << 10)];
    struct stat st;

    rig_start();
    memset(line, 'a', sizeof(line));
    line[10] = 'b';
    put_bytes(in_files("long"), line, 1 << 20);
    CHECK_STR(sed("long", "b", "cc"), "long:1");
    CHECK_INT(stat(in_files("long"), &st), 0);
    CHECK_INT(st.st_size, (1 << 20) + 1);
    memcpy(line, "b\n", 2);
    put_bytes(in_files("longer"), line, sizeof(line));
    CHECK_STR(sed("longer", "b", "cc"), "longer!");
    CHECK_INT(stat(in_files("longer"), &st), 0);
    CHECK_INT(st.st_size, (off_t)sizeof(line));
    CHECK_INT(unlink(in_files("long")), 0);
    CHECK_INT(unlink(in_files("longer")), 0);
    CHECK_INT(rmdir(rig.files), 0);
    CHECK_INT(mkdir(rig.files, 0755), 0);
}

/* A folder in which nothing can be made, also not by root. */
TEST(an_edit_that_fails_leaves_the_file_as_it_was)
{
    char *files[] = {"/proc/version", NULL};
    struct call_edit e;
    struct buf b;
    struct wire w;
    int fd;

    rig_start();
    fd = begin_sed("", files, "Linux", "y", 0);
    expect(fd, FRAME_ITEM, &b);
    wire_init(&w, b.data, b.len);
    call_edit_get(&w, &e);
    CHECK(wire_ok(&w));
    CHECK_STR(e.path, "/proc/version");
    CHECK(e.error[0] && e.replacements == 0);
    call_edit_done(&e);
    buf_done(&b);
    (void)close(fd);
}

TEST(a_wrong_edit_is_refused)
{
    char *files[] = {"/tmp/none", NULL};

    rig_start();
    make_dir("d");
    put("d/a", "x\n");
    expect_error(begin_sed("", none, "x", "y", 0), ERR_INVALID, "bad_fs_request");
    expect_error(begin_sed(in_files("d"), files, "x", "y", 0), ERR_INVALID, "bad_fs_request");
    expect_error(begin_sed(in_files("d"), none, "x", "y", 0), ERR_INVALID, "bad_fs_request");
    expect_error(begin_sed(in_files("no"), none, "x", "y", 0), ERR_NOT_FOUND, "file_not_found");
    expect_error(begin_sed("", files, "(", "y", 0), ERR_INVALID, "bad_regex");
    CHECK_STR(text_of("d/a"), "x\n");
}

static unsigned entries(const char *name)
{
    unsigned n = 0, type = 0;
    struct buf b = {0};
    int fd = ctl(CALL_LIST, "ss", in_files(name), "");

    for (;; n++) {
        CHECK_INT(frame_recv(fd, &type, &b), 1);
        if (type == FRAME_END)
            break;
    }
    buf_done(&b);
    (void)close(fd);
    return n;
}

/* Its caller goes while the new file is written: the old one stays, and nothing else does. */
TEST(an_edit_that_nobody_waits_for_leaves_nothing)
{
    static char line[1 << 20];
    struct stat before, st;
    int fd;

    rig_start();
    make_dir("d");
    memset(line, 'a', sizeof(line));
    memcpy(line, "b\n", 2);
    put_bytes(in_files("d/a"), line, sizeof(line));
    CHECK_INT(stat(in_files("d/a"), &before), 0);
    fd = begin_sed(in_files("d/a"), none, "b|a(a|b|c|d){1,3000}x", "y", 0);
    while (entries("d") == 1)
        ; /* until it has begun */
    (void)close(fd);
    while (entries("d") > 1)
        ;
    CHECK_INT(stat(in_files("d/a"), &st), 0);
    CHECK(st.st_ino == before.st_ino && st.st_size == before.st_size);
}

TAP_MAIN
