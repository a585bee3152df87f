#pragma once

#include <jansson.h>
#include <stdbool.h>

struct api;
struct args;
struct err;

/* Refuses a name that is none, and limits that are out of range; life_s as
 * ranges_check(). */
int create_check(struct api *api, const struct args *args, const char *flag, double life_s,
                 struct err *err);
/* Is it the command line that is wrong, and nothing that the daemon said? */
bool create_is_misused(const struct err *err);

/* With --template the words are the command: there is no image before it, unless "--" is between
 * them. To be called first. */
void create_take_words(struct args *args);
/* The image that the words name; NULL = none. */
const char *create_image(const struct args *args);

/* The body of sandbox::create from the flags that run and create share (--name --memory --cpu
 * --pids --disk --env --env-file --workdir --network --allow --deny --copy --patch --volume --tmpfs
 * --mount --publish --pull
 * --template); image NULL = the template's, or host. */
int create_body(const struct args *args, const char *image, json_t **ret, struct err *err);

/* Makes it; body is taken. What a pull does on the way is shown on stderr unless --quiet is given.
 * *ret_pulled: an image was fetched. When a signal ended it, pull_signal() tells. */
int create_sandbox(struct api *api, const struct args *args, json_t *body, json_t **ret,
                   bool *ret_pulled, struct err *err);

/* After a failure: says that the image it wanted is the name of a template, if it is. */
bool create_means_template(struct api *api, const struct args *args);

/* What `cay create` does, and `cay run -d`: makes it from the words and prints its id. Without a
 * command line, own says that the image's entrypoint runs. */
int create_and_tell(struct args *args, bool own);

/* A command as image configurations hold it: text that begins with "[" is a JSON array of words,
 * other text is for the shell. flag names it in the error. */
int command_words(const char *text, const char *flag, json_t **ret, struct err *err);
