#pragma once

#include "runtime/native/cgroup.h"

/* What cgroup_v1.c and cgroup_spares.c share. A set is all groups of one name: of a box, or of none
 * while it is spare. */

#define V1_AGENT ".agent"

/* part: "" = the workload's, V1_AGENT = the agent's. Owned by the caller. */
char *cgroup_v1_dir(const struct cgroup *c, int controller, const char *name, const char *part);
/* Has the agent a group of its own there? */
bool cgroup_v1_has_agent(int controller);
/* false = an earlier controller has the same folder: some are mounted together. */
bool cgroup_v1_is_own(const struct cgroup *c, int controller);
/* Removes every group of the set that there is; waits a little while members are still leaving. */
int cgroup_v1_remove_set(const struct cgroup *c, const char *name, struct err *err);

/* ---- cgroup_spares.c ---- */

void cgroup_spares_open(struct cgroup *c);
/* Gives the groups of a spare set to a box that has none. false = there is no set. */
bool cgroup_spares_take(const struct cgroup *c, const char *id);
/* Takes those of a box that has gone, if they are as good as new. false = they are the caller's to
 * remove, whatever is left of them under the id. */
bool cgroup_spares_keep(const struct cgroup *c, const char *id);
/* Removes all sets. */
void cgroup_spares_close(const struct cgroup *c);
