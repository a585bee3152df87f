#pragma once

struct engine;
struct engine_watch;
struct err;

/* Who builds which template: one at a time for each name. */
struct template_turns;

struct template_turns *template_turns_new(void);
void template_turns_free(struct template_turns *t);

/* Waits as long as the watch wants to, which is long work (long_work_internal.h). */
int template_turn_begin(struct engine *e, struct template_turns *t, const char *name,
                        const struct engine_watch *watch, struct err *err);
void template_turn_end(struct template_turns *t, const char *name);
