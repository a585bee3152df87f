#pragma once

struct call;
struct err;

/* sandbox::fs::read */
int iii_read_file(struct call *call, struct err *err);
