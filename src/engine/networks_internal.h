#pragma once

#include <jansson.h>
#include <stdbool.h>

struct engine;
struct err;
struct networks;
struct sandbox;

/* Which named networks there are: a document each. Who is in one is in the rows of the sandboxes
 * and nowhere else; the gateway is told. */

int networks_open(struct engine *e, struct err *err);
void networks_close(struct engine *e);
/* After recovery: goes on with removals that a daemon which was killed had begun. */
void networks_start(struct engine *e);

/* What a create asks for (names and ids) as a row has it: ids, NULL = none. */
int networks_read(struct engine *e, const json_t *words, json_t **ret, struct err *err);
/* Is it in any, as its row has it? */
bool networks_has(struct sandbox *sb);
/* What others call it there: its name in small letters if that is one label of a domain, so that
 * none can stand for a server of the internet, else its id. The caller's. */
char *networks_name_of(struct sandbox *sb);
/* Tells the gateway, which has a place for it, all that it is in. Fine when it knows. */
int networks_join_all(struct engine *e, struct sandbox *sb, struct err *err);
