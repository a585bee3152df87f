#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/ended.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/mode.h"
#include "base/procstat.h"
#include "base/remove.h"
#include "base/signals.h"
#include "base/str.h"
#include "tap.h"
#include "tmpdir.h"

TEST(times_of_files_are_rounded_down_and_clamped)
{
    static const struct {
        int64_t seconds;
        long ns;
        int64_t ms;
    } cases[] = {
        {0, 0, 0},
        {1, 999999999, 1999},
        {-1, 0, -1000},
        {-1, 999999999, -1},
        {-2, 500000000, -1500},
        {TIME_MS_MAX / 1000 - 1, 999000000, TIME_MS_MAX - 1},
        {TIME_MS_MAX / 1000, 1000000, TIME_MS_MAX},
        {-TIME_MS_MAX / 1000, 0, -TIME_MS_MAX},
        {-TIME_MS_MAX / 1000 - 1, 999000000, -TIME_MS_MAX},
        {INT64_MAX, 999999999, TIME_MS_MAX},
        {INT64_MIN, 0, -TIME_MS_MAX},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_INT(time_ms(&(struct timespec){.tv_sec = cases[i].seconds, .tv_nsec = cases[i].ns}),
                  cases[i].ms);
    CHECK_INT(time_ms_seconds(-1), -1);
    CHECK_INT(time_ms_seconds(-1000), -1);
    CHECK_INT(time_ms_seconds(-1001), -2);
    CHECK_INT(time_ms_seconds(999), 0);
    CHECK_INT(time_ms_clamp(INT64_MIN), -TIME_MS_MAX);
}

TEST(an_error_is_wrapped_from_the_inside_out)
{
    struct err err = {0};

    CHECK_INT(err_sys(&err, ENOSPC, "write"), -1);
    CHECK_INT(err_wrap(&err, "layer %d", 2), -1);
    CHECK_STR(err.text, "layer 2: write: No space left on device");
    CHECK_INT(err.kind, ERR_INTERNAL);
    CHECK_INT(err.sys, ENOSPC);
}

TEST(a_long_error_is_cut_not_overrun)
{
    struct err err = {0};

    (void)err_set(&err, ERR_INVALID, "%500s", "x");
    (void)err_wrap(&err, "%500s", "y");
    CHECK_INT(strlen(err.text), sizeof(err.text) - 1);
}

TEST(a_buffer_refuses_to_pass_its_maximum)
{
    auto_buf struct buf b;

    buf_init(&b, 8);
    CHECK_INT(buf_add(&b, "12345678", 8), 0);
    CHECK_INT(buf_add(&b, "9", 1), -EMSGSIZE);
    CHECK_STR(b.data, "12345678");
    buf_shift(&b, 3);
    CHECK_STR(b.data, "45678");
}

TEST(base64_goes_there_and_back)
{
    for (size_t n = 0; n < 20; n++) {
        auto_buf struct buf text, back;

        buf_init(&text, 100);
        buf_init(&back, 100);
        CHECK_INT(base64_encode(&text, "\0\xff\x80 hello there, world", n), 0);
        CHECK_INT(base64_decode(&back, text.data ? text.data : "", text.len), 0);
        CHECK_INT(back.len, n);
        CHECK(n == 0 || memcmp(back.data, "\0\xff\x80 hello there, world", n) == 0);
    }
}

TEST(base64_refuses_what_is_not_canonical)
{
    static const char *const bad[] = {
        "QQ", "QQ=", "QR==", "Q===", "QQ==QQ==", "QU J", "====", "QUF="};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        auto_buf struct buf b;

        buf_init(&b, 100);
        if (base64_decode(&b, bad[i], strlen(bad[i])) != -EINVAL)
            TAP_FAIL("%s was accepted", bad[i]);
    }
}

TEST(utf8_refuses_overlong_forms_and_surrogates)
{
    CHECK(utf8_valid("h\xc3\xa9\xe2\x82\xac\xf0\x9f\x8f\x9d", 10));
    CHECK(!utf8_valid("\xc0\xaf", 2));
    CHECK(!utf8_valid("\xe0\x80\xaf", 3));
    CHECK(!utf8_valid("\xed\xa0\x80", 3));
    CHECK(!utf8_valid("\xf4\x90\x80\x80", 4));
    CHECK(!utf8_valid("\xe2\x82", 2));
}

TEST(utf8_clean_replaces_only_the_bad_bytes)
{
    auto_buf struct buf b;

    buf_init(&b, 100);
    CHECK_INT(utf8_clean(&b,
                         "a\xff"
                         "b\xe2\x82",
                         5),
              0);
    CHECK_STR(b.data, "a\xef\xbf\xbd"
                      "b\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(utf8_cut_never_splits_a_character)
{
    const char *s = "a\xe2\x82\xac\xf0\x9f\x8f\x9d";

    CHECK_INT(utf8_cut(s, 1), 1);
    CHECK_INT(utf8_cut(s, 2), 1);
    CHECK_INT(utf8_cut(s, 3), 1);
    CHECK_INT(utf8_cut(s, 4), 4);
    CHECK_INT(utf8_cut(s, 7), 4);
    CHECK_INT(utf8_cut(s, 8), 8);
    CHECK_INT(utf8_cut("\x80\x80", 2), 2);
}

/* Whatever fits is cut where it takes as much as json_dumps() makes of it, and the next character
 * would take too much. */
static void check_cut_json(const char *s, size_t len, size_t max)
{
    size_t size, all, n = utf8_cut_json(s, len, max, &size);
    auto_buf struct buf clean = {0};
    auto_free char *text = NULL;
    json_t *string;

    buf_init(&clean, 4096);
    CHECK_INT(utf8_clean(&clean, s, n), 0);
    string = json_stringn(clean.data ? clean.data : "", clean.len);
    text = json_dumps(string, JSON_ENCODE_ANY);
    CHECK_INT(strlen(text) - 2, size);
    CHECK(size <= max);
    CHECK_INT(utf8_cut_json(s, len, SIZE_MAX, &all), len);
    CHECK(n == len || (all > max && max - size < 6));
    json_decref(string);
}

TEST(text_is_cut_by_what_it_takes_in_json)
{
    static const char text[] =
        "a\"\\/\b\f\n\r\t\v\x01\x1f\x7f\0\xff\xe2\x82\xac\xe2\x82\xf0\x9f\x8f\x9d\xc3";
    size_t size = 7;

    for (size_t max = 0; max < 80; max++)
        check_cut_json(text, sizeof(text) - 1, max);
    CHECK_INT(utf8_cut_json(NULL, 0, 10, &size), 0);
    CHECK_INT(size, 0);
    CHECK_INT(utf8_cut_json("ab\xe2\x82\xac", 5, 4, &size), 2);
    CHECK_INT(utf8_cut_json("\x01\x01", 2, 11, &size), 1);
    CHECK_INT(size, 6);
}

TEST(numbers_are_read_whole_or_not_at_all)
{
    uint64_t v = 7;
    uint32_t mode = 0;

    CHECK_INT(str_u64("18446744073709551615", &v), 0);
    CHECK(v == UINT64_MAX);
    CHECK_INT(str_u64("18446744073709551616", &v), -ERANGE);
    CHECK_INT(str_u64("-1", &v), -EINVAL);
    CHECK_INT(str_u64("", &v), -EINVAL);
    CHECK_INT(str_u64("1 ", &v), -EINVAL);
    CHECK_INT(str_octal("0755", &mode), 0);
    CHECK_INT(mode, 0755);
    CHECK_INT(str_octal("8", &mode), -EINVAL);
}

TEST(a_new_id_is_valid_and_others_are_not)
{
    char id[ID_SIZE];

    id_new(id, "sbx");
    CHECK(id_valid(id, "sbx"));
    CHECK(!id_valid(id, "bg"));
    CHECK(!id_valid("sbx_../../../../../etc/pass", "sbx"));
    CHECK(!id_valid("sbx_0123456789ABCDEF01234567", "sbx"));
}

TEST(a_string_vector_grows)
{
    auto_strv char **v = NULL;

    for (int i = 0; i < 100; i++) {
        char s[12];

        (void)snprintf(s, sizeof(s), "%d", i);
        v = strv_add(v, s);
    }
    CHECK_INT(strv_len(v), 100);
    CHECK_STR(v[99], "99");
    CHECK_STR(v[0], "0");
}

TEST(a_copy_of_a_string_vector_can_be_added_to)
{
    for (size_t n = 0; n < 9; n++) {
        auto_strv char **v = xcalloc(1, sizeof(*v)), **copy = NULL;

        for (size_t i = 0; i < n; i++)
            v = strv_add(v, "a");
        copy = strv_add(strv_copy(v), "b");
        CHECK_INT(strv_len(copy), n + 1);
        CHECK_STR(copy[n], "b");
        CHECK(malloc_usable_size(copy) >= (n + 2) * sizeof(*copy));
    }
}

TEST(strings_are_sorted_by_their_bytes)
{
    char *v[] = {"b", "a", "B", "", "\xc3\xbc"};

    strings_sort(v, ARRAY_LEN(v));
    CHECK_STR(v[0], "");
    CHECK_STR(v[1], "B");
    CHECK_STR(v[2], "a");
    CHECK_STR(v[3], "b");
    CHECK_STR(v[4], "\xc3\xbc");
    strings_sort(NULL, 0);
    CHECK(str_is_dot(".") && str_is_dot("..") && !str_is_dot("") && !str_is_dot("...") &&
          !str_is_dot(".a"));
}

TEST(secrets_compare_by_value)
{
    CHECK(str_equal_secret("token", "token"));
    CHECK(!str_equal_secret("token", "toke"));
    CHECK(!str_equal_secret("toke", "token"));
    CHECK(!str_equal_secret("", "token"));
}

TEST(a_list_of_strings_becomes_an_array)
{
    char *list[] = {"a", "\xff", "", NULL}, *none[] = {NULL};
    json_t *some = json_of_strings(list), *empty = json_of_strings(none);
    json_t *missing = json_of_strings(NULL);

    CHECK_INT(json_array_size(some), 2);
    CHECK_STR(json_string_value(json_array_get(some, 0)), "a");
    CHECK_STR(json_string_value(json_array_get(some, 1)), "");
    CHECK(json_is_array(empty) && json_array_size(empty) == 0);
    CHECK(json_is_array(missing) && json_array_size(missing) == 0);
    json_decref(some);
    json_decref(empty);
    json_decref(missing);
}

TEST(a_number_that_is_too_large_is_the_largest)
{
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"1e308", INT64_MAX},
        {"-1e308", INT64_MIN},
        {"9223372036854775808.0", INT64_MAX},
        {"-9223372036854775808.0", INT64_MIN},
        {"9223372036854774784.0", 9223372036854774784},
        {"9223372036854775807", INT64_MAX},
        {"-1.9", -1},
        {"0.0", 0},
        {"\"5\"", 0},
        {"null", 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *text = xasprintf("{\"n\": %s}", cases[i].text);
        json_t *object = json_loads(text, 0, NULL);

        CHECK(object);
        if (json_int(object, "n") != cases[i].value)
            TAP_FAIL("%s is %lld", cases[i].text, (long long)json_int(object, "n"));
        json_decref(object);
    }
}

/* ---- rules ---- */

TEST(a_mode_is_three_or_four_octal_digits_or_one_clause)
{
    static const struct {
        const char *text;
        uint32_t old;
        bool dir;
        uint32_t mode;
    } good[] = {
        {"644", 0, false, 0644},         {"0755", 0, false, 0755},     {"7777", 0, false, 07777},
        {"u+x", 0640, false, 0740},      {"go-r", 0744, false, 0700},  {"a=rX", 0700, false, 0555},
        {"a=rX", 0600, false, 0444},     {"a=rX", 0600, true, 0555},   {"+w", 0555, false, 0777},
        {"o=", 0777, false, 0770},       {"+t", 0100755, true, 01755}, {"-t", 01777, true, 0777},
        {"ugoa+rwxXt", 0, false, 01777},
    };
    static const char *const bad[] = {"",    "9",   "77",      "77777", "00644",
                                      "u",   "u+q", "u+x,g+x", "0x1",   "+rrrrrrrrrrrrrrrr",
                                      "u+s", "rwx"};
    uint32_t mode;

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        CHECK_INT(mode_parse(good[i].text, good[i].old, good[i].dir, &mode), 0);
        CHECK_INT(mode, good[i].mode);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK_INT(mode_parse(bad[i], 0, false, &mode), -EINVAL);
        CHECK_INT(mode_octal(bad[i], &mode), -EINVAL);
    }
    CHECK_INT(mode_octal("0644", &mode), 0);
    CHECK_INT(mode, 0644);
    CHECK_INT(mode_octal("u+x", &mode), -EINVAL);
}

TEST(signals_have_names_and_numbers)
{
    const struct {
        const char *text;
        int number;
    } cases[] = {
        {"SIGQUIT", SIGQUIT},
        {"QUIT", SIGQUIT},
        {"3", 3},
        {"64", 64},
        {"RTMIN", SIGRTMIN},
        {"SIGRTMIN+3", SIGRTMIN + 3},
        {"SIGRTMAX-1", SIGRTMAX - 1},
        {"", -EINVAL},
        {"0", -EINVAL},
        {"65", -EINVAL},
        {"NONE", -EINVAL},
        {"RTMIN+31", -EINVAL},
        {"RTMINx", -EINVAL},
        {"SIGSIGINT", -EINVAL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_INT(signal_parse(cases[i].text), cases[i].number);
    for (const char *const *w = signal_words; *w; w++)
        CHECK(signal_of_word(*w) > 0);
    CHECK_INT(signal_of_word("KILL"), SIGKILL);
    CHECK_INT(signal_of_word("CONT"), SIGCONT);
    CHECK_INT(signal_of_word("QUIT"), -EINVAL);
    CHECK_INT(signal_of_word("SIGTERM"), -EINVAL);
    CHECK_INT(signal_of_word("9"), -EINVAL);
}

TEST(a_glob_matches_names_and_has_bounds)
{
    static const char *const bad[] = {"", "a;b", "a|b", "$a", "`a`", "a\\*"};
    char longest[GLOB_BYTES_MAX + 2];

    CHECK(str_glob("*.py", "a.py") && str_glob("?.py", "a.py") && str_glob("[ab].py", "a.py"));
    CHECK(!str_glob("*.py", "a.pyc") && !str_glob("?", "ab") && !str_glob("", "a"));
    CHECK(str_glob("\\*", "\\a"));
    CHECK(glob_valid("*.p[yx]?") && glob_valid("ü"));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!glob_valid(bad[i]));
    memset(longest, 'a', sizeof(longest));
    longest[GLOB_BYTES_MAX + 1] = '\0';
    CHECK(!glob_valid(longest) && glob_valid(longest + 1));
}

/* ---- processes ---- */

TEST(a_stat_line_is_read_whatever_the_process_calls_itself)
{
    static const char line[] = "7 (a) R 1 (b)) S 42 7 7 0 -1 4194560 1 2 3 4 500 60 7 8 20 0 3 0 "
                               "123456 8192 17 18446744073709551615 1 1";
    static const char *const bad[] = {"", "7 (a", "7 (a) S", "7 (a) S 42 7 7 0 -1 4194560 1 2 3 4"};
    struct proc_stat st;

    CHECK_INT(proc_stat_parse(line, &st), 0);
    CHECK_INT(st.state, 'S');
    CHECK_INT(st.ppid, 42);
    CHECK_INT(st.cpu_ticks, 560);
    CHECK_INT(st.threads, 3);
    CHECK_INT(st.start_ticks, 123456);
    CHECK_INT(st.vsz, 8192);
    CHECK_INT(st.rss_pages, 17);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_INT(proc_stat_parse(bad[i], &st), -EINVAL);
    CHECK_INT(proc_stat_read(getpid(), &st), 0);
    CHECK_INT(st.ppid, getppid());
    CHECK_INT(proc_stat_read(INT32_MAX, &st), -ESRCH);
}

/* ---- trees ---- */

static void make_file(int dirfd, const char *name)
{
    auto_close int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
}

/* dir/name with a folder in it, and one in that, and so on, with a file at the end. */
static void make_deep(const char *dir, const char *name, int depth)
{
    auto_close int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; i < depth; i++) {
        int next;

        CHECK_INT(mkdirat(at, i ? "d" : name, 0700), 0);
        next = openat(at, i ? "d" : name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close_fd(&at);
        at = next;
    }
    make_file(at, "f");
}

static bool is_there(int dirfd, const char *name)
{
    struct stat st;

    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(a_tree_is_removed_and_what_its_links_lead_to_stays)
{
    auto_dir char *dir = dir_new();
    auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK_INT(mkdirat(fd, "kept", 0700), 0);
    make_file(fd, "kept/f");
    CHECK_INT(mkdirat(fd, "tree", 0700), 0);
    CHECK_INT(mkdirat(fd, "tree/sub", 0700), 0);
    make_file(fd, "tree/sub/f");
    CHECK_INT(symlinkat("../kept", fd, "tree/link"), 0);
    CHECK_INT(symlinkat("kept", fd, "link"), 0);
    CHECK_INT(remove_tree(fd, "tree"), 0);
    CHECK_INT(remove_tree(fd, "link"), 0);
    CHECK_INT(remove_tree(fd, "nothing"), 0);
    CHECK(!is_there(fd, "tree") && !is_there(fd, "link") && is_there(fd, "kept/f"));
    CHECK_INT(remove_tree(fd, "kept/f/x"), -ENOTDIR);
}

TEST(a_tree_that_is_refilled_is_left_when_the_time_is_over)
{
    auto_dir char *dir = dir_new();
    auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    CHECK_INT(mkdirat(fd, "tree", 0700), 0);
    CHECK_INT(mkdirat(fd, "tree/sub", 0700), 0);
    make_file(fd, "tree/sub/f");
    CHECK_INT(remove_tree_until(fd, "tree", mono_ns()), -ETIME);
    CHECK(is_there(fd, "tree/sub/f"));
    CHECK_INT(remove_tree_until(fd, "tree", mono_ns() + 3600 * 1000000000ll), 0);
    CHECK(!is_there(fd, "tree"));
    CHECK_INT(remove_tree_until(fd, "tree", mono_ns()), 0);
}

TEST(a_tree_deeper_than_a_process_may_have_descriptors_is_removed)
{
    auto_dir char *dir = dir_new();
    auto_free char *path = xasprintf("%s/tree", dir);
    struct rlimit few = {200, 200};

    make_deep(dir, "tree", 1000);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    CHECK_INT(remove_tree(AT_FDCWD, path), 0);
    CHECK(!is_there(AT_FDCWD, path));
}

/* Each of them has to be lifted, and so has to get a name that no other has. */
TEST(what_removals_that_were_cut_short_have_left_is_removed)
{
    auto_dir char *dir = dir_new();
    auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_free char *path = xasprintf("%s/tree", dir);

    CHECK_INT(mkdirat(fd, "tree", 0700), 0);
    for (unsigned i = 0; i < 100; i++) {
        char name[48];

        (void)snprintf(name, sizeof(name), ".cay-removed-%d-%u", getpid(), i);
        make_deep(path, name, 130);
    }
    CHECK_INT(remove_tree(fd, "tree"), 0);
    CHECK(!is_there(fd, "tree"));
}

/* Far deeper than any path is long, and than a stack of 512 KiB has room for: 26 bytes per level.
 */
TEST(a_tree_of_20000_levels_is_removed_with_a_small_stack)
{
    auto_dir char *dir = dir_new();
    auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct rlimit small = {512 << 10, 512 << 10};

    make_deep(dir, "tree", 20000);
    CHECK_INT(setrlimit(RLIMIT_STACK, &small), 0);
    CHECK_INT(remove_tree(fd, "tree"), 0);
    CHECK(!is_there(fd, "tree"));
}

TEST(what_is_mounted_in_a_tree_is_not_removed)
{
    auto_dir char *dir = dir_new();
    auto_free char *at = xasprintf("%s/tree/mount", dir);
    auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (unshare(CLONE_NEWNS) < 0)
        SKIP("needs root");
    CHECK_INT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    CHECK_INT(mkdirat(fd, "tree", 0700), 0);
    CHECK_INT(mkdirat(fd, "tree/mount", 0700), 0);
    CHECK_INT(mount("test", at, "tmpfs", 0, NULL), 0);
    make_file(fd, "tree/mount/f");
    CHECK_INT(remove_tree(fd, "tree"), -EBUSY);
    CHECK(is_there(fd, "tree/mount/f"));
    CHECK_INT(umount(at), 0);
    CHECK_INT(remove_tree(fd, "tree"), 0);
    CHECK(!is_there(fd, "tree"));
}

/* ---- memory ---- */

static long resident_kib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    CHECK(f && fscanf(f, "%*d %ld", &pages) == 1);
    (void)fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

TEST(small_blocks_that_were_freed_go_back_to_the_kernel)
{
    enum { BLOCKS = 64 << 10, SIZE = 1000 };
    static void *blocks[BLOCKS];
    auto_free char *last = NULL; /* above them, so that the heap cannot shrink */
    long full;

    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = memset(xmalloc(SIZE), 1, SIZE);
    last = xmalloc(SIZE);
    if (mallinfo2().uordblks < (size_t)BLOCKS * SIZE)
        SKIP("this is not the memory of the C library");
    full = resident_kib();
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    CHECK(resident_kib() > full - 8192);
    memory_trim();
    CHECK(resident_kib() < full - 49152);
}

/* ---- the log ---- */

#define LOGGERS 8

struct logger {
    pthread_t thread;
    atomic_int tid; /* 0 = not there yet */
    atomic_bool done;
};

static void *log_on(void *arg)
{
    struct logger *l = arg;
    char text[3000];

    atomic_store(&l->tid, (int)gettid());
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (int i = 0; i < 20; i++) /* by all of them more than a pipe takes */
        log_info("long", "text", text);
    atomic_store(&l->done, true);
    return NULL;
}

/* Does the thread sleep in write() to stderr? */
static bool waits_to_write(int tid)
{
    auto_free char *path = xasprintf("/proc/self/task/%d/", tid);
    auto_free char *syscall_path = xasprintf("%ssyscall", path), *stat = xasprintf("%sstat", path);
    char text[512], state = '?';
    long number = -1, fd = -1;

    if (read_file_at(AT_FDCWD, syscall_path, text, sizeof(text)) <= 0 ||
        sscanf(text, "%ld %li", &number, &fd) != 2 || number != SYS_write || fd != STDERR_FILENO)
        return false;
    return read_file_at(AT_FDCWD, stat, text, sizeof(text)) > 0 &&
           sscanf(text, "%*d (%*[^)]) %c", &state) == 1 && state == 'S';
}

/* What a pipe takes is looked at and then written: by two at once, the second would wait. Nobody
 * reads before all have logged, so a thread that sleeps in write() does so for ever. */
TEST(nobody_waits_for_a_log_that_is_not_read)
{
    int p[2], err_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    char text[65536];
    ssize_t n;

    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    CHECK_INT(dup2(p[1], STDERR_FILENO), STDERR_FILENO);
    CHECK_INT(fd_set_nonblock(p[0], true), 0);
    for (int round = 0; round < 300; round++) {
        struct logger loggers[LOGGERS] = {0};

        for (int i = 0; i < LOGGERS; i++)
            CHECK_INT(pthread_create(&loggers[i].thread, NULL, log_on, &loggers[i]), 0);
        for (int i = 0; i < LOGGERS; i++) {
            while (!atomic_load(&loggers[i].done)) {
                int tid = atomic_load(&loggers[i].tid);

                if (tid && waits_to_write(tid)) {
                    (void)dup2(err_fd, STDERR_FILENO);
                    TAP_FAIL("a thread waits for the reader of the log");
                }
                (void)poll(NULL, 0, 1);
            }
            CHECK_INT(pthread_join(loggers[i].thread, NULL), 0);
        }
        while (read_some(p[0], text, sizeof(text)) > 0)
            ;
    }
    log_info("after");
    n = read_some(p[0], text, sizeof(text) - 1);
    (void)dup2(err_fd, STDERR_FILENO);
    (void)close(err_fd);
    CHECK(n > 0);
    text[n] = '\0';
    CHECK(strstr(text, "lines_lost_before=") != NULL);
}

/* One line, without its end. */
static void log_line(int json, const char *value, char text[8192])
{
    int p[2];
    ssize_t n;

    CHECK_INT(pipe2(p, O_CLOEXEC), 0);
    CHECK_INT(dup2(p[1], STDERR_FILENO), STDERR_FILENO);
    log_setup(LOG_LEVEL_INFO, json);
    log_info("m", "a", value, "b", value, "c", value, "d", value, "e", "last");
    n = read_some(p[0], text, 8191);
    CHECK(n > 0 && text[n - 1] == '\n');
    text[n - 1] = '\0';
    (void)close(p[0]);
    (void)close(p[1]);
}

TEST(a_log_line_has_no_control_characters_and_is_json_however_long_its_values_are)
{
    char text[8192], value[5000];
    json_t *line;

    log_line(0, "a\x08\x07\xc2\x9b", text);
    CHECK(strstr(text, "a=\"a\\u0008\\u0007\\u009b\"") != NULL);
    /* What turns directions or ends a line, beside text that does neither. */
    log_line(0, "a\xe2\x80\xae\xe2\x80\xa9\xe2\x81\xa6\xd8\x9c", text);
    CHECK(strstr(text, "a=\"a\\u202e\\u2029\\u2066\\u061c\"") != NULL);
    log_line(0, "\xc3\xa9\xe2\x82\xac\xc2\xa0", text);
    CHECK(strstr(text, "a=\xc3\xa9\xe2\x82\xac\xc2\xa0 b=") != NULL);
    log_line(1, "a\xe2\x80\xae", text);
    CHECK(strstr(text, "\"a\":\"a\\u202e\"") != NULL);
    memset(value, '"', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    log_line(1, value, text);
    line = json_loads(text, 0, NULL);
    CHECK(line);
    CHECK_INT(json_string_length(json_object_get(line, "a")), 1000);
    CHECK_STR(json_string_value(json_object_get(line, "e")), "last");
    json_decref(line);
}

TEST(nobody_has_more_than_half_of_a_budget)
{
    struct budget b;

    budget_init(&b, 100);
    CHECK(budget_take_share(&b, "a", 50));
    CHECK(!budget_take_share(&b, "a", 1));
    CHECK(budget_take_share(&b, "b", 40));
    CHECK(!budget_take_share(&b, "c", 20));
    budget_give_share(&b, "a", 20);
    CHECK(budget_take_share(&b, "c", 20));
    CHECK(!budget_take_share(&b, "a", 20));
    budget_add_share(&b, "b", 60);
    CHECK(!budget_take_share(&b, "d", 1));
    budget_give_share(&b, "b", 100);
    budget_give_share(&b, "c", 20);
    CHECK(budget_take_share(&b, "a", 20));
    budget_give_share(&b, "a", 50);
    CHECK(b.used == 0 && !b.shares);
    budget_done(&b);
}

static pthread_mutex_t ended_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ended last_ended;
static unsigned n_ended;
static atomic_uint cleaned;

/* As libraries do behind a thread's function. */
static void clean_late(void *arg)
{
    (void)arg;
    usleep(2000);
    cleaned++;
}

static void *end_as_one_of_many(void *key)
{
    struct ended before;

    CHECK_INT(pthread_setspecific(*(pthread_key_t *)key, &cleaned), 0);
    (void)pthread_mutex_lock(&ended_lock);
    before = ended_swap(&last_ended);
    n_ended++;
    (void)pthread_mutex_unlock(&ended_lock);
    ended_join(before);
    return NULL;
}

TEST(who_waits_for_the_last_thread_has_waited_for_all)
{
    pthread_key_t key;
    unsigned n;

    ended_join(last_ended); /* of none */
    CHECK_INT(pthread_key_create(&key, clean_late), 0);
    for (int i = 0; i < 16; i++) {
        pthread_t thread;

        CHECK_INT(pthread_create(&thread, NULL, end_as_one_of_many, &key), 0);
    }
    do {
        (void)sched_yield();
        (void)pthread_mutex_lock(&ended_lock);
        n = n_ended;
        (void)pthread_mutex_unlock(&ended_lock);
    } while (n < 16);
    ended_join(last_ended);
    CHECK_INT(cleaned, 16);
}

TAP_MAIN
