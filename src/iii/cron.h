#pragma once

#include <stdbool.h>
#include <stdint.h>

struct err;

/* When something is due: "sec min hour day month weekday [year]", in UTC, as clients of iii write
 * it. Lists, ranges and steps ("1,5", "9-17", "5/15", "0-30/10"), `*`, in the two fields of days
 * also `?`, names of months and weekdays, and "@hourly", "@daily" and so on.
 *
 * As there, numbers of weekdays go from 1 (Sunday) to 7, and a day must be in both fields of days.
 * A line of five fields, which there is refused, is one of a crontab: at second 0, weekdays from 0
 * (Sunday) to 7 (Sunday again), and where both fields of days are given one of them is enough. */

#define CRON_YEAR_FIRST 1970
#define CRON_YEAR_LAST  2100
#define CRON_TEXT_MAX   256 /* bytes */

struct cron {
    uint64_t seconds, minutes; /* bits of those that are in */
    uint32_t hours, days, months;
    uint32_t weekdays; /* 0 = Sunday */
    bool either;       /* one of days and weekdays is enough */
    uint32_t years[(CRON_YEAR_LAST - CRON_YEAR_FIRST) / 32 + 1];
};

/* ERR_INVALID "bad_cron" says which field is wrong. */
int cron_read(const char *text, struct cron *ret, struct err *err);

/* The first such second (Unix time) behind `after`; -1 when there is none until the end of
 * CRON_YEAR_LAST. */
int64_t cron_next(const struct cron *cron, int64_t after);
