/* The first ten lines: a sandbox, a command, its output. */
#include <cay.h>
#include <stdio.h>

static int fail(const struct cay_error *err)
{
    fprintf(stderr, "%s (%s)\n", err->message, err->code);
    return 1;
}

int main(void)
{
    struct cay_command command = {.line = "echo hello from $(uname -s)"};
    struct cay_sandbox sandbox = {0};
    struct cay_output output = {0};
    struct cay_error err;
    struct cay *cay;
    int status = 0;

    if (cay_open(NULL, &cay, &err) < 0 ||
        cay_create(cay, &(struct cay_create){.image = "host"}, &sandbox, &err) < 0)
        return fail(&err);
    if (cay_exec(cay, sandbox.id, &command, &output, &err) < 0)
        status = fail(&err);
    else
        printf("%s", output.out);
    if (cay_kill(cay, sandbox.id, &err) < 0)
        status = fail(&err);
    cay_output_done(&output);
    cay_sandbox_done(&sandbox);
    cay_close(cay);
    return status;
}
