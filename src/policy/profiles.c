#include "policy/policy_internal.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Names that go together, so that nobody has to find out where a package manager gets its files.
 * All are asked by TLS on 443; a number after a name is one more port that is used there. */

static const char *const pypi[] = {"pypi.org", "files.pythonhosted.org", "pypi.python.org", NULL};
static const char *const npm[] = {"registry.npmjs.org", "registry.yarnpkg.com", "npm.jsr.io",
                                  "repo.yarnpkg.com", NULL};
static const char *const github[] = {
    "github.com 22",       "*.githubusercontent.com", "api.github.com",
    "codeload.github.com", "*.pkg.github.com",        "ghcr.io",
    "ssh.github.com",      "uploads.github.com",      NULL};
static const char *const gitlab[] = {"gitlab.com 22", "registry.gitlab.com",
                                     "cdn.registry.gitlab-static.net", NULL};
static const char *const debian[] = {"deb.debian.org 80", "security.debian.org 80",
                                     "ftp.debian.org 80", "snapshot.debian.org 80", NULL};
static const char *const ubuntu[] = {"archive.ubuntu.com 80",       "security.ubuntu.com 80",
                                     "ports.ubuntu.com 80",         "*.archive.ubuntu.com 80",
                                     "ppa.launchpadcontent.net 80", NULL};
static const char *const alpine[] = {"dl-cdn.alpinelinux.org 80", NULL};
static const char *const fedora[] = {"mirrors.fedoraproject.org", "dl.fedoraproject.org",
                                     "download.fedoraproject.org", "codecs.fedoraproject.org",
                                     NULL};
static const char *const crates[] = {"crates.io", "index.crates.io", "static.crates.io",
                                     "static.rust-lang.org", NULL};
static const char *const go[] = {"proxy.golang.org", "sum.golang.org",         "go.dev",
                                 "golang.org",       "storage.googleapis.com", NULL};
static const char *const rubygems[] = {"rubygems.org", "index.rubygems.org", "api.rubygems.org",
                                       NULL};
static const char *const maven[] = {"repo.maven.apache.org", "repo1.maven.org",
                                    "plugins.gradle.org",    "services.gradle.org",
                                    "downloads.gradle.org",  NULL};
static const char *const nuget[] = {"api.nuget.org", "www.nuget.org", "globalcdn.nuget.org", NULL};
static const char *const packagist[] = {"packagist.org", "repo.packagist.org", NULL};
static const char *const conda[] = {"conda.anaconda.org", "repo.anaconda.com", "anaconda.org",
                                    NULL};
static const char *const hex[] = {"hex.pm", "repo.hex.pm", "builds.hex.pm", NULL};
static const char *const cran[] = {"cran.r-project.org", "cloud.r-project.org",
                                   "packagemanager.posit.co", NULL};
static const char *const node[] = {"nodejs.org", "deb.nodesource.com", NULL};
static const char *const huggingface[] = {"huggingface.co", "*.hf.co", "cdn-lfs.huggingface.co",
                                          NULL};
static const char *const docker_hub[] = {"registry-1.docker.io",
                                         "auth.docker.io",
                                         "index.docker.io",
                                         "production.cloudflare.docker.com",
                                         "*.r2.cloudflarestorage.com",
                                         NULL};
static const char *const anthropic[] = {"api.anthropic.com", NULL};
static const char *const openai[] = {"api.openai.com", NULL};

const struct profile profiles[] = {
    {"public", "all of the public internet", NULL, CLASS_PUBLIC, false},
    {"private", "private networks", NULL, CLASS_PRIVATE, false},
    {"host", "the machine that cay runs on", NULL, CLASS_HOST, false},
    {"pypi", "Python packages", pypi, 0, true},
    {"npm", "JavaScript packages", npm, 0, true},
    {"node", "Node.js itself", node, 0, true},
    {"debian", "Debian packages", debian, 0, true},
    {"ubuntu", "Ubuntu packages", ubuntu, 0, true},
    {"alpine", "Alpine packages", alpine, 0, true},
    {"fedora", "Fedora packages", fedora, 0, true},
    {"crates", "Rust packages", crates, 0, true},
    {"go", "Go modules", go, 0, true},
    {"rubygems", "Ruby packages", rubygems, 0, true},
    {"maven", "Java packages: Maven and Gradle", maven, 0, true},
    {"nuget", ".NET packages", nuget, 0, true},
    {"packagist", "PHP packages", packagist, 0, true},
    {"conda", "Conda packages", conda, 0, true},
    {"hex", "Elixir and Erlang packages", hex, 0, true},
    {"cran", "R packages", cran, 0, true},
    {"github", "GitHub: git over HTTPS and ssh, API, releases", github, 0, false},
    {"gitlab", "GitLab: git over HTTPS and ssh", gitlab, 0, false},
    {"huggingface", "models and datasets", huggingface, 0, false},
    {"docker-hub", "images of Docker Hub", docker_hub, 0, false},
    {"anthropic", "the API of Anthropic", anthropic, 0, false},
    {"openai", "the API of OpenAI", openai, 0, false},
    {0},
};

const struct profile *profile_find(const char *name)
{
    for (const struct profile *p = profiles; p->name; p++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

static void add_host(const struct profile *p, const char *host, void (*add)(struct rule *, void *),
                     void *arg)
{
    const char *space = strchr(host, ' '), *name = host;
    struct rule r = {.allow = true,
                     .directions = DIRECTION_EGRESS,
                     .kind = DEST_NAME,
                     .protocols = PROTO_TCP,
                     .profile = p->name};

    if (strncmp(host, "*.", 2) == 0) {
        r.kind = DEST_SUFFIX;
        name += 2;
    }
    r.name = space ? xstrndup(name, (size_t)(space - name)) : xstrdup(name);
    if (space) {
        uint16_t port = (uint16_t)strtoul(space + 1, NULL, 10);

        r.ports[r.n_ports++] = (struct port_range){port, port};
    }
    r.ports[r.n_ports++] = (struct port_range){443, 443};
    add(&r, arg);
}

void profile_rules(const struct profile *p, void (*add)(struct rule *r, void *arg), void *arg)
{
    struct rule r = {.allow = true,
                     .directions = DIRECTION_EGRESS,
                     .kind = DEST_GROUP,
                     .group = p->group,
                     .profile = p->name};

    if (!p->hosts) {
        add(&r, arg);
        return;
    }
    for (const char *const *h = p->hosts; *h; h++)
        add_host(p, *h, add, arg);
}
