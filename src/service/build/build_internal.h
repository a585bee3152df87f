#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"
#include "engine/builds.h"
#include "service/build/build.h"

/* What the files of a build share. */

/* ---- words.c ---- */

/* Cuts a line into words at white space, outside of quotes; quotes and escapes stay in them. */
int words_split(const char *text, char escape, char ***ret, struct err *err);

/* What a name means, or NULL. */
typedef const char *(*words_lookup)(const char *name, void *arg);

#define WORD_BYTES_MAX  (128u << 10)
#define WORDS_BYTES_MAX (4u << 20) /* of all steps of a build, with what variables stand for */

/* A word as a shell would see it: without its quotes and escapes, and with $name, ${name},
 * ${name:-word}, ${name-word}, ${name:+word} and ${name+word} replaced. Free *ret. */
int words_expand(const char *word, char escape, words_lookup lookup, void *arg, char **ret,
                 struct err *err);
/* The same for a text in which quotes and escapes are no more than themselves; what is escaped is
 * not replaced. */
int words_expand_text(const char *text, char escape, words_lookup lookup, void *arg, char **ret,
                      struct err *err);

/* ---- context.c ---- */

struct build_context {
    struct engine *engine;
    char *image_id; /* held */
    char *apart;    /* NULL = none */
};

/* ---- stage.c: an image so far ---- */

struct stage {
    char *name;                         /* NULL = none */
    char *shown;                        /* what it began with, for people */
    char *image_id;                     /* held; NULL = nothing yet */
    char **env;                         /* K=V */
    char *workdir, *user, *stop_signal; /* "" = not said */
    char **entrypoint, **cmd, **shell;
    json_t *labels, *ports; /* objects */
    json_t *args;           /* ARGs of this stage: name to value, or null */
    json_t *dirs;           /* array of folders that the next layer has to make */
    bool cmd_said;          /* in this file */
    bool changed;           /* settings are not those of the image any more */
};

void stage_done(struct engine *e, struct stage *s);
/* Settings from an Image; NULL = those of nothing. */
void stage_begin(struct stage *s, const json_t *image);
/* The image and settings of an earlier one, without its ARGs. */
void stage_copy(struct engine *e, struct stage *s, const struct stage *from);
/* Another image in place of its own; takes the hold. */
void stage_move(struct engine *e, struct stage *s, char *image_id);
/* What its settings take. */
size_t stage_bytes(const struct stage *s);
/* Of its ENV and ARG; NULL = it has none. */
const char *stage_value(const struct stage *s, const char *name);
void stage_set_env(struct stage *s, const char *name, const char *value);
/* A path as WORKDIR sees it; free it. */
char *stage_path(const struct stage *s, const char *path);
/* Settings as engine_build_layer() takes them. */
json_t *stage_config(const struct stage *s);
/* What a RUN sees: object of strings. */
json_t *stage_environment(const struct stage *s);

/* ---- run.c ---- */

#define BUILD_PREFIX "build" /* of the ids of builds */

struct build {
    struct engine *engine;
    const struct build_request *req;
    const struct engine_watch *watch;
    char id[ID_SIZE];
    struct stage *stages;
    size_t n_stages;
    json_t *globals;    /* ARGs before the first FROM */
    size_t words_bytes; /* so far */
    char **held;        /* images that COPY --from names */
    size_t step, steps; /* which runs, of how many */
    bool all_cached;
};

/* Takes the event; -1 when nobody waits any more, or the daemon ends. */
int build_tell(struct build *b, json_t *event, struct err *err);
/* The step's place in its file, before what is wrong. */
int build_blame(const struct build *b, const struct build_step *step, struct err *err);
/* The stage of that name or number among the first ones; NULL = none of them. */
struct stage *build_stage_of(const struct build *b, size_t before, const char *word);
/* The digest of what a step depends on; takes it. */
void build_key(json_t *what, char ret[BUILD_DIGEST_SIZE]);
/* The image of that key, unless all is to be done anew. */
char *build_cached(const struct build *b, const char *key);

/* copy.c: COPY, ADD, WRITE, and the folders that are still to be made. Each says whether it was
 * done before. */
int build_copy(struct build *b, struct stage *s, const struct build_step *step, char *const *words,
               bool *cached, struct err *err);
int build_write(struct build *b, struct stage *s, const struct build_step *step, char *const *words,
                bool *cached, struct err *err);
/* What is left when all steps are done: settings and folders become the image's. */
int build_settle(struct build *b, struct stage *s, struct err *err);

/* command.c: RUN. */
int build_command(struct build *b, struct stage *s, const struct build_step *step, bool *cached,
                  struct err *err);
