#pragma once

#include <jansson.h>

struct engine;
struct err;
struct node;

/* This machine, as the list of workers has it: the only one, and alive for as long as it answers.
 */

/* The id stays the same for this machine and this data folder, whoever restarts. */
struct node *node_new(struct engine *engine, const char *data_dir);
void node_free(struct node *n); /* NULL is fine */

/* Worker, as it is now. */
int node_worker(struct node *n, json_t **ret, struct err *err);
/* Its id when there is room for another sandbox: ERR_UNAVAILABLE "no_capacity" otherwise. */
int node_select(struct node *n, const char **ret, struct err *err);
