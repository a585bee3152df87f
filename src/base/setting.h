#pragma once

/* Settings in the environment. */

/* The text of a variable; NULL when it is unset or empty: compose files pass empty ones. */
const char *setting_text(const char *name);

/* The name that a setting was given under, for messages: other if only that variable is set, else
 * name. other may be NULL. */
const char *setting_name(const char *name, const char *other);
