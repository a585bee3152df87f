#include "mcp/face.h"

#include "base/mem.h"
#include "mcp/face_internal.h"
#include "mcp/watching.h"

const char mcp_face_instructions[] =
    "Sandboxes: isolated Linux machines to run commands and code in. Make one with sandbox_create "
    "(it is ready at once), use its id or name as sandboxId in every other tool, and remove it "
    "with "
    "sandbox_kill when the work is done. sandbox_exec runs shell commands, sandbox_run_code code; "
    "files are below /workspace. Answers that are too long are cut, and end with a line in "
    "brackets that says which call reads on.";

struct mcp_face *mcp_face_new(const struct mcp_face_config *config)
{
    struct mcp_face *face = xcalloc(1, sizeof(*face));

    face->config = *config;
    mcp_tools_make(face);
    face->watcher = mcp_watcher_new();
    face->providers = (struct mcp_providers){.arg = face,
                                             .tools = &mcp_function_tools,
                                             .resources = &mcp_face_resources,
                                             .prompts = &mcp_face_prompts,
                                             .complete = mcp_face_complete};
    return face;
}

const struct mcp_providers *mcp_face_providers(const struct mcp_face *face)
{
    return &face->providers;
}

void mcp_face_free(struct mcp_face *face)
{
    if (!face)
        return;
    mcp_watcher_free(face->watcher);
    mcp_tools_free(face);
    free(face);
}
