#pragma once

struct call;
struct err;
struct function;

/* Keys of requests (service/keys.h), whichever face they come from: a call of a row with
 * FUNCTION_MAKES that has call->key runs once, and who sends it again is given the same answer. */

/* 1 to so many visible characters of ASCII. */
#define KEY_MAX 255

/* Runs the row's function; with a key only if no other call does or has done. */
int keyed_run(const struct function *f, struct call *call, struct err *err);

/* What the call is about to make: kept with its key before it is made. Nothing without a key. -1
 * when it cannot be kept, and then it must not be made. */
int call_makes(struct call *call, const char *id, struct err *err);
