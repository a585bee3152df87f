#pragma once

/* For clang-tidy only (tools/check tidy): its analyzer looks at one file at a time and cannot see
 * that these always return -1, so it would follow paths on which a failure goes unnoticed. */
#include "base/err.h"

#define err_set(...)  (err_set(__VA_ARGS__), -1)
#define err_sys(...)  (err_sys(__VA_ARGS__), -1)
#define err_code(...) (err_code(__VA_ARGS__), -1)
#define err_wrap(...) (err_wrap(__VA_ARGS__), -1)
