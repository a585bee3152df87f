#pragma once

#include <stdbool.h>
#include <stdint.h>

struct call_log;
struct engine;
struct sandbox;

/* "SIGQUIT", "QUIT", "3", "SIGRTMIN+3": its number; SIGTERM for what is none. */
int stop_signal_parse(const char *text);

/* Asks the main process to end: true when it ran and has been asked. */
bool main_ask_to_end(struct engine *e, struct sandbox *sb);
/* Is it known to run still? */
bool main_runs(struct engine *e, struct sandbox *sb);
/* Asks the main process to end, and waits for that for at most waits.main. */
void main_stop(struct engine *e, struct sandbox *sb);
/* How the main process is now. Waits for the agent until then (mono_ns), as nobody else does: -1
 * when it has not said. */
int main_look(struct engine *e, struct sandbox *sb, int64_t until, struct call_log *ret);

/* Has the agent of a running sandbox write the output of commands that have ended to the disk,
 * where the next box of this sandbox finds it. An agent that is older or does not answer in time
 * keeps nothing. */
#define EXECS_KEEP_MS 1000 /* before a stop */
#define EXECS_KEEP_PAUSE_MS                                                                        \
    100 /* before a pause: a stop may follow it, and no agent answers then */
void execs_keep(struct engine *e, struct sandbox *sb, uint32_t most_ms);
