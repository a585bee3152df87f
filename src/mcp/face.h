#pragma once

#include <stddef.h>

struct about;
struct engine;
struct mcp_providers;
struct services;

/* What the daemon serves over MCP: its functions as tools, sandboxes and files as resources, and
 * prompts. */

struct mcp_face_config {
    struct engine *engine;
    struct services *services;
    const struct about *about;
    size_t output;     /* bytes of what a call gives; more is cut and told */
    const char *image; /* of a sandbox for which none is named; NULL = one must be */
};

struct mcp_face;

/* What a model is told of all of it. */
extern const char mcp_face_instructions[];

struct mcp_face *mcp_face_new(const struct mcp_face_config *config);
const struct mcp_providers *mcp_face_providers(const struct mcp_face *face);
void mcp_face_free(struct mcp_face *face);
