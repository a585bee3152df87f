#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/sandboxes.h"

struct build_context;
struct engine;
struct engine_watch;
struct err;

/* An image from a plan of steps: a Dockerfile is one (dockerfile.c), and whoever else wants an
 * image with files and commands in it writes one by hand. Each step that changes files is a layer;
 * layers are kept by what they were made of, so that the same step on the same image is done once.
 */

enum build_op {
    BUILD_FROM,       /* words: an image's name, an earlier stage, or "scratch" */
    BUILD_COPY,       /* words: sources, then where to */
    BUILD_ADD,        /* the same; archives are not unpacked and URLs are refused */
    BUILD_WRITE,      /* words: path, content. A file that is written out in the plan itself */
    BUILD_RUN,        /* words: a program with its arguments, or one text for the shell */
    BUILD_ENV,        /* words: name, value, name, value, … */
    BUILD_ARG,        /* words: name, or name, value; before the first FROM: for all FROMs */
    BUILD_LABEL,      /* words: name, value, name, value, … */
    BUILD_WORKDIR,    /* words: a folder; made if it is not there */
    BUILD_USER,       /* words: name or uid, with :group or without */
    BUILD_ENTRYPOINT, /* words as those of BUILD_RUN; none = none */
    BUILD_CMD,        /* the same */
    BUILD_EXPOSE,     /* words: 8080, 53/udp, … */
    BUILD_SHELL,      /* words: what texts for the shell are given to: /bin/sh, -c */
    BUILD_STOPSIGNAL, /* words: a signal's name or number */
};

struct build_step {
    enum build_op op;
    unsigned line; /* of the file it is from; 0 = of none */
    char *text;    /* as people see it: "RUN make" */
    char **words;
    bool shell;     /* of RUN, CMD, ENTRYPOINT: words[0] is a text for the shell */
    bool expand;    /* $name and ${name} in words (not of RUN, CMD, ENTRYPOINT, SHELL), from,
                     * chown and chmod are replaced */
    bool plain;     /* of WRITE: nothing in its content is replaced, even with expand */
    char *stage;    /* of FROM: its name; NULL = none */
    char *from;     /* of COPY: a stage or an image; NULL = the context */
    char *chown;    /* of COPY, ADD, WRITE: user, user:group, in names or numbers; NULL = 0:0 */
    char *chmod;    /* of COPY, ADD, WRITE: octal digits; NULL = as the source, or 0644 */
    char *platform; /* of FROM; NULL = this machine's */
};

#define BUILD_STEPS_MAX 256

struct build_plan {
    char *file;  /* for what is said about its lines: "Dockerfile"; NULL = none */
    char escape; /* in words that are expanded: a backslash unless the file says otherwise */
    struct build_step *steps;
    size_t n;
};

struct build_plan *build_plan_new(const char *file);
void build_plan_free(struct build_plan *p);
/* Adds a step, to be filled in; it stays where it is until the next one is added. words are copied;
 * ERR_LIMIT "too_many_steps" past BUILD_STEPS_MAX. */
int build_plan_add(struct build_plan *p, enum build_op op, const char *text, char *const *words,
                   struct build_step **ret, struct err *err);

static inline void cleanup_build_planp(struct build_plan **p)
{
    build_plan_free(*p);
}
#define auto_build_plan __attribute__((cleanup(cleanup_build_planp)))

/* dockerfile.c. ERR_INVALID "bad_dockerfile" with file:line for what is wrong or not supported. */
#define DOCKERFILE_BYTES_MAX (256u << 10)
int build_dockerfile(const char *file, const char *text, size_t len, struct build_plan **ret,
                     struct err *err);

/* ---- the files that COPY takes ---- */

/* The context is a tar archive, unpacked by the image worker into a layer that no image has. It
 * goes when it is closed, or with the daemon. */
#define BUILD_CONTEXT_BYTES_MAX (2ull << 30)

/* The archive, whose bytes are added as they come. */
struct build_archive;
int build_archive_open(struct engine *e, struct build_archive **ret, struct err *err);
int build_archive_add(struct build_archive *a, const void *data, size_t len, struct err *err);
void build_archive_close(struct build_archive *a);

/* Of a whole archive. apart (NULL = none): a text at the top of it, a Dockerfile say, that is no
 * part of the context, of DOCKERFILE_BYTES_MAX at most. */
int build_context_open(struct build_archive *a, const char *apart, const struct engine_watch *watch,
                       struct build_context **ret, struct err *err);
/* What was apart; NULL = nothing. */
const char *build_context_apart(const struct build_context *c);
void build_context_close(struct build_context *c);
/* A text file at the top or below, at most max bytes; ERR_NOT_FOUND "file_not_found" when there is
 * none. Has a NUL behind it; free it. */
int build_context_text(struct build_context *c, const char *path, size_t max, char **ret,
                       size_t *ret_len, struct err *err);

static inline void cleanup_build_contextp(struct build_context **c)
{
    build_context_close(*c);
}
#define auto_build_context __attribute__((cleanup(cleanup_build_contextp)))

/* ---- doing it ---- */

struct build_request {
    const struct build_plan *plan; /* required */
    struct build_context *context; /* NULL = none: COPY without --from is refused */
    const char *target;            /* a stage; NULL = the last */
    const json_t *args;            /* for ARG: object of strings; NULL = none */
    bool no_cache;                 /* do every step; what comes out is kept as always */
    struct maybe_number memory_mb, cpu_cores, disk_mb, pids; /* of the sandboxes of RUN */
    const json_t *network;    /* of the sandboxes of RUN, as in a create; NULL = none */
    uint64_t step_timeout_ms; /* of one RUN; 0 = BUILD_STEP_TIMEOUT_MS */
};

#define BUILD_STEP_TIMEOUT_MS 1800000 /* half an hour; also the most */

/* What the watch is told, beside what pulls tell (image/image.h):
 *   step     step, steps, text, line, stage: it begins. Steps count from 1, over all stages that
 *            the target needs
 *   output   step, stream ("stdout", "stderr"), data: of a RUN, as text
 *   stepDone step, cached, durationMs
 * Ends, and removes the sandbox of the step that runs, when the watch says so.
 *
 * Gives {imageId, base (what it stands on, as it is called), cached (all steps were), steps,
 * durationMs, size}. The image has no name, and is held for the caller, who lets it go when
 * something that is kept says its id (a template, a snapshot). Otherwise it stays while the cache
 * of builds has it: 1,000 steps, of which the longest unused go. */
int build_run(struct engine *e, const struct build_request *req, const struct engine_watch *watch,
              json_t **ret, struct err *err);

/* The sandboxes of RUN have the id of their build in their metadata, under this, and are named
 * after it: "build_…-4" is that of its fourth step. */
#define BUILD_MARK "cay.build"

/* At start, before the first call: removes sandboxes of builds that a killed daemon left. */
void build_recover(struct engine *e);
