#pragma once

/* The flags of `cay serve`, once: the daemon reads them (daemon/flags.c), the command line shows
 * them in its help, its manual page and its completions (cli/commands.c). VALUE(ID, name, value,
 * help) takes a value, SWITCH(ID, name, help) does not. */
#define SERVE_FLAGS(VALUE, SWITCH)                                                                 \
    VALUE(CONFIG, "config", "FILE",                                                                \
          "read the settings of iii's engine, or of its worker iii-sandbox, from there")           \
    VALUE(LISTEN, "listen", "HOST:PORT", "instead of CAY_REST_HOST and CAY_REST_PORT")             \
    VALUE(WS_PORT, "ws-port", "PORT", "instead of CAY_WS_PORT (49134); 0 = none")                  \
    VALUE(ENGINE, "engine", "URL",                                                                 \
          "be the worker of the iii engine at ws://host:port (CAY_ENGINE)")                        \
    SWITCH(STANDBY, "standby", "wait quietly while another worker has our place there")            \
    VALUE(DATA, "data", "DIR", "instead of CAY_DATA (/var/lib/cay)")                               \
    VALUE(RUN, "run", "DIR", "instead of CAY_RUN (/run/cay)")                                      \
    VALUE(TOKEN_FILE, "token-file", "FILE", "read the token from there")                           \
    SWITCH(NO_TCP, "no-tcp", "serve the unix socket <run>/cay.sock only")                          \
    SWITCH(REPLACE, "replace",                                                                     \
           "take over from the daemon that runs, if one does; no request is lost")                 \
    SWITCH(DETACH, "detach", "return when it serves, and leave it running")                        \
    SWITCH(INSECURE, "insecure", "listen beyond this machine without a token")                     \
    SWITCH(STOP_SANDBOXES, "stop-sandboxes", "on SIGTERM, end every sandbox too")                  \
    SWITCH(OPENAPI, "openapi", "print the OpenAPI description and end")

/* For programs that start a daemon: only `cay serve --help` shows them. */
#define SERVE_PROGRAM_FLAGS(VALUE)                                                                 \
    VALUE(READY_FD, "ready-fd", "N", "write \"ready\" to this descriptor when serving")            \
    VALUE(PARENT_FD, "exit-with-parent-fd", "N", "end when this descriptor reaches its end")       \
    VALUE(REMOVE, "remove", "DIR",                                                                 \
          "holds --data and --run; with --stop-sandboxes, remove it at the end")
