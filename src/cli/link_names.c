#include "cli/link_names.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#define WORDS_MAX 2
#define WORKER    "iii-worker"

static const struct {
    const char *name, *from[WORDS_MAX], *to;
    bool reads_here; /* the file of settings of the folder that it is started in, unless told */
} links[] = {
    {"iii", {"sandbox"}, "sandbox", false},       {"iii", {"worker", "sandbox"}, "sandbox", false},
    {"iii", {"trigger"}, "trigger", false},       {WORKER, {"sandbox"}, "sandbox", false},
    {WORKER, {"sandbox-daemon"}, "worker", true}, {"iii", {"--version"}, "--version", false},
    {WORKER, {"--version"}, "--version", false},
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

/* ---- iii --config FILE ---- */

/* The value of -c FILE, -cFILE, -c=FILE, --config FILE or --config=FILE, at the front of the line;
 * NULL when the line begins with something else. *ret_used: how many words that is. */
static const char *config_value(int argc, char **argv, int *ret_used)
{
    const char *word = argc > 0 ? argv[0] : "", *rest = NULL;

    if (str_starts(word, "--config"))
        rest = word + strlen("--config");
    else if (str_starts(word, "-c"))
        rest = word + strlen("-c");
    if (!rest || (*rest && *rest != '=' && word[1] == '-'))
        return NULL;
    *ret_used = 1;
    if (*rest)
        return rest + (*rest == '=');
    *ret_used = 2;
    return argc > 1 ? argv[1] : NULL;
}

/* "iii --config FILE" starts an engine: cay serve with that file. NULL when the line is another. */
static char **serve_line(int argc, char **argv, int *ret_argc)
{
    const char *file;
    int used = 0, n = 0;
    char **line;

    file = config_value(argc, argv, &used);
    if (!file)
        return NULL;
    line = xcalloc((size_t)(argc - used) + 5, sizeof(char *));
    line[n++] = (char *)"cay";
    line[n++] = (char *)"serve";
    line[n++] = (char *)"--config";
    line[n++] = (char *)(uintptr_t)file;
    for (int i = used; i < argc; i++)
        line[n++] = argv[i];
    *ret_argc = n;
    return line;
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

bool link_is_worker(const char *program)
{
    return strcmp(base_name(program), WORKER) == 0;
}

char **link_names(int argc, char **argv, int *ret_argc, struct err *err)
{
    const char *name = argc > 0 ? base_name(argv[0]) : "";
    char **line = NULL;

    if (err)
        *err = (struct err){0};
    if (!is_link(name))
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        int used = strcmp(links[i].name, name) == 0 ? matches(i, argc - 1, argv + 1) : 0;

        if (used > 0)
            return rewritten(i, argc - 1 - used, argv + 1 + used, ret_argc);
    }
    if (strcmp(name, "iii") == 0)
        line = serve_line(argc - 1, argv + 1, ret_argc);
    if (!line)
        (void)err_set(
            err, ERR_INVALID, "%s is cay here and knows only %s", name,
            strcmp(name, "iii") == 0
                ? "iii --config FILE, iii sandbox, iii worker sandbox and iii trigger; images are "
                  "pulled with cay image pull"
                : "iii-worker sandbox and iii-worker sandbox-daemon");
    return line;
}
