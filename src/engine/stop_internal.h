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
