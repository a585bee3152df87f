#pragma once

struct engine;
struct sandbox;

/* "SIGQUIT", "QUIT", "3", "SIGRTMIN+3": its number; SIGTERM for what is none. */
int stop_signal_parse(const char *text);
/* Asks the main process to end, and gives it a little time for that. */
void main_stop(struct engine *e, struct sandbox *sb);
