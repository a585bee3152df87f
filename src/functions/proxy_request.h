#pragma once

#include "functions/call.h"

/* The row that sends one request to a port of a sandbox and gives the answer as JSON. */
int proxy_request(struct call *call, struct err *err);
