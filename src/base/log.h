#pragma once

#include <stdbool.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

/* One line on stderr: time, level, message, then key=value pairs; as JSON objects when json is set.
 * A line is one write and never blocks the daemon for long: on a full pipe it is dropped and
 * counted, and the next line that gets through says how many were lost; so are warnings of the same
 * text past 50 a second. Safe on any thread. */
void log_setup(enum log_level least, int json);

/* Pairs of strings: log_info("sandbox created", "id", id, "image", image). NULL values are skipped.
 */
void log_event(enum log_level level, const char *message, ...) __attribute__((sentinel));

/* Would a line of that level be written? For those whose values take work. */
bool log_shows(enum log_level level);

#define log_debug(...) log_event(LOG_LEVEL_DEBUG, __VA_ARGS__, (char *)0)
#define log_info(...)  log_event(LOG_LEVEL_INFO, __VA_ARGS__, (char *)0)
#define log_warn(...)  log_event(LOG_LEVEL_WARN, __VA_ARGS__, (char *)0)
#define log_error(...) log_event(LOG_LEVEL_ERROR, __VA_ARGS__, (char *)0)
