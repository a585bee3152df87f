#pragma once

/* The programs that `cay mcp install` knows, with spaces between their names; the caller frees it.
 */
char *mcp_client_names(void);
