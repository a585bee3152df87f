/* Files in and out, a snapshot, and what happened to the sandbox. */
#include <cay.h>
#include <stdio.h>
#include <string.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        if ((call) < 0) {                                                                          \
            fprintf(stderr, "%s (%s)\n", err.message, err.code);                                   \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static int tour(struct cay *cay, const char *id)
{
    static const char bytes[] = "one\0two";
    struct cay_command change = {.line = "echo changed >note; rm data.bin"};
    struct cay_output output = {0};
    struct cay_feed *feed = NULL;
    struct cay_error err = {0};
    char snapshot[40], path[80], *back = NULL, *topic;
    const char *event = NULL;
    size_t len = 0;

    CHECK(cay_events(cay, "sandbox.restored", id, &feed, &err));
    CHECK(cay_write_file(cay, id, "data.bin", 0, bytes, sizeof(bytes), 0600, &err));
    CHECK(cay_snapshot(cay, id, NULL, snapshot, &err));
    CHECK(cay_exec(cay, id, &change, &output, &err));
    cay_output_done(&output);
    CHECK(cay_restore(cay, id, snapshot, &err));
    CHECK(cay_read_file(cay, id, "data.bin", 0, 0, &back, &len, &err));
    printf("%zu bytes, %s\n", len,
           len == sizeof(bytes) && memcmp(back, bytes, len) == 0 ? "the same" : "others");
    cay_free(back);

    /* Any call of the API, as text. */
    (void)snprintf(path, sizeof(path), "/sandbox/snapshots/%s", snapshot);
    CHECK(cay_call(cay, "DELETE", path, NULL, NULL, &err));
    CHECK(cay_call(cay, "GET", "/sandbox/info", NULL, &back, &err));
    topic = cay_json_get(back, "/workspace");
    printf("they were in %s\n", topic);
    cay_free(topic);
    cay_free(back);

    CHECK(cay_feed_next(feed, -1, &event, &err));
    topic = cay_json_get(event, "/topic");
    printf("%s\n", topic);
    cay_free(topic);
    cay_feed_close(feed);
    return 0;
}

int main(void)
{
    struct cay_sandbox sandbox = {0};
    struct cay_error err = {0};
    struct cay *cay;
    int status;

    CHECK(cay_open(NULL, &cay, &err));
    CHECK(cay_create(cay, NULL, &sandbox, &err));
    status = tour(cay, sandbox.id);
    CHECK(cay_kill(cay, sandbox.id, &err));
    cay_sandbox_done(&sandbox);
    cay_close(cay);
    return status;
}
