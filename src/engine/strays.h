#pragma once

#include <jansson.h>

struct engine;
struct err;

/* Strays: what is on this host and has no row, and no note that says what it is. Nothing is ever
 * done about one but by these calls. */

/* {"strays": [{"id", "path", "bytes", "processes"}], "bytes"} */
int engine_strays(struct engine *e, json_t **ret, struct err *err);
/* It becomes a stopped sandbox, for a day unless it is renewed; gives a Sandbox. */
int engine_stray_adopt(struct engine *e, const char *id, json_t **ret, struct err *err);
/* Its processes end and its disk goes. */
int engine_stray_remove(struct engine *e, const char *id, struct err *err);
