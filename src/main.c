#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/link_names.h"
#include "cli/next_worker.h"
#include "daemon/daemon.h"

static int run(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "serve") == 0 || strcmp(argv[1], "worker") == 0))
        return daemon_main(argc - 1, argv + 1);
    return cli_main(argc, argv);
}

int main(int argc, char **argv)
{
    struct err err;
    int n, status;
    char **line = link_names(argc, argv, &n, &err);

    if (!line && err.kind != ERR_NONE && link_is_worker(argv[0]))
        return next_worker_run(argc, argv, &err);
    if (!line && err.kind != ERR_NONE) {
        (void)fprintf(stderr, "%s\n", err.text);
        return STATUS_USAGE;
    }
    status = line ? run(n, line) : run(argc, argv);
    free(line);
    return status;
}
