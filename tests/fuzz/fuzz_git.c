/* Whatever a box puts out in git's name: it becomes JSON of the form that the API promises, and a
 * question for credentials is found only where the word of this command is. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "service/git.h"
#include "service/git_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t kept;

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void on_text(const char *data, size_t len, void *arg)
{
    (void)data;
    (void)arg;
    kept += len;
}

static void on_asked(const char *protocol, const char *host, void *arg)
{
    (void)protocol;
    (void)host;
    (void)arg;
    abort(); /* nobody can guess the word */
}

static void check_asks(const char *data, size_t size)
{
    const struct git_asks_ops ops = {.text = on_text, .asked = on_asked};
    struct git_asks a;

    git_asks_init(&a);
    kept = 0;
    git_asks_add(&a, data, size / 2, false, &ops);
    git_asks_add(&a, data + size / 2, size - size / 2, true, &ops);
    require(kept == size);
    git_asks_done(&a);
}

static void check_says(const char *data, size_t size)
{
    const struct buf out = {.data = (char *)data, .len = size};
    json_t *status = git_status_json(&out), *log = git_log_json(&out),
           *branches = git_branches_json(&out), *progress = git_progress_json(data, size), *entry;
    size_t i;

    require(json_is_string(json_object_get(status, "branch")));
    require(json_is_true(json_object_get(status, "clean")) ==
            (json_array_size(json_object_get(status, "files")) == 0));
    json_array_foreach(log, i, entry) require(json_object_size(entry) == 5);
    require(json_is_string(json_object_get(branches, "current")));
    require(!progress || json_integer_value(json_object_get(progress, "percent")) <= 100);
    json_decref(status);
    json_decref(log);
    json_decref(branches);
    json_decref(progress);
}

static void check_url(const char *text)
{
    auto_git_secret struct git_secret s = {0};
    auto_free char *clean = NULL;

    if (git_url_take(text, &clean, &s, NULL) < 0)
        return;
    require(clean[0] != '-');
    require(!s.host || !strchr(s.host, '@'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_free char *text = xstrndup((const char *)data, size);

    check_asks((const char *)data, size);
    check_says((const char *)data, size);
    check_url(text);
    return 0;
}
