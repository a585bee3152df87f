#include "agent_rig.h"

#include "base/str.h"

static void put(const char *path, const char *text, uint32_t mode, uint32_t parents)
{
    int fd = ctl(CALL_WRITE, "ssuu", path, "", mode, parents);

    CHECK_INT(frame_send(fd, FRAME_DATA, text, strlen(text)), 0);
    CHECK_INT(frame_send(fd, FRAME_END, "", 0), 0);
    expect_ok(fd);
}

/* The content, in memory that lives until the next call. */
static const char *get_as(const char *path, const char *user, uint64_t offset, uint64_t most)
{
    static struct buf text;
    struct buf b = {0};
    unsigned type = 0;
    int fd = ctl(CALL_READ, "ssUU", path, user, offset, most);

    buf_done(&text);
    buf_init(&text, 64 << 20);
    (void)buf_add_str(&text, "");
    expect(fd, FRAME_OK, NULL);
    for (;;) {
        CHECK_INT(frame_recv(fd, &type, &b), 1);
        if (type == FRAME_END)
            break;
        CHECK_INT(type, FRAME_DATA);
        CHECK_INT(buf_add(&text, b.data, b.len), 0);
    }
    buf_done(&b);
    (void)close(fd);
    return text.data;
}

static const char *get(const char *path, uint64_t offset, uint64_t most)
{
    return get_as(path, "", offset, most);
}

static uint32_t mode_of(const char *path)
{
    struct stat st;

    CHECK_INT(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

TEST(what_is_written_is_read_back)
{
    char *path;

    rig_start();
    path = in_files("a/b/file");
    put(path, "hello world", CALL_MODE_KEEP, 1);
    CHECK_STR(get(path, 0, 0), "hello world");
    CHECK_STR(get(path, 6, 3), "wor");
    CHECK_STR(get(path, 100, 0), "");
    CHECK_INT(mode_of(path), 0644);
}

TEST(a_rewrite_keeps_mode_and_owner)
{
    struct stat st;
    char *path;

    rig_start();
    path = in_files("file");
    put(path, "one", 0751, 0);
    CHECK_INT(mode_of(path), 0751);
    if (getuid() == 0)
        CHECK_INT(chown(path, 1000, 1001), 0);
    put(path, "two", CALL_MODE_KEEP, 0);
    CHECK_INT(mode_of(path), 0751);
    CHECK_INT(stat(path, &st), 0);
    CHECK(getuid() != 0 || (st.st_uid == 1000 && st.st_gid == 1001));
    put(path, "three", 0600, 0);
    CHECK_INT(mode_of(path), 0600);
    CHECK_STR(get(path, 0, 0), "three");
}

TEST(a_write_to_a_link_goes_to_its_target)
{
    rig_start();
    put(in_files("target"), "old", CALL_MODE_KEEP, 0);
    CHECK_INT(symlink("target", in_files("link")), 0);
    put(in_files("link"), "new", CALL_MODE_KEEP, 0);
    CHECK_STR(get(in_files("target"), 0, 0), "new");
    CHECK_INT(unlink(in_files("link")), 0);
}

static unsigned count_files(void)
{
    unsigned n = 0, type = 0;
    struct buf b = {0};
    int fd = ctl(CALL_LIST, "ss", rig.files, "");

    for (;; n++) {
        CHECK_INT(frame_recv(fd, &type, &b), 1);
        if (type == FRAME_END)
            break;
    }
    buf_done(&b);
    (void)close(fd);
    return n;
}

TEST(an_interrupted_write_leaves_nothing)
{
    char *path;
    int fd;

    rig_start();
    path = in_files("half");
    fd = ctl(CALL_WRITE, "ssuu", path, "", CALL_MODE_KEEP, 0u);
    CHECK_INT(frame_send(fd, FRAME_DATA, "part", 4), 0);
    while (count_files() == 0)
        ; /* until the agent has begun */
    CHECK(!exists(path));
    (void)close(fd);
    while (count_files() > 0)
        ;
}

TEST(a_large_file_goes_through_in_frames)
{
    static char block[FRAME_MAX];
    const char *text;
    char *path;
    int fd;

    rig_start();
    path = in_files("large");
    memset(block, 'x', sizeof(block));
    fd = ctl(CALL_WRITE, "ssuu", path, "", CALL_MODE_KEEP, 0u);
    for (int i = 0; i < 12; i++)
        CHECK_INT(frame_send(fd, FRAME_DATA, block, sizeof(block)), 0);
    CHECK_INT(frame_send(fd, FRAME_END, "", 0), 0);
    expect_ok(fd);
    text = get(path, 0, 0);
    CHECK_INT(strspn(text, "x"), 12 * FRAME_MAX);
}

TEST(what_is_not_a_regular_file_is_refused_at_once)
{
    rig_start();
    CHECK_INT(mkfifo(in_files("fifo"), 0666), 0);
    expect_error(ctl(CALL_READ, "ssUU", in_files("fifo"), "", (uint64_t)0, (uint64_t)0),
                 ERR_INVALID, "not_a_file");
    expect_error(ctl(CALL_READ, "ssUU", "/dev/zero", "", (uint64_t)0, (uint64_t)0), ERR_INVALID,
                 "not_a_file");
    expect_error(ctl(CALL_READ, "ssUU", rig.ctl, "", (uint64_t)0, (uint64_t)0), ERR_INVALID,
                 "not_a_file");
    expect_error(ctl(CALL_READ, "ssUU", rig.files, "", (uint64_t)0, (uint64_t)0), ERR_INVALID,
                 "is_a_directory");
    expect_error(ctl(CALL_READ, "ssUU", in_files("none"), "", (uint64_t)0, (uint64_t)0),
                 ERR_NOT_FOUND, "file_not_found");
    expect_error(ctl(CALL_READ, "ssUU", "relative", "", (uint64_t)0, (uint64_t)0), ERR_INVALID, "");
}

/* Adds the agent's children (spawner and handlers) to those seen so far. */
static unsigned children_seen(pid_t seen[256], unsigned n)
{
    char path[64], text[512], *p = text;
    long pid;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", rig.agent, rig.agent);
    CHECK(read_file_at(-1, path, text, sizeof(text)) > 0);
    while ((pid = strtol(p, &p, 10)) > 0) {
        unsigned i = 0;

        while (i < n && seen[i] != pid)
            i++;
        if (i == n && n < 256)
            seen[n++] = (pid_t)pid;
    }
    return n;
}

/* How many come about depends on how fast one is ready again; but they are kept. */
TEST(short_calls_one_after_the_other_are_served_by_a_few_processes)
{
    pid_t seen[256];
    unsigned n = 0;
    char *path;

    rig_start();
    path = in_files("file");
    for (int i = 0; i < 40; i++) {
        put(path, i % 2 ? "hello" : "world", CALL_MODE_KEEP, 0);
        n = children_seen(seen, n);
        CHECK_STR(get(path, 0, 0), i % 2 ? "hello" : "world");
        n = children_seen(seen, n);
    }
    CHECK(n <= 12);
}

TEST(a_file_that_has_no_size_is_read_to_its_end)
{
    rig_start();
    CHECK(strstr(get("/proc/version", 0, 0), "Linux"));
}

TEST(no_descriptor_of_the_agent_leads_out_of_the_box)
{
    rig_start();
    /* Also not in a handler that has served a call, or after one that had the logs. */
    put(in_files("file"), "x", CALL_MODE_KEEP, 0);
    expect_error(ctl(CALL_LOG, "sUU", "nope", (uint64_t)0, (uint64_t)1), ERR_NOT_FOUND,
                 "log_not_found");
    put(in_files("file"), "y", CALL_MODE_KEEP, 0);
    for (int fd = 3; fd < 16; fd++) {
        char path[64];
        int conn;

        snprintf(path, sizeof(path), "/proc/self/fd/%d/ctl", fd);
        conn = ctl(CALL_STAT, "sl", "", (char *[]){path, NULL});
        expect(conn, FRAME_ERROR, NULL);
        (void)close(conn);
    }
}

static struct call_file next_file(int fd)
{
    struct call_file f;
    struct wire w;
    struct buf b;

    expect(fd, FRAME_ITEM, &b);
    wire_init(&w, b.data, b.len);
    call_file_get(&w, &f);
    CHECK(wire_ok(&w));
    buf_done(&b);
    (void)rig_keep(f.path);
    (void)rig_keep(f.owner);
    (void)rig_keep(f.group);
    (void)rig_keep(f.target);
    return f;
}

TEST(stat_tells_what_a_path_is)
{
    struct call_file f;
    char *link, *file;
    int fd;

    rig_start();
    file = in_files("file");
    link = in_files("link");
    put(file, "12345", 0640, 0);
    CHECK_INT(symlink("file", link), 0);
    fd = ctl(CALL_STAT, "sl", "", (char *[]){file, link, rig.files, NULL});
    f = next_file(fd);
    CHECK_STR(f.path, file);
    CHECK_INT(f.kind, FILE_REGULAR);
    CHECK_INT(f.size, 5);
    CHECK_INT(f.mode & 07777, 0640);
    CHECK(f.mtime_ms > 0);
    f = next_file(fd);
    CHECK_INT(f.kind, FILE_LINK);
    CHECK_STR(f.target, "file");
    f = next_file(fd);
    CHECK_INT(f.kind, FILE_DIR);
    if (getuid() == 0)
        CHECK_STR(f.owner, "root");
    expect(fd, FRAME_END, NULL);
    (void)close(fd);
}

TEST(a_listing_is_sorted_and_keeps_odd_names)
{
    static const char *const names[] = {" ", "a\nb", "b", "c"};
    int fd;

    rig_start();
    for (int i = 3; i >= 0; i--)
        put(in_files(names[i]), "", CALL_MODE_KEEP, 0);
    fd = ctl(CALL_LIST, "ss", rig.files, "");
    for (int i = 0; i < 4; i++)
        CHECK_STR(next_file(fd).path, names[i]);
    expect(fd, FRAME_END, NULL);
    expect_error(ctl(CALL_LIST, "ss", in_files("b"), ""), ERR_INVALID, "not_a_directory");
    (void)close(fd);
}

TEST(a_search_finds_regular_files_by_name_and_follows_no_link)
{
    struct buf b;
    struct wire w;
    int fd;

    rig_start();
    put(in_files("d/e/x.txt"), "", CALL_MODE_KEEP, 1);
    put(in_files("d/e/y.bin"), "", CALL_MODE_KEEP, 0);
    CHECK_INT(symlink("..", in_files("d/e/loop")), 0);
    CHECK_INT(symlink("x.txt", in_files("d/e/l.txt")), 0);
    fd = ctl(CALL_SEARCH, "sssu", rig.files, "", "*.txt", 100u);
    expect(fd, FRAME_ITEM, &b);
    wire_init(&w, b.data, b.len);
    CHECK_STR(rig_keep(wire_get_str(&w)), in_files("d/e/x.txt"));
    buf_done(&b);
    expect(fd, FRAME_END, NULL);
    (void)close(fd);
    fd = ctl(CALL_SEARCH, "sssu", rig.files, "", "*", 1u);
    expect(fd, FRAME_ITEM, NULL);
    expect(fd, FRAME_END, NULL);
    (void)close(fd);
    expect_error(ctl(CALL_SEARCH, "sssu", in_files("none"), "", "*", 0u), ERR_NOT_FOUND,
                 "file_not_found");
}

/* A new folder on another filesystem than that of the rig. */
static void far_make(char path[64])
{
    struct stat here, there;

    snprintf(path, 64, "%s/cay-far-XXXXXX", str_starts(rig.dir, "/dev/shm/") ? "/tmp" : "/dev/shm");
    if (!mkdtemp(path))
        SKIP("/dev/shm or /tmp takes no folder");
    CHECK_INT(stat(rig.dir, &here), 0);
    CHECK_INT(stat(path, &there), 0);
    if (here.st_dev == there.st_dev) {
        CHECK_INT(rmdir(path), 0);
        SKIP("/tmp and /dev/shm are one filesystem");
    }
}

TEST(a_move_renames_and_crosses_filesystems)
{
    char far[64], to[128];

    rig_start();
    put(in_files("dir/file"), "data", 0711, 1);
    CHECK_INT(symlink("file", in_files("dir/link")), 0);
    expect_ok(ctl(CALL_MOVE, "sss", in_files("dir"), in_files("moved"), ""));
    CHECK_STR(get(in_files("moved/file"), 0, 0), "data");
    expect_error(ctl(CALL_MOVE, "sss", in_files("dir"), in_files("x"), ""), ERR_NOT_FOUND,
                 "file_not_found");
    far_make(far);
    snprintf(to, sizeof(to), "%s/there", far);
    expect_ok(ctl(CALL_MOVE, "sss", in_files("moved"), to, ""));
    CHECK(!exists(in_files("moved")));
    snprintf(to, sizeof(to), "%s/there/link", far);
    CHECK_STR(get(to, 0, 0), "data");
    snprintf(to, sizeof(to), "%s/there/file", far);
    CHECK_INT(mode_of(to), 0711);
    expect_ok(ctl(CALL_REMOVE, "ssu", far, "", 1u));
    CHECK(!exists(far));
}

TEST(directories_are_made_with_their_parents)
{
    rig_start();
    expect_ok(ctl(CALL_MKDIR, "ssu", in_files("p/q/r"), "", 0700u));
    CHECK_INT(mode_of(in_files("p/q/r")), 0700);
    expect_ok(ctl(CALL_MKDIR, "ssu", in_files("p/q/r"), "", 0700u));
    put(in_files("file"), "", CALL_MODE_KEEP, 0);
    expect_error(ctl(CALL_MKDIR, "ssu", in_files("file/x"), "", 0755u), ERR_INVALID,
                 "not_a_directory");
}

TEST(removal_follows_no_link_and_minds_directories)
{
    rig_start();
    put(in_files("keep/file"), "kept", CALL_MODE_KEEP, 1);
    put(in_files("gone/a/b/file"), "", CALL_MODE_KEEP, 1);
    CHECK_INT(symlink("../keep", in_files("gone/link")), 0);
    expect_error(ctl(CALL_REMOVE, "ssu", in_files("gone"), "", 0u), ERR_INVALID, "is_a_directory");
    expect_ok(ctl(CALL_REMOVE, "ssu", in_files("gone/"), "", 1u));
    CHECK(!exists(in_files("gone")));
    CHECK_STR(get(in_files("keep/file"), 0, 0), "kept");
    expect_ok(ctl(CALL_REMOVE, "ssu", in_files("gone"), "", 0u));
    expect_error(ctl(CALL_REMOVE, "ssu", "/", "", 1u), ERR_INVALID, "");
    expect_error(ctl(CALL_REMOVE, "ssu", in_files(".."), "", 1u), ERR_INVALID, "");
}

TEST(a_very_deep_tree_is_searched_and_removed)
{
    int at, fd;

    rig_start();
    CHECK_INT(mkdir(in_files("deep"), 0755), 0);
    at = open(in_files("deep"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 20000; i++) {
        int next;

        CHECK_INT(mkdirat(at, "d", 0755), 0);
        next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(next >= 0);
        (void)close(at);
        at = next;
    }
    (void)close(at);
    fd = ctl(CALL_SEARCH, "sssu", rig.files, "", "*", 0u);
    expect(fd, FRAME_END, NULL);
    (void)close(fd);
    expect_ok(ctl(CALL_REMOVE, "ssu", in_files("deep"), "", 1u));
    CHECK(!exists(in_files("deep")));
}

TEST(a_tree_that_is_too_deep_for_its_modes_says_where)
{
    auto_free char *path = NULL;
    struct err err = {0};
    struct buf b;
    int fd;

    rig_start();
    path = xstrdup(in_files("deep"));
    for (int i = 1; i <= 130; i++) {
        char *next = xasprintf("%s/d%d", path, i);

        CHECK_INT(mkdir(path, 0700), 0);
        free(path);
        path = next;
    }
    fd = ctl(CALL_ALTER, "ussuuuu", (uint32_t)ALTER_MARKS, in_files("deep"), "", 0755u,
             CALL_MODE_KEEP, CALL_MODE_KEEP, (uint32_t)ALTER_RECURSIVE);
    expect(fd, FRAME_ERROR, &b);
    (void)call_error_get(b.data, b.len, &err);
    buf_done(&b);
    (void)close(fd);
    CHECK_INT(err.kind, ERR_INVALID);
    if (!strstr(err.text, "/deep has more than 128 levels") ||
        !strstr(err.text, "/d126/d127 was not changed"))
        TAP_FAIL("it says: %s", err.text);
}

TEST(modes_are_octal_or_one_clause)
{
    static const struct {
        const char *text;
        uint32_t mode;
    } steps[] = {{"640", 0640}, {"u+x", 0740}, {"go-r", 0700},  {"a=rX", 0555},
                 {"+w", 0777},  {"o=", 0770},  {"3777", 03777}, {"-t", 02777}};
    static const char *const bad[] = {"", "9", "77", "77777", "u", "u+q", "g+s", "u+x,g+x", "0x1"};
    char *path;

    rig_start();
    path = in_files("file");
    put(path, "", 0600, 0);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        expect_ok(ctl(CALL_CHMOD, "sss", path, "", steps[i].text));
        CHECK_INT(mode_of(path), steps[i].mode);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        expect_error(ctl(CALL_CHMOD, "sss", path, "", bad[i]), ERR_INVALID, "");
}

/* How many it says it has changed. */
static uint32_t alter(enum call_alter kind, const char *path, const char *other, uint32_t mode,
                      uint32_t owner, uint32_t flags)
{
    int fd = ctl(CALL_ALTER, "ussuuuu", (uint32_t)kind, path, other, mode, owner, owner, flags);
    struct buf b = {0};
    struct wire w;
    uint32_t n;

    expect(fd, FRAME_OK, &b);
    wire_init(&w, b.data, b.len);
    n = wire_get_u32(&w);
    CHECK(wire_ok(&w));
    buf_done(&b);
    (void)close(fd);
    return n;
}

static void alter_fails(enum call_alter kind, const char *path, const char *other, uint32_t flags,
                        enum err_kind why, const char *code)
{
    expect_error(ctl(CALL_ALTER, "ussuuuu", (uint32_t)kind, path, other, 0755u, CALL_MODE_KEEP,
                     CALL_MODE_KEEP, flags),
                 why, code);
}

#define KEEP CALL_MODE_KEEP

TEST(a_directory_is_made_where_nothing_is_and_its_parent_is)
{
    rig_start();
    CHECK_INT(alter(ALTER_MKDIR, in_files("d"), "", 0700, KEEP, 0), 1);
    CHECK_INT(mode_of(in_files("d")), 0700);
    alter_fails(ALTER_MKDIR, in_files("d"), "", 0, ERR_CONFLICT, "file_exists");
    alter_fails(ALTER_MKDIR, in_files("none/d"), "", 0, ERR_NOT_FOUND, "file_not_found");
    CHECK_INT(alter(ALTER_MKDIR, in_files("p/q"), "", 01777, KEEP, ALTER_PARENTS), 1);
    CHECK_INT(mode_of(in_files("p/q")), 01777);
    CHECK_INT(alter(ALTER_MKDIR, in_files("p/q"), "", 0700, KEEP, ALTER_PARENTS), 0);
    CHECK_INT(mode_of(in_files("p/q")), 01777);
    put(in_files("file"), "", KEEP, 0);
    alter_fails(ALTER_MKDIR, in_files("file"), "", ALTER_PARENTS, ERR_CONFLICT, "file_exists");
    CHECK_INT(alter(ALTER_MKDIR, "/", "", 0755, KEEP, ALTER_PARENTS), 0);
}

TEST(an_exact_removal_minds_what_is_missing_and_what_is_full)
{
    rig_start();
    put(in_files("d/file"), "", KEEP, 1);
    CHECK_INT(symlink("d", in_files("link")), 0);
    alter_fails(ALTER_REMOVE, in_files("none"), "", 0, ERR_NOT_FOUND, "file_not_found");
    alter_fails(ALTER_REMOVE, in_files("none"), "", ALTER_RECURSIVE, ERR_NOT_FOUND,
                "file_not_found");
    alter_fails(ALTER_REMOVE, in_files("d"), "", 0, ERR_CONFLICT, "directory_not_empty");
    CHECK_INT(alter(ALTER_REMOVE, in_files("link"), "", 0, KEEP, ALTER_RECURSIVE), 1);
    CHECK(exists(in_files("d/file")));
    CHECK_INT(alter(ALTER_REMOVE, in_files("d/file"), "", 0, KEEP, 0), 1);
    CHECK_INT(alter(ALTER_REMOVE, in_files("d"), "", 0, KEEP, 0), 1);
    CHECK(!exists(in_files("d")));
    put(in_files("t/a/b"), "", KEEP, 1);
    CHECK_INT(alter(ALTER_REMOVE, in_files("t"), "", 0, KEEP, ALTER_RECURSIVE), 1);
    CHECK(!exists(in_files("t")));
}

TEST(an_exact_move_replaces_only_when_told)
{
    rig_start();
    put(in_files("a"), "a", KEEP, 0);
    put(in_files("b"), "b", KEEP, 0);
    put(in_files("d/file"), "", KEEP, 1);
    alter_fails(ALTER_MOVE, in_files("a"), in_files("b"), 0, ERR_CONFLICT, "file_exists");
    alter_fails(ALTER_MOVE, in_files("a"), in_files("d"), 0, ERR_CONFLICT, "file_exists");
    alter_fails(ALTER_MOVE, in_files("a"), in_files("a"), 0, ERR_CONFLICT, "file_exists");
    alter_fails(ALTER_MOVE, in_files("none"), in_files("c"), 0, ERR_NOT_FOUND, "file_not_found");
    alter_fails(ALTER_MOVE, in_files("a"), in_files("no/c"), 0, ERR_NOT_FOUND, "file_not_found");
    alter_fails(ALTER_MOVE, in_files("d"), in_files("d/e"), 0, ERR_INVALID, "");
    alter_fails(ALTER_MOVE, in_files("a"), "relative", 0, ERR_INVALID, "");
    CHECK_STR(get(in_files("b"), 0, 0), "b");
    CHECK_INT(alter(ALTER_MOVE, in_files("a"), in_files("b"), 0, KEEP, ALTER_REPLACE), 1);
    CHECK_STR(get(in_files("b"), 0, 0), "a");
    CHECK_INT(alter(ALTER_MOVE, in_files("d"), in_files("e"), 0, KEEP, 0), 1);
    CHECK(exists(in_files("e/file")) && !exists(in_files("d")));
}

TEST(an_exact_move_between_filesystems_replaces_only_when_told)
{
    char far[64], to[128];

    rig_start();
    far_make(far);
    snprintf(to, sizeof(to), "%s/there", far);
    put(in_files("a"), "a", KEEP, 0);
    put(to, "b", KEEP, 0);
    alter_fails(ALTER_MOVE, in_files("a"), to, 0, ERR_CONFLICT, "file_exists");
    CHECK_STR(get(to, 0, 0), "b");
    CHECK_INT(alter(ALTER_MOVE, in_files("a"), to, 0, KEEP, ALTER_REPLACE), 1);
    CHECK_STR(get(to, 0, 0), "a");
    CHECK(!exists(in_files("a")));
    expect_ok(ctl(CALL_REMOVE, "ssu", far, "", 1u));
}

TEST(mode_and_owner_change_below_but_through_no_link)
{
    struct stat st;

    rig_start();
    put(in_files("t/a/b"), "", 0600, 1);
    put(in_files("t/c"), "", 0600, 0);
    put(in_files("out"), "", 0600, 0);
    CHECK_INT(symlink("../out", in_files("t/link")), 0);
    CHECK_INT(alter(ALTER_MARKS, in_files("t"), "", 0711, KEEP, 0), 1);
    CHECK_INT(mode_of(in_files("t/c")), 0600);
    CHECK_INT(alter(ALTER_MARKS, in_files("t"), "", 0750, KEEP, ALTER_RECURSIVE), 4);
    CHECK_INT(mode_of(in_files("t/a/b")), 0750);
    CHECK_INT(mode_of(in_files("t/c")), 0750);
    CHECK_INT(mode_of(in_files("out")), 0600);
    CHECK_INT(alter(ALTER_MARKS, in_files("t/link"), "", 0640, KEEP, ALTER_RECURSIVE), 1);
    CHECK_INT(mode_of(in_files("out")), 0640);
    alter_fails(ALTER_MARKS, in_files("none"), "", 0, ERR_NOT_FOUND, "file_not_found");
    alter_fails(9, in_files("t"), "", 0, ERR_INVALID, "");
    alter_fails(ALTER_MARKS, in_files("t"), "", 1u << 9, ERR_INVALID, "");
    if (getuid() != 0)
        SKIP("needs root to give files away");
    CHECK_INT(alter(ALTER_MARKS, in_files("t"), "", 0700, 1234, ALTER_RECURSIVE), 4);
    CHECK_INT(stat(in_files("t/a/b"), &st), 0);
    CHECK(st.st_uid == 1234 && st.st_gid == 1234);
}

TEST(files_are_touched_as_the_user_asked_for)
{
    int fd;

    rig_start();
    if (getuid() != 0)
        SKIP("needs root");
    put(in_files("secret"), "x", 0600, 0);
    put(in_files("shared"), "x", 0644, 0);
    for (int i = 0; i < 6; i++) { /* who was somebody else serves nobody after that */
        CHECK_STR(get_as(in_files("shared"), "1000", 0, 0), "x");
        CHECK_STR(get(in_files("secret"), 0, 0), "x");
    }
    expect_error(ctl(CALL_READ, "ssUU", in_files("secret"), "1000", (uint64_t)0, (uint64_t)0),
                 ERR_FORBIDDEN, "permission_denied");
    fd = ctl(CALL_WRITE, "ssuu", in_files("mine"), "1000", CALL_MODE_KEEP, 0u);
    CHECK_INT(frame_send(fd, FRAME_DATA, "x", 1), 0);
    CHECK_INT(frame_send(fd, FRAME_END, "", 0), 0);
    expect_error(fd, ERR_FORBIDDEN, "permission_denied");
    expect_error(ctl(CALL_LIST, "ss", "/", "no_such"), ERR_INVALID, "bad_user");
}

TAP_MAIN
