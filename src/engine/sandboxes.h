#pragma once

#include <jansson.h>
#include <stdint.h>

struct engine;
struct engine_watch;
struct err;

/* in is the flat, type-checked input of sandbox::create (image, name, timeout, memory, cpu, disk,
 * network, env, workdir, metadata, entrypoint, runEntrypoint, pull, platform, registry_auth);
 * numbers are clamped to the contract's ranges. Pulls the image when that is asked for or needed;
 * watch (NULL = nobody) is told. Returns the Sandbox object of the contract. */
int engine_create(struct engine *e, const json_t *in, const struct engine_watch *watch,
                  json_t **ret, struct err *err);
int engine_get(struct engine *e, const char *id, json_t **ret, struct err *err);
/* {items, total, page, pageSize}, newest last. status and metadata (object) filter; NULL = any. */
int engine_list(struct engine *e, const char *status, const json_t *metadata, uint32_t page,
                uint32_t page_size, json_t **ret, struct err *err);
int engine_remove(struct engine *e, const char *id, struct err *err);
int engine_pause(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_resume(struct engine *e, const char *id, json_t **ret, struct err *err);
int engine_renew(struct engine *e, const char *id, int64_t expires_ms, json_t **ret,
                 struct err *err);
/* Removes expired ones now; *ret is how many. */
int engine_sweep(struct engine *e, unsigned *ret, struct err *err);
