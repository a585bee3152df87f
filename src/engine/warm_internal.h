#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "engine/pool.h"
#include "model/sandbox.h"

struct documents;
struct engine;
struct err;
struct image;
struct sandbox;
struct sandbox_spec;

/* Boxes that are up, with the root of an image and an agent that waits, before anybody asks for
 * them. Their rows say PREPARED, so a start throws away those that a daemon has left behind; a
 * create that wants such a box takes it out of the pool under the lock and has it to itself. */
struct warm;

struct warm *warm_new(void);
void warm_free(struct warm *w);
/* After recovery: reads the profiles and starts the thread that keeps them filled. */
int warm_start(struct engine *e, struct err *err);
void warm_stop(struct engine *e); /* and removes what was ready */

/* A box of that image with those limits that has nothing to be given which only a new one can be
 * given; NULL = there is none. Its sandbox is the caller's, who has counted the image and gives it
 * its spec. Every create asks, so that the pool is filled when they rest. */
struct sandbox *warm_take(struct engine *e, const char *image_id, const struct sandbox_spec *spec);
/* Of one that was taken, in place of sandbox_launch(): its row, then what is left to be done for
 * its own spec. If that is nothing the row says already that it runs, and none has to follow. */
int warm_launch(struct engine *e, struct sandbox *sb, struct err *err);
/* It goes, and so does the caller's reference. */
void warm_discard(struct engine *e, struct sandbox *sb);
/* The image of a name, or a template, has changed or was removed: the pool checks its boxes and
 * tries all profiles again. */
void warm_sources_changed(struct engine *e);

/* ---- for the files of the pool */

struct warm_profile {
    struct warm_profile *next;
    unsigned refs;
    bool gone;        /* no longer in the list */
    char id[ID_SIZE]; /* "" = of the configuration */
    struct pool_request want;
    char *image, *template; /* what want points to; one is NULL */
    json_t *network;        /* also; NULL = none */
    json_t *helper;         /* also */
    int64_t created_ms;
    unsigned ready;               /* boxes of it that wait */
    struct sandbox_limits limits; /* that its boxes have, with what a template says */
    char *error;                  /* why the last could not be made; NULL = it could */
    unsigned failures;
    int64_t again_ns; /* not before */
};

/* A box that waits. Its sandbox is in no roster, has no name, and nobody has run anything in it. */
struct waiting {
    struct sandbox *sb;
    struct warm_profile *profile;
    struct waiting *next;
};

struct warm {
    char **(*helper_argv)(const json_t *helper); /* NULL = there are no helpers */
    pthread_mutex_t changes; /* before lock: profiles are added and removed one at a time */
    pthread_mutex_t lock;    /* all below */
    pthread_cond_t more;
    struct warm_profile *profiles;
    struct waiting *first; /* the oldest */
    struct documents *kept;
    int64_t taken_ns;     /* the last create */
    int64_t look_ns;      /* when boxes and images are looked at next */
    uint64_t changes_seq; /* calls of warm_sources_changed() */
    bool stop, running;
    pthread_t thread;
};

/* With the lock held. Boxes of the profile that have ended go, and those with other limits or of
 * another image than this; with NULL all. */
void warm_drop_stale(struct engine *e, const struct warm_profile *p, const char *id);

/* With one reference. An id of "" = of the configuration. */
struct warm_profile *warm_profile_new(const struct pool_request *want, const char *id);
/* The caller has the pool's lock for both. */
struct warm_profile *warm_profile_ref(struct warm_profile *p);
void warm_profile_unref(struct warm_profile *p);
/* Those of the configuration, then those that were added. */
int warm_profiles_load(struct engine *e, struct documents *kept, struct warm_profile **ret,
                       struct err *err);
/* What a create asks for that gets one of these. Of a template it points into *ret_hold, which the
 * caller lets go; ERR_UNAVAILABLE "template_not_ready" when that is yet to be built. */
int warm_profile_request(struct engine *e, const struct warm_profile *p,
                         struct sandbox_request *ret, json_t **ret_hold, struct err *err);
/* The limits that its boxes are to have now, also when its template is yet to be built. */
int warm_profile_limits(struct engine *e, const struct warm_profile *p, struct sandbox_limits *ret,
                        struct err *err);
bool warm_limits_same(const struct sandbox_limits *a, const struct sandbox_limits *b);
/* Its image or its template. */
const char *warm_profile_word(const struct warm_profile *p);
json_t *warm_profile_document(const struct warm_profile *p);
json_t *warm_profile_json(const struct warm_profile *p);
/* "image:memory:cpu:network"; free it. */
char *warm_profile_key(const struct warm_profile *p);
bool warm_profile_same(const struct warm_profile *p, const struct warm_profile *other);

/* Starts the profile's helper in a new box and waits until it is ready. */
int warm_helper_start(struct engine *e, struct sandbox *sb, const json_t *helper, struct err *err);
