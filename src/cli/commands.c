#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "model/serve_flags.h"

/* ---- flags ---- */

#define JSON_FLAG                                                                                  \
    {                                                                                              \
        "json", 0, FLAG_BOOL, NULL, "print JSON"                                                   \
    }
#define QUIET_FLAG                                                                                 \
    {                                                                                              \
        "quiet", 'q', FLAG_BOOL, NULL, "print no notes"                                            \
    }
#define ANYWHERE_FLAG                                                                              \
    {                                                                                              \
        "anywhere", 0, FLAG_BOOL, NULL, "also allow paths outside the workspace"                   \
    }
#define RAW_FLAG                                                                                   \
    {                                                                                              \
        "raw", 0, FLAG_BOOL, NULL, "send control bytes to the terminal as they are"                \
    }

#define ENV_FLAGS                                                                                  \
    {"env",                                                                                        \
     'e',                                                                                          \
     FLAG_LIST,                                                                                    \
     "K=V",                                                                                        \
     "environment variable; K alone passes this shell's on",                                       \
     .offers = "variable"},                                                                        \
    {                                                                                              \
        "env-file", 0, FLAG_LIST, "FILE", "lines of K=V or K; what begins with # is passed over",  \
            .offers = "file", .is_here = true                                                      \
    }

#define ULIMIT_FLAG                                                                                \
    {                                                                                              \
        "ulimit", 0, FLAG_LIST, "NAME=SOFT[:HARD]",                                                \
            "limit of the command's process: nofile=1024, core=0, fsize=unlimited"                 \
    }

#define NETWORK_FLAGS                                                                              \
    {"network",                                                                                    \
     0,                                                                                            \
     FLAG_MAYBE,                                                                                   \
     "[=WHAT]",                                                                                    \
     "what it may reach: public (without WHAT), none (the default), packages, profiles as "        \
     "pypi,npm, or FILE.json",                                                                     \
     .also = "net",                                                                                \
     .choices = "none public packages allow-all bridge default host"},                             \
        {"allow", 0, FLAG_LIST, "HOST[:PORT]",                                                     \
         "let it reach this too, or only this: a name, *.NAME, an address, a range or a group"},   \
    {                                                                                              \
        "deny", 0, FLAG_LIST, "HOST[:PORT]", "refuse this, whatever else it may reach"             \
    }

#define SPEC_FLAGS                                                                                 \
    {"name", 'n', FLAG_TEXT, "NAME", "name of the sandbox; the id when absent"},                   \
        {"memory", 'm', FLAG_MB, "MB", "memory limit (512 unless the daemon says otherwise)"},     \
        {"cpu", 'c', FLAG_NUMBER, "CORES",                                                         \
         "processor limit (1 unless the daemon says otherwise)"},                                  \
        {"pids",                                                                                   \
         0,                                                                                        \
         FLAG_COUNT,                                                                               \
         "N",                                                                                      \
         "limit on processes and threads (1024 unless the daemon says otherwise)",                 \
         .also = "pids-limit"},                                                                    \
        {"disk", 0, FLAG_MB, "MB", "disk limit"}, ENV_FLAGS,                                       \
        {"workdir", 'w', FLAG_TEXT, "DIR", "where commands start (default: the image's)"},         \
        {"template",                                                                               \
         0,                                                                                        \
         FLAG_TEXT,                                                                                \
         "NAME",                                                                                   \
         "template to make it from, in place of IMAGE; other flags go over what it says",          \
         .offers = "template"},                                                                    \
        NETWORK_FLAGS,                                                                             \
        {"volume",                                                                                 \
         'v',                                                                                      \
         FLAG_LIST,                                                                                \
         "VOLUME:PATH[:ro]",                                                                       \
         "mount a volume, or DIR:PATH of the host",                                                \
         .offers = "volume-place"},                                                                \
        {"connect",          0, FLAG_LIST, "NETWORK", "connect it to a network of sandboxes",      \
         .offers = "network"},                                                                     \
        {"tmpfs", 0, FLAG_LIST, "PATH[:size=64m]", "mount a folder in memory"},                    \
        {"mount", 0, FLAG_LIST, "K=V,...",                                                         \
         "type=volume|bind|tmpfs,src=,dst=,ro,noexec,subpath=,size="},                             \
        {"publish", 'p', FLAG_LIST, "[[IP:]HOST:]PORT[/udp]",                                      \
         "reach a port of it on the host: 8080:80, or 80 for any free one"},                       \
        {"copy",                                                                                   \
         0,                                                                                        \
         FLAG_LIST,                                                                                \
         "SRC:DST",                                                                                \
         "put a file or folder of this machine into it before anything runs",                      \
         .is_here = true},                                                                         \
        {"patch",                                                                                  \
         0,                                                                                        \
         FLAG_LIST,                                                                                \
         "FILE",                                                                                   \
         "change its files before anything runs, as a JSON array says; - is stdin",                \
         .is_here = true},                                                                         \
    {                                                                                              \
        "pull", 0, FLAG_TEXT, "WHEN",                                                              \
            "pull the image: always, missing or never (default missing)",                          \
            .choices = "always missing never"                                                      \
    }

#define ON_TIMEOUT_FLAG                                                                            \
    {                                                                                              \
        "on-timeout", 0, FLAG_TEXT, "WHAT",                                                        \
            "stop it when its time is over (the default), or remove it", .choices = "stop remove"  \
    }

#define TTY_FLAGS                                                                                  \
    {"tty", 't', FLAG_BOOL, NULL, "run on a terminal of its own"},                                 \
        {"interactive", 'i', FLAG_BOOL, NULL, "pass standard input on"}, RAW_FLAG

static const struct flag run_flags[] = {
    SPEC_FLAGS,
    TTY_FLAGS,
    {"user", 'u', FLAG_TEXT, "USER", "name, uid or uid:gid to run as"},
    ULIMIT_FLAG,
    {"timeout", 0, FLAG_TIME, "TIME",
     "end the command after this time: 30, 500ms, 5m; with -d the sandbox, 60s to what the daemon "
     "allows"},
    {"idle-timeout", 0, FLAG_TIME, "TIME",
     "with -d: stop it when nothing was done with it for so long: 10m; 0 for never, the default"},
    ON_TIMEOUT_FLAG,
    {"detach", 'd', FLAG_BOOL, NULL, "leave it running and print the sandbox's id"},
    {"rm", 0, FLAG_BOOL, NULL, "remove the sandbox at the end; so it is without -d and --keep"},
    {"keep", 0, FLAG_BOOL, NULL, "do not remove the sandbox at the end"},
    {"time", 0, FLAG_BOOL, NULL, "tell how long create and exec took"},
    {"json", 0, FLAG_BOOL, NULL, "print one object with the outputs, exit code and times"},
    QUIET_FLAG,
    {0},
};

static const struct flag create_flags[] = {
    SPEC_FLAGS,
    {"timeout", 0, FLAG_TIME, "TIME",
     "how long it lives: 60s to what the daemon allows (a day unless it says otherwise; default "
     "1h), or 0 for no end where it allows that"},
    {"idle-timeout", 0, FLAG_TIME, "TIME",
     "stop it when nothing was done with it for so long: 10m; 0 for never, the default"},
    ON_TIMEOUT_FLAG,
    {"metadata", 0, FLAG_LIST, "K=V", "note kept with the sandbox"},
    JSON_FLAG,
    QUIET_FLAG,
    {0},
};

static const struct flag exec_flags[] = {
    TTY_FLAGS,
    {"workdir", 'w', FLAG_TEXT, "DIR", "where the command starts", .also = "cwd"},
    {"user", 'u', FLAG_TEXT, "USER", "name, uid or uid:gid to run as"},
    ENV_FLAGS,
    ULIMIT_FLAG,
    {"timeout", 0, FLAG_TIME, "TIME", "end the command after this time: 30, 500ms, 5m"},
    {"detach", 'd', FLAG_BOOL, NULL,
     "leave it running and print its id; with -t `cay attach` comes back"},
    {"json", 0, FLAG_BOOL, NULL,
     "print one object with the outputs and exit code, or with -d the id"},
    {0},
};

static const struct flag attach_flags[] = {
    {"no-input", 0, FLAG_BOOL, NULL, "read along only; another may have the input"},
    {"end", 0, FLAG_BOOL, NULL, "end the command and all that it started, instead"},
    RAW_FLAG,
    {0},
};

static const struct flag shell_flags[] = {
    {"session", 's', FLAG_TEXT, "TERM", "come back to this one instead", .offers = "session"},
    {"shell", 0, FLAG_TEXT, "NAME", "bash, zsh, sh or ash (default: the first that there is)",
     .choices = "bash zsh sh ash"},
    {"user", 'u', FLAG_TEXT, "USER", "name, uid or uid:gid to run as"},
    {"workdir", 'w', FLAG_TEXT, "DIR", "where it starts", .also = "cwd"},
    ENV_FLAGS,
    {"read-only", 'r', FLAG_BOOL, NULL, "look on, type nothing", .also = "ro"},
    {"record", 0, FLAG_BOOL, NULL, "write down what it shows (asciicast)"},
    {"end", 0, FLAG_BOOL, NULL, "end the session and all that it started, instead"},
    {"ls", 0, FLAG_BOOL, NULL, "list sessions, of all sandboxes without ID"},
    JSON_FLAG,
    {0},
};

static const struct flag ls_flags[] = {
    {"all", 'a', FLAG_BOOL, NULL, "all of them, however many"},
    {"status", 0, FLAG_TEXT, "STATUS",
     "only those: running, paused, stopped, or expired (stopped when their time was over)",
     .choices = "creating running paused stopped expired"},
    {"quiet", 'q', FLAG_BOOL, NULL, "ids only"},
    JSON_FLAG,
    {0},
};

static const struct flag events_flags[] = {
    {"follow", 'f', FLAG_BOOL, NULL, "go on as more happens, also over a restart of the daemon"},
    {"topic", 't', FLAG_LIST, "TOPIC", "only this topic; exec.* is all that begin so"},
    {"sandbox", 's', FLAG_TEXT, "ID", "only of this sandbox, which may be gone",
     .offers = "sandbox"},
    {"since", 0, FLAG_TIME, "TIME", "from so long ago: 30s, 5m, 2h, 7d"},
    {"tail", 'n', FLAG_COUNT, "N", "only the last N (default 50; with --since 1000)"},
    {"json", 0, FLAG_BOOL, NULL, "one JSON object a line"},
    {0},
};

static const struct flag logs_flags[] = {
    {"follow", 'f', FLAG_BOOL, NULL, "go on as more comes, until it ends"},
    {"tail", 'n', FLAG_COUNT, "N", "only the last N lines (default 100 for a sandbox)"},
    RAW_FLAG,
    {"timestamps", 't', FLAG_BOOL, NULL, "when each line was written, before it (sandboxes only)"},
    {"json", 0, FLAG_BOOL, NULL, "one JSON object a line (sandboxes only)"},
    {"network", 0, FLAG_BOOL, NULL, "what it was refused by its network policy, as `cay net log`"},
    {0},
};

static const struct flag net_set_flags[] = {
    {"allow", 0, FLAG_LIST, "HOST[:PORT]", "let it reach this too, or only this"},
    {"deny", 0, FLAG_LIST, "HOST[:PORT]", "refuse this, whatever else it may reach"},
    JSON_FLAG,
    QUIET_FLAG,
    {0},
};

static const struct flag net_explain_flags[] = {
    {"protocol", 0, FLAG_TEXT, "PROTOCOL", "tcp, udp or icmp (default tcp)",
     .choices = "tcp udp icmp"},
    JSON_FLAG,
    {0},
};

static const struct flag net_log_flags[] = {
    {"follow", 'f', FLAG_BOOL, NULL, "go on as more comes"},
    {"tail", 'n', FLAG_COUNT, "N", "only the last N lines (at most 1000)"},
    {"json", 0, FLAG_BOOL, NULL, "one JSON object a line"},
    {0},
};

static const struct flag quiet_flags[] = {QUIET_FLAG, {0}};
static const struct flag json_flags[] = {JSON_FLAG, {0}};

static const struct flag made_flags[] = {JSON_FLAG, QUIET_FLAG, {0}};

static const struct flag update_flags[] = {
    {"memory", 'm', FLAG_MB, "MB", "memory limit"},
    {"cpu", 'c', FLAG_NUMBER, "CORES", "processor limit", .also = "cpus"},
    {"pids", 0, FLAG_COUNT, "N", "limit on processes and threads", .also = "pids-limit"},
    {"timeout", 0, FLAG_TIME, "TIME", "how long it lives, from now and from each start"},
    {"idle-timeout", 0, FLAG_TIME, "TIME",
     "stop it when nothing was done with it for so long; 0"
     " for never"},
    {"metadata", 0, FLAG_LIST, "K=V", "note to keep with it; the others stay"},
    JSON_FLAG,
    QUIET_FLAG,
    {0},
};

static const struct flag snapshot_create_flags[] = {
    {"label", 'l', FLAG_LIST, "NAME=VALUE", "keep a label with it; may be repeated"},
    JSON_FLAG,
    QUIET_FLAG,
    {0},
};

static const struct flag snapshot_import_flags[] = {
    {"name", 0, FLAG_TEXT, "NAME", "to use in place of its id"},
    {"label", 'l', FLAG_LIST, "NAME=VALUE", "keep a label with it; may be repeated"},
    JSON_FLAG,
    QUIET_FLAG,
    {0},
};

static const struct flag snapshot_label_flags[] = {
    {"name", 0, FLAG_TEXT, "NAME", "another name for it"},
    JSON_FLAG,
    QUIET_FLAG,
    {0},
};

static const struct flag snapshot_ls_flags[] = {
    JSON_FLAG,
    {"quiet", 'q', FLAG_BOOL, NULL, "print ids only"},
    {0},
};

static const struct flag snapshot_clone_flags[] = {
    {"name", 0, FLAG_TEXT, "NAME", "of the new sandbox"},
    ON_TIMEOUT_FLAG,
    JSON_FLAG,
    QUIET_FLAG,
    {0},
};

static const struct flag fork_flags[] = {
    {"count", 'n', FLAG_COUNT, "NUMBER", "how many; 1 unless given"},
    {"name", 0, FLAG_TEXT, "NAME", "of the new sandbox; several are NAME-1, NAME-2 and so on"},
    ON_TIMEOUT_FLAG,
    JSON_FLAG,
    {0},
};

static const struct flag rm_flags[] = {
    {"all", 'a', FLAG_BOOL, NULL, "every sandbox of this daemon"},
    {"yes", 'y', FLAG_BOOL, NULL, "do not ask"},
    {"force", 'f', FLAG_BOOL, NULL, "the same"},
    QUIET_FLAG,
    {0},
};

static const struct flag stop_flags[] = {
    {"all", 'a', FLAG_BOOL, NULL, "every sandbox of this daemon"},
    {"drain", 0, FLAG_BOOL, NULL, "let commands that run come to their end, and take no new ones"},
    {"time", 't', FLAG_TIME, "TIME",
     "how long the entrypoint may take to end (default 2s); with --drain how long commands may go "
     "on (default: as long as they take)",
     .also = "timeout"},
    QUIET_FLAG,
    {0},
};

static const struct flag start_flags[] = {
    {"all", 'a', FLAG_BOOL, NULL, "every stopped sandbox of this daemon"},
    QUIET_FLAG,
    {0},
};

static const struct flag kill_flags[] = {
    {"signal", 's', FLAG_TEXT, "SIGNAL", "what to send (default TERM)", .offers = "signal"},
    {"yes", 'y', FLAG_BOOL, NULL, "without PID: do not ask"},
    {"force", 'f', FLAG_BOOL, NULL, "the same"},
    QUIET_FLAG,
    {0},
};

static const struct flag jobs_flags[] = {
    {"all", 'a', FLAG_BOOL, NULL,
     "also those that have ended, as long as the sandbox remembers them"},
    {"quiet", 'q', FLAG_BOOL, NULL, "ids only"},
    JSON_FLAG,
    {0},
};

static const struct flag job_logs_flags[] = {
    {"follow", 'f', FLAG_BOOL, NULL, "go on as more comes, until it ends"},
    RAW_FLAG,
    {0},
};

static const struct flag mcp_flags[] = {
    {"tools", 0, FLAG_TEXT, "WHICH",
     "the tools that it has: core (10 of them), all, or names with commas between them (all)"},
    {"read-only", 0, FLAG_BOOL, NULL, "only those that change nothing"},
    {0},
};

static const struct flag mcp_install_flags[] = {
    {"project", 0, FLAG_BOOL, NULL, "for the project in this folder only, not for the user"},
    {"tools", 0, FLAG_TEXT, "WHICH", "which tools it shall have, as of `cay mcp`"},
    {"read-only", 0, FLAG_BOOL, NULL, "only tools that change nothing"},
    {"name", 0, FLAG_TEXT, "NAME", "what the client calls it (cay)"},
    {"dry-run", 'n', FLAG_BOOL, NULL, "only show what would be changed"},
    {"json", 0, FLAG_BOOL, NULL, "the file and the change as JSON"},
    {0},
};

static const struct flag mcp_uninstall_flags[] = {
    {"project", 0, FLAG_BOOL, NULL, "from the project in this folder, not from the user's"},
    {"name", 0, FLAG_TEXT, "NAME", "what the client calls it (cay)"},
    {"dry-run", 'n', FLAG_BOOL, NULL, "only show what would be changed"},
    {"json", 0, FLAG_BOOL, NULL, "the file and the change as JSON"},
    {0},
};

static const struct flag doctor_flags[] = {
    {"repair", 0, FLAG_TEXT, "WHAT",
     "deal with disks that belong to no sandbox: adopt makes stopped sandboxes of them, which "
     "expire as such do; remove removes them",
     .choices = "adopt remove"},
    {"yes", 'y', FLAG_BOOL, NULL, "do not ask"},
    JSON_FLAG,
    {0},
};

static const struct flag file_read_flags[] = {ANYWHERE_FLAG, RAW_FLAG, {0}};
static const struct flag file_write_flags[] = {ANYWHERE_FLAG, QUIET_FLAG, {0}};
static const struct flag file_ls_flags[] = {
    ANYWHERE_FLAG, {"quiet", 'q', FLAG_BOOL, NULL, "names only"}, JSON_FLAG, {0}};
static const struct flag file_rm_flags[] = {
    ANYWHERE_FLAG, {"recursive", 'r', FLAG_BOOL, NULL, "directories and what is in them"}, {0}};

static const struct flag file_watch_flags[] = {
    {"recursive", 'r', FLAG_BOOL, NULL, "all directories below, too"},
    {"ignore", 0, FLAG_LIST, "GLOB", "leave out what is called so, with all that is below"},
    {"publish", 0, FLAG_BOOL, NULL, "each change is also an event, file.changed"},
    ANYWHERE_FLAG,
    JSON_FLAG,
    {0},
};

static const struct flag stats_flags[] = {
    {"no-stream", 0, FLAG_BOOL, NULL, "show it once; so it is when stdout is no terminal"},
    {"interval", 0, FLAG_TIME, "TIME", "between two measurements (default 1s)"},
    JSON_FLAG,
    {0},
};

static const struct flag usage_flags[] = {
    {"no-stream", 0, FLAG_BOOL, NULL, "show it once; so it is when stdout is no terminal"},
    {"interval", 0, FLAG_TIME, "TIME", "between two measurements (default 1s)"},
    {"since", 0, FLAG_TIME, "TIME", "what they used from so long ago until now: 5m, at most 1h"},
    JSON_FLAG,
    {0},
};

static const struct flag image_ls_flags[] = {
    {"quiet", 'q', FLAG_BOOL, NULL, "names only"}, JSON_FLAG, {0}};

static const struct flag image_pull_flags[] = {
    {"name", 0, FLAG_TEXT, "NAME", "what to call it here (default: as REFERENCE)"},
    {"username", 0, FLAG_TEXT, "USER", "who to be at the registry, for this pull"},
    {"password-stdin", 0, FLAG_BOOL, NULL, "read the password for --username from stdin"},
    {"platform", 0, FLAG_TEXT, "OS/ARCH", "such as linux/arm64 (default: this machine's)"},
    {"insecure", 0, FLAG_BOOL, NULL, "talk to the registry over plain http"},
    JSON_FLAG,
    {"quiet", 'q', FLAG_BOOL, NULL, "show no progress"},
    {0},
};

static const struct flag image_import_flags[] = {
    JSON_FLAG, {"quiet", 'q', FLAG_BOOL, NULL, "show no progress"}, {0}};

static const struct flag image_commit_flags[] = {
    {"env", 'e', FLAG_LIST, "K=V", "environment variable, beside those of the image below"},
    {"workdir", 'w', FLAG_TEXT, "DIR", "where commands start"},
    {"user", 'u', FLAG_TEXT, "USER", "name, uid or uid:gid that commands run as"},
    {"entrypoint", 0, FLAG_TEXT, "COMMAND", "what `cay run IMAGE` starts, before --cmd"},
    {"cmd", 0, FLAG_TEXT, "COMMAND", "what `cay run IMAGE` runs"},
    {"label", 'l', FLAG_LIST, "K=V", "note kept with the image"},
    JSON_FLAG,
    {0},
};

static const struct flag image_prune_flags[] = {
    {"unused-for", 0, FLAG_TIME, "TIME", "only those that no sandbox was made from for: 12h, 7d"},
    {"keep-size", 0, FLAG_MB, "MB", "only the longest unused, until the rest fits: 500M, 10G"},
    {"dry-run", 'n', FLAG_BOOL, NULL, "only tell what would go"},
    {"yes", 'y', FLAG_BOOL, NULL, "do not ask"},
    JSON_FLAG,
    {0},
};

static const struct flag template_ls_flags[] = {
    {"quiet", 'q', FLAG_BOOL, NULL, "names only"}, JSON_FLAG, {0}};

static const struct flag template_create_flags[] = {
    {"description", 0, FLAG_TEXT, "TEXT", "for people"},
    {"run", 'r', FLAG_LIST, "COMMAND", "run once, in order: a line for the shell"},
    {"file", 'f', FLAG_LIST, "HERE:PATH", "a text file to bring along", .offers = "file",
     .is_here = true},
    {"ready", 0, FLAG_TEXT, "COMMAND", "must succeed before a new sandbox is given out"},
    {"ready-timeout", 0, FLAG_TIME, "TIME", "in this time (default 25s)"},
    {"env", 'e', FLAG_LIST, "K=V", "environment variable", .offers = "variable"},
    {"metadata", 0, FLAG_LIST, "K=V", "note kept with each sandbox"},
    {"workdir", 'w', FLAG_TEXT, "DIR", "where commands start (default: the image's)"},
    {"user", 'u', FLAG_TEXT, "USER", "name, uid or uid:gid that commands run as"},
    {"entrypoint", 0, FLAG_TEXT, "COMMAND", "main process of each sandbox"},
    {"timeout", 0, FLAG_TIME, "TIME", "how long a sandbox lives"},
    {"memory", 'm', FLAG_MB, "MB", "memory limit"},
    {"cpu", 'c', FLAG_NUMBER, "CORES", "processor limit"},
    {"pids", 0, FLAG_COUNT, "N", "limit on processes and threads", .also = "pids-limit"},
    {"disk", 0, FLAG_MB, "MB", "disk limit"},
    {"no-build", 0, FLAG_BOOL, NULL, "run the commands when it is first used, not now"},
    JSON_FLAG,
    QUIET_FLAG,
    {0},
};

static const struct flag template_build_flags[] = {
    {"name", 't', FLAG_TEXT, "NAME", "of the template (default: the folder's)", .also = "tag"},
    {"file", 'f', FLAG_TEXT, "FILE", "in place of DIR/Dockerfile or DIR/cay.json; - is stdin",
     .is_here = true},
    {"target", 0, FLAG_TEXT, "STAGE", "stage to end with (default: the last)"},
    {"build-arg", 0, FLAG_LIST, "NAME=VALUE", "value of an ARG; NAME alone takes it from here"},
    {"no-cache", 0, FLAG_BOOL, NULL, "do every step again"},
    {"pull", 0, FLAG_BOOL, NULL, "of a NAME: look for a newer image first"},
    {"description", 0, FLAG_TEXT, "TEXT", "for people"},
    {"memory", 'm', FLAG_MB, "SIZE", "memory of each RUN"},
    {"cpu", 'c', FLAG_NUMBER, "CORES", "cores of each RUN", .also = "cpus"},
    {"disk", 0, FLAG_MB, "SIZE", "disk of each RUN"},
    {"step-timeout", 0, FLAG_TIME, "TIME", "how long a RUN may take (default 30m)"},
    NETWORK_FLAGS,
    JSON_FLAG,
    QUIET_FLAG,
    {0},
};

static const struct flag url_flags[] = {
    {"expires", 0, FLAG_TIME, "TIME",
     "sign it: whoever has it may use the port for this time, 31d at most"},
    {"path", 0, FLAG_TEXT, "PATH", "where it leads; / otherwise"},
    {"revoke", 0, FLAG_BOOL, NULL, "what was signed for this sandbox before is void"},
    JSON_FLAG,
    {0},
};

static const struct flag audit_flags[] = {
    {"follow", 'f', FLAG_BOOL, NULL, "stay and show what comes"},
    {"since", 0, FLAG_TIME, "TIME", "only what was later than so long ago: 30m, 2d"},
    {"tail", 'n', FLAG_COUNT, "N", "the last so many (100 unless given, 1000 at most)"},
    {"sandbox", 's', FLAG_TEXT, "ID", "only about this sandbox", .offers = "sandbox"},
    {"who", 0, FLAG_TEXT, "WHO", "only by root, admin, anyone, uid:N or the id of a token"},
    {"function", 0, FLAG_TEXT, "NAME", "only calls of this function: cmd::run"},
    JSON_FLAG,
    {0},
};

static const struct flag audit_verify_flags[] = {
    {"head", 0, FLAG_TEXT, "HEAD",
     "what `cay audit head` printed earlier: is its line still there? (NUMBER:HASH, or the hash)"},
    JSON_FLAG,
    {0},
};

static const struct flag token_create_flags[] = {
    {"scope", 's', FLAG_LIST, "SCOPES",
     "what it may, several with commas: read, exec, write; admin is all of it"},
    {"sandbox", 0, FLAG_TEXT, "ID", "the only sandbox that it is for", .offers = "sandbox"},
    {"label", 'l', FLAG_TEXT, "KEY=VALUE",
     "only for sandboxes with this in their metadata, which those that it makes get"},
    {"expires", 'e', FLAG_TIME, "TIME", "when it ends: 30m, 12h, 90d; else never"},
    JSON_FLAG,
    {0},
};

#define LANGUAGE_CHOICES "python javascript typescript go bash py js ts sh"

static const struct flag code_flags[] = {
    {"language", 'l', FLAG_TEXT, "LANG", "of the code (default: python)",
     .choices = LANGUAGE_CHOICES},
    {"code", 'c', FLAG_TEXT, "CODE", "in place of a file"},
    {"context", 0, FLAG_TEXT, "CONTEXT", "run in this one, which keeps variables",
     .offers = "context"},
    {"timeout", 't', FLAG_TIME, "TIME", "how long it may take"},
    {"user", 'u', FLAG_TEXT, "USER", "name, uid or uid:gid to run as"},
    {"workdir", 'w', FLAG_TEXT, "DIR", "where it runs", .also = "cwd"},
    ENV_FLAGS,
    {"save", 0, FLAG_TEXT, "DIR", "write pictures to result-N.png or .svg there", .is_here = true},
    JSON_FLAG,
    {0},
};

static const struct flag context_create_flags[] = {
    {"language", 'l', FLAG_TEXT, "LANG", "of it (default: python)",
     .choices = "python javascript py js"},
    {"user", 'u', FLAG_TEXT, "USER", "name, uid or uid:gid to run as"},
    {"workdir", 'w', FLAG_TEXT, "DIR", "where it runs", .also = "cwd"},
    ENV_FLAGS,
    {"import", 0, FLAG_LIST, "MODULE", "loaded before it is ready"},
    {"idle", 0, FLAG_TIME, "TIME", "it ends itself after so long without a run"},
    JSON_FLAG,
    {0},
};

static const struct flag alert_set_flags[] = {
    {"action", 'a', FLAG_TEXT, "ACTION", "what is done when it fires (notify unless given)",
     .choices = "notify pause kill"},
    JSON_FLAG,
    {0},
};

static const struct flag queue_submit_flags[] = {
    {"wait", 0, FLAG_BOOL, NULL, "stay until it is over, with its output and its exit status"},
    {"priority", 'p', FLAG_TEXT, "N", "-1000 to 1000; of jobs that wait, the highest starts first"},
    {"delay", 0, FLAG_TIME, "TIME", "do not start it before: 30, 5m, 2h"},
    {"timeout", 0, FLAG_TIME, "TIME", "end a try after this time: 30, 500ms, 5m"},
    {"retries", 0, FLAG_COUNT, "N", "how often it is tried, at least once (default: 3)"},
    {"retry-delay", 0, FLAG_TIME, "TIME",
     "before the second try; then twice as long each time (default: 1s)"},
    {"retry-on-exit", 0, FLAG_BOOL, NULL, "an exit status other than 0 is a failure, too"},
    {"workdir", 'w', FLAG_TEXT, "DIR", "where the command starts", .also = "cwd"},
    {"user", 'u', FLAG_TEXT, "USER", "name, uid or uid:gid to run as"},
    ENV_FLAGS,
    JSON_FLAG,
    {0},
};

#define QUEUE_LIST_FLAGS                                                                           \
    {"limit", 0, FLAG_COUNT, "N", "at most so many (default: 50, up to 500)"},                     \
        {"quiet", 'q', FLAG_BOOL, NULL, "print ids only"}, JSON_FLAG

static const struct flag queue_ls_flags[] = {
    {"status", 0, FLAG_TEXT, "STATUS", "only those that are so",
     .choices = "pending running completed failed cancelled"},
    QUEUE_LIST_FLAGS,
    {0},
};

static const struct flag queue_dlq_flags[] = {QUEUE_LIST_FLAGS, {0}};

static const struct flag queue_status_flags[] = {
    {"wait", 0, FLAG_BOOL, NULL, "stay until it is over, with its output and its exit status"},
    JSON_FLAG,
    {0},
};

static const struct flag queue_logs_flags[] = {
    {"follow", 'f', FLAG_BOOL, NULL, "stay until it is over"},
    RAW_FLAG,
    {0},
};

static const struct flag pool_add_flags[] = {
    {"template", 't', FLAG_TEXT, "NAME", "in place of an image", .offers = "template"},
    {"size", 's', FLAG_COUNT, "N", "how many (2 unless given)"},
    {"memory", 'm', FLAG_MB, "MB", "memory limit, as of the creates that are to get them"},
    {"cpu", 'c', FLAG_NUMBER, "CORES", "processor limit"},
    {"pids", 0, FLAG_COUNT, "N", "limit on processes and threads", .also = "pids-limit"},
    {"disk", 0, FLAG_MB, "MB", "disk limit"},
    {"python", 0, FLAG_BOOL, NULL, "with an interpreter that has started already"},
    {"import", 0, FLAG_LIST, "MODULE", "and loaded this"},
    NETWORK_FLAGS,
    JSON_FLAG,
    {0},
};

static const struct flag volume_create_flags[] = {
    {"size", 's', FLAG_MB, "MB",
     "how much it holds: 512, 2G (1024 unless the daemon says otherwise)"},
    JSON_FLAG,
    {0},
};

static const struct flag volume_ls_flags[] = {
    {"quiet", 'q', FLAG_BOOL, NULL, "ids only; of files, names"}, JSON_FLAG, {0}};

static const struct flag volume_attach_flags[] = {
    {"read-only", 'r', FLAG_BOOL, NULL, "nothing can be written there", .also = "ro"},
    {"noexec", 0, FLAG_BOOL, NULL, "no program can be started from there"},
    {"subpath", 0, FLAG_TEXT, "DIR", "mount this folder of it; made when it is missing"},
    {0},
};

static const struct flag webhook_create_flags[] = {
    {"topic", 't', FLAG_LIST, "TOPIC",
     "of these events: a topic, or the beginning of some as exec.* (default: all)"},
    {"sandbox", 's', FLAG_TEXT, "ID", "of this sandbox only", .offers = "sandbox"},
    JSON_FLAG,
    {0},
};

static const struct flag webhook_deliveries_flags[] = {
    {"tail", 'n', FLAG_COUNT, "N", "how many at most (20 unless given, 100 are kept)"},
    JSON_FLAG,
    {0},
};

static const struct flag network_ls_flags[] = {
    {"quiet", 'q', FLAG_BOOL, NULL, "ids only"}, JSON_FLAG, {0}};

static const struct flag volume_cp_flags[] = {QUIET_FLAG, {0}};

/* ---- iii ---- */

#define III_FLAGS                                                                                  \
    {"address", 0, FLAG_TEXT, "HOST",                                                              \
     "where the daemon, or an engine of iii, is (default 127.0.0.1)"},                             \
    {                                                                                              \
        "port", 0, FLAG_TEXT, "PORT", "its port for iii (default 49134)"                           \
    }

#define III_SPEC_FLAGS                                                                             \
    {"cpus", 0, FLAG_COUNT, "N", "processors (default 1)"},                                        \
        {"memory", 0, FLAG_MB, "MB", "memory (default 512)"},                                      \
        {"network", 0, FLAG_BOOL, NULL, "let it reach the network (default: no)"},                 \
        {"name", 0, FLAG_TEXT, "NAME", "label of the sandbox, for `cay sandbox list`"},            \
        {"idle-timeout", 0, FLAG_COUNT, "SECONDS",                                                 \
         "end it when nothing was done with it for so long (default: the daemon's)"},              \
    {                                                                                              \
        "env", 'e', FLAG_LIST, "K=V", "environment variable; K alone passes this shell's on",      \
            .offers = "variable"                                                                   \
    }

#define III_EXEC_FLAGS                                                                             \
    {"timeout", 0, FLAG_TEXT, "TIME", "end the command after this time: 30s, 5m, 500ms"},          \
        {"workdir", 'w', FLAG_TEXT, "DIR", "where the command starts"},                            \
        {"interactive", 'i', FLAG_BOOL, NULL, "pass standard input on, up to its end"}, RAW_FLAG,  \
    {                                                                                              \
        "json", 0, FLAG_BOOL, NULL, "print one object with the outputs, exit code and times"       \
    }

static const struct flag sandbox_run_flags[] = {III_SPEC_FLAGS, III_EXEC_FLAGS, III_FLAGS, {0}};
static const struct flag sandbox_create_flags[] = {III_SPEC_FLAGS, JSON_FLAG, III_FLAGS, {0}};
static const struct flag sandbox_exec_flags[] = {
    III_EXEC_FLAGS,
    {"env", 'e', FLAG_LIST, "K=V", "environment variable; K alone passes this shell's on",
     .offers = "variable"},
    III_FLAGS,
    {0},
};
static const struct flag sandbox_list_flags[] = {
    {"all", 0, FLAG_BOOL, NULL, "changes nothing; old scripts have it"}, JSON_FLAG, III_FLAGS, {0}};
static const struct flag sandbox_stop_flags[] = {JSON_FLAG, III_FLAGS, {0}};
static const struct flag sandbox_upload_flags[] = {
    {"mode", 0, FLAG_TEXT, "MODE", "permissions of the file, in octal (default 0644)"},
    {"parents", 0, FLAG_BOOL, NULL, "make the folders that it needs"},
    JSON_FLAG,
    III_FLAGS,
    {0},
};
static const struct flag trigger_flags[] = {
    {"json", 0, FLAG_TEXT, "JSON", "what to send; - is stdin; KEY=VALUE goes over it"},
    {"namespace", 'n', FLAG_TEXT, "NAME", "where the function is (default: the engine's)"},
    {"timeout-ms", 0, FLAG_COUNT, "MS", "how long to wait for the answer (default 30000)"},
    III_FLAGS,
    {0},
};

/* Those of daemon/flags.c that are for people. */
#define VALUE(ID, name, value, help) {name, 0, FLAG_TEXT, value, help},
#define SWITCH(ID, name, help)       {name, 0, FLAG_BOOL, NULL, help},
static const struct flag serve_flags[] = {SERVE_FLAGS(VALUE, SWITCH){0}};
#undef VALUE
#undef SWITCH

static const struct flag completion_flags[] = {
    {"line", 0, FLAG_BOOL, NULL, "for the scripts: print what can follow the words"},
    {0},
};

static const struct flag help_flags[] = {
    {"man", 0, FLAG_BOOL, NULL, "the manual page, as roff"},
    {"markdown", 0, FLAG_BOOL, NULL, "the reference, as markdown"},
    {0},
};

/* ---- the table ---- */

#define ANY 100000

const struct command commands[] = {
    {"run", NULL, "[flags] IMAGE [COMMAND [ARGUMENT...]]\n[flags] -- COMMAND [ARGUMENT...]",
     "run a command in a new sandbox",
     "Makes a sandbox from IMAGE (\"host\" when absent: this machine's own /usr, read-only), runs\n"
     "COMMAND in it, and removes the sandbox. The exit status is the command's. An image that is\n"
     "not here is pulled first.\n"
     "\n"
     "Flags of cay stand before IMAGE; what follows it is the command, run as it is, without the\n"
     "image's entrypoint before it. Without COMMAND the image's own entrypoint and command run.\n"
     "Standard input is passed on with -i only.\n"
     "\n"
     "With -d the command becomes the sandbox's entrypoint: the id is printed, `cay logs` shows "
     "its\n"
     "output, and the sandbox stays, also after the command, until `cay rm`. At the end of its\n"
     "--timeout it is stopped, as `cay create` says.\n"
     "\n"
     "When no daemon is running and none was named, one is started for this command alone; images\n"
     "that it pulls are gone with it.\n"
     "\n"
     "Ctrl-C goes to the command; a second one ends it. On a terminal, control bytes of the "
     "output\n"
     "other than colours are made visible unless --tty or --raw is given.",
     "cay run -- echo hello\n"
     "cay run python:3.12-slim python3 --version\n"
     "cay run -m 256 --timeout 10s host python3 -c 'print(1 + 1)'\n"
     "cay run -it host bash\n"
     "tar c . | cay run -i host tar xv\n"
     "cay run -d --name web host python3 -m http.server",
     run_flags, 0, 1, true, "image", cmd_run},
    {"create", NULL, "[flags] [IMAGE [ENTRYPOINT [ARGUMENT...]]]",
     "make a sandbox and print its id",
     "The sandbox runs until it is removed or its --timeout is over. Then it is stopped, with the\n"
     "reason \"expired\", and `cay start` brings it back with its files, for a week "
     "(CAY_STOPPED_TTL)\n"
     "or until its room or its name is needed. With --on-timeout remove it is removed at once.\n"
     "\n"
     "With an ENTRYPOINT that\n"
     "program runs in it from the start, and `cay logs` shows its output. An image that is not "
     "here is\n"
     "pulled first.\n"
     "\n"
     "NAME is of letters, digits, '-', '_' and '.', and no other sandbox has it. It can be used\n"
     "wherever an id can. An expired sandbox of that name is removed, and a warning says so.\n"
     "\n"
     "With --copy and --patch it has those files before anything runs in it. What cannot be put "
     "there is\n"
     "named, and there is no sandbox then.",
     "id=$(cay create --name web --timeout 2h)\n"
     "cay create --copy ./project:/srv/app --copy data.json:/etc/app/ host\n"
     "echo '[{\"type\": \"append\", \"path\": \"/etc/profile\", \"content\": \"umask "
     "027\\n\"}]' | cay create --patch -\n"
     "cay create --pull always registry.example/team/app:1.0\n"
     "cay create host python3 -m http.server",
     create_flags, 0, 1, true, "image", cmd_create},
    {"exec", NULL, "[flags] ID COMMAND [ARGUMENT...]\n[flags] ID \"COMMAND LINE\"",
     "run a command in a sandbox",
     "Flags of cay stand before ID. A command of several words is run as it is; one argument "
     "alone\n"
     "is a line for the shell in the sandbox, unless \"--\" stands before it.\n"
     "\n"
     "Standard input is passed on with -i only, so that a loop that reads a list keeps it. -t "
     "gives\n"
     "the command a terminal, -it one to type into.\n"
     "\n"
     "The exit status is the command's; 124 after --timeout, 126 not executable, 127 not found,\n"
     "128+n after signal n, 125 when cay itself failed.\n"
     "\n"
     "A command goes on when the daemon ends or is replaced. cay then comes back to it, or, where\n"
     "input from a pipe would be lost, says how to.",
     "cay exec web ls -l\n"
     "cay exec web \"ls -l | wc -l\"\n"
     "cay exec -it web bash\n"
     "cay exec -i web sh -c 'cat > data' < data\n"
     "cay exec -d web \"make > build.log\"\n"
     "cay attach web $(cay exec -dt web bash)",
     exec_flags, 1, 1, true, "sandbox", cmd_exec},
    {"attach", NULL, "[flags] ID EXEC_ID", "come back to a command that was started before",
     "Shows what it has put out, from the beginning, and passes input on, until it ends; the exit "
     "status\n"
     "is the command's. Leaving does not end it: Ctrl-P and Ctrl-Q where it has a terminal, else "
     "a\n"
     "second Ctrl-C; --end ends it. One that has ended is shown as long as the sandbox keeps it.",
     "cay attach web ex_9b1deb4d3b7d4bad9bdd2b0d\n"
     "cay attach --end web ex_9b1deb4d3b7d4bad9bdd2b0d",
     attach_flags, 2, 2, false, "sandbox job", cmd_attach},
    {"shell", NULL, "[flags] ID\n--ls [flags] [ID]", "open a shell on a terminal in a sandbox",
     "The exit status is the shell's. Ctrl-P and Ctrl-Q leave it running, as does a connection "
     "that "
     "breaks\n"
     "and an end of the daemon; --session comes back to it, with what it showed before. Several "
     "can be\n"
     "in one session, and all of them type but those who look on.",
     "cay shell web\ncay shell --ls\ncay shell web --session term_9b1deb4d3b7d4bad9bdd2b0d",
     shell_flags, 0, 1, false, "sandbox", cmd_shell},
    {"ls", "list", "[flags]", "list sandboxes", NULL, "cay ls\ncay ls -q --status paused", ls_flags,
     0, 0, false, NULL, cmd_ls},
    {"inspect", NULL, "[flags] ID...", "show all about sandboxes or background commands, as JSON",
     "One id gives one object, several give an array.", "cay inspect web", json_flags, 1, ANY,
     false, "sandbox...", cmd_inspect},
    {"code", NULL, "[flags] ID [FILE]\n[flags] -c CODE ID", "run code in a sandbox's interpreter",
     "FILE is - (standard input) when it is not given; the end of its name says the language, "
     "which is python otherwise.\n"
     "Values of last expressions are printed as notebooks do. The exit status is the code's; 124 "
     "after --timeout,\n"
     "125 when cay itself failed. See docs/interpreter.md.",
     "cay code -c 'print(1 + 1)' web\ncay code --save . web app.py\n"
     "cay code --context $(cay context create web) -c 'x = 5' web",
     code_flags, 1, 2, false, "sandbox file", cmd_code},
    {"context create", NULL, "[flags] ID",
     "start an interpreter that keeps variables, and print its id", NULL,
     "cay context create web\ncay context create -l javascript web", context_create_flags, 1, 1,
     false, "sandbox", cmd_context_create},
    {"context ls", NULL, "[flags] ID", "list the contexts of a sandbox", NULL, NULL,
     network_ls_flags, 1, 1, false, "sandbox", cmd_context_ls},
    {"context restart", NULL, "[flags] ID CONTEXT...", "start contexts anew, empty", NULL, NULL,
     quiet_flags, 2, ANY, false, "sandbox context...", cmd_context_restart},
    {"context interrupt", NULL, "[flags] ID CONTEXT...",
     "interrupt what contexts run; their variables stay", NULL, NULL, quiet_flags, 2, ANY, false,
     "sandbox context...", cmd_context_interrupt},
    {"context rm", NULL, "[flags] ID CONTEXT...", "end contexts, with all that they started", NULL,
     NULL, quiet_flags, 2, ANY, false, "sandbox context...", cmd_context_rm},
    {"events", NULL, "[flags]", "show what has happened, and what happens",
     "A line each: when, the topic, the sandbox, and what there is to say. docs/events.md has the "
     "topics.",
     "cay events\ncay events -f -t 'sandbox.*'\ncay events -s web --since 1h --json", events_flags,
     0, 0, false, NULL, cmd_events},
    {"logs", NULL, "[flags] ID\n[flags] BACKGROUND_ID\n[flags] ID EXEC_ID",
     "show the output of a sandbox's entrypoint or of a command",
     "What an entrypoint wrote to stderr goes to stderr. The output of a background command is one "
     "stream, in the order of writing. Both can be had while the sandbox is paused.",
     "cay logs -f web\ncay logs $(cay exec -d web \"make\")", logs_flags, 1, 2, false,
     "sandbox job", cmd_logs},
    {"pause", NULL, "[flags] ID...", "freeze every process of sandboxes",
     "Memory is kept, time to live goes on. `cay resume` thaws them.", NULL, quiet_flags, 1, ANY,
     false, "sandbox...", cmd_pause},
    {"resume", NULL, "[flags] ID...", "thaw paused sandboxes", NULL, NULL, quiet_flags, 1, ANY,
     false, "sandbox...", cmd_resume},
    {"stop", NULL, "[flags] ID...\n[flags] --all",
     "end the processes of sandboxes and keep the rest",
     "Files, environment and limits stay, and `cay start` starts them again. The entrypoint is "
     "asked\n"
     "to end first, and has 2 seconds (CAY_STOP_TIMEOUT) for that, or --time. A stopped sandbox "
     "expires\n"
     "after a week, unless the daemon says otherwise (CAY_STOPPED_TTL); `cay rm` removes one.\n"
     "\n"
     "With --drain commands come to their end first. Whoever tires of waiting can leave: the "
     "sandbox\n"
     "stops all the same, and `cay start` lets it run on.",
     "cay stop web\ncay stop --all\ncay stop --drain --time 10m web", stop_flags, 0, ANY, false,
     "sandbox...", cmd_stop},
    {"start", NULL, "[flags] ID...\n[flags] --all", "start stopped sandboxes again",
     "With the files that they had, and the entrypoint runs again. They live as long as they were "
     "made\n"
     "for, from now.",
     "cay stop web && cay start web", start_flags, 0, ANY, false, "sandbox...", cmd_start},
    {"rm", NULL, "[flags] ID...\n[flags] --all", "remove sandboxes and everything in them",
     "Those that are named go without a question; --all asks.", "cay rm web\ncay rm --all --yes",
     rm_flags, 0, ANY, false, "sandbox...", cmd_rm},
    {"kill", NULL, "[flags] ID PID...\n[flags] ID", "send a signal to processes of a sandbox",
     "PID is one that `cay ps ID` shows; one that has ended by then is no failure. Without PID "
     "the\n"
     "sandbox itself is ended and removed with everything in it; that is asked first, and where\n"
     "nobody can be asked it needs --yes. `cay stop` keeps its files, `cay rm` removes without a "
     "question.",
     "cay kill web 42\ncay kill -s KILL web 42 43\ncay kill --yes web", kill_flags, 1, ANY, false,
     "sandbox process...", cmd_kill},
    {"touch", NULL, "[flags] ID...", "say that sandboxes are in use",
     "One that was made with --idle-timeout is not idle then, for as long again.", "cay touch web",
     quiet_flags, 1, ANY, false, "sandbox...", cmd_touch},
    {"update", NULL, "flags ID", "change the limits, life and notes of a sandbox",
     "Limits hold at once, for one that runs too; its programs are told of them with the next "
     "start.\n"
     "Numbers beyond what the daemon allows become the nearest that it does.",
     "cay update --memory 1G --cpu 2 web\ncay update --idle-timeout 30m web", update_flags, 1, 1,
     false, "sandbox", cmd_update},
    {"renew", NULL, "[flags] ID [TIME]", "move the end of a sandbox's life",
     "It then lives for TIME from now, 60s to what the daemon allows (a day unless it says\n"
     "otherwise); 0 is no end, where it allows that. Without TIME it is as long as it was made "
     "for.",
     "cay renew web 2h", made_flags, 1, 2, false, "sandbox", cmd_renew},
    {"jobs", NULL, "[flags] [ID...]", "list commands that run in sandboxes", NULL,
     "cay jobs\ncay jobs --all web", jobs_flags, 0, ANY, false, "sandbox...", cmd_jobs},
    {"job logs", NULL, "[flags] JOB", "show what a job has put out",
     "JOB is an id that `cay jobs` shows, or the beginning of one.",
     "cay job logs -f $(cay exec -d web make)", job_logs_flags, 1, 1, false, "job", cmd_job_logs},
    {"job stop", "job kill", "[flags] JOB...", "end jobs and all that they started", NULL, NULL,
     quiet_flags, 1, ANY, false, "job...", cmd_job_stop},
    {"job wait", NULL, "JOB...", "wait until jobs have ended",
     "The exit status is that of the last one.", "cay job wait $(cay exec -d web make)", NULL, 1,
     ANY, false, "job...", cmd_job_wait},
    {"queue submit", NULL, "[flags] ID COMMAND [ARG...]", "have a command run when its turn comes",
     "Prints the id of the job, which is kept until it has run, also over restarts of the daemon. "
     "With --wait its output follows, and the exit status is the command's.",
     "cay queue submit web make\ncay queue submit --wait --retries 5 web true", queue_submit_flags,
     1, 1, true, "sandbox", cmd_queue_submit},
    {"queue ls", "queue list", "[flags] [ID]", "list jobs of the queue, the newest first", NULL,
     "cay queue ls\ncay queue ls --status running web", queue_ls_flags, 0, 1, false, "sandbox",
     cmd_queue_ls},
    {"queue status", NULL, "[flags] JOB", "say how a job of the queue is",
     "With --wait its output follows until it is over, and the exit status is the command's.", NULL,
     queue_status_flags, 1, 1, false, "queued", cmd_queue_status},
    {"queue logs", NULL, "[flags] JOB", "show what a job of the queue has put out", NULL,
     "cay queue logs -f $(cay queue submit web make)", queue_logs_flags, 1, 1, false, "queued",
     cmd_queue_logs},
    {"queue cancel", NULL, "[flags] JOB...", "take jobs out of the queue; those that run are ended",
     NULL, NULL, quiet_flags, 1, ANY, false, "queued...", cmd_queue_cancel},
    {"queue dlq", NULL, "[flags] [ID]\n[flags] requeue JOB...\n[flags] purge [JOB...]",
     "list jobs that failed, put them back, or forget them", NULL,
     "cay queue dlq\ncay queue dlq purge", queue_dlq_flags, 0, ANY, false, "dead...",
     cmd_queue_dlq},
    {"env list", "env ls", "[flags] ID", "list the environment that commands have", NULL, NULL,
     json_flags, 1, 1, false, "sandbox", cmd_env_list},
    {"env get", NULL, "[flags] ID NAME", "print a variable",
     "The exit status is 1 when there is none of that name.", NULL, json_flags, 2, 2, false,
     "sandbox", cmd_env_get},
    {"env set", NULL, "ID NAME=VALUE...", "set variables for every later command",
     "NAME alone passes this shell's variable on.", "cay env set web MODE=test TOKEN", NULL, 2, ANY,
     false, "sandbox variable...", cmd_env_set},
    {"env unset", "env rm", "ID NAME...", "remove variables", NULL, NULL, NULL, 2, ANY, false,
     "sandbox", cmd_env_unset},
    {"cp", NULL, "[flags] ID:PATH HERE\n[flags] HERE ID:PATH",
     "copy files and directories in or out",
     "A relative path in a sandbox starts at its workspace. Into a directory that exists, the "
     "copy\n"
     "gets the source's own name; of \".\" and \"DIRECTORY/.\" only what is in it goes there.\n"
     "\"-\" is a tar stream: from ID:PATH it holds that file or directory, to ID:PATH it is "
     "unpacked\n"
     "into that directory.\n"
     "\n"
     "Modes, times and symbolic links are kept. Links are never followed when writing here; "
     "pipes,\n"
     "sockets and devices are skipped with a warning, and the exit status is then 1. Here a file\n"
     "appears whole or not at all, in a sandbox one that is copied alone. Directories and streams\n"
     "need `tar` in the sandbox; without it files are copied one by one, and links and times are\n"
     "left behind.",
     "cay cp project web:\n"
     "cay cp . web:\n"
     "cay cp web:/workspace/out.csv .\n"
     "cay cp web:/var/log - | tar tv\n"
     "tar c src | cay cp - web:/workspace",
     quiet_flags, 2, 2, false, "place place", cmd_cp},
    {"file read", NULL, "[flags] ID PATH", "print a file of a sandbox", NULL,
     "cay file read web notes.txt", file_read_flags, 2, 2, false, "sandbox", cmd_file_read},
    {"file write", NULL, "[flags] ID PATH CONTENT\n[flags] ID PATH -",
     "write a file in a sandbox, from an argument or stdin", NULL,
     "cay file write web notes.txt 'remember'\ncay file write web data.json - < data.json",
     file_write_flags, 2, 3, false, "sandbox", cmd_file_write},
    {"file ls", NULL, "[flags] ID [PATH]", "list a directory of a sandbox", NULL,
     "cay file ls web /workspace", file_ls_flags, 1, 2, false, "sandbox", cmd_file_ls},
    {"file rm", NULL, "[flags] ID PATH...", "remove files of a sandbox", NULL,
     "cay file rm web notes.txt\ncay file rm -r web build", file_rm_flags, 2, ANY, false, "sandbox",
     cmd_file_rm},
    {"file watch", NULL, "[flags] ID [PATH]", "print changes to files as they happen",
     "PATH is a directory or a file, the workspace without it. It ends when that is gone.",
     "cay file watch -r --ignore node_modules --ignore .git web", file_watch_flags, 1, 2, false,
     "sandbox", cmd_file_watch},
    {"file upload", NULL, "[flags] ID HERE PATH", "copy one file into a sandbox", NULL,
     "cay file upload web data.csv /workspace/data.csv", file_write_flags, 3, 3, false,
     "sandbox file", cmd_file_upload},
    {"ps", NULL, "[flags] ID\n[flags]", "list the processes of a sandbox, or the sandboxes",
     "Without ID this is `cay ls`.", NULL, ls_flags, 0, 1, false, "sandbox", cmd_ps},
    {"top", NULL, "[flags] ID", "show what the processes of a sandbox use, live on a terminal",
     "The q key ends it.", "cay top web", stats_flags, 1, 1, false, "sandbox", cmd_top},
    {"stats", NULL, "[flags] [ID...]", "show what sandboxes use, live on a terminal",
     "The q key ends it.", "cay stats\ncay stats --no-stream --json web\ncay stats --since 10m web",
     usage_flags, 0, ANY, false, "sandbox...", cmd_stats},
    {"image ls", "images", "[flags]", "list images",
     "AGE is counted from when the image was built, USED from when a sandbox was last made from "
     "it;\n"
     "IN USE says that one still is.",
     NULL, image_ls_flags, 0, 0, false, NULL, cmd_image_ls},
    {"image pull", "pull", "[flags] REFERENCE", "fetch an image from a registry and print its id",
     "REFERENCE is [HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]; without HOST it is Docker Hub, and\n"
     "without tag and digest the tag is \"latest\". Layers that are here already are not fetched "
     "again.\n"
     "An image of that name is replaced; sandboxes made from it keep the old one.\n"
     "\n"
     "Credentials come from --username, else from the Docker configuration that the daemon was "
     "given;\n"
     "they go to that registry only. Ctrl-C ends the pull, and nothing of it stays.",
     "cay image pull python:3.12-slim\n"
     "cay pull --username ci --password-stdin registry.example/app:1.0 < token\n"
     "cay pull --name base debian:12",
     image_pull_flags, 1, 1, false, "image", cmd_image_pull},
    {"image import", NULL, "[flags] PATH [NAME]",
     "make an image from a directory or an archive and print its id",
     "PATH is a root directory, a tar archive of one, what `docker save` or `cay image export` "
     "wrote,\n"
     "or an OCI layout (a directory or an archive). Archives may be compressed with gzip, bzip2, "
     "xz or\n"
     "zstd. NAME can be left out when the archive says it.\n"
     "\n"
     "PATH is on the daemon's machine, and only root there may do this. An image that has NAME "
     "already\n"
     "is replaced; sandboxes made from it keep the old one. A name that only the archive says is "
     "taken\n"
     "from no other image.",
     "cay image import ./rootfs alpine\n"
     "cay image import debian.tar.zst debian:12\n"
     "docker save app:1.0 > app.tar && cay image import app.tar",
     image_import_flags, 1, 2, false, "file", cmd_image_import},
    {"image export", NULL, "NAME [FILE]\nNAME -", "write an image as an archive",
     "The archive is an OCI layout, which `cay image import`, `docker load` and `skopeo` take. It "
     "goes\n"
     "to stdout without FILE. A file appears whole or not at all.\n"
     "\n"
     "The host image, and what was committed on it, cannot be exported: most of it is this "
     "machine.",
     "cay image export app:1.0 app.tar\ncay image export app:1.0 | zstd > app.tar.zst", NULL, 1, 2,
     false, "installed file", cmd_image_export},
    {"image commit", "commit", "[flags] ID NAME", "make an image from a sandbox and print its id",
     "The files that the sandbox changed become a layer on top of its image. It is paused "
     "meanwhile;\n"
     "processes and memory are not part of the image.\n"
     "\n"
     "A COMMAND that begins with \"[\" is a JSON array of words, any other is a line for the "
     "shell.",
     "cay image commit web app:1.0\n"
     "cay commit --cmd '[\"python3\", \"-m\", \"app\"]' -e PORT=8080 web app:1.0",
     image_commit_flags, 2, 2, false, "sandbox installed", cmd_image_commit},
    {"image tag", NULL, "NAME NEW", "give an image one more name",
     "The name NEW is taken from whatever image had it. NAME can be an id, or 12 or more digits of "
     "it.",
     "cay image tag app:1.0 app:stable", NULL, 2, 2, false, "installed installed", cmd_image_tag},
    {"image rm", "rmi", "[flags] NAME...", "remove images that no sandbox uses",
     "An image with several names loses this one only; layers go with the last image that needs "
     "them.",
     NULL, quiet_flags, 1, ANY, false, "installed...", cmd_image_rm},
    {"image prune", NULL, "[flags]", "remove images that are not needed",
     "Without --unused-for and --keep-size, all that no sandbox was made from. Images in use and "
     "the\n"
     "host image always stay. On a terminal it asks first; elsewhere it needs --yes.",
     "cay image prune --unused-for 7d\ncay image prune --keep-size 10G --dry-run",
     image_prune_flags, 0, 0, false, NULL, cmd_image_prune},
    {"image inspect", NULL, "[flags] NAME", "show all about an image, as JSON", NULL, NULL,
     json_flags, 1, 1, false, "installed", cmd_image_inspect},
    {"image catalog", NULL, "[flags]", "list the short names that stand for images", NULL,
     "cay image catalog\ncay run python python3 --version", json_flags, 0, 0, false, NULL,
     cmd_image_catalog},
    {"diff", NULL, "[flags] ID [SNAPSHOT]",
     "list the files that a sandbox has added (A), modified (M) or deleted (D)",
     "Against what it was made from, or a snapshot of any sandbox. What it was made from is its "
     "image;\n"
     "of a fork or clone the files that it began with, and after a restore those of the snapshot.\n"
     "What is in a folder that was deleted is not listed.",
     "cay diff web\ncay diff --json web before-upgrade", json_flags, 1, 2, false,
     "sandbox snapshot", cmd_diff},
    {"fork", "clone", "[flags] ID", "make sandboxes from another as it is now, and print their ids",
     "The new ones have its files and its configuration, not its processes; the entrypoint runs "
     "in\n"
     "each. Volumes and other mounts do not come along: `cay volume attach` gives one to a new "
     "sandbox.\n"
     "It stands still only while the files that it changed are copied, once for all. All of them "
     "are\n"
     "made, or none.",
     "cay fork web\ncay fork -n 8 --name try web", fork_flags, 1, 1, false, "sandbox", cmd_fork},
    {"snapshot create", NULL, "[flags] ID [NAME]", "keep a sandbox's files as they are now",
     "Processes and memory are not part of it. One that runs stands still only while the files "
     "that\n"
     "it changed are copied. A snapshot outlives its sandbox.",
     "cay snapshot create web before-upgrade\ncay snapshot create -l step=3 web",
     snapshot_create_flags, 1, 2, false, "sandbox", cmd_snapshot_create},
    {"snapshot ls", "snapshots", "[flags] [ID]", "list snapshots, of one sandbox or all", NULL,
     "cay snapshot ls\ncay snapshot ls web", snapshot_ls_flags, 0, 1, false, "sandbox",
     cmd_snapshot_ls},
    {"snapshot inspect", NULL, "[flags] SNAPSHOT", "show all about a snapshot, as JSON", NULL, NULL,
     json_flags, 1, 1, false, "snapshot", cmd_snapshot_inspect},
    {"snapshot label", NULL, "[flags] SNAPSHOT [LABEL=VALUE...]",
     "give a snapshot labels, or another name", "LABEL= takes a label away.",
     "cay snapshot label before-upgrade tested=yes", snapshot_label_flags, 1, ANY, false,
     "snapshot", cmd_snapshot_label},
    {"snapshot restore", "restore", "[flags] ID SNAPSHOT",
     "give a sandbox the files of a snapshot back",
     "It keeps its id, name, environment and the end of its life. What it changed since is gone;\n"
     "its processes end, and the entrypoint runs again.",
     "cay snapshot restore web before-upgrade", made_flags, 2, 2, false, "sandbox snapshot",
     cmd_snapshot_restore},
    {"snapshot clone", NULL, "[flags] SNAPSHOT", "make a sandbox from a snapshot and print its id",
     "Its environment, limits, metadata and entrypoint are those of the sandbox that the snapshot "
     "is "
     "of;\n"
     "volumes and other mounts are not.",
     "cay snapshot clone before-upgrade", snapshot_clone_flags, 1, 1, false, "snapshot",
     cmd_snapshot_clone},
    {"snapshot rm", NULL, "[flags] SNAPSHOT...", "remove snapshots",
     "Sandboxes that were made from them stay as they are.", NULL, quiet_flags, 1, ANY, false,
     "snapshot...", cmd_snapshot_rm},
    {"snapshot export", NULL, "SNAPSHOT [FILE]\nSNAPSHOT -",
     "write what a snapshot has beyond its image, as an OCI layer",
     "The layer is a tar archive, with whiteouts for what was removed. `cay snapshot import` takes "
     "it\n"
     "on any machine that has the same image. It goes to stdout without FILE.",
     "cay snapshot export before-upgrade layer.tar", NULL, 1, 2, false, "snapshot file",
     cmd_snapshot_export},
    {"snapshot import", NULL, "[flags] FILE IMAGE",
     "make a snapshot from an OCI layer on top of an image, and print its id",
     "FILE is on the daemon's machine, and only root there may do this.",
     "cay snapshot import layer.tar python:3.12-slim", snapshot_import_flags, 2, 2, false,
     "file installed", cmd_snapshot_import},
    {"template ls", "templates", "[flags]", "list templates", NULL, NULL, template_ls_flags, 0, 0,
     false, NULL, cmd_template_ls},
    {"template show", "template inspect", "[flags] NAME", "show all about a template, as JSON",
     NULL, "cay template show web", json_flags, 1, 1, false, "template", cmd_template_show},
    {"template create", NULL, "[flags] NAME IMAGE\n[flags] FILE",
     "make a template and print its id",
     "A template is what sandboxes are made from by one word: an image, limits, environment, "
     "files\n"
     "and commands. Those of --run, and what --file brings, are done once, here, with their "
     "output\n"
     "shown; every sandbox then starts from what they left. A command of --ready must succeed in "
     "each\n"
     "new sandbox before `cay create` is done; it is tried again until it does.\n"
     "\n"
     "FILE is JSON: {\"name\", \"description\", \"config\": {\"image\", \"env\", \"files\", "
     "\"setup\",\n"
     "\"ready\" …}}, or the same without \"config\" around it. \"-\" is stdin.",
     "cay template create --run 'apt-get update && apt-get install -y git' git debian:12\n"
     "cay template create --file app.py:/app/app.py -w /app --ready 'test -s app.py' app host\n"
     "cay create --template app",
     template_create_flags, 1, 2, false, NULL, cmd_template_create},
    {"template build", "build", "[flags] DIR\n[flags] NAME",
     "build a template from a folder with a Dockerfile or a cay.json, and print its id",
     "DIR has a Dockerfile or a cay.json. Its files are sent to the daemon, without what\n"
     ".dockerignore leaves out. Each step is kept as a layer: a step that nothing has changed for\n"
     "is not done again. Each RUN has a sandbox of its own, without network unless\n"
     "--network says so. A template of the same name is replaced; sandboxes that were made from it "
     "stay as they are.\n"
     "\n"
     "NAME runs the commands of a template again, on what its image's name means now.",
     "cay template build .\n"
     "cay template build -t web --build-arg VERSION=3 ./app\n"
     "cay template build --target test -f app/Dockerfile.dev app\n"
     "cay template build --pull web",
     template_build_flags, 1, 1, false, "build", cmd_template_build},
    {"template rm", NULL, "[flags] NAME...", "remove templates",
     "Sandboxes that were made from them stay. Those that are built in cannot go.", NULL,
     quiet_flags, 1, ANY, false, "template...", cmd_template_rm},
    {"net show", NULL, "[flags] ID", "show what a sandbox may reach",
     "Its policy, its addresses, how much went in and out, and how much was refused.", NULL,
     json_flags, 1, 1, false, "sandbox", cmd_net_show},
    {"net set", NULL, "[flags] ID [WHAT]", "change what a sandbox may reach",
     "WHAT is none, public, packages, profiles as pypi,npm,github, or a file with a policy. It "
     "takes\n"
     "the place of what was there, all of it, and is in force at once: connections that are no\n"
     "longer allowed are cut. Also while the sandbox is paused or stopped, and for one that was "
     "made\n"
     "without network. docs/network-policy.md has the rules.",
     "cay net set web packages\ncay net set web --allow api.example.com:443\ncay net set web "
     "public --deny example.com\ncay net set web none",
     net_set_flags, 1, 2, false, "sandbox", cmd_net_set},
    {"net explain", NULL, "[flags] ID HOST[:PORT]",
     "tell what would happen to a connection, and why",
     "Which rule decides, what happens to the name and to each of its addresses. The port is 443\n"
     "unless said. The exit status is 1 when it would be refused.",
     "cay net explain web pypi.org\ncay net explain web 169.254.169.254:80", net_explain_flags, 2,
     2, false, "sandbox", cmd_net_explain},
    {"net log", NULL, "[flags] ID", "show what a sandbox was refused",
     "A line each: when, whom it called, by which name, and the rule that says no. The last some\n"
     "hundred are kept as long as the sandbox, also over restarts.",
     "cay net log -f web", net_log_flags, 1, 1, false, "sandbox", cmd_net_log},
    {"port add", NULL, "[flags] ID [[IP:]HOST:]PORT[/udp]...",
     "let ports of a sandbox be reached on the host",
     "On 127.0.0.1 unless another address is given, which the daemon must allow "
     "(CAY_PORT_ADDRESSES). Without HOST any free port is taken, and printed. It works with or "
     "without a network, and holds until it is removed.",
     "cay port add web 8080:80\ncay port add web 5353:53/udp 9000", json_flags, 2, 64, false,
     "sandbox", cmd_port_add},
    {"port rm", "port remove, port delete", "ID PORT[/udp]...",
     "take ports of a sandbox off the host",
     "Connections through them are cut. Without /udp or /tcp both go.", "cay port rm web 80", NULL,
     2, 64, false, "sandbox", cmd_port_rm},
    {"forward", "port-forward, tunnel", "[flags] ID [[ADDRESS:]LOCAL:]PORT...",
     "reach ports of a sandbox from this machine, while it runs",
     "Listens here, on 127.0.0.1 unless ADDRESS says otherwise, and carries each connection "
     "through "
     "the\n"
     "daemon to the port of the sandbox, until ctrl-c. The daemon may be on another machine "
     "(--host,\n"
     "CAY_HOST): nothing but its API has to be reached, and nothing is published there. The "
     "sandbox\n"
     "needs no network. LOCAL is the same as PORT unless it is given; 0 takes any free port. A "
     "line "
     "for\n"
     "each says where it listens.\n\n"
     "TCP only; up to 512 connections at once. One that nothing listens for in the sandbox is "
     "reset,\n"
     "and the reason said once; the next try works when something does. It ends with status 0 by "
     "ctrl-c\n"
     "or SIGTERM, and with 1 when the sandbox is gone. What is to stay without this command is "
     "`cay port add`.",
     "cay forward web 8080\ncay forward db 0:5432 9000:80\ncay forward --host http://server:3111 "
     "web 8080",
     json_flags, 2, 64, false, "sandbox", cmd_forward},
    {"port ls", "port, ports", "[flags] ID [PORT[/udp]]",
     "show where ports of a sandbox are on the host", "With PORT, the address alone.",
     "cay run -d -p 8080:80 --name web nginx\ncay port web\ncurl http://$(cay port web 80)/",
     json_flags, 1, 2, false, "sandbox", cmd_port},
    {"volume create", NULL, "[flags] NAME", "make a volume and print its id",
     "A volume is a folder of a fixed size that outlives sandboxes and can be in several at once. "
     "Its\n"
     "name is that of no other volume.",
     "cay volume create --size 2G cache\ncay run -v cache:/cache host touch /cache/x",
     volume_create_flags, 1, 1, false, NULL, cmd_volume_create},
    {"volume ls", "volumes", "[flags]\n[flags] VOLUME[:PATH]", "list volumes, or files of one",
     "No sandbox is needed to look into a volume.", "cay volume ls\ncay volume ls cache:/",
     volume_ls_flags, 0, 1, false, NULL, cmd_volume_ls},
    {"volume inspect", NULL, "[flags] VOLUME", "show all about a volume, as JSON", NULL, NULL,
     json_flags, 1, 1, false, "volume", cmd_volume_inspect},
    {"volume rm", NULL, "[flags] VOLUME...", "remove volumes and all that is in them",
     "One that a sandbox has, also a stopped one, is not removed.", NULL, quiet_flags, 1, ANY,
     false, "volume...", cmd_volume_rm},
    {"volume cp", NULL, "[flags] SOURCE TARGET", "copy files to or from a volume",
     "One of the two is VOLUME:PATH. No sandbox is needed. A directory is copied with all that is\n"
     "in it; links are skipped.",
     "cay volume cp ./data cache:/data\ncay volume cp cache:/data/out.csv .", volume_cp_flags, 2, 2,
     false, "volume-place volume-place", cmd_volume_cp},
    {"volume attach", NULL, "[flags] VOLUME ID PATH", "mount a volume in a sandbox",
     "At once when it runs, and whenever it is started.", "cay volume attach --ro cache web /cache",
     volume_attach_flags, 3, 3, false, "volume sandbox", cmd_volume_attach},
    {"volume detach", NULL, "VOLUME [ID [PATH]]", "take a volume out of a sandbox",
     "Refused while processes have files of it open; they are named.", NULL, NULL, 1, 3, false,
     "volume sandbox", cmd_volume_detach},
    {"url", NULL, "[flags] ID PORT", "print the address of a port, for a browser",
     "Opens on this machine when the daemon has no token; where it has one, sign it. With "
     "--expires\n"
     "it opens for everybody who has it and reaches the daemon, until then.",
     "cay url web 8080\ncay url --expires 1h web 8080", url_flags, 2, 2, false, "sandbox", cmd_url},
    {"network create", NULL, "[flags] NAME", "make a network and print its id",
     "Sandboxes in a network see each other, by name and address, and nothing else of it; what "
     "else\n"
     "they may reach is said by --network.",
     "cay network create backend\ncay create --connect backend -n db host\n"
     "cay run --connect backend host curl http://db:8080/",
     json_flags, 1, 1, false, NULL, cmd_network_create},
    {"network ls", "networks", "[flags]", "list networks", NULL, NULL, network_ls_flags, 0, 0,
     false, NULL, cmd_network_ls},
    {"network inspect", NULL, "[flags] NETWORK", "show a network and who is in it, as JSON", NULL,
     NULL, json_flags, 1, 1, false, "network", cmd_network_inspect},
    {"network rm", NULL, "[flags] NETWORK...", "remove networks",
     "Sandboxes that are in one are disconnected first.", NULL, quiet_flags, 1, ANY, false,
     "network...", cmd_network_rm},
    {"network connect", NULL, "[flags] NETWORK ID...", "connect sandboxes to a network",
     "At once when they run, and whenever they are started; also those without network.",
     "cay network connect backend web db", quiet_flags, 2, ANY, false, "network sandbox...",
     cmd_network_connect},
    {"network disconnect", NULL, "[flags] NETWORK ID...", "take sandboxes out of a network",
     "What is open between them and the others is cut.", NULL, quiet_flags, 2, ANY, false,
     "network sandbox...", cmd_network_disconnect},
    {"audit verify", NULL, "[flags]", "say whether the audit log is whole",
     "Reads all of it, and names the first line that was changed, removed, put in or appended by "
     "another program. With --head it also says whether the line that `cay audit head` named "
     "earlier is still in the log: a program that can write the files while the daemon is stopped "
     "can cut lines off or write them anew, but not so that an old head is still in them. The exit "
     "status is 1 when something is wrong.",
     "cay audit verify\ncay audit verify --head \"$(cay audit head)\"", audit_verify_flags, 0, 0,
     false, NULL, cmd_audit_verify},
    {"audit head", NULL, "[flags]", "print the newest line's number and hash, to keep elsewhere",
     "Keep it where a program that can write the log's files cannot change it, and pass it to `cay "
     "audit verify --head` later. While the daemon is stopped, lines newer than that head can be "
     "cut off or replaced without being noticed.",
     "cay audit head", json_flags, 0, 0, false, NULL, cmd_audit_head},
    {"audit", NULL, "[flags]", "show who did what",
     "Calls that ran, wrote or managed something, and those that were refused. Secrets are taken "
     "out before they are written.",
     "cay audit --since 1h\ncay audit --who anyone", audit_flags, 0, 0, false, NULL, cmd_audit},
    {"webhook create", NULL, "[flags] URL",
     "have events sent to a URL; prints its id and the secret they are signed with",
     "Each event is a POST with the event as JSON, and is sent until the URL answers with 2xx, for "
     "a day. The secret is shown this once. docs/webhooks.md says how to check signatures.",
     "cay webhook create https://hooks.example.com/cay\n"
     "cay webhook create -t 'sandbox.*' -t alert.fired https://hooks.example.com/cay",
     webhook_create_flags, 1, 1, false, NULL, cmd_webhook_create},
    {"webhook ls", "webhooks", "[flags]", "list webhooks and how they are doing", NULL, NULL,
     network_ls_flags, 0, 0, false, NULL, cmd_webhook_ls},
    {"webhook rm", NULL, "[flags] ID...", "remove webhooks; what was not sent is not", NULL, NULL,
     quiet_flags, 1, ANY, false, "webhook...", cmd_webhook_rm},
    {"webhook test", NULL, "[flags] ID", "send an event to try a webhook, and show the answer",
     "Ends with 1 when the answer is not 2xx.", NULL, json_flags, 1, 1, false, "webhook",
     cmd_webhook_test},
    {"webhook deliveries", NULL, "[flags] ID", "list what was sent to a webhook last", NULL, NULL,
     webhook_deliveries_flags, 1, 1, false, "webhook", cmd_webhook_deliveries},
    {"webhook pause", NULL, "[flags] ID...", "send nothing for a while; events wait", NULL, NULL,
     quiet_flags, 1, ANY, false, "webhook...", cmd_webhook_pause},
    {"webhook resume", NULL, "[flags] ID...", "go on, or try again at once", NULL, NULL,
     quiet_flags, 1, ANY, false, "webhook...", cmd_webhook_resume},
    {"token create", NULL, "[flags] [NAME]", "make a token for somebody else, and print it",
     "It is shown this once: the daemon keeps a digest. Who has it sends it as Authorization: "
     "Bearer, or sets CAY_TOKEN. Needs root on the unix socket, CAY_AUTH_TOKEN, or a token with "
     "the scope admin.",
     "cay token create --scope read,exec --sandbox web --expires 12h\n"
     "cay token create --scope read,exec,write --label team=blue ci",
     token_create_flags, 0, 1, false, NULL, cmd_token_create},
    {"token ls", "tokens", "[flags]", "list tokens", NULL, NULL, network_ls_flags, 0, 0, false,
     NULL, cmd_token_ls},
    {"token revoke", "token rm", "[flags] ID...",
     "end tokens, and the streams and terminals that were opened with them", NULL, NULL,
     quiet_flags, 1, ANY, false, "token...", cmd_token_revoke},
    {"alert set", NULL, "[flags] ID cpu|memory|pids|disk THRESHOLD",
     "have the daemon look after what a sandbox uses, and print the alert's id",
     "cpu, memory and disk are percent of what the sandbox may use, pids a number. It fires once\n"
     "when the value has come to the threshold, and again only after it has been below.",
     "cay alert set web memory 90\ncay alert set --action pause web cpu 95", alert_set_flags, 3, 3,
     false, "sandbox metric", cmd_alert_set},
    {"alert ls", NULL, "[flags] ID", "list the alerts of a sandbox", NULL, NULL, network_ls_flags,
     1, 1, false, "sandbox", cmd_alert_ls},
    {"alert history", NULL, "[flags] ID", "tell when alerts of a sandbox have fired", NULL, NULL,
     json_flags, 1, 1, false, "sandbox", cmd_alert_history},
    {"alert rm", NULL, "[flags] ALERT...", "delete alerts", NULL, NULL, quiet_flags, 1, ANY, false,
     NULL, cmd_alert_rm},
    {"pool ls", NULL, "[flags]", "list the kinds of sandboxes that are ready ahead",
     "A create that asks for the image and the limits of one gets a sandbox that is up already.\n"
     "Those without an id are the daemon's own (CAY_POOL_PROFILES, CAY_POOL_SIZE).",
     NULL, network_ls_flags, 0, 0, false, NULL, cmd_pool_ls},
    {"pool add", NULL, "[flags] IMAGE\n[flags] --template NAME",
     "have sandboxes of a kind ready from now on, and print its id",
     "Also after a restart. The image is not pulled for that: it must be here.",
     "cay pool add --size 4 host\ncay pool add -m 1G host", pool_add_flags, 0, 1, false,
     "installed", cmd_pool_add},
    {"pool rm", NULL, "[flags] ID...", "have them ready no more", NULL, NULL, quiet_flags, 1, ANY,
     false, "profile...", cmd_pool_rm},
    {"serve", NULL, "[flags]", "run the daemon",
     "Needs root. Settings are environment variables; `cay serve --help` lists them.",
     "cay serve\ncay serve --listen 127.0.0.1:4000 --data /srv/cay --run /run/cay2", serve_flags, 0,
     0, false, NULL, NULL},
    {"worker", NULL, "[flags]", "run the daemon as the sandbox worker of an iii engine",
     "What `cay serve --engine` does, at ws://127.0.0.1:49134 unless another is named, and "
     "without\n"
     "a port of its own unless --listen names one: callers are the engine's, and the API is at "
     "the\n"
     "unix socket. An engine that is started anew finds the sandboxes as they were. While another\n"
     "worker has the name or the functions there, cay logs an error, goes on and takes over when\n"
     "that worker has gone; with --standby that is expected and no error. Only the functions\n"
     "sandbox::* of iii are registered; CAY_ENGINE_EXTRA=true adds cay's other functions.",
     "cay worker\ncay worker --engine ws://engine.example:49134 --standby", serve_flags, 0, 0,
     false, NULL, NULL},
    {"mcp", NULL, "[flags]",
     "give sandboxes to a model: the Model Context Protocol on stdin and stdout",
     "For programs that start this one and talk to it: assistants, editors, agents. They see the\n"
     "sandboxes of the daemon, whichever address it has, as tools; when none is running, one is\n"
     "started for this program alone and ends with it, and so do its sandboxes. A daemon serves "
     "the\n"
     "same at http://HOST:PORT/mcp to those that speak HTTP.",
     "cay mcp\ncay mcp --tools core\ncay mcp --tools sandbox_exec,sandbox_read_file --read-only",
     mcp_flags, 0, 0, false, NULL, cmd_mcp},
    {"mcp install", NULL, "[flags] [CLIENT]",
     "tell a program that speaks MCP how to start `cay mcp`, and show what that changed",
     "Only the entry changes in the settings of the client. Without a client, those that are\n"
     "known are listed, and which of them have cay. With --host it is that daemon that the client\n"
     "will use. A token is never written: the client's own environment has to have it.",
     "cay mcp install claude\ncay mcp install --tools core --project vscode\n"
     "cay mcp install --dry-run cursor",
     mcp_install_flags, 0, 1, false, "mcp-client", cmd_mcp_install},
    {"mcp uninstall", NULL, "[flags] CLIENT", "take it out of a client's settings again", NULL,
     "cay mcp uninstall claude", mcp_uninstall_flags, 1, 1, false, "mcp-client", cmd_mcp_uninstall},
    {"sandbox run", NULL, "[flags] IMAGE -- COMMAND [ARGUMENT...]",
     "iii: run a command in a new sandbox, and stop the sandbox",
     "The commands below \"sandbox\" are those of iii, with its words, flags and exit statuses. "
     "They\n"
     "speak its protocol, so that they work with a cay daemon and with a genuine engine.\n"
     "\n"
     "The exit status is the command's, 124 when it took too long, 1 when it was not run. Ctrl-C\n"
     "stops the sandbox too. CAY_TOKEN is sent as a bearer token; III_URL, or CAY_WS_HOST and\n"
     "CAY_WS_PORT, say where to connect when no flag does. A program that is a link to cay and is\n"
     "called iii has the same as \"iii sandbox\" and \"iii worker sandbox\"; as in iii, \"-e K\"\n"
     "without a value is left out there.",
     "cay sandbox run python -- python3 -c 'print(2 ** 10)'\n"
     "cay sandbox run python --cpus 2 --memory 1G --timeout 5m -- python3 -V",
     sandbox_run_flags, 1, 1, false, "image", cmd_sandbox_run, .apart = true},
    {"sandbox create", NULL, "[flags] IMAGE", "iii: make a sandbox and print its id",
     "It goes when it was stopped, or idle for too long.",
     "SB=$(cay sandbox create python --idle-timeout 300)\n"
     "cay sandbox create node --name web --network -e PORT=8080",
     sandbox_create_flags, 1, 1, false, "image", cmd_sandbox_create},
    {"sandbox exec", NULL, "[flags] ID -- COMMAND [ARGUMENT...]", "iii: run a command in a sandbox",
     "Its output is shown as it comes, with --json when it is over. The exit status is the\n"
     "command's, 124 when it took too long: after --timeout, or the daemon's default (30 s).",
     "cay sandbox exec \"$SB\" -- python3 -c 'print(2 + 2)'\n"
     "echo hello | cay sandbox exec -i \"$SB\" --timeout 30s -- cat",
     sandbox_exec_flags, 1, 1, false, NULL, cmd_sandbox_exec, .apart = true},
    {"sandbox list", "sandbox ls", "[flags]", "iii: list sandboxes", NULL,
     "cay sandbox list --json", sandbox_list_flags, 0, 0, false, NULL, cmd_sandbox_list},
    {"sandbox stop", NULL, "[flags] ID", "iii: end a sandbox, with all that is in it", NULL,
     "cay sandbox stop \"$SB\"", sandbox_stop_flags, 1, 1, false, NULL, cmd_sandbox_stop},
    {"sandbox upload", NULL, "[flags] ID FILE|- PATH", "iii: put a file into a sandbox", NULL,
     "cay sandbox upload \"$SB\" data.csv /tmp/data.csv\n"
     "tar c . | cay sandbox upload --parents \"$SB\" - /srv/app.tar",
     sandbox_upload_flags, 3, 3, false, NULL, cmd_sandbox_upload},
    {"sandbox download", NULL, "[flags] ID PATH FILE|-", "iii: get a file out of a sandbox",
     "The file appears whole or not at all.",
     "cay sandbox download \"$SB\" /tmp/out.png .\ncay sandbox download \"$SB\" /etc/hosts -",
     sandbox_stop_flags, 3, 3, false, NULL, cmd_sandbox_download},
    {"trigger", NULL, "[flags] FUNCTION [KEY=VALUE...]",
     "iii: call any function, and print what it gives",
     "A VALUE that is JSON is sent as that, any other as a text. With --help behind FUNCTION, "
     "what\n"
     "it takes and gives is shown. An error is printed to stderr as it was told, as JSON.",
     "cay trigger sandbox::list\n"
     "cay trigger sandbox::create image=python memory_mb=256 --timeout-ms 300000\n"
     "cay trigger sandbox::exec --help",
     trigger_flags, 1, ANY, false, NULL, cmd_trigger, .own_help = true},
    {"doctor", NULL, "[flags] [ID]...",
     "check what this machine can do, and say what to do about the rest",
     "The exit status is 1 when something fails that cay cannot work without. With --repair, disks "
     "that belong to no sandbox are dealt with: those with the given ids, or all.",
     "cay doctor\ncay doctor --repair adopt\ncay doctor --repair remove "
     "sbx_5f0c1e6b2a9d4c7e8f013b52",
     doctor_flags, 0, 1000, false, NULL, cmd_doctor},
    {"version", NULL, "[flags]", "print the version of cay, and of the daemon if one runs", NULL,
     NULL, json_flags, 0, 0, false, NULL, cmd_version},
    {"completion", NULL, "bash|zsh|fish\n--line -- WORD...",
     "print a completion script for a shell",
     "The script asks `cay completion --line` for what can follow; names of sandboxes, images and\n"
     "jobs come from the daemon.",
     "cay completion bash > /etc/bash_completion.d/cay\n"
     "cay completion zsh > /usr/local/share/zsh/site-functions/_cay\n"
     "cay completion fish > ~/.config/fish/completions/cay.fish",
     completion_flags, 0, ANY, false, "shell", cmd_completion},
    {"help", NULL, "[COMMAND]", "tell about cay, or about one command", NULL, NULL, help_flags, 0,
     2, false, "command", cmd_help},
    {0},
};

bool command_is_alias(const struct command *command, const char *word)
{
    const char *p = command->alias;
    size_t len = strlen(word);

    while (p && *p) {
        size_t n = strcspn(p, ",");

        if (n == len && memcmp(p, word, n) == 0)
            return true;
        p += n + strspn(p + n, ", ");
    }
    return false;
}

const struct command *command_find(int argc, char **argv, int *ret_used)
{
    auto_free char *two = NULL;
    const struct command *one = NULL;

    if (argc < 1)
        return NULL;
    if (argc > 1)
        two = xasprintf("%s %s", argv[0], argv[1]);
    for (const struct command *c = commands; c->name; c++) {
        if (two && (strcmp(c->name, two) == 0 || command_is_alias(c, two))) {
            *ret_used = 2;
            return c;
        }
        if (!one && (strcmp(c->name, argv[0]) == 0 || command_is_alias(c, argv[0])))
            one = c;
    }
    *ret_used = 1;
    return one;
}

bool command_is_group(const char *word)
{
    size_t n = strlen(word);

    for (const struct command *c = commands; c->name; c++) {
        if (str_starts(c->name, word) && c->name[n] == ' ')
            return true;
    }
    return false;
}
