#include "cli/term.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios saved;
static bool is_raw;

void term_size(int fd, uint32_t *ret_rows, uint32_t *ret_cols)
{
    struct winsize size;

    *ret_rows = 24;
    *ret_cols = 80;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
        *ret_rows = size.ws_row;
        *ret_cols = size.ws_col;
    }
}

void term_restore(void)
{
    if (is_raw)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
    is_raw = false;
}

/* The old mode also comes back at the exit, and at a signal that ends the program. */
static void on_signal(int sig)
{
    term_restore();
    (void)raise(sig);
}

static bool change(const struct termios *mode)
{
    static bool registered;

    if (tcsetattr(STDIN_FILENO, TCSADRAIN, mode) < 0)
        return false;
    is_raw = true;
    if (!registered)
        (void)atexit(term_restore);
    registered = true;
    return true;
}

void term_raw(void)
{
    struct termios raw;

    if (is_raw || tcgetattr(STDIN_FILENO, &saved) < 0)
        return;
    raw = saved;
    cfmakeraw(&raw);
    (void)change(&raw);
}

bool term_keys(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    struct termios keys;

    if (is_raw)
        return true;
    /* A program in the background may not change the terminal, and would be stopped for it. */
    if (tcgetpgrp(STDIN_FILENO) != getpgrp() || tcgetattr(STDIN_FILENO, &saved) < 0)
        return false;
    for (size_t i = 0; i < 3; i++)
        (void)sigaction((int[]){SIGINT, SIGTERM, SIGHUP}[i], &action, NULL);
    keys = saved;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    return change(&keys);
}
