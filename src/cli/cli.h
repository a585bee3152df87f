#pragma once

/* Every command of the CLI but `serve`. Returns the exit status. */
int cli_main(int argc, char **argv);
