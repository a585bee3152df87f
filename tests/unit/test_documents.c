#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/documents.h"
#include "tap.h"
#include "tmpdir.h"

#define ID_A "vol_a00000000000000000000000"
#define ID_B "vol_b00000000000000000000000"

static bool has_name(json_t *o)
{
    return json_is_string(json_object_get(o, "name"));
}

static struct documents *open_in(const char *dir)
{
    struct documents *d = NULL;
    struct err err = {0};

    if (documents_open(dir, "volumes", has_name, &d, &err) < 0)
        TAP_FAIL("documents_open: %s", err.text);
    return d;
}

static void put(struct documents *d, const char *id, int made, const char *name)
{
    struct err err = {0};

    if (documents_put(d, id,
                      json_pack("{s:s, s:i, s:s}", "id", id, "createdAt", made, "name", name),
                      &err) < 0)
        TAP_FAIL("documents_put: %s", err.text);
}

static void expect_name(struct documents *d, const char *id, const char *want)
{
    json_t *o = documents_get(d, id);

    CHECK_STR(json_string_value(json_object_get(o, "name")), want);
    json_decref(o);
}

TEST(what_was_put_is_there_after_a_start_in_the_order_of_making)
{
    auto_dir char *dir = dir_new();
    struct documents *d = open_in(dir);
    json_t *all;

    put(d, ID_B, 1, "first");
    put(d, ID_A, 2, "second");
    put(d, ID_A, 2, "renamed");
    documents_close(d);
    d = open_in(dir);
    CHECK_INT(documents_count(d), 2);
    expect_name(d, ID_A, "renamed");
    all = documents_all(d);
    CHECK_STR(json_string_value(json_object_get(json_array_get(all, 0), "id")), ID_B);
    CHECK_STR(json_string_value(json_object_get(json_array_get(all, 1), "id")), ID_A);
    json_decref(all);
    documents_close(d);
}

TEST(what_they_take_is_counted)
{
    auto_dir char *dir = dir_new();
    struct documents *d = open_in(dir);
    size_t one, two;

    CHECK_INT(documents_bytes(d), 0);
    put(d, ID_A, 1, "a");
    one = documents_bytes(d);
    put(d, ID_B, 2, "bb");
    two = documents_bytes(d);
    CHECK_INT(two, 2 * one + 1);
    put(d, ID_B, 2, "b");
    CHECK_INT(documents_bytes(d), 2 * one);
    documents_close(d);
    d = open_in(dir);
    CHECK_INT(documents_bytes(d), 2 * one);
    CHECK_INT(documents_delete(d, ID_A, NULL), 0);
    CHECK_INT(documents_delete(d, ID_A, NULL), 0);
    CHECK_INT(documents_bytes(d), one);
    documents_close(d);
}

TEST(what_was_deleted_stays_deleted)
{
    auto_dir char *dir = dir_new();
    struct documents *d = open_in(dir);

    put(d, ID_A, 1, "a");
    CHECK_INT(documents_delete(d, ID_A, NULL), 0);
    CHECK_INT(documents_delete(d, ID_A, NULL), 0);
    CHECK(!documents_get(d, ID_A));
    documents_close(d);
    d = open_in(dir);
    CHECK_INT(documents_count(d), 0);
    documents_close(d);
}

TEST(a_damaged_one_is_set_aside_and_the_others_are_read)
{
    auto_dir char *dir = dir_new();
    struct documents *d = open_in(dir);
    auto_free char *file = xasprintf("%s/volumes/" ID_A ".json", dir);
    auto_free char *aside = xasprintf("%s.damaged", file);

    put(d, ID_A, 1, "a");
    put(d, ID_B, 2, "b");
    documents_close(d);
    CHECK_INT(truncate(file, 5), 0);
    d = open_in(dir);
    CHECK_INT(documents_count(d), 1);
    expect_name(d, ID_B, "b");
    CHECK_INT(access(aside, F_OK), 0);
    documents_close(d);
}

TEST(one_that_is_none_of_these_is_set_aside)
{
    auto_dir char *dir = dir_new();
    struct documents *d = open_in(dir);

    CHECK_INT(documents_put(d, ID_A, json_pack("{s:s}", "id", ID_A), NULL), 0);
    put(d, ID_B, 2, "b");
    documents_close(d);
    d = open_in(dir);
    CHECK_INT(documents_count(d), 1);
    CHECK(documents_some_aside(d));
    documents_close(d);
}

TEST(one_that_cannot_be_read_now_is_no_damaged_one)
{
    auto_dir char *dir = dir_new();
    struct documents *d = open_in(dir);
    auto_free char *file = xasprintf("%s/volumes/" ID_A ".json", dir);
    struct rlimit was, few;
    struct err err = {0};

    put(d, ID_A, 1, "a");
    documents_close(d);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = was;
    few.rlim_cur = (rlim_t)dup(0) + 2; /* the folder, and its names */
    CHECK_INT(close((int)few.rlim_cur - 2), 0);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
    CHECK_INT(documents_open(dir, "volumes", has_name, &d, &err), -1);
    CHECK_INT(err.sys, EMFILE);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &was), 0);
    CHECK_INT(access(file, F_OK), 0);
    d = open_in(dir);
    expect_name(d, ID_A, "a");
    CHECK(!documents_some_aside(d));
    documents_close(d);
}

TEST(a_name_that_is_longer_than_any_id_is_no_document)
{
    auto_dir char *dir = dir_new();
    struct documents *d = open_in(dir);
    auto_free char *file = xasprintf("%s/volumes/" ID_A ID_B ".json", dir);
    FILE *f = fopen(file, "w");

    documents_close(d);
    CHECK(f && fputs("{\"id\": \"" ID_A ID_B "\"}", f) >= 0 && fclose(f) == 0);
    d = open_in(dir);
    CHECK_INT(documents_count(d), 0);
    CHECK(documents_some_aside(d));
    documents_close(d);
    d = open_in(dir); /* and at every start after that */
    CHECK(documents_some_aside(d));
    documents_close(d);
}

TEST(one_that_cannot_be_written_stays_as_it_was)
{
    auto_dir char *dir = dir_new();
    struct documents *d = open_in(dir);
    auto_free char *file = xasprintf("%s/volumes/" ID_A ".json", dir);
    struct err err = {0};

    put(d, ID_A, 1, "a");
    CHECK_INT(unlink(file), 0);
    CHECK_INT(mkdir(file, 0700), 0); /* which no file replaces */
    CHECK_INT(documents_put(d, ID_A, json_pack("{s:s}", "id", ID_A), &err), -1);
    expect_name(d, ID_A, "a");
    documents_close(d);
}

TAP_MAIN
