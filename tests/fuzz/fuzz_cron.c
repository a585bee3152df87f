/* A line of cron, and from when on. What is found is behind that, in a second that the sets have,
 * and the same again from just before it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "iii/cron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[CRON_TEXT_MAX + 64];
    uint32_t after;
    struct err err = {0};
    struct cron c;
    struct tm t;
    time_t next;

    if (size < sizeof(after) || size - sizeof(after) >= sizeof(text))
        return 0;
    memcpy(&after, data, sizeof(after));
    memcpy(text, data + sizeof(after), size - sizeof(after));
    text[size - sizeof(after)] = '\0';
    if (cron_read(text, &c, &err) < 0) {
        require(err.kind == ERR_INVALID && err.text[0]);
        return 0;
    }
    next = cron_next(&c, after);
    if (next < 0)
        return 0;
    require(next > (time_t)after && gmtime_r(&next, &t));
    require((c.seconds >> t.tm_sec & 1) && (c.minutes >> t.tm_min & 1) &&
            (c.hours >> t.tm_hour & 1));
    require((c.months >> (t.tm_mon + 1) & 1) && t.tm_year + 1900 <= CRON_YEAR_LAST);
    require((c.days >> t.tm_mday & 1) || c.either);
    require((c.weekdays >> t.tm_wday & 1) || c.either);
    require(cron_next(&c, next - 1) == next);
    return 0;
}
