#pragma once

struct api;
struct attach_options;
struct attach_result;

/* How a command ended, for people. */

/* In a sentence; NULL when there is nothing to say beside its exit status. Free it. May ask the
 * daemon what the sandbox is limited to. */
char *ending_words(struct api *api, const char *id, const struct attach_options *o,
                   const struct attach_result *result);
/* What may be the matter with a command that failed, or NULL. Free it. */
char *ending_hint(struct api *api, const char *id, const struct attach_result *result);

/* Says both on stderr. */
void ending_tell(struct api *api, const char *id, const struct attach_options *o,
                 const struct attach_result *result);
