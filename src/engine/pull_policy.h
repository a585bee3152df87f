#pragma once

/* Whether a create or a pull asks the registry, and when. */

enum pull_policy { PULL_MISSING, PULL_ALWAYS, PULL_NEVER, PULL_POLICIES };
extern const char *const pull_policy_words[PULL_POLICIES + 1]; /* ended by NULL */

/* "missing", "always", "never": 0 or -1. */
int pull_policy_parse(const char *text, enum pull_policy *ret);
