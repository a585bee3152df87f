#include "cli/link_names.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#define WORDS_MAX 2

static const struct {
    const char *name, *from[WORDS_MAX], *to;
    bool reads_here; /* the file of settings of the folder that it is started in, unless told */
} links[] = {
    {"iii", {"sandbox"}, "sandbox", false},
    {"iii", {"worker", "sandbox"}, "sandbox", false},
    {"iii", {"trigger"}, "trigger", false},
    {"iii-worker", {"sandbox"}, "sandbox", false},
    {"iii-worker", {"sandbox-daemon"}, "worker", true},
    {"iii", {"--version"}, "--version", false},
    {"iii-worker", {"--version"}, "--version", false},
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool is_link(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        if (strcmp(links[i].name, name) == 0)
            return true;
    return false;
}

/* How many words the row takes off the line; 0 = it is for another. */
static int matches(size_t row, int argc, char **argv)
{
    int n = 0;

    while (n < WORDS_MAX && links[row].from[n]) {
        if (n >= argc || strcmp(argv[n], links[row].from[n]) != 0)
            return 0;
        n++;
    }
    return n;
}

static bool has_config(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--config") == 0 || str_starts(argv[i], "--config=") ||
            strcmp(argv[i], "--help") == 0)
            return true;
    return false;
}

/* The word of the row, then what follows. */
static char **rewritten(size_t row, int argc, char **argv, int *ret_argc)
{
    char **line = xcalloc((size_t)argc + 5, sizeof(char *));
    int n = 0;

    line[n++] = (char *)"cay";
    line[n++] = (char *)(uintptr_t)links[row].to;
    if (links[row].reads_here && !has_config(argc, argv)) {
        line[n++] = (char *)"--config";
        line[n++] = (char *)"./config.yaml";
    }
    for (int i = 0; i < argc; i++)
        line[n++] = argv[i];
    *ret_argc = n;
    return line;
}

char **link_names(int argc, char **argv, int *ret_argc, struct err *err)
{
    const char *name = argc > 0 ? base_name(argv[0]) : "";

    if (err)
        *err = (struct err){0};
    if (!is_link(name))
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        int used = strcmp(links[i].name, name) == 0 ? matches(i, argc - 1, argv + 1) : 0;

        if (used > 0)
            return rewritten(i, argc - 1 - used, argv + 1 + used, ret_argc);
    }
    (void)err_set(err, ERR_INVALID, "%s here is cay, which has of it only: %s", name,
                  strcmp(name, "iii") == 0 ? "iii sandbox, iii worker sandbox, iii trigger"
                                           : "iii-worker sandbox, iii-worker sandbox-daemon");
    return NULL;
}
