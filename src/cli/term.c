#include "cli/term.h"

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

void term_raw(void)
{
    static bool registered;
    struct termios raw;

    if (is_raw || tcgetattr(STDIN_FILENO, &saved) < 0)
        return;
    raw = saved;
    cfmakeraw(&raw);
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
        return;
    is_raw = true;
    if (!registered)
        (void)atexit(term_restore);
    registered = true;
}
