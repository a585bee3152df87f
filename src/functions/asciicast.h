#pragma once

struct call;
struct err;

/* What was recorded of an exec on a terminal, as bytes of the answer: asciicast v2, the form of
 * asciinema. */
int asciicast_send(struct call *call, const char *sandbox_id, const char *exec_id, struct err *err);
