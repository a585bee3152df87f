#pragma once

struct err;
struct side;

/* A database of its own beside cay.db, for what comes often and must not hold up those who create
 * sandboxes. What is in one has a header of its own in this folder (store/events.h, store/jobs.h…):
 * that is the only place with its SQL. */

/* Opened by those: <data>/<name>.db. One that is corrupt is set aside, and a new one started. */
void side_close(struct side *s);

/* Waits for the disk: all that was committed before outlives a power cut. Many who call at once
 * share one sync. */
int side_sync(struct side *s, struct err *err);
