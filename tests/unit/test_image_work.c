/* Pruning; work that is watched, ended or killed; commit and export. */
#include "image_rig.h"

/* ---- pruning ---- */

static void used_ago(const char *name, int seconds)
{
    auto_free char *file = xasprintf("%s/data/images/names/%s.json", base, name);
    struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    json_t *o = json_load_file(file, 0, NULL);

    CHECK(o);
    (void)json_object_set_new(o, "pulled_ms", json_integer(1));
    CHECK_INT(json_dump_file(o, file, 0), 0);
    json_decref(o);
    CHECK_INT(utimensat(AT_FDCWD, file, times, 0), 0);
}

/* Images a, b, c of 10, 20, 30 bytes, last used 3, 2, 1 hours ago. */
static struct image_store *three_images(char *id_of_a)
{
    static const char *const content[] = {"0123456789", "01234567890123456789",
                                          "012345678901234567890123456789"};
    static const char *const names[] = {"a", "b", "c"};
    struct image_store *s = open_store();

    for (int i = 0; i < 3; i++) {
        struct image *image;

        small_tar(content[i]);
        image = import(s, in_base("image.tar"), names[i]);
        CHECK_INT(image->size, 10 * (i + 1));
        if (i == 0)
            (void)snprintf(id_of_a, 80, "%s", image->id);
        image_free(image);
        used_ago(names[i], (3 - i) * 3600);
    }
    return s;
}

/* "ab" = these went. */
static void prune(struct image_store *s, struct image_prune p, const char *want, int64_t want_bytes)
{
    struct image **removed;
    struct err err = {0};
    int64_t bytes;
    char got[16] = "";
    unsigned n;

    if (image_prune(s, &p, &removed, &n, &bytes, &err) < 0)
        TAP_FAIL("%s", err.text);
    for (unsigned i = 0; i < n; i++) {
        got[i] = removed[i]->name[0];
        image_free(removed[i]);
    }
    free(removed);
    CHECK_STR(got, want);
    CHECK_INT(bytes, want_bytes);
}

TEST(pruning_by_age_takes_what_was_not_used_for_that_long)
{
    struct image_store *s;
    char a[80];

    set_up();
    s = three_images(a);
    prune(s, (struct image_prune){.unused_ms = 5400000, .dry_run = true}, "ab", 30);
    prune(s, (struct image_prune){.unused_ms = 36000000}, "", 0);
    prune(s, (struct image_prune){.unused_ms = 5400000}, "ab", 30);
    collect(s, NULL);
    CHECK_INT(count_layers(), 1);
    prune(s, (struct image_prune){0}, "c", 30);
    collect(s, NULL);
    CHECK_INT(count_layers(), 0);
    image_store_free(s);
}

TEST(pruning_to_a_budget_takes_the_least_recently_used)
{
    struct image_store *s;
    char a[80];

    set_up();
    s = three_images(a);
    prune(s, (struct image_prune){.keep_bytes = 60}, "", 0);
    image_touch(s, "a");
    prune(s, (struct image_prune){.keep_bytes = 41, .dry_run = true}, "b", 20);
    prune(s, (struct image_prune){.keep_bytes = 10}, "bc", 50);
    image_store_free(s);
}

TEST(pruning_leaves_what_sandboxes_use)
{
    struct image_store *s;
    char a[80], *used[] = {a, NULL};

    set_up();
    s = three_images(a);
    prune(s, (struct image_prune){.used_ids = used}, "bc", 50);
    collect(s, a);
    CHECK_INT(count_layers(), 1);
    image_store_free(s);
}

TEST(what_images_share_counts_once_and_goes_with_the_last)
{
    struct image_store *s;
    struct image *image;
    char a[80];

    set_up();
    s = three_images(a);
    CHECK_INT(image_tag(s, "a", "d", &image, NULL), 0);
    image_free(image);
    prune(s, (struct image_prune){.unused_ms = 9000000}, "a", 0);
    prune(s, (struct image_prune){.keep_bytes = 59}, "b", 20);
    image_store_free(s);
}

/* ---- work that is watched, ended, killed ---- */

struct watch {
    struct image_store *store;
    unsigned events, resolving;
    bool stop, kill, collect;
};

static pid_t worker_pid(void)
{
    auto_free char *file = xasprintf("/proc/self/task/%d/children", getpid());
    char text[64] = "";

    CHECK(read_file_at(AT_FDCWD, file, text, sizeof(text)) > 0);
    return (pid_t)strtol(text, NULL, 10);
}

static int on_event(const json_t *event, void *arg)
{
    const char *name = json_string_value(json_object_get(event, "event"));
    struct watch *w = arg;
    char *none[] = {NULL};

    if (!event)
        return 0;
    w->events++;
    w->resolving += strcmp(name, "resolving") == 0;
    if (w->kill && w->events == 1)
        CHECK_INT(kill(worker_pid(), SIGKILL), 0);
    if (w->collect)
        CHECK_INT(image_collect(w->store, none, NULL), 0);
    return w->stop ? -1 : 0;
}

/* A registry that takes connections and says nothing. */
static int silent_registry(char *reference, size_t size)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 && listen(fd, 8) == 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    (void)snprintf(reference, size, "127.0.0.1:%u/x", ntohs(sa.sin_port));
    return fd;
}

/* The file under n more names, more than can be added: ids, or names of images. */
static void link_names(const char *folder, const char *file, bool ids, unsigned n)
{
    auto_close int fd = open(in_base(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (unsigned i = 0; i < n; i++) {
        auto_free char *name =
            ids ? xasprintf("%064x%s", i, strchr(file, '.')) : xasprintf("n:%u.json", i);

        CHECK_INT(linkat(fd, file, fd, name, 0), 0);
    }
}

TEST(more_names_than_can_be_added_are_listed_and_removed)
{
    struct image_prune prune = {.dry_run = true};
    auto_strv char **no_ids = xcalloc(1, sizeof(*no_ids));
    struct image **all, *image;
    struct image_store *s;
    struct err err = {0};
    int64_t bytes;
    unsigned n;

    set_up();
    s = open_store();
    small_tar("x");
    image_free(import(s, in_base("image.tar"), "a:1"));
    link_names("data/images/names", "a:1.json", false, NAMES_MAX + 1);
    CHECK_INT(image_list(s, &all, &n, &err), 0);
    CHECK_INT(n, NAMES_MAX + 3);
    while (n > 0)
        image_free(all[--n]);
    free(all);
    CHECK_INT(image_prune(s, &prune, &all, &n, &bytes, &err), 0);
    CHECK_INT(n, NAMES_MAX + 2);
    while (n > 0)
        image_free(all[--n]);
    free(all);
    CHECK_INT(image_collect(s, no_ids, &err), 0);
    CHECK_INT(image_tag(s, "a:1", "b:1", &image, &err), -1);
    CHECK_STR(err.code, "image_limit");
    CHECK_INT(err.kind, ERR_LIMIT);
    CHECK_INT(image_import(s, in_base("image.tar"), "b:1", NULL, NULL, &image, &err), -1);
    CHECK_STR(err.code, "image_limit");
    CHECK_INT(image_tag(s, "a:1", "n:5", &image, &err), 0); /* it is there already */
    image_free(image);
    for (unsigned i = 0; i < 3; i++) {
        auto_free char *name = xasprintf("n:%u", i);

        CHECK_INT(image_remove(s, name, false, &err), 0);
    }
    CHECK_INT(image_tag(s, "a:1", "b:1", &image, &err), 0);
    image_free(image);
    image_store_free(s);
}

TEST(more_records_than_can_be_added_do_not_keep_the_store_from_opening)
{
    auto_strv char **no_ids = xcalloc(1, sizeof(*no_ids));
    auto_free char *record = NULL, *document = NULL;
    struct image_store *s;
    struct image *image;
    struct err err = {0};

    set_up();
    s = open_store();
    small_tar("x");
    image = import(s, in_base("image.tar"), "a:1");
    record = xasprintf("%s.json", image->id + strlen(DIGEST_PREFIX));
    document = xasprintf("%s.config", image->id + strlen(DIGEST_PREFIX));
    image_free(image);
    link_names("data/images/records", record, true, RECORDS_MAX);
    link_names("data/images/records", document, true, RECORDS_MAX);
    image_store_free(s);
    s = open_store();
    small_tar("y");
    CHECK_INT(image_import(s, in_base("image.tar"), "b:1", NULL, NULL, &image, &err), -1);
    CHECK_STR(err.code, "image_limit");
    CHECK_INT(image_collect(s, no_ids, &err), 0);
    CHECK_INT(count_records(), 1);
    image_free(import(s, in_base("image.tar"), "b:1"));
    image_store_free(s);
}

TEST(work_that_nobody_waits_for_ends_and_leaves_nothing)
{
    char reference[64];
    struct watch w = {.stop = true};
    struct image_pull pull = {.reference = reference, .insecure = true};
    struct image_store *s;
    struct image *image;
    struct err err = {0};
    int fd;

    set_up();
    s = open_store();
    fd = silent_registry(reference, sizeof(reference));
    CHECK_INT(image_pull(s, &pull, on_event, &w, &image, &err), -1);
    CHECK_STR(err.code, "cancelled");
    CHECK_INT(w.events, 1);
    CHECK_INT(w.resolving, 1);
    CHECK_INT(count_layers(), 0);
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    (void)close(fd);
    image_store_free(s);
}

TEST(a_worker_that_is_killed_leaves_nothing)
{
    char reference[64];
    struct watch w = {.kill = true};
    struct image_pull pull = {.reference = reference, .insecure = true};
    struct image_store *s;
    struct image *image;
    struct err err = {0};
    int fd;

    set_up();
    s = open_store();
    fd = silent_registry(reference, sizeof(reference));
    CHECK_INT(image_pull(s, &pull, on_event, &w, &image, &err), -1);
    CHECK_STR(err.code, "image_worker_died");
    CHECK_INT(count_layers(), 0);
    small_tar("x"); /* and the store still works */
    image_free(import(s, in_base("image.tar"), "x"));
    (void)close(fd);
    image_store_free(s);
}

/* Puts the store on a disk of its own with `mib` MiB; other tests do not see it. */
static void small_disk(unsigned mib)
{
    auto_free char *size = xasprintf("size=%um", mib);

    own_mounts();
    CHECK_INT(mount("none", in_base("data"), "tmpfs", 0, size), 0);
}

TEST(a_disk_that_is_nearly_full_is_left_alone)
{
    auto_free char *much = xcalloc(1, (16u << 20) + 1);
    struct image_store *s;
    struct archive *a;
    struct image *image;
    struct err err = {0};

    set_up();
    small_disk(24);
    s = open_store();
    small_tar("x");
    if (image_import(s, in_base("image.tar"), "small", NULL, NULL, &image, &err) < 0)
        SKIP("needs a tmpfs whose mounts can translate ids (Linux 6.3)");
    image_free(image);
    memset(much, 'x', 16u << 20);
    a = tar_open(ARCHIVE_FILTER_NONE);
    put(a, entry("one", AE_IFREG, 0644), much);
    put(a, entry("two", AE_IFREG, 0644), much);
    tar_close(a);
    CHECK_INT(image_import(s, in_base("image.tar"), "large", NULL, NULL, &image, &err), -1);
    CHECK_STR(err.code, "no_space");
    CHECK_INT(err.kind, ERR_UNAVAILABLE);
    CHECK_INT(count_layers(), 1);
    image_store_free(s);
    (void)umount2(in_base("data"), MNT_DETACH);
}

/* Everything in a file of the worker's in /proc. */
static void worker_file(const char *name, char *text, size_t size)
{
    auto_free char *file = xasprintf("/proc/%d/%s", worker_pid(), name);
    ssize_t n = read_file_at(AT_FDCWD, file, text, size);

    CHECK(n > 0);
    for (ssize_t i = 0; i < n - 1; i++) /* environ has a NUL behind each */
        if (text[i] == '\0')
            text[i] = '\n';
}

static int look_at_worker(const json_t *event, void *arg)
{
    char text[8192];

    (void)event, (void)arg;
    worker_file("status", text, sizeof(text));
    /* DAC_OVERRIDE, SYS_ADMIN; tests/security/test_image_worker.py looks at what it starts */
    CHECK(strstr(text, "CapEff:\t0000000000200002\n"));
    CHECK(strstr(text, "CapBnd:\t0000000000200002\n"));
    CHECK(strstr(text, "NoNewPrivs:\t1\n"));
    worker_file("comm", text, sizeof(text));
    CHECK_STR(text, "cay-image\n");
    worker_file("environ", text, sizeof(text));
    CHECK(str_starts(text, "HOME="));
    CHECK(strstr(text, "\nPATH=") && !strstr(text, "CAY_IMAGE_WORKER"));
    return -1;
}

TEST(a_worker_has_only_the_rights_that_it_needs)
{
    char reference[64];
    struct image_pull pull = {.reference = reference, .insecure = true};
    struct image_store *s;
    struct image *image;
    int fd;

    set_up();
    s = open_store();
    fd = silent_registry(reference, sizeof(reference));
    CHECK_INT(image_pull(s, &pull, look_at_worker, NULL, &image, NULL), -1);
    (void)close(fd);
    image_store_free(s);
}

TEST(a_collection_beside_a_worker_takes_nothing_that_its_image_has)
{
    struct watch w = {.collect = true};
    struct image_store *s;
    struct image *image;
    struct err err = {0};

    set_up();
    w.store = s = open_store();
    make_pieces();
    docker_tar(ARCHIVE_FILTER_NONE, false, "app");
    image_free(import(s, in_base("image.tar"), NULL));
    CHECK_INT(image_remove(s, "app", false, NULL), 0);
    /* Its layers have no name now: they go while the worker, which found them here, is at work. */
    if (image_import(s, in_base("image.tar"), "again", on_event, &w, &image, &err) < 0)
        TAP_FAIL("%s", err.text);
    CHECK(w.events > 0);
    check_pieces(image);
    CHECK(count_layers() > 2); /* those that were set aside are not yet deleted */
    collect(s, NULL);
    CHECK_INT(count_layers(), 2);
    check_pieces(image);
    image_free(image);
    image_store_free(s);
}

TEST(a_pull_that_cannot_be_says_why)
{
    static const char *const bad[] = {"Bad Name", "host", "", "x/../y"};
    struct image_store *s;
    struct image *image;

    set_up();
    s = open_store();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct image_pull pull = {.reference = bad[i]};
        struct err err = {0};

        CHECK_INT(image_pull(s, &pull, NULL, NULL, &image, &err), -1);
        CHECK(err.kind == ERR_INVALID || err.kind == ERR_FORBIDDEN);
    }
    image_store_free(s);
}

/* ---- commit and export ---- */

/* What a sandbox with ids from 100000 on left in its own filesystem. */
static int make_scratch(void)
{
    int fd;

    CHECK_INT(mkdir(in_base("scratch"), 0755), 0);
    CHECK_INT(mkdir(in_base("scratch/upper"), 0755), 0);
    CHECK_INT(chown(in_base("scratch/upper"), 100000, 100000), 0);
    fd = open(in_base("scratch/upper/new"), O_CREAT | O_WRONLY | O_CLOEXEC, 0640);
    CHECK_INT(write_all(fd, "12345", 5), 0);
    CHECK_INT(fchown(fd, 101000, 100000), 0);
    (void)close(fd);
    CHECK_INT(mknod(in_base("scratch/upper/file"), S_IFCHR, 0), 0);
    CHECK_INT(chown(in_base("scratch/upper/file"), 100000, 100000), 0);
    return open(in_base("scratch"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

TEST(a_sandbox_becomes_an_image_on_top_of_its_own)
{
    json_t *config = json_pack("{s:[s,s], s:s, s:[s], s:{s:s}}", "env", "PATH=/bin", "B=2",
                               "workdir", "/work", "cmd", "top", "labels", "by", "me");
    struct image_store *s;
    struct image *below, *image, *found;
    struct err err = {0};
    auto_close int scratch = -1;

    set_up();
    s = open_store();
    small_tar("below");
    below = import(s, in_base("image.tar"), "below");
    scratch = make_scratch();
    CHECK_INT(image_remove(s, "below", false, NULL), 0); /* its name is gone, its sandbox is not */
    {
        struct image_commit commit = {.base_id = below->id,
                                      .name = "mine:1",
                                      .scratch_fd = scratch,
                                      .ids_base = 100000,
                                      .config = config};

        if (image_commit(s, &commit, &image, NULL, &err) < 0)
            TAP_FAIL("%s", err.text);
    }
    CHECK_INT(strv_len(image->layers), 3);
    CHECK_STR(image->layers[1], below->layers[0]);
    CHECK_INT(look(image, "new").st_uid, 1000);
    CHECK_INT(look(image, "new").st_gid, 0);
    CHECK(S_ISCHR(look(image, "file").st_mode));
    CHECK_INT(image->size, 10);
    CHECK_STR(image->env[1], "B=2");
    CHECK_STR(image->workdir, "/work");
    CHECK_STR(image->cmd[0], "top");
    CHECK_STR(json_string_value(json_object_get(image->labels, "by")), "me");
    collect(s, NULL);
    CHECK_INT(image_get(s, "mine:1", &found, NULL), 0);
    CHECK_STR(found->id, image->id);
    CHECK_INT(count_layers(), 2);
    image_free(found);
    image_free(image);
    image_free(below);
    json_decref(config);
    image_store_free(s);
}

TEST(what_was_committed_on_the_host_stands_on_the_host)
{
    struct image_commit commit = {.base_id = "host", .name = "mine", .ids_base = 100000};
    struct image_store *s;
    struct image *host, *image, *again;
    struct err err = {0};
    auto_close int scratch = -1;

    set_up();
    s = open_store();
    commit.scratch_fd = scratch = make_scratch();
    if (image_commit(s, &commit, &image, NULL, &err) < 0)
        TAP_FAIL("%s", err.text);
    CHECK_INT(image_get(s, "host", &host, NULL), 0);
    CHECK_INT(strv_len(image->layers), 2);
    CHECK_STR(image->layers[1], host->layers[0]);
    CHECK_STR(image->binds[0], "/usr");
    CHECK_INT(image_export(s, "mine", scratch, &err), -1);
    CHECK_INT(err.kind, ERR_UNSUPPORTED);
    CHECK_INT(image_export(s, "host", scratch, &err), -1);
    CHECK_INT(err.kind, ERR_UNSUPPORTED);
    /* And one more on top of that. */
    commit.base_id = image->id;
    commit.name = "more";
    if (image_commit(s, &commit, &again, NULL, &err) < 0)
        TAP_FAIL("%s", err.text);
    CHECK_STR(again->layers[strv_len(again->layers) - 1], host->layers[0]);
    image_free(again);
    image_free(image);
    image_free(host);
    image_store_free(s);
}

TEST(an_image_in_use_on_the_host_keeps_old_host_layers)
{
    struct image_commit commit = {.base_id = "host", .name = "mine", .ids_base = 100000};
    static const char old[] = "data/images/host/"
                              "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    struct image_store *s;
    struct image *image;
    auto_close int scratch = -1;

    set_up();
    s = open_store();
    commit.scratch_fd = scratch = make_scratch();
    CHECK_INT(image_commit(s, &commit, &image, NULL, NULL), 0);
    CHECK_INT(mkdir(in_base(old), 0755), 0);
    collect(s, image->id);
    CHECK_INT(access(in_base(old), F_OK), 0);
    collect(s, NULL);
    CHECK_INT(access(in_base(old), F_OK), -1);
    image_free(image);
    image_store_free(s);
}

/* Into image.tar. */
static void export_image(struct image_store *s, const char *name)
{
    auto_close int fd = open(in_base("image.tar"), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    struct err err = {0};

    if (image_export(s, name, fd, &err) < 0)
        TAP_FAIL("%s", err.text);
}

TEST(what_is_exported_comes_back_the_same)
{
    struct image_store *s;
    struct image *first, *second, *third;

    set_up();
    s = open_store();
    make_pieces();
    docker_tar(ARCHIVE_FILTER_NONE, false, "team/app:1");
    first = import(s, in_base("image.tar"), NULL);
    export_image(s, "team/app:1");
    CHECK_INT(count_layers(), 2);
    CHECK_INT(image_remove(s, "team/app:1", false, NULL), 0);
    collect(s, NULL);
    second = import(s, in_base("image.tar"), NULL);
    CHECK_STR(second->name, "team/app:1");
    check_pieces(second);
    CHECK_STR(second->env[0], first->env[0]);
    /* Packed once more it is the very same. */
    export_image(s, second->id);
    third = import(s, in_base("image.tar"), "third");
    CHECK_STR(third->id, second->id);
    CHECK_INT(count_layers(), 2);
    image_free(first);
    image_free(second);
    image_free(third);
    image_store_free(s);
}

struct exporting {
    struct image_store *store;
    int fd, result;
    struct err err;
};

static void *export_to_pipe(void *arg)
{
    struct exporting *x = arg;

    x->result = image_export(x->store, "top", x->fd, &x->err);
    close_fd(&x->fd);
    return NULL;
}

/* Two layers that are each larger than a pipe and the blocks before it. */
static void make_large(struct image_store *s)
{
    auto_free char *noise = xcalloc(1, 400000);
    struct image_commit commit = {.name = "top", .ids_base = 100000};
    auto_close int scratch = -1, fd = -1;
    struct image *below, *top;
    struct err err = {0};

    memset(noise, 'x', 399999);
    small_tar(noise);
    below = import(s, in_base("image.tar"), "below");
    commit.scratch_fd = scratch = make_scratch();
    commit.base_id = below->id;
    fd = open(in_base("scratch/upper/large"), O_CREAT | O_WRONLY | O_CLOEXEC, 0640);
    CHECK_INT(write_all(fd, noise, 399999), 0);
    CHECK_INT(fchown(fd, 100000, 100000), 0);
    if (image_commit(s, &commit, &top, NULL, &err) < 0)
        TAP_FAIL("%s", err.text);
    image_free(below);
    image_free(top);
}

TEST(an_image_that_is_removed_while_it_is_exported_is_exported_whole)
{
    auto_close int tar = -1;
    struct exporting x;
    struct image *image;
    int ends[2];
    pthread_t thread;
    char data[65536];
    ssize_t n;

    set_up();
    x = (struct exporting){.store = open_store()};
    make_large(x.store);
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    x.fd = ends[1];
    CHECK_INT(pthread_create(&thread, NULL, export_to_pipe, &x), 0);
    n = read(ends[0], data, 1); /* it is under way, and the second layer is not yet read */
    CHECK_INT(n, 1);
    CHECK_INT(image_remove(x.store, "top", false, NULL), 0);
    CHECK_INT(image_remove(x.store, "below", false, NULL), 0);
    collect(x.store, NULL);
    tar = open(in_base("image.tar"), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    do
        CHECK_INT(write_all(tar, data, (size_t)n), 0);
    while ((n = read(ends[0], data, sizeof(data))) > 0);
    CHECK_INT(pthread_join(thread, NULL), 0);
    if (x.result < 0)
        TAP_FAIL("%s", x.err.text);
    collect(x.store, NULL); /* now they go */
    CHECK_INT(count_layers(), 0);
    image = import(x.store, in_base("image.tar"), NULL);
    CHECK_INT(look(image, "large").st_size, 399999);
    CHECK_INT(image->size, 2 * 399999 + 5);
    image_free(image);
    image_store_free(x.store);
}

static void check_full(const struct err *err)
{
    CHECK_STR(err->code ? err->code : "", "no_space");
    CHECK_INT(err->kind, ERR_UNAVAILABLE);
    CHECK(strstr(err->text, "cay image prune"));
}

TEST(a_full_disk_is_said_to_be_one_and_nothing_stays_of_what_did_not_fit)
{
    struct image_commit commit = {.name = "b", .ids_base = 100000};
    auto_free char *much = xcalloc(1, 3 << 20);
    auto_close int scratch = -1, fd = -1, null = -1;
    struct image *image, *small;
    struct image_store *s;
    struct err err = {0};

    set_up();
    small_disk(8);
    s = open_store();
    small_tar("x");
    small = import(s, in_base("image.tar"), "small");
    memset(much, 'x', (3 << 20) - 1);
    small_tar(much);
    image_free(import(s, in_base("image.tar"), "a"));
    /* An export packs a layer of 3 MB beside itself; with what else is there that is too much. */
    CHECK_INT(close(open(in_base("data/filler"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    fd = open(in_base("data/filler"), O_WRONLY | O_CLOEXEC);
    CHECK_INT(posix_fallocate(fd, 0, 3 << 20), 0);
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK_INT(image_export(s, "a", null, &err), -1);
    check_full(&err);
    much[0] = 'y';
    small_tar(much);
    err = (struct err){0};
    CHECK_INT(image_import(s, in_base("image.tar"), "b", NULL, NULL, &image, &err), -1);
    check_full(&err);
    commit.scratch_fd = scratch = make_scratch();
    commit.base_id = small->id;
    {
        auto_close int big =
            open(in_base("scratch/upper/big"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

        CHECK_INT(write_all(big, much, (3 << 20) - 1), 0);
        CHECK_INT(fchown(big, 100000, 100000), 0);
    }
    err = (struct err){0};
    CHECK_INT(image_commit(s, &commit, &image, NULL, &err), -1);
    check_full(&err);
    CHECK_INT(count_layers(), 2);
    CHECK_INT(count_records(), 2);
    CHECK_INT(ftruncate(fd, 0), 0); /* with room it works */
    CHECK_INT(image_export(s, "a", null, NULL), 0);
    image_free(small);
    image_store_free(s);
    (void)umount2(in_base("data"), MNT_DETACH);
}

TEST(an_export_that_nobody_reads_fails_and_leaves_nothing)
{
    struct image_store *s;
    struct err err = {0};
    int ends[2];

    set_up();
    s = open_store();
    small_tar("x");
    image_free(import(s, in_base("image.tar"), "x"));
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    (void)close(ends[0]);
    CHECK_INT(image_export(s, "x", ends[1], &err), -1);
    CHECK_STR(err.code, "cancelled");
    CHECK_INT(count_layers(), 1);
    CHECK_INT(image_export(s, "none", ends[1], &err), -1);
    CHECK_INT(err.kind, ERR_NOT_FOUND);
    (void)close(ends[1]);
    image_store_free(s);
}

TAP_MAIN
