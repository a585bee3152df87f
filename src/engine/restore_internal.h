#pragma once

struct engine;
struct err;
struct sandbox;

/* In its turn, before a box comes up on its disk, or somebody reads that: a restore that did not
 * come to its end goes on, if there was one. */
int restore_finish(struct engine *e, struct sandbox *sb, struct err *err);
