#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/archive.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/hostfs.h"
#include "cli/transfer.h"
#include "cli/ui.h"

static int save(struct api *api, const char *name, const char *url, int fd, struct err *err)
{
    auto_free char *path = xasprintf("/sandbox%s", url);
    struct http_response response;

    if (http_client_send(api->http, "GET", path, NULL, NULL, 0, &response, err) < 0)
        return api_explain(api, err);
    if (api_check(api, &response, err) < 0)
        return -1;
    return save_answer(api, &response, name, fd, err);
}

static int save_file(struct api *api, const char *name, const char *url, const char *path,
                     struct err *err)
{
    auto_free char *folder = NULL;
    auto_free char *file = NULL;
    auto_close int dirfd = -1;
    struct host_file out;
    int r;

    host_split(path, &folder, &file);
    if (!host_name_ok(file))
        return err_set(err, ERR_INVALID, "\"%s\" is no name for a file", path);
    if (host_open_dir(folder, false, &dirfd, err) < 0)
        return -1;
    if (host_file_begin(&out, dirfd, file, err) < 0)
        return -1;
    r = save(api, name, url, out.fd, err);
    if (r == 0)
        r = host_file_commit(&out, 0644, HOST_TIME_NOW, err);
    host_file_done(&out);
    return r;
}

int archive_save(struct args *args, const char *name, const char *url)
{
    const char *path = args->n_words > 1 ? args->words[1] : "-";
    bool to_stdout = strcmp(path, "-") == 0;
    auto_api struct api api = {0};
    struct err err = {0};

    if (to_stdout && ui_stdout_is_terminal())
        return ui_usage(args, "an archive is not for a terminal: name a file, or pipe it on");
    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    if (!to_stdout)
        return save_file(&api, name, url, path, &err) < 0 ? ui_fail(&err) : STATUS_OK;
    if (save(&api, name, url, STDOUT_FILENO, &err) == 0)
        return STATUS_OK;
    return err.sys == EPIPE ? STATUS_SIGNAL + SIGPIPE : ui_fail(&err);
}

int cmd_image_export(struct args *args)
{
    auto_free char *encoded = url_encoded(args->words[0]);
    auto_free char *url = xasprintf("/images/%s/export", encoded);

    return archive_save(args, args->words[0], url);
}
