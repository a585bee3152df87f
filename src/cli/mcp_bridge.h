#pragma once

struct err;

/* From stdin and stdout, a message a line, to a daemon's /mcp: for clients that start a program.
 * path has the query that chooses tools. Returns at the end of stdin: an exit status. */
int mcp_bridge(const char *target, const char *token, const char *path);
