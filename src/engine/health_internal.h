#pragma once

struct troubles;

struct troubles *troubles_new(void);
void troubles_free(struct troubles *t);
