#pragma once

struct engine;
struct err;
struct templates;

/* Before engine_start: the images of templates are held from then on. */
int templates_open(struct engine *e, struct err *err);
void templates_close(struct templates *t);
