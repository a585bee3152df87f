#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "mcp/mcp_internal.h"

/* Which tools a client wants to see, as the query of its requests says. */

#define QUERY_MAX 4096

static int bad(struct err *err, const char *what)
{
    return err_code(err, ERR_INVALID, "bad_toolset", "%s", what);
}

static int read_tools(struct mcp_choice *c, char *list, struct err *err)
{
    char *rest = list;

    if (strcmp(list, "all") == 0)
        return 0;
    if (strcmp(list, "core") == 0) {
        c->core = true;
        return 0;
    }
    for (char *name; (name = strsep(&rest, ","));) {
        if (!*name)
            continue;
        if (c->n == MCP_CHOICE_MAX)
            return bad(err, "tools names more tools than there can be");
        c->names[c->n++] = xstrdup(name);
    }
    return c->n > 0 ? 0 : bad(err, "tools must be core, all, or names with commas between them");
}

/* Names of tools need no escapes but for the comma. */
static void unescape_commas(char *text)
{
    char *to = text;

    for (const char *from = text; *from; to++)
        if (strncasecmp(from, "%2C", 3) == 0) {
            *to = ',';
            from += 3;
        } else {
            *to = *from++;
        }
    *to = '\0';
}

static int read_word(struct mcp_choice *c, char *word, struct err *err)
{
    char *value = strchr(word, '=');

    if (!value)
        return 0;
    *value++ = '\0';
    unescape_commas(value);
    if (strcmp(word, "tools") == 0)
        return read_tools(c, value, err);
    if (strcmp(word, "readOnly") == 0)
        c->read_only = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    return 0;
}

int mcp_choice_read(struct mcp_choice *c, const char *query, struct err *err)
{
    auto_free char *copy = NULL;
    char *rest;

    *c = (struct mcp_choice){0};
    if (strlen(query) > QUERY_MAX)
        return bad(err, "the query is too long");
    copy = rest = xstrdup(query);
    for (char *word; (word = strsep(&rest, "&"));)
        if (read_word(c, word, err) < 0) {
            mcp_choice_done(c);
            return -1;
        }
    return 0;
}

void mcp_choice_copy(struct mcp_choice *to, const struct mcp_choice *from)
{
    *to = *from;
    for (size_t i = 0; i < from->n; i++)
        to->names[i] = xstrdup(from->names[i]);
}

void mcp_choice_done(struct mcp_choice *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->names[i]);
    *c = (struct mcp_choice){0};
}
