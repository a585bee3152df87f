#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/escape.h"
#include "cli/file_list.h"
#include "cli/remote_path.h"
#include "cli/transfer.h"
#include "cli/ui.h"

#define SHOWN_MAX (64u << 20)

static int open_sandbox(struct args *args, struct api *api, char **ret_id, struct err *err)
{
    if (api_open(api, args, err) < 0)
        return -1;
    return api_sandbox_id(api, args->words[0], ret_id, err);
}

/* Names may come from a sandbox, through a script. */
static void note(const char *what, const char *from, const char *path)
{
    auto_free char *source = escape_text(ESCAPE_CELL, from);
    auto_free char *shown = escape_text(ESCAPE_CELL, path);

    fprintf(stderr, "%s: %s%s%s\n", what, source, *from ? " -> " : "", shown);
}

/* To a terminal, control bytes are made visible; that needs the bytes here first. */
static int read_escaped(struct api *api, const char *id, const char *path, bool anywhere,
                        struct err *err)
{
    auto_close int fd = memfd_create("cay-file", MFD_CLOEXEC);
    auto_buf struct buf shown = {0};
    struct escape state = {0};
    char piece[16384];
    ssize_t n;

    if (fd < 0)
        return err_sys(err, errno, "memfd_create");
    if (remote_download(api, id, path, anywhere, fd, err) < 0)
        return -1;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(err, errno, "rewind");
    buf_init(&shown, SHOWN_MAX);
    while ((n = read_some(fd, piece, sizeof(piece))) > 0) {
        buf_clear(&shown);
        escape_add(&state, ESCAPE_LINES, piece, (size_t)n, &shown);
        (void)fwrite(shown.data, 1, shown.len, stdout);
    }
    buf_clear(&shown);
    escape_end(&state, &shown);
    (void)fwrite(shown.data ? shown.data : "", 1, shown.len, stdout);
    return 0;
}

int cmd_file_read(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    bool anywhere = args_has(args, "anywhere");
    int r = open_sandbox(args, &api, &id, &err);

    if (r == 0 && ui_stdout_is_terminal() && !args_has(args, "raw"))
        r = read_escaped(&api, id, args->words[1], anywhere, &err);
    else if (r == 0)
        r = remote_download(&api, id, args->words[1], anywhere, STDOUT_FILENO, &err);
    if (r < 0 && err.sys == EPIPE)
        return STATUS_OK;
    return r < 0 ? ui_fail_path(args, &err) : STATUS_OK;
}

/* Content from the command line goes the same way as content from a file. */
static int write_text(struct api *api, const char *id, const char *path, bool anywhere,
                      const char *text, struct err *err)
{
    auto_close int fd = memfd_create("cay-file", MFD_CLOEXEC);

    if (fd < 0 || write_all(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(err, errno, "keep the content");
    return remote_upload(api, id, path, anywhere, fd, (int64_t)strlen(text), -1, err);
}

int cmd_file_write(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    const char *path = args->words[1], *text = args->words[2];
    bool anywhere = args_has(args, "anywhere");

    if (open_sandbox(args, &api, &id, &err) < 0)
        return ui_fail_path(args, &err);
    if ((text && strcmp(text, "-") != 0
             ? write_text(&api, id, path, anywhere, text, &err)
             : remote_upload_stream(&api, id, path, anywhere, STDIN_FILENO, &err)) < 0)
        return ui_fail_path(args, &err);
    if (!args_has(args, "quiet"))
        note("Written", "", path);
    return STATUS_OK;
}

int cmd_file_ls(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    bool anywhere = args_has(args, "anywhere");
    json_t *body = path_body(args->n_words > 1 ? args->words[1] : ".", anywhere), *list = NULL;

    if (open_sandbox(args, &api, &id, &err) < 0) {
        json_decref(body);
        return ui_fail_path(args, &err);
    }
    if (api_call(&api, "POST", body, &list, &err, "/sandboxes/%s/files/list", id) < 0)
        return ui_fail_path(args, &err);
    file_list_print(args, list);
    json_decref(list);
    return STATUS_OK;
}

int cmd_file_rm(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    struct err err = {0};
    bool all = args_has(args, "recursive");
    int status = STATUS_OK;

    if (open_sandbox(args, &api, &id, &err) < 0)
        return ui_fail_path(args, &err);
    for (size_t i = 1; i < args->n_words && status != STATUS_NO_DAEMON; i++) {
        json_t *body = path_body(args->words[i], args_has(args, "anywhere"));

        if (api_call(&api, "POST", body, NULL, &err, "/sandboxes/%s/files/%s", id,
                     all ? "rmdir" : "delete") < 0)
            status = ui_fail_path(args, &err);
    }
    return status;
}

int cmd_file_upload(struct args *args)
{
    auto_api struct api api = {0};
    auto_free char *id = NULL;
    auto_close int fd = open(args->words[1], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct err err = {0};
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        (void)err_sys(&err, errno, "open %s", args->words[1]);
        return ui_fail_path(args, &err);
    }
    if (!S_ISREG(st.st_mode))
        return ui_usage(args, "%s is no regular file: for directories use `cay cp`",
                        args->words[1]);
    if (open_sandbox(args, &api, &id, &err) < 0 ||
        remote_upload(&api, id, args->words[2], args_has(args, "anywhere"), fd, st.st_size,
                      (int)(st.st_mode & 0777), &err) < 0)
        return ui_fail_path(args, &err);
    if (!args_has(args, "quiet"))
        note("Uploaded", args->words[1], args->words[2]);
    return STATUS_OK;
}
