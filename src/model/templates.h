#pragma once

#include <jansson.h>

/* What begins so is an id, never a name. */
#define TEMPLATE_ID_START "tpl_"

/* Those that every daemon has, as Templates. */
json_t *templates_builtin(void);
