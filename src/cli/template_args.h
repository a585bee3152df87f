#pragma once

#include <jansson.h>

struct args;
struct err;

/* The body of template::create from the flags and words of `cay template create`. */
int template_body(const struct args *args, json_t **ret, struct err *err);

/* cmd_template.c: `cay template build NAME`. */
int template_build_again(struct args *args);
