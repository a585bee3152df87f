#pragma once

/* `cay serve` with its own arguments (argv[0] is "serve"), or `cay worker` ("worker"), which is the
 * same with an engine. Returns the exit status. */
int daemon_main(int argc, char **argv);
