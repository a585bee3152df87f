/* Output while a command runs, and input for it: a calculator that is asked line by line. */
#include <cay.h>
#include <stdio.h>
#include <string.h>

static const char *const questions[] = {"1+1\n", "6*7\n", "1<<20\n"};

static int talk(struct cay_stream *calculator, struct cay_error *err)
{
    struct cay_event event;
    size_t asked = 0;
    int r;

    /* 0 comes after the end, -1 when something went wrong. */
    while ((r = cay_stream_next(calculator, -1, &event, err)) == 1) {
        if (event.what == CAY_STARTED || event.what == CAY_STDOUT) {
            if (event.what == CAY_STDOUT)
                printf("%.*s", (int)event.len, event.data);
            if (asked < 3) {
                const char *question = questions[asked++];

                if (cay_stream_write(calculator, question, strlen(question), err) < 0)
                    return -1;
            } else if (cay_stream_end_input(calculator, err) < 0) {
                return -1;
            }
        } else if (event.what == CAY_STDERR) {
            fprintf(stderr, "%.*s", (int)event.len, event.data);
        } else if (event.what == CAY_EXIT) {
            printf("it ended with %d\n", event.result.exit_code);
        }
    }
    return r;
}

int main(void)
{
    struct cay_command command = {.line = "while read line; do echo \"$line = $(($line))\"; done",
                                  .with_input = 1};
    struct cay_sandbox sandbox = {0};
    struct cay_stream *calculator;
    struct cay_error err = {0};
    struct cay *cay;
    int r;

    if (cay_open(NULL, &cay, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    r = cay_create(cay, NULL, &sandbox, &err);
    if (r == 0)
        r = cay_exec_open(cay, sandbox.id, &command, &calculator, &err);
    if (r == 0) {
        r = talk(calculator, &err);
        cay_stream_close(calculator);
    }
    if (r < 0)
        fprintf(stderr, "%s (%s)\n", err.message, err.code);
    if (sandbox.id[0])
        (void)cay_kill(cay, sandbox.id, NULL);
    cay_sandbox_done(&sandbox);
    cay_close(cay);
    return r < 0;
}
