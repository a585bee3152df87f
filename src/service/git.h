#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "engine/exec.h"

struct engine;
struct err;
struct git;

/* A sandbox's own git, run with plain arguments: no word of a caller's is ever read by a shell.
 *
 * What git is given to prove who it is never is in an argument, the environment, a file or the
 * configuration of a repository. git asks a helper of a few words for it; the helper says on git's
 * standard error for whom, we take that out of the stream, and answer on a pipe if it is for the
 * protocol and the host that the caller meant. So it is in the box only when a server has asked for
 * it, and until git ends. */

/* ---- who one is ---- */

#define GIT_NAME_MAX   255
#define GIT_SECRET_MAX 4096

struct git_secret {
    char *protocol, *host; /* for whom: "https", "github.com:8443"; NULL = for nobody */
    char *username, *password;
};

/* Wipes it; fine if it is empty. */
void git_secret_done(struct git_secret *s);
#define auto_git_secret __attribute__((cleanup(git_secret_done)))
bool git_secret_is_set(const struct git_secret *s);
/* ERR_INVALID when one of them cannot be said to git: a line end or another control character. */
int git_secret_check(const struct git_secret *s, struct err *err);

/* The URL without a user in it, which is new; and for whom that is, if it is HTTP. What it had of
 * name and password goes where there is none yet. ERR_INVALID "bad_url" where git would take it for
 * an option, or nobody can mean it. */
int git_url_take(const char *url, char **ret, struct git_secret *s, struct err *err);

/* Neither an option nor something that no name can have: ERR_INVALID "bad_ref". NULL is fine. */
int git_ref_check(const char *what, const char *ref, struct err *err);

/* ---- one command ---- */

struct git_command {
    const char *sandbox, *cwd;
    char *const *words; /* behind `git` */
    uint64_t timeout_ms;
    /* One that speaks with a server: who the caller is, not copied; and who takes a GitProgress for
     * what is told as it goes. Of its output less is kept. NULL = it is none of these. */
    const struct git_secret *secret;
    void (*progress)(json_t *event, void *arg);
    void *arg;
};

int git_open(struct engine *e, const struct git_command *c, struct git **ret, struct err *err);
/* Ends it, if it still runs. */
void git_close(struct git *g);
void git_wait(const struct git *g, struct exec_wait *ret);

struct git_result {
    const struct buf *out, *errors; /* git's, until it is closed */
    struct exec_output end;
    bool truncated;
};

enum git_state { GIT_DONE, GIT_WAITS, GIT_AGAIN };

/* What it has come to, or -1: it could not be run, or its time was over. ERR_CONFLICT "git_missing"
 * and "not_a_repository" are failures too; others of git's own are results. */
int git_step(struct git *g, struct git_result *ret, struct err *err);
/* ExecResult without its texts, which are in r. */
json_t *git_result_json(const struct git *g, const struct git_result *r);
/* ERR_CONFLICT "git_failed" with what git said of it. */
int git_failed(const struct git_result *r, struct err *err);

/* ---- what git says, as JSON ---- */

/* A few bytes of output can be an entry of hundreds: past these numbers they are left out, and a
 * status and a list of branches have truncated. */
#define GIT_FILES_MAX    20000
#define GIT_BRANCHES_MAX 20000
#define GIT_ENTRIES_MAX  1000

/* GitStatus, of `status --porcelain=v2 --branch -z`. */
json_t *git_status_json(const struct buf *out);
/* What GIT_LOG_FORMAT puts out: an array of GitEntry. */
#define GIT_LOG_FORMAT "--format=%H%x00%an%x00%ae%x00%aI%x00%s"
json_t *git_log_json(const struct buf *out);
/* GitBranches, of GIT_BRANCH_FORMAT a line; `current` is empty when no branch is. */
#define GIT_BRANCH_FORMAT "--format=%(HEAD)%(symref)%00%(refname)"
json_t *git_branches_json(const struct buf *out);
/* Of a line that git overwrites, "Receiving objects:  45% (9/20), 1.2 MiB | 3 MiB/s": GitProgress;
 * NULL = it is none. */
json_t *git_progress_json(const char *line, size_t len);
/* A string of bytes that may be no text. */
json_t *git_text(const char *data, size_t len);
