#pragma once

#include <jansson.h>
#include <stddef.h>

struct err;

/* What the files of oci/ share: JSON that a stranger wrote, with bounds on what it can cost. */

struct document_kind {
    const char *code; /* of every error: "bad_manifest" */
    const char *what; /* for people: "manifest" */
};

/* An object of at most max bytes, 64 levels and 200,000 values, with no key twice in one object and
 * no NUL in a string. ERR_INVALID. */
int document_load(const struct document_kind *doc, const char *bytes, size_t len, size_t max,
                  json_t **ret, struct err *err);

/* Makes the words of a stranger fit for a message: what is not printable ASCII becomes '?'. */
void make_printable(char *text);

/* "the <what> is not usable: …" */
int document_bad(const struct document_kind *doc, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The string at key, "" when it is absent or null; -1 when it is something else. The object keeps
 * it. */
int document_string(const struct document_kind *doc, const json_t *object, const char *key,
                    const char **ret, struct err *err);

static inline void cleanup_jsonp(json_t **j)
{
    json_decref(*j);
}
#define auto_json __attribute__((cleanup(cleanup_jsonp)))
