#include "test_face.h"

/* Runs in contexts whose callers go away at the worst moment, with the drivers of real
 * interpreters. The code and the test tell each other by fifos when that is. */

#define PYTHON_SAYS(fifo)  "with open('" fifo "', 'w') as f: f.write('x')\n"
#define PYTHON_HEARS(fifo) "open('" fifo "').read(1)\n"
#define NODE_SAYS(fifo)    "require('fs').writeFileSync('" fifo "', 'x');\n"
#define NODE_HEARS(fifo)                                                                           \
    "require('fs').readSync(require('fs').openSync('" fifo "'), Buffer.alloc(1));\n"

static const struct speech {
    const char *language;
    const char *says_begun, *says_never, *hears_ends, *hears_later;
    const char *runs;   /* until it is interrupted */
    const char *defies; /* interrupts: says that it has begun, and does not end */
} python =
    {
        .language = "python",
        .says_begun = PYTHON_SAYS("begun"),
        .says_never = PYTHON_SAYS("never"),
        .hears_ends = PYTHON_HEARS("ends"),
        .hears_later = PYTHON_HEARS("later"),
        .runs = "while True: pass",
        .defies = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" PYTHON_SAYS(
            "begun") "while True: pass",
},
  javascript = {
      .language = "javascript",
      .says_begun = NODE_SAYS("begun"),
      .says_never = NODE_SAYS("never"),
      .hears_ends = NODE_HEARS("ends"),
      .hears_later = NODE_HEARS("later"),
      .runs = "while (true) {}",
      .defies = "require('child_process').execSync(\"trap '' INT; echo >begun; read x <later\")",
};

static int fifo_new(const char *name)
{
    int fd;

    CHECK_INT(mkfifo(in_files(name), 0600), 0);
    fd = open(in_files(name), O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static void hear(int fifo)
{
    struct pollfd p = {.fd = fifo, .events = POLLIN};
    char c;

    CHECK_INT(poll(&p, 1, PATIENCE_MS), 1);
    CHECK_INT(read(fifo, &c, 1), 1);
}

static void say(int fifo)
{
    CHECK_INT(write(fifo, "x", 1), 1);
}

static bool context_up(const struct speech *s)
{
    json_t *in = json_pack("{s:s}", "language", s->language);
    auto_free char *text = json_dumps(in, 0);
    struct face f;
    bool is_there;

    json_decref(in);
    face_text(&f, "interp::context_create", text);
    is_there = face_run(&f) >= 0;
    if (is_there)
        (void)snprintf(context_id, sizeof(context_id), "%s", str(f.call.out, "id"));
    else if (strcmp(code_of(&f), "interpreter_missing") != 0)
        TAP_FAIL("context_create: %s", f.err.text);
    face_done(&f);
    return is_there;
}

/* Its code is sent, and nothing that its driver says of it is read. */
static void send_run(struct face *f, const char *code)
{
    int r;

    face_init(f, "interp::execute",
              json_pack("{s:s, s:s, s:i}", "contextId", context_id, "code", code, "timeout", 30));
    if (face_begin(f) < 0)
        TAP_FAIL("execute: %s", f->err.text);
    do {
        struct task *t = f->call.task;
        struct pollfd p = {.fd = t->events ? t->fd : -1, .events = (short)t->events};

        (void)poll(&p, 1, PATIENCE_MS);
        r = t->ops->step(t, &f->call, &f->err);
    } while (r == TASK_WAITS);
    CHECK_INT(r, TASK_AGAIN);
}

static void check_run(struct face *f)
{
    if (call_wait(&f->call, 0, &f->err) < 0)
        TAP_FAIL("execute: %s", f->err.text);
    CHECK_INT(num(f->call.out, "exitCode"), 0);
    face_done(f);
}

/* The context is there, and nothing is in its way. */
static void check_context(void)
{
    struct face f;

    send_run(&f, "1 + 1");
    check_run(&f);
}

static void goes_before_its_start_is_read(const struct speech *s)
{
    auto_close int begun = fifo_new("begun");
    auto_free char *code = xasprintf("%s%s", s->says_begun, s->runs);
    struct face f;

    send_run(&f, code);
    hear(begun);
    face_done(&f);
    check_context();
}

static void goes_before_its_end_is_read(const struct speech *s)
{
    auto_close int begun = fifo_new("begun"), ends = fifo_new("ends"), later = fifo_new("later");
    auto_free char *first = xasprintf("%s%s", s->says_begun, s->hears_ends);
    struct face f, other;

    send_run(&f, first);
    hear(begun);
    CHECK(f.call.task->ops->step(f.call.task, &f.call, &f.err) > 0); /* "start" */
    send_run(&other, s->hears_later);
    say(ends);
    face_done(&f); /* it has begun, for all we know */
    say(later);
    check_run(&other);
    check_context();
}

static void goes_while_it_waits_for_others(const struct speech *s)
{
    auto_close int begun = fifo_new("begun"), ends = fifo_new("ends"), never = fifo_new("never");
    auto_free char *first = xasprintf("%s%s", s->says_begun, s->hears_ends);
    struct face f, other;

    send_run(&other, first);
    hear(begun);
    send_run(&f, s->says_never);
    face_done(&f);
    say(ends);
    check_run(&other);
    check_context();
    CHECK_INT(poll(&(struct pollfd){.fd = never, .events = POLLIN}, 1, 0), 0);
}

static void goes_and_its_code_does_not_end(const struct speech *s)
{
    auto_close int begun = fifo_new("begun"), later = fifo_new("later");
    struct face f, other;

    send_run(&f, s->defies);
    hear(begun);
    send_run(&other, "1 + 1");
    face_done(&f);
    CHECK_INT(call_wait(&other.call, 0, &other.err), -1);
    CHECK_STR(code_of(&other), "context_ended");
    face_done(&other);
    CHECK(later >= 0);
}

static void run_in(const struct speech *s, void (*test)(const struct speech *s))
{
    if (test == goes_and_its_code_does_not_end)
        run_stop_ms = 20; /* of all others the code does end */
    up("{\"image\": \"host\"}");
    if (!context_up(s))
        SKIP_WITHOUT_PROGRAM("the host lacks the interpreter");
    test(s);
    down();
}

#define IN_BOTH(who)                                                                               \
    TEST(who_##who##_python)                                                                       \
    {                                                                                              \
        run_in(&python, who);                                                                      \
    }                                                                                              \
    TEST(who_##who##_javascript)                                                                   \
    {                                                                                              \
        run_in(&javascript, who);                                                                  \
    }

IN_BOTH(goes_before_its_start_is_read)
IN_BOTH(goes_before_its_end_is_read)
IN_BOTH(goes_while_it_waits_for_others)
IN_BOTH(goes_and_its_code_does_not_end)

TAP_MAIN
