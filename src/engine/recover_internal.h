#pragma once

struct engine;
struct err;

/* At the start: makes what runs and what the rows say agree. */
int recover(struct engine *e, struct err *err);
