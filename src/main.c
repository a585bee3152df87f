#include <string.h>

#include "cli/cli.h"
#include "daemon/daemon.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        return daemon_main(argc - 1, argv + 1);
    return cli_main(argc, argv);
}
