#pragma once

/* `cay serve` with its own arguments (argv[0] is "serve"). Returns the exit status. */
int daemon_main(int argc, char **argv);
