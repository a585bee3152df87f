#include "cli/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "cli/help.h"
#include "cli/hints.h"
#include "cli/ui.h"

static void print(FILE *out, struct buf *text)
{
    (void)fwrite(text->data ? text->data : "", 1, text->len, out);
}

static void suggest_command(const char *word)
{
    auto_free char *hint = hint_word(word);

    ui_warn("%s", hint);
}

/* For the scripts: what can follow the words. */
static void complete_line(const struct args *args, struct buf *text)
{
    struct wanted wanted;

    if (args->n_words == 0)
        return;
    completion_wanted(&wanted, (int)args->n_words, args->words);
    completion_lines(&wanted, args_text(args, "host"), text);
}

int cmd_completion(struct args *args)
{
    static const struct {
        const char *shell;
        void (*make)(struct buf *out);
    } shells[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};
    auto_buf struct buf text = {0};

    buf_init(&text, HELP_MAX);
    if (args_has(args, "line")) {
        complete_line(args, &text);
        print(stdout, &text);
        return STATUS_OK;
    }
    for (size_t i = 0; args->n_words == 1 && i < ARRAY_LEN(shells); i++) {
        if (strcmp(args->words[0], shells[i].shell) != 0)
            continue;
        shells[i].make(&text);
        print(stdout, &text);
        return STATUS_OK;
    }
    return ui_usage(args, "there is completion for one of bash, zsh and fish");
}

static int help_about(int n_words, char **words, struct buf *text)
{
    int used = 0;
    const struct command *c = command_find(n_words, words, &used);

    if (c && used == n_words) {
        help_command(text, c);
        return STATUS_OK;
    }
    if (n_words == 1 && command_is_group(words[0])) {
        help_group(text, words[0]);
        return STATUS_OK;
    }
    suggest_command(words[used < n_words ? used : 0]);
    return STATUS_USAGE;
}

int cmd_help(struct args *args)
{
    auto_buf struct buf text = {0};
    int status = STATUS_OK;

    buf_init(&text, HELP_MAX);
    if (args_has(args, "man"))
        help_man(&text);
    else if (args_has(args, "markdown"))
        help_markdown(&text);
    else if (args->n_words > 0)
        status = help_about((int)args->n_words, args->words, &text);
    else
        help_overview(&text);
    print(stdout, &text);
    return status;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    struct args args;
    struct err err = {0};
    int status;

    if (args_parse(&args, command, argc, argv, &err) < 0) {
        ui_warn("%s", err.text);
        return STATUS_USAGE;
    }
    if ((args_has(&args, "help") && !(command->own_help && args.n_words > 0)) || !command->run) {
        auto_buf struct buf text = {0};

        buf_init(&text, HELP_MAX);
        help_command(&text, command);
        print(stdout, &text);
        status = STATUS_OK;
    } else {
        status = command->run(&args);
    }
    args_done(&args);
    return status;
}

/* `cay --host X ls`: common flags may also stand before the command. The address goes where every
 * command looks for it. */
static int take_leading_flags(int *argc, char ***argv)
{
    while (*argc > 0 && (*argv)[0][0] == '-') {
        const char *flag = (*argv)[0];
        int used = 1;

        if (str_starts(flag, "--host=")) {
            (void)setenv("CAY_HOST", flag + strlen("--host="), 1);
        } else if (strcmp(flag, "--host") == 0 && *argc > 1) {
            (void)setenv("CAY_HOST", (*argv)[1], 1);
            used = 2;
        } else {
            return -1;
        }
        *argc -= used;
        *argv += used;
    }
    return 0;
}

static int no_command(int argc, char **argv)
{
    static char *help[] = {(char *)"help", NULL};
    static char *version[] = {(char *)"version", NULL};
    const char *flag = argc > 0 ? argv[0] : "";
    int used;

    if (strcmp(flag, "-h") == 0 || strcmp(flag, "--help") == 0)
        return run_command(command_find(1, help, &used), 0, help + 1);
    if (strcmp(flag, "-V") == 0 || strcmp(flag, "--version") == 0)
        return run_command(command_find(1, version, &used), argc - 1, argv + 1);
    if (argc > 0)
        ui_warn("unknown flag \"%.80s\": see \"cay help\"", flag);
    else
        ui_warn("a command is needed: see \"cay help\"");
    return STATUS_USAGE;
}

static int dispatch(int argc, char **argv)
{
    const struct command *command;
    int used = 0;

    if (take_leading_flags(&argc, &argv) < 0 || argc == 0)
        return no_command(argc, argv);
    command = command_find(argc, argv, &used);
    if (command)
        return run_command(command, argc - used, argv + used);
    if (command_is_group(argv[0]) && (argc == 1 || argv[1][0] == '-')) {
        auto_buf struct buf text = {0};
        bool asked = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));

        buf_init(&text, HELP_MAX);
        help_group(&text, argv[0]);
        print(asked ? stdout : stderr, &text);
        return asked ? STATUS_OK : STATUS_USAGE;
    }
    if (command_is_group(argv[0])) {
        auto_free char *both = xasprintf("%s %s", argv[0], argv[1]);

        suggest_command(both);
    } else {
        suggest_command(argv[0]);
    }
    return STATUS_USAGE;
}

/* A shell can close descriptors 0 to 2 (`>&-`). A socket that took such a number would receive our
 * output. So these numbers get a descriptor on which reading and writing fail, as on a closed one.
 */
static void fill_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int cli_main(int argc, char **argv)
{
    fill_standard_descriptors();
    /* A reader that goes away is seen where we write, so that sandboxes are still cleaned up. */
    (void)signal(SIGPIPE, SIG_IGN);
    return ui_finish(dispatch(argc > 0 ? argc - 1 : 0, argv + (argc > 0)));
}
