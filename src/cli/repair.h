#pragma once

#include <jansson.h>

struct api;
struct args;
struct err;

/* What belongs to no sandbox: {"strays": […], "bytes"}. */
int strays_ask(struct api *api, json_t **ret, struct err *err);

/* `cay doctor --repair adopt|remove [ID]…`: shows what has no owner, asks, and does it. The exit
 * status. */
int repair(const struct args *args);
