#pragma once

struct engine;
struct sandbox;

/* At a start: the limits of a box that runs are those that its row says. */
void modify_recover(struct engine *e, struct sandbox *sb);
