#include "cli/remote_tar.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/attach.h"
#include "cli/client.h"
#include "cli/remote_path.h"
#include "cli/ui.h"

#define ROOT "0:0"

int remote_has_tar(struct api *api, const char *id, struct err *err)
{
    json_t *body = json_pack("{s:[s, s], s:s}", "command", "tar", "--help", "user", ROOT);

    if (api_call(api, "POST", body, NULL, err, "/sandboxes/%s/exec", id) == 0)
        return 1;
    /* Of one that is stopped the files can be reached all the same; who calls is told of others. */
    return strcmp(api_last_code(), "command_not_found") == 0 ||
                   strcmp(api_last_code(), "sandbox_not_running") == 0
               ? 0
               : -1;
}

json_t *remote_pack_command(const char *dir, const char *name)
{
    return path_command(
        (const char *[]){"tar", "-C", dir, "-cf", "-", "--", *name ? name : ".", NULL});
}

/* Its own owner, whoever had it here; modes as they are, also past the umask there. */
json_t *remote_unpack_command(const char *dir)
{
    return path_command((const char *[]){"tar", "-C", dir, "-xpof", "-", NULL});
}

/* Returns the status of tar. */
static int run_tar(struct api *api, const char *id, json_t *command, bool write, bool *ret_printed,
                   struct err *err)
{
    /* Not raw: an archive is never for a terminal, and what tar says there is the sandbox's word.
     */
    struct attach_options o = {.command = command, .user = ROOT, .want_stdin = write};
    struct attach_result result;

    if (attach_exec(api, id, &o, &result, err) < 0)
        return -1;
    if (result.truncated)
        return err_set(err, ERR_INTERNAL, "a part of the archive was lost; try again");
    *ret_printed = result.printed;
    return result.status;
}

static int ended(int status, struct err *err)
{
    if (status == 0)
        return 0;
    return err_set(err, ERR_INTERNAL, "tar in the sandbox failed (status %d)", status);
}

int remote_tar_empty(struct err *err)
{
    return err_set(err, ERR_INTERNAL,
                   "tar in the sandbox sent nothing; is it another program of that name?");
}

int remote_tar_here(struct api *api, const char *id, json_t *command, bool write, struct err *err)
{
    bool printed = false;
    int status = run_tar(api, id, command, write, &printed, err);

    json_decref(command);
    if (status < 0 || ended(status, err) < 0)
        return -1;
    return write || printed ? 0 : remote_tar_empty(err);
}

/* The child speaks to the daemon over a connection of its own, and does not stay without us. */
static _Noreturn void child(const char *target, const char *id, json_t *command, bool write, int fd,
                            pid_t parent)
{
    auto_api struct api api = {0};
    struct err err = {0};
    bool printed;
    int status;

    if (prctl(PR_SET_PDEATHSIG, SIGHUP) < 0 || getppid() != parent ||
        dup2(fd, write ? STDIN_FILENO : STDOUT_FILENO) < 0)
        _exit(1);
    (void)close(fd);
    api_open_target(&api, target);
    status = run_tar(&api, id, command, write, &printed, &err);
    if (status < 0)
        (void)ui_fail(&err);
    _exit(status < 0 ? 1 : status);
}

int remote_tar_start(struct remote_tar *t, struct api *api, const char *id, json_t *command,
                     bool write, struct err *err)
{
    pid_t self = getpid();
    int fds[2];

    *t = (struct remote_tar){.pid = -1, .fd = -1};
    if (pipe2(fds, O_CLOEXEC) < 0) {
        json_decref(command);
        return err_sys(err, errno, "pipe");
    }
    t->pid = fork();
    if (t->pid == 0) {
        (void)close(fds[write]);
        child(api->target, id, command, write, fds[!write], self);
    }
    json_decref(command);
    (void)close(fds[!write]);
    t->fd = fds[write];
    if (t->pid > 0)
        return 0;
    close_fd(&t->fd);
    return err_sys(err, errno, "fork");
}

/* The first signal is passed on to tar, the second ends the child whatever tar does about it. */
static void give_up(const struct remote_tar *t)
{
    (void)kill(t->pid, SIGINT);
    (void)kill(t->pid, SIGTERM);
}

int remote_tar_end(struct remote_tar *t, int r, struct err *err)
{
    int status = 0;

    close_fd(&t->fd);
    if (r < 0 && t->pid > 0)
        give_up(t);
    while (t->pid > 0 && waitpid(t->pid, &status, 0) < 0 && errno == EINTR)
        ;
    t->pid = -1;
    if (r < 0)
        return -1;
    return ended(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), err);
}
