#include "cli/hints.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"

struct flag_hint {
    const char *commands; /* with spaces between them; NULL = any */
    const char *flags;    /* long names and letters */
    const char *instead;
};

static const struct flag_hint flag_hints[] = {
    {"run create", "expose publish-all P",
     "name each port with -p: -p 8080:80, or -p 80 for any free port of the host"},
    {"run create", "volumes-from", "name each volume with -v VOLUME:PATH"},
    {"run create", "dns",
     "name servers are part of a policy: --network=FILE.json with dns.nameservers"},
    {"run create", "add-host",
     "write it into /etc/hosts: `cay exec ID sh -c 'echo ADDRESS NAME >>/etc/hosts'`"},
    {"run create", "ip link",
     "addresses are given by cay; sandboxes find each other by name in a network of `cay network`"},
    {"run create", "network-alias", "in a network a sandbox is called by its --name"},
    {"create", "ulimit",
     "the limit on processes is --pids N; other limits are a command's: cay exec --ulimit"},
    {"create", "u user", "a sandbox has no user of its own; give -u to `cay exec`"},
    {"create", "rm",
     "a sandbox goes by itself when its --timeout is over; `cay run` removes at once"},
    {"create", "d detach", "create always leaves the sandbox running; leave -d out"},
    {"create", "t tty i interactive it",
     "create opens no terminal; use `cay run -it IMAGE sh`, or `cay exec -it ID sh` afterwards"},
    {"run create", "entrypoint",
     "write the program after the image: cay run IMAGE PROGRAM ARGUMENTS"},
    {"run create", "cpus cpu-shares cpuset-cpus", "the limit on processors is --cpu CORES"},
    {"run create", "memory-swap memory-reservation", "there is one limit on memory: --memory MB"},
    {"run create", "l label", "notes are kept with --metadata K=V of `cay create`"},
    {"run create exec", "privileged cap-add device gpus security-opt userns pid ipc",
     "a sandbox gets no more rights or devices than all others"},
    {"run create", "cap-drop read-only init",
     "not needed: a sandbox has few rights as it is, and an init of its own"},
    {"run create", "restart",
     "nothing is started again by itself; a sandbox stays up when its "
     "program ends"},
    {"run create", "hostname", "the host name is chosen by cay"},
    {"shell", "c l command",
     "a shell is opened without a command; `cay exec -it ID COMMAND` runs one"},
    {"ls", "filter f", "filter with --status running, or `cay ls --json | jq`"},
    {NULL, "format o output", "there is --json where a command gives data"},
    {"ls", "no-trunc", "nothing is cut when the output is no terminal, or with --json"},
    {"kill", "1 2 9 15 HUP INT KILL TERM SIGKILL SIGTERM",
     "the signal is given with -s: cay kill -s KILL ID PID"},
    {"rm kill", "t time timeout",
     "the entrypoint has 2 seconds to end after its stop signal; `cay stop --time` gives it more"},
    {"stop", "y yes f force", "not needed: the files of a stopped sandbox are kept"},
    {"start", "a attach i interactive",
     "start gives no terminal; `cay logs -f ID` follows the entrypoint"},
    {"rm", "v volumes link", "everything of a sandbox is removed with it"},
    {"logs", "since until", "use --tail N; -t shows when each line was written"},
    {"cp", "a archive r R recursive p preserve",
     "not needed: links, modes and times are kept, and folders are copied whole"},
    {"cp", "L follow-link",
     "links in folders are copied as links; give the path that a link leads to"},
};

/* A word of another tool, and what to write instead. */
struct word_hint {
    const char *words; /* with ',' between them */
    const char *instead;
};

static const struct word_hint word_hints[] = {
    {"ssh,sh,bash,connect,console,enter,terminal,it", "`cay shell ID` opens a shell in a sandbox"},
    {"push,image push,publish",
     "images are not pushed; `cay image export NAME FILE` writes one that `docker load` and skopeo "
     "take"},
    {"login,logout,auth",
     "credentials are given to a pull: `cay pull --username USER --password-stdin IMAGE`, or are "
     "those of the daemon's Docker configuration"},
    {"image build,buildx",
     "`cay build DIR` makes a template from a Dockerfile, `cay create --template NAME` sandboxes "
     "of it"},
    {"restart,reboot", "`cay stop ID && cay start ID` ends and starts a sandbox"},
    {"unpause,up,boot",
     "`cay resume ID` wakes a paused sandbox, `cay start ID` starts a stopped one"},
    {"freeze,suspend", "`cay pause ID` freezes a sandbox"},
    {"down,destroy,delete,remove,del,terminate,prune",
     "`cay rm ID` removes a sandbox, `cay rm --all` every one; `cay image prune` removes images"},
    {"system,system prune,df", "`cay image prune` removes images, `cay rm --all` sandboxes; `cay "
                               "doctor` looks at the machine"},
    {"sandboxes,container,containers,box,vm",
     "commands for sandboxes stand alone: `cay ls`, `cay create`, `cay rm ID`"},
    {"spawn,new,launch,make,init", "`cay create` makes a sandbox, `cay run` one for a command"},
    {"checkpoint", "`cay snapshot create ID` keeps a sandbox's files as they are"},
    {"branch", "`cay fork -n N ID` makes sandboxes from another as it is now"},
    {"rollback,revert,undo,snapshot rollback",
     "`cay snapshot restore ID SNAPSHOT` gives a sandbox its files of then back"},
    {"snapshot rename,snapshot tag",
     "`cay snapshot label --name NAME SNAPSHOT` gives another name"},
    {"mount,volume mount,volume add", "`cay volume attach VOLUME ID PATH` mounts one"},
    {"umount,unmount,volume umount,volume unmount,volume remove",
     "`cay volume detach VOLUME ID` takes one out of a sandbox, `cay volume rm` removes it"},
    {"volume prune", "`cay volume ls` shows which no sandbox has, `cay volume rm` removes them"},
    {"volume resize", "a volume keeps its size: make another, and `cay volume cp` the files"},
    {"warm,prewarm", "`cay pool add IMAGE` has sandboxes ready before they are asked for"},
    {"save,image save",
     "`cay commit ID NAME` makes an image of a sandbox, `cay image export` writes one to a file"},
    {"load,image load,import", "`cay image import FILE [NAME]` takes what docker save wrote"},
    {"export", "`cay image export NAME FILE` writes an image; `cay cp ID:PATH -` a folder as tar"},
    {"tag", "`cay image tag NAME NEW` gives an image one more name"},
    {"rename", "a sandbox keeps its name; give one with `cay create --name NAME`"},
    {"extend,keepalive,set-timeout,timeout",
     "`cay renew ID TIME` moves the end of a sandbox's life"},
    {"expose,publish,host",
     "`cay port add ID 8080:80` lets a port of a sandbox be reached on the host, `cay forward ID "
     "8080` here for as long as it runs"},
    {"unexpose,unpublish", "`cay port rm ID PORT` takes a port of a sandbox off the host"},
    {"network show,network set,network explain,network log,network allow,network deny",
     "what one sandbox may reach is `cay net show ID`, `cay net set`, `cay net explain` and `cay "
     "net log`; `cay network` joins sandboxes"},
    {"net create,net ls,net rm,net inspect,net connect,net disconnect",
     "networks that join sandboxes are `cay network create`, `ls`, `rm`, `inspect`, `connect` and "
     "`disconnect`; `cay net` is what one sandbox may reach"},
    {"network prune", "`cay network ls` shows which no sandbox is in, `cay network rm` removes "
                      "them"},
    {"network remove,network delete,network del", "`cay network rm NETWORK` removes one"},
    {"net allow,net deny,net add,net block,net unblock",
     "`cay net set ID` takes all that a sandbox may reach: `cay net set ID pypi --allow "
     "api.example.com:443`"},
    {"firewall,policy,egress,allow,deny",
     "`cay net set ID` changes what a sandbox may reach, `cay net show ID` shows it"},
    {"wait", "`cay job wait JOB` waits for a command in the background"},
    {"metrics,usage,monitor", "`cay stats` shows what sandboxes use, `cay top ID` their processes"},
    {"watch", "`cay events -f` shows what happens, `cay stats` what sandboxes use, `cay logs -f "
              "ID` what one prints"},
    {"info,status,health", "`cay doctor` looks at the machine, `cay version` at the daemon, `cay "
                           "inspect ID` at a sandbox"},
    {"daemon,server,agent", "`cay serve` runs the daemon"},
    {"config,configure,settings", "settings are the daemon's: `cay serve --help` lists them"},
    {"fs", "`cay file ls ID` lists files, `cay cp` copies them in and out"},
    {"upload,download,put,get,write,read,cat,file download,file get,file cat,file cp",
     "`cay cp` copies files in and out; `cay file read ID PATH` prints one"},
    {"search", "cay does not search registries; `cay pull REFERENCE` takes any name they have"},
    {"history", "`cay image inspect NAME` shows an image, `cay diff ID` what a sandbox changed"},
    {"setenv,export-env,set-env", "`cay env set ID NAME=VALUE` sets variables of a sandbox"},
    {"bg,background,fg", "`cay exec -d ID COMMAND` leaves one running, `cay jobs` lists them, `cay "
                         "attach ID JOB` comes back"},
    {"man", "`cay help COMMAND` tells about a command"},
};

static bool in_list(const char *list, char separator, const char *word)
{
    const char ends[] = {separator, '\0'};
    size_t len = strlen(word);

    for (;;) {
        size_t n = strcspn(list, ends);

        if (n == len && memcmp(list, word, n) == 0)
            return true;
        if (!list[n])
            return false;
        list += n + 1;
    }
}

const char *hint_flag(const char *command, const char *flag)
{
    for (size_t i = 0; i < ARRAY_LEN(flag_hints); i++) {
        const struct flag_hint *h = &flag_hints[i];

        if ((!h->commands || in_list(h->commands, ' ', command)) && in_list(h->flags, ' ', flag))
            return h->instead;
    }
    return NULL;
}

/* The distance to a command's name, or to one of its other names. */
static size_t distance(const char *word, const struct command *c)
{
    size_t least = str_distance(word, c->name);
    const char *p = c->alias;

    while (p && *p) {
        size_t n = strcspn(p, ",");
        auto_free char *alias = xstrndup(p, n);
        size_t d = str_distance(word, alias);

        least = d < least ? d : least;
        p += n + strspn(p + n, ", ");
    }
    return least;
}

/* Groups are words that people mistype too: "imge ls", "fiel". */
static const char *nearest(const char *word, size_t *ret)
{
    static char group[32];
    const char *best = NULL;

    *ret = strlen(word) < 4 ? 2 : 3;
    for (const struct command *c = commands; c->name; c++) {
        size_t n = strcspn(c->name, " "), d = distance(word, c);
        auto_free char *first = xstrndup(c->name, n);

        if (d < *ret && d < strlen(word)) {
            *ret = d;
            best = c->name;
        }
        d = c->name[n] ? str_distance(word, first) : *ret;
        if (d < *ret && d < strlen(word)) {
            *ret = d;
            (void)snprintf(group, sizeof(group), "%s", first);
            best = group;
        }
    }
    return best;
}

char *hint_word(const char *word)
{
    auto_free char *group = NULL;
    size_t d;
    const char *best;

    for (size_t i = 0; i < ARRAY_LEN(word_hints); i++) {
        if (in_list(word_hints[i].words, ',', word))
            return xasprintf("there is no command \"%s\": %s", word, word_hints[i].instead);
    }
    best = nearest(word, &d);
    if (best)
        return xasprintf("unknown command \"%.80s\": did you mean \"%s\"?", word, best);
    group = xstrndup(word, strcspn(word, " "));
    if (command_is_group(group))
        return xasprintf("unknown command \"%.80s\": see \"cay help %s\"", word, group);
    return xasprintf("unknown command \"%.80s\": see \"cay help\"", word);
}
