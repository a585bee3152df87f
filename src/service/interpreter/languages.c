#include "service/interpreter/languages.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "model/limits.h"

static const char *const python_names[] = {"py", "python3", NULL};
static const char *const javascript_names[] = {"js", "node", "nodejs", NULL};
static const char *const typescript_names[] = {"ts", NULL};
static const char *const go_names[] = {"golang", NULL};
static const char *const bash_names[] = {"sh", "shell", NULL};

enum { PYTHON, JAVASCRIPT, TYPESCRIPT, GO, BASH };

const struct language languages[] = {
    [PYTHON] = {"python", python_names, "python3", "Python 3", "python3", .keeps_state = true},
    [JAVASCRIPT] = {"javascript", javascript_names, "node", "Node.js", "node", .keeps_state = true},
    [TYPESCRIPT] = {"typescript", typescript_names, "typescript", "TypeScript", "node"},
    [GO] = {"go", go_names, "go", "Go", "go"},
    [BASH] = {"bash", bash_names, "bash", "Bash", "bash"},
    {0},
};

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

const struct language *language_find(const char *name)
{
    for (const struct language *l = languages; l->name; l++)
        if (strcmp(l->name, name) == 0 || is_one_of(name, l->aliases))
            return l;
    return NULL;
}

/* ---- runs ---- */

#define NEEDS(program)                                                                             \
    "command -v " program " >/dev/null 2>&1 || { echo 'cay: interpreter missing' >&2; exit 127; "  \
    "}\n"

/* Packages that were installed for all are found, whether npm could write to its own folder or, as
 * below, not. */
#define NODE_PATHS                                                                                 \
    "export NODE_PATH=\"${NODE_PATH:+$NODE_PATH:}/usr/local/lib/node_modules:"                     \
    "/usr/lib/node_modules:$HOME/.local/lib/node_modules\"\n"

/* A folder of its own, so that runs side by side do not meet; it goes with the run. */
#define CODE_FILE(name)                                                                            \
    "d=$(mktemp -d \"${TMPDIR:-/tmp}/cay-code.XXXXXX\") || exit 1\n"                               \
    "trap 'rm -rf \"$d\"' EXIT\n"                                                                  \
    "cat >\"$d/" name "\" || exit 1\n"

static const char node_run[] = NEEDS("node") NODE_PATHS "exec node \"$@\" -\n";

static const char typescript_run[] = NEEDS("node") NODE_PATHS CODE_FILE(
    "code.ts") "if command -v tsx >/dev/null 2>&1; then tsx \"$d/code.ts\" </dev/null\n"
               "elif node --experimental-strip-types -e 0 >/dev/null 2>&1; then\n"
               "  node --experimental-strip-types --disable-warning=ExperimentalWarning "
               "\"$d/code.ts\" "
               "</dev/null\n"
               "elif command -v npx >/dev/null 2>&1; then npx --yes tsx \"$d/code.ts\" </dev/null\n"
               "else echo 'typescript needs node 22.6 or later, or tsx (npm install -g tsx)' >&2; "
               "exit 1\n"
               "fi\n";

static const char go_run[] = NEEDS("go") CODE_FILE("code.go") "go run \"$d/code.go\" </dev/null\n";

static const char bash_run[] =
    NEEDS("bash") CODE_FILE("code.sh") "bash \"$d/code.sh\" </dev/null\n";

static char **shell_argv(const char *script)
{
    char **argv = NULL;

    argv = strv_add(argv, "/bin/sh");
    argv = strv_add(argv, "-c");
    argv = strv_add(argv, script);
    return strv_add(argv, "sh");
}

/* Does a line begin with that word of a module? What is in a comment or a text may count too, and
 * runs as a module then, which is rarely a difference. */
static bool line_begins(const char *code, const char *word)
{
    size_t n = strlen(word);

    for (const char *line = code; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, n) == 0 && strchr(" {*'\"", line[n]) && line[n])
            return true;
    }
    return false;
}

struct code_plan language_plan(const struct language *l, const char *code)
{
    struct code_plan plan = {.code_is_input = true};

    switch (l - languages) {
    case JAVASCRIPT:
        plan.argv = shell_argv(node_run);
        if (line_begins(code, "import") || line_begins(code, "export"))
            plan.argv = strv_add(plan.argv, "--input-type=module");
        break;
    case TYPESCRIPT:
        plan.argv = shell_argv(typescript_run);
        break;
    case GO:
        plan.argv = shell_argv(go_run);
        break;
    default:
        if (strlen(code) > ARG_BYTES_MAX) {
            plan.argv = shell_argv(bash_run);
            break;
        }
        plan.code_is_input = false;
        plan.argv = strv_add(NULL, "bash");
        plan.argv = strv_add(plan.argv, "-c");
        plan.argv = strv_add(plan.argv, "--"); /* code may begin with a dash */
        plan.argv = strv_add(plan.argv, code);
    }
    return plan;
}

/* ---- what is there ---- */

/* All at once, since some take long to say their version. */
const char *const languages_look =
    "say() { p=$(command -v \"$1\" 2>/dev/null) || return; shift\n"
    "  echo \"$n $p $(\"$@\" 2>/dev/null | head -n 1)\"; }\n"
    "{ n=python3; say python3 python3 -c 'import sys; print(sys.version.split()[0])' & \n"
    "  n=node; say node node --version &\n"
    "  n=tsx; say tsx true &\n"
    "  n=bash; say bash bash -c 'echo $BASH_VERSION' &\n"
    "  n=go; say go go env GOVERSION & wait; }\n";

/* ---- packages ---- */

static const char pip_install[] = NEEDS(
    "python3") "export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore "
               "PIP_DISABLE_PIP_VERSION_CHECK=1\n"
               "if python3 -c 'import pip' 2>/dev/null; then exec python3 -m pip install -- "
               "\"$@\"\n"
               "elif command -v uv >/dev/null 2>&1; then exec uv pip install --system -- \"$@\"\n"
               "else echo 'the sandbox has no pip; its image needs the package python3-pip' >&2; "
               "exit 1; fi\n";

static const char npm_install[] =
    NEEDS("npm") "p=$(npm prefix -g); [ -w \"$p/lib\" ] || p=$HOME/.local\n"
                 "exec npm install -g --prefix \"$p\" -- \"$@\"\n";

static const char go_install[] = NEEDS(
    "go") "for p; do shift; case $p in *@*) ;; *) p=$p@latest;; esac; set -- \"$@\" \"$p\"; done\n"
          "exec go install \"$@\"\n";

/* Slim images come without lists of packages. */
static const char apt_install[] =
    "export DEBIAN_FRONTEND=noninteractive\n"
    "if command -v apt-get >/dev/null 2>&1; then\n"
    "  ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1 || apt-get update -q >&2 || exit 1\n"
    "  exec apt-get install -y -- \"$@\"\n"
    "elif command -v apk >/dev/null 2>&1; then exec apk add -- \"$@\"\n"
    "else echo 'cay: interpreter missing' >&2; exit 127; fi\n";

char **install_plan(const char *manager, char *const *packages)
{
    static const struct {
        const char *name, *script;
    } managers[] = {
        {"pip", pip_install},        {"pip3", pip_install},       {"python", pip_install},
        {"py", pip_install},         {"python3", pip_install},    {"npm", npm_install},
        {"javascript", npm_install}, {"typescript", npm_install}, {"js", npm_install},
        {"ts", npm_install},         {"node", npm_install},       {"go", go_install},
        {"golang", go_install},      {"apt", apt_install},        {"apt-get", apt_install},
        {"apk", apt_install},        {"bash", apt_install},       {"sh", apt_install},
    };
    char **argv = NULL;

    for (size_t i = 0; i < ARRAY_LEN(managers) && !argv; i++)
        if (strcmp(managers[i].name, manager) == 0)
            argv = shell_argv(managers[i].script);
    for (; argv && *packages; packages++)
        argv = strv_add(argv, *packages);
    return argv;
}
