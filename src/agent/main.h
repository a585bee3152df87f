#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct pool;

/* spawner.c. Starts the spawner, which enters the workload's cgroups; its pid is then in agents. 0
 * or -errno. */
int spawner_start(size_t agent_cgroups, size_t work_cgroups);
struct pool *exec_pool(void); /* of supervisors */
void main_has_left(void);     /* we are no longer in the workload's cgroups */

/* young.c: what a box begins with. Forks the first supervisor: */
void young_begin(struct pool *execs);
/* After each round: */
bool young_needs_spawner(void);
bool young_needs_handler(void);
int64_t young_wait_ns(void); /* until something is needed; -1 = nothing will be by itself */

/* Enters the cgroups whose cgroup.procs are open at fd and after. 0 or -errno. */
int cgroups_join(int fd, size_t count);
