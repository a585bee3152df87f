#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "mcp/face_internal.h"

/* Beginnings of common work, which people choose from a menu. */

struct argument {
    const char *name, *help;
    bool required;
};

static const struct prompt {
    const char *name, *title, *help;
    struct argument arguments[4]; /* ended by one without a name */
    const char *text;             /* {name} is the argument; a line with one that is absent goes */
} prompts[] = {
    {"run-in-sandbox",
     "Do something in a sandbox",
     "A task, done in a new sandbox that is removed",
     {{"task", "what is to be done", true}, {"image", "what the sandbox is made from", false}},
     "Do this in a new sandbox: {task}\n"
     "Make it with sandbox_create and the image {image}.\n"
     "Run commands with sandbox_exec, look at what they say before you go on, and remove the "
     "sandbox "
     "with sandbox_kill when you are done. Then tell me what came of it, with what was printed."},
    {"analyze-data",
     "Analyze data",
     "Looks at a file with Python and draws what it finds",
     {{"sandboxId", "the sandbox that has the file", true},
      {"path", "the file", true},
      {"question", "what you want to know", false}},
     "Look at the data in {path} of the sandbox {sandboxId} with sandbox_run_code (Python). First "
     "say what it is: its columns, how many rows, what is missing.\n"
     "Then answer: {question}\n"
     "Draw what helps to see it; pictures that the code shows come back as pictures."},
    {"try-repository",
     "Try a repository",
     "Clones a repository, builds it and runs its tests",
     {{"url", "where it is", true}, {"branch", "which branch", false}},
     "Make a sandbox with a network, clone {url} into it with sandbox_git_clone.\n"
     "Take the branch {branch}.\n"
     "Find out from its files how it is built and tested, install what it needs, and run the "
     "tests. "
     "Tell me what failed and why, with the lines that show it; change nothing in it."},
    {"debug-sandbox",
     "Find out what is wrong",
     "Looks for the reason why a sandbox misbehaves",
     {{"sandboxId", "the sandbox", true}, {"symptom", "what goes wrong", false}},
     "Something is wrong in the sandbox {sandboxId}.\n"
     "What is seen: {symptom}\n"
     "Look at sandbox_process_list, sandbox_metrics, sandbox_stream_logs and "
     "sandbox_events_history "
     "for it before you run anything in it. Tell me the likeliest reason, what shows it, and what "
     "would mend it; ask before you change something."},
    {"try-safely",
     "Try something that may go wrong",
     "Takes a snapshot, tries a change, and goes back if it fails",
     {{"sandboxId", "the sandbox", true}, {"change", "what to try", true}},
     "In the sandbox {sandboxId}, take a snapshot with sandbox_snapshot_create first. Then try "
     "this: "
     "{change}\n"
     "Check that it works. If it does not, go back with sandbox_snapshot_restore and tell me what "
     "went wrong; if it does, tell me how you checked."},
};

static json_t *arguments_of(const struct prompt *p)
{
    json_t *all = json_array();

    for (const struct argument *a = p->arguments; a->name; a++)
        (void)json_array_append_new(all,
                                    json_pack("{s:s, s:s, s:b}", "name", a->name, "description",
                                              a->help, "required", (int)a->required));
    return all;
}

static void list(void *arg, struct mcp_op *op, json_t *ret)
{
    (void)arg;
    for (size_t i = 0; i < ARRAY_LEN(prompts); i++) {
        const struct prompt *p = &prompts[i];
        json_t *one = json_pack("{s:s, s:s, s:o}", "name", p->name, "description", p->help,
                                "arguments", arguments_of(p));

        if (op->version >= MCP_2025_06)
            (void)json_object_set_new(one, "title", json_string(p->title));
        (void)json_array_append_new(ret, one);
    }
}

/* Of a line; false when something in it is absent. */
static bool fill_line(struct buf *out, const char *line, size_t len, const json_t *arguments)
{
    const char *end = line + len;

    while (line < end) {
        const char *open = memchr(line, '{', (size_t)(end - line));
        const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
        auto_free char *name = NULL;
        const char *value;

        if (!close) {
            (void)buf_add(out, line, (size_t)(end - line));
            return true;
        }
        name = xstrndup(open + 1, (size_t)(close - open - 1));
        value = json_string_value(json_object_get(arguments, name));
        if (!value || !*value)
            return false;
        (void)buf_add(out, line, (size_t)(open - line));
        (void)buf_add_str(out, value);
        line = close + 1;
    }
    return true;
}

static void fill(struct buf *out, const char *text, const json_t *arguments)
{
    while (*text) {
        size_t len = strcspn(text, "\n"), before = out->len;

        if (out->len > 0)
            (void)buf_add_str(out, "\n");
        if (!fill_line(out, text, len, arguments))
            out->len = before;
        text += len + (text[len] == '\n');
    }
}

static bool has_all(struct mcp_op *op, const struct prompt *p, const json_t *arguments)
{
    for (const struct argument *a = p->arguments; a->name; a++)
        if (a->required && !json_is_string(json_object_get(arguments, a->name))) {
            mcp_fail(op, RPC_INVALID_PARAMS, NULL, "%s needs the argument %s: %s", p->name, a->name,
                     a->help);
            return false;
        }
    return true;
}

static void get(void *arg, struct mcp_op *op, const char *name, json_t *arguments)
{
    auto_buf struct buf text = {0};

    (void)arg;
    for (size_t i = 0; i < ARRAY_LEN(prompts); i++) {
        const struct prompt *p = &prompts[i];

        if (strcmp(p->name, name) != 0)
            continue;
        if (!has_all(op, p, arguments))
            return;
        buf_init(&text, SIZE_MAX / 2); /* arguments are as long as a message may be */
        fill(&text, p->text, arguments);
        mcp_answer(op, json_pack("{s:s, s:[{s:s, s:{s:s, s:s#}}]}", "description", p->help,
                                 "messages", "role", "user", "content", "type", "text", "text",
                                 text.data, (int)text.len));
        return;
    }
    mcp_fail(op, RPC_INVALID_PARAMS, NULL, "Unknown prompt: %.100s", name);
}

const struct mcp_prompts mcp_face_prompts = {.list = list, .get = get};
