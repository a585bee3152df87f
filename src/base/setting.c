#include "base/setting.h"

#include <stdlib.h>

const char *setting_text(const char *name)
{
    const char *text = name ? getenv(name) : NULL;

    return text && *text ? text : NULL;
}

const char *setting_name(const char *name, const char *other)
{
    return !setting_text(name) && setting_text(other) ? other : name;
}
