#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/setting.h"
#include "base/str.h"
#include "daemon/config.h"
#include "daemon/config_internal.h"

/* What a sandbox gets when nobody says may not be beyond what a caller may ask for. */

static const struct {
    const char *preset, *other, *ceiling; /* variables; other: the name in the contract, or NULL */
    size_t preset_at, ceiling_at;
    double unit;
} pairs[] = {
    {"CAY_DEFAULT_MEMORY", "III_DEFAULT_MEMORY", "CAY_MAX_MEMORY", AT(default_memory),
     AT(max_memory), 1},
    {"CAY_DEFAULT_CPU", "III_DEFAULT_CPU", "CAY_MAX_CPU", AT(default_cpu_millis),
     AT(max_cpu_millis), 1000},
    {"CAY_DEFAULT_PIDS", NULL, "CAY_MAX_PIDS", AT(default_pids), AT(max_pids), 1},
    {"CAY_DEFAULT_TIMEOUT", "III_DEFAULT_TIMEOUT", "CAY_MAX_TIMEOUT", AT(default_timeout),
     AT(max_timeout), 1},
};

/* Of both 0 is no end. */
static bool is_beyond(uint32_t value, uint32_t ceiling)
{
    return ceiling != 0 && (value == 0 || value > ceiling);
}

/* A default that nobody set follows the ceiling. One that somebody set is a contradiction; with the
 * name of the contract, whose defaults have no ceiling, it is only told. */
int config_ceilings(struct daemon_config *c, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        uint32_t *preset = (uint32_t *)((char *)c + pairs[i].preset_at);
        uint32_t ceiling = *(uint32_t *)((char *)c + pairs[i].ceiling_at);
        const char *place = config_file_place(c, pairs[i].preset);
        double value = *preset / pairs[i].unit, most = ceiling / pairs[i].unit;

        if (!is_beyond(*preset, ceiling))
            continue;
        if (setting_text(pairs[i].preset) && *preset == 0)
            return err_set(err, ERR_INVALID, "%s=0, for no end, needs %s=0, and that is %.10g",
                           pairs[i].preset, pairs[i].ceiling, most);
        if (setting_text(pairs[i].preset))
            return err_set(err, ERR_INVALID,
                           "%s=%.10g is beyond %s=%.10g: raise the second, or lower the first",
                           pairs[i].preset, value, pairs[i].ceiling, most);
        if (place && !setting_text(pairs[i].other))
            config_warn(c, xasprintf("%s %.10g is beyond %s=%.10g; going on with that", place,
                                     value, pairs[i].ceiling, most));
        if (setting_text(pairs[i].other))
            config_warn(c, xasprintf("%s=%.10g is beyond %s=%.10g; going on with that",
                                     pairs[i].other, value, pairs[i].ceiling, most));
        *preset = ceiling;
    }
    return 0;
}
