#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Starts the spawner; its pid is then in agents. join: it must enter the workload's cgroups itself,
 * since we have left them. 0 or -errno. */
int spawner_start(bool join, size_t agent_cgroups, size_t work_cgroups);
void spawner_may_go(void); /* once we have left them */

/* Enters the cgroups whose cgroup.procs are open at fd and after. 0 or -errno. */
int cgroups_join(int fd, size_t count);
