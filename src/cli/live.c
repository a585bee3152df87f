#include "cli/live.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/term.h"
#include "cli/ui.h"

/* Waits, unless a key asks to end. */
static bool key_ends(int wait_ms)
{
    int64_t end = mono_ns() + (int64_t)wait_ms * 1000000;
    bool keys = term_keys();

    for (;;) {
        int left = (int)((end - mono_ns()) / 1000000);
        struct pollfd p = {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN};
        char key = 0;

        if (left <= 0 || poll(&p, 1, left) <= 0)
            return false;
        if (read_some(STDIN_FILENO, &key, 1) <= 0)
            keys = false;
        else if (key == 'q' || key == 'Q')
            return true;
    }
}

int live_run(struct args *args, live_draw draw)
{
    auto_api struct api api = {0};
    struct err err = {0};
    bool live = ui_stdout_is_terminal() && !args_has(args, "no-stream");
    int wait_ms = (int)(args_number(args, "interval", 1) * 1000), status = STATUS_OK;

    if (wait_ms < 100 || wait_ms > 3600000)
        return ui_usage(args, "--interval must be from 100ms to 1h");
    if (api_open(&api, args, &err) < 0)
        return ui_fail(&err);
    do {
        if (draw(args, &api, live, &err) < 0) {
            term_restore();
            status = ui_fail(&err);
            break;
        }
        (void)fflush(stdout);
    } while (live && !ui_output_failed() && !key_ends(wait_ms));
    term_restore();
    return status;
}
