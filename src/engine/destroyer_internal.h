#pragma once

struct engine;
struct err;
struct sandbox;

/* Takes away what was removed, off every request's path. What cannot be taken away now is tried
 * again, later and later, for as long as the engine runs; /health says so meanwhile, and the row
 * leads the next start to it. Two threads, of which one at a time is busy with what has failed
 * before: a box that takes its time to fail does not hold up the others. They give way to requests
 * while few boxes wait for them. */
struct destroyer;

struct destroyer *destroyer_new(void);
void destroyer_free(struct destroyer *d);
int destroyer_start(struct engine *e, struct err *err);
/* After everything has been tried; what still fails is the next start's. */
void destroyer_stop(struct engine *e);
/* Destroys the box and deletes the row, later. Takes a reference. */
void destroyer_add(struct engine *e, struct sandbox *sb);
