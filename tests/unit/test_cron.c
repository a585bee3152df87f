#include <ctype.h>
#include <stdbool.h>
#include <time.h>

#include "base/err.h"
#include "iii/cron.h"
#include "tap.h"

/* ---- an independent reading of the same lines: does a second match, field by field ---- */

static const char *const months[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                     "jul", "aug", "sep", "oct", "nov", "dec"};
static const char *const weekdays[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

static int number_of(const char *word, const char *const *names, int n, int base)
{
    if (isdigit((unsigned char)*word))
        return (int)strtol(word, NULL, 10);
    for (int i = 0; i < n; i++)
        if (strncasecmp(names[i], word, 3) == 0)
            return base + i;
    abort();
}

/* One field of a line, for the value that a second has. */
static bool field_has(const char *field, int value, int first, int last, const char *const *names,
                      int n, int base)
{
    char copy[100], *rest = copy, *item;

    snprintf(copy, sizeof(copy), "%s", field);
    while ((item = strsep(&rest, ","))) {
        char *slash = strchr(item, '/'), *dash;
        int step = 1, from = first, to = last;

        if (slash) {
            *slash = '\0';
            step = (int)strtol(slash + 1, NULL, 10);
        }
        dash = strchr(item, '-');
        if (*item != '*' && *item != '?') {
            from = number_of(item, names, n, base);
            to = dash ? number_of(dash + 1, names, n, base) : slash ? last : from;
        }
        if (value >= from && value <= to && (value - from) % step == 0)
            return true;
    }
    return false;
}

static bool matches(const char *line, time_t at)
{
    char copy[200], *f[8], *rest = copy, *word;
    bool by_day, by_weekday, crontab;
    int n = 0;
    struct tm t;

    snprintf(copy, sizeof(copy), "%s", line);
    while ((word = strsep(&rest, " ")))
        if (*word)
            f[n++] = word;
    crontab = n == 5;
    if (crontab) {
        memmove(f + 1, f, 5 * sizeof(*f));
        f[0] = (char *)"0";
    }
    gmtime_r(&at, &t);
    if (!field_has(f[0], t.tm_sec, 0, 59, NULL, 0, 0) ||
        !field_has(f[1], t.tm_min, 0, 59, NULL, 0, 0) ||
        !field_has(f[2], t.tm_hour, 0, 23, NULL, 0, 0) ||
        !field_has(f[4], t.tm_mon + 1, 1, 12, months, 12, 1) ||
        (n == 7 && !field_has(f[6], t.tm_year + 1900, 1970, 2100, NULL, 0, 0)))
        return false;
    by_day = field_has(f[3], t.tm_mday, 1, 31, NULL, 0, 0);
    if (crontab)
        by_weekday = field_has(f[5], t.tm_wday, 0, 7, weekdays, 7, 0) ||
                     (t.tm_wday == 0 && field_has(f[5], 7, 0, 7, weekdays, 7, 0));
    else
        by_weekday = field_has(f[5], t.tm_wday + 1, 1, 7, weekdays, 7, 1);
    if (crontab && *f[3] != '*' && *f[5] != '*')
        return by_day || by_weekday;
    return by_day && by_weekday;
}

/* ---- lines that are made up ---- */

static unsigned seed = 1;

static int pick(int from, int to)
{
    seed = seed * 1103515245u + 12345u;
    return from + (int)((seed >> 8) % (unsigned)(to - from + 1));
}

static void make_field(char *out, size_t size, int first, int last, bool day,
                       const char *const *names, int base)
{
    size_t len = 0;
    int items = pick(1, 3);

    if (pick(0, 2) == 0) {
        snprintf(out, size, "%s", day && pick(0, 1) ? "?" : "*");
        return;
    }
    for (int i = 0; i < items; i++) {
        int a = pick(first, last), b = pick(a, last);

        len += (size_t)snprintf(out + len, size - len, "%s", i ? "," : "");
        switch (pick(0, names ? 5 : 4)) {
        case 0:
            len += (size_t)snprintf(out + len, size - len, "%d", a);
            break;
        case 1:
            len += (size_t)snprintf(out + len, size - len, "%d-%d", a, b);
            break;
        case 2:
            len += (size_t)snprintf(out + len, size - len, "%d-%d/%d", a, b, pick(1, 9));
            break;
        case 3:
            len += (size_t)snprintf(out + len, size - len, "%d/%d", a, pick(1, 20));
            break;
        case 4:
            len += (size_t)snprintf(out + len, size - len, "*/%d", pick(1, 20));
            break;
        default:
            len +=
                (size_t)snprintf(out + len, size - len, "%s", names[(a - base) % (base ? 12 : 7)]);
        }
    }
}

static int64_t next_of(const char *line, int64_t after)
{
    struct cron c;
    struct err err = {0};

    if (cron_read(line, &c, &err) < 0)
        TAP_FAIL("%s: %s", line, err.text);
    return cron_next(&c, after);
}

static int64_t at(int year, int month, int day, int hour, int minute, int second)
{
    struct tm t = {.tm_year = year - 1900,
                   .tm_mon = month - 1,
                   .tm_mday = day,
                   .tm_hour = hour,
                   .tm_min = minute,
                   .tm_sec = second};

    return timegm(&t);
}

/* Every second of a quarter of an hour or so, behind a time that is nowhere special. */
TEST(the_next_second_is_the_first_that_matches_of_400_lines)
{
    for (int i = 0; i < 400; i++) {
        char line[400] = "", second[60], minute[60], hour[8];
        int64_t after = at(2024, 1, 1, 0, 0, 0) + (int64_t)pick(0, 1 << 22) * 60 + pick(0, 59);
        int64_t want = -1, got;
        struct tm t;
        time_t when = after;

        gmtime_r(&when, &t);
        make_field(second, sizeof(second), 0, 59, false, NULL, 0);
        make_field(minute, sizeof(minute), 0, 59, false, NULL, 0);
        snprintf(hour, sizeof(hour), pick(0, 1) ? "*" : "%d", t.tm_hour);
        snprintf(line, sizeof(line), "%s %s %s * * ?", second, minute, hour);
        got = next_of(line, after);
        for (int64_t s = after + 1; s <= after + 7200 && want < 0; s++)
            if (matches(line, s))
                want = s;
        if (want < 0 ? got >= 0 && got <= after + 7200 : got != want)
            TAP_FAIL("\"%s\" behind %lld: %lld, not %lld", line, (long long)after, (long long)got,
                     (long long)want);
    }
}

/* Every minute of up to two months, with days, months and weekdays. */
TEST(the_next_minute_is_the_first_that_matches_of_300_lines_with_dates)
{
    for (int i = 0; i < 300; i++) {
        char line[400], minute[60], hour[60], day[60], month[60], weekday[60];
        bool crontab = pick(0, 2) == 0;
        int64_t after = at(2023, 1, 1, 0, 0, 0) + (int64_t)pick(0, 1 << 21) * 60;
        int64_t end = after + 60 * 86400, want = -1, got;

        make_field(minute, sizeof(minute), 0, 59, false, NULL, 0);
        make_field(hour, sizeof(hour), 0, 23, false, NULL, 0);
        make_field(day, sizeof(day), 1, 31, false, NULL, 0);
        make_field(month, sizeof(month), 1, 12, false, months, 1);
        make_field(weekday, sizeof(weekday), crontab ? 0 : 1, crontab ? 6 : 7, false, NULL, 0);
        snprintf(line, sizeof(line), "%s%s %s %s %s %s", crontab ? "" : "0 ", minute, hour, day,
                 month, weekday);
        got = next_of(line, after);
        for (int64_t s = after / 60 * 60 + 60; s <= end && want < 0; s += 60)
            if (matches(line, s))
                want = s;
        if (want < 0 ? got >= 0 && got <= end : got != want)
            TAP_FAIL("\"%s\" behind %lld: %lld, not %lld", line, (long long)after, (long long)got,
                     (long long)want);
    }
}

/* What comes next comes again behind that: nothing is passed over. */
TEST(a_day_of_every_seven_seconds_has_as_many_as_there_are)
{
    int64_t s = at(2026, 2, 28, 0, 0, 0) - 1, end = at(2026, 3, 1, 0, 0, 0);
    int n = 0;

    while ((s = next_of("*/7 * * * * *", s)) < end) {
        CHECK(matches("*/7 * * * * *", s));
        n++;
    }
    CHECK_INT(n, 24 * 60 * 9);
}

TEST(weekdays_count_from_1_for_sunday_as_in_iii)
{
    int64_t thursday = at(2026, 1, 1, 12, 0, 0);

    CHECK_INT(next_of("0 0 9 * * 1", thursday), at(2026, 1, 4, 9, 0, 0));
    CHECK_INT(next_of("0 0 9 * * SUN", thursday), at(2026, 1, 4, 9, 0, 0));
    CHECK_INT(next_of("0 0 9 ? * Mon-Fri", thursday), at(2026, 1, 2, 9, 0, 0));
    CHECK_INT(next_of("0 0 9 ? * Saturday", thursday), at(2026, 1, 3, 9, 0, 0));
    CHECK_INT(next_of("0 0 9 ? * tues,thurs", thursday), at(2026, 1, 6, 9, 0, 0));
}

TEST(five_fields_are_a_line_of_a_crontab)
{
    int64_t thursday = at(2026, 1, 1, 12, 0, 0);

    CHECK_INT(next_of("30 9 * * 0", thursday), at(2026, 1, 4, 9, 30, 0));
    CHECK_INT(next_of("30 9 * * 7", thursday), at(2026, 1, 4, 9, 30, 0));
    CHECK_INT(next_of("30 9 * * 1", thursday), at(2026, 1, 5, 9, 30, 0));
    /* The 13th or a Friday, where six fields mean both. */
    CHECK_INT(next_of("0 0 13 * FRI", thursday), at(2026, 1, 2, 0, 0, 0));
    CHECK_INT(next_of("0 0 0 13 * FRI", thursday), at(2026, 2, 13, 0, 0, 0));
}

TEST(dates_that_never_come_end)
{
    CHECK_INT(next_of("0 0 0 30 2 ?", at(2026, 1, 1, 0, 0, 0)), -1);
    CHECK_INT(next_of("0 0 0 31 4,6,9,11 *", 0), -1);
    CHECK_INT(next_of("0 0 0 * * * 2020", at(2026, 1, 1, 0, 0, 0)), -1);
    CHECK_INT(next_of("* * * * * *", at(2100, 12, 31, 23, 59, 59)), -1);
    CHECK_INT(next_of("* * * * * *", INT64_MAX / 2), -1);
}

TEST(leap_days_and_years_are_found)
{
    CHECK_INT(next_of("0 0 0 29 2 ?", at(2025, 3, 1, 0, 0, 0)), at(2028, 2, 29, 0, 0, 0));
    CHECK_INT(next_of("0 0 0 29 2 ?", at(2096, 3, 1, 0, 0, 0)), -1); /* 2100 is no leap year */
    CHECK_INT(next_of("0 0 0 29 2 Sun", at(2025, 1, 1, 0, 0, 0)), at(2032, 2, 29, 0, 0, 0));
    CHECK_INT(next_of("0 0 12 1 1 ? 2030-2040/5", at(2031, 1, 1, 0, 0, 0)),
              at(2035, 1, 1, 12, 0, 0));
    CHECK_INT(next_of("59 59 23 31 12 ? *", at(2026, 12, 31, 23, 59, 58)),
              at(2026, 12, 31, 23, 59, 59));
    CHECK_INT(next_of("59 59 23 31 12 ? *", at(2026, 12, 31, 23, 59, 59)),
              at(2027, 12, 31, 23, 59, 59));
    CHECK_INT(next_of("0 0 0 1 1 ?", -5), at(1970, 1, 1, 0, 0, 0));
}

TEST(short_forms_are_known)
{
    int64_t now = at(2026, 7, 15, 10, 20, 30);

    CHECK_INT(next_of("@hourly", now), at(2026, 7, 15, 11, 0, 0));
    CHECK_INT(next_of("@daily", now), at(2026, 7, 16, 0, 0, 0));
    CHECK_INT(next_of("@weekly", now), at(2026, 7, 19, 0, 0, 0));
    CHECK_INT(next_of("@monthly", now), at(2026, 8, 1, 0, 0, 0));
    CHECK_INT(next_of("@yearly", now), at(2027, 1, 1, 0, 0, 0));
}

TEST(what_is_no_line_is_refused_with_its_field)
{
    static const struct {
        const char *line, *word;
    } bad[] = {
        {"", "sec min hour"},
        {"* * * *", "sec min hour"},
        {"* * * * * * * *", "sec min hour"},
        {"60 * * * * *", "second"},
        {"* 60 * * * *", "minute"},
        {"* * 24 * * *", "hour"},
        {"* * * 0 * *", "day of the month"},
        {"* * * 32 * *", "day of the month"},
        {"* * * * 13 *", "month"},
        {"* * * * foo *", "month"},
        {"* * * * * 0", "where 1 is Sunday"},
        {"* * * * * 8", "weekday"},
        {"* * * * * mo", "weekday"},
        {"* * * * * * 1969", "year"},
        {"* * * * * * 2101", "year"},
        {"? * * * * *", "second"},
        {"*/0 * * * * *", "second"},
        {"*/ * * * * *", "second"},
        {"5- * * * * *", "second"},
        {"-5 * * * * *", "second"},
        {"30-10 * * * * *", "second"},
        {"1,,2 * * * * *", "second"},
        {", * * * * *", "second"},
        {"1.5 * * * * *", "second"},
        {"99999999999999999999 * * * * *", "second"},
        {"*/99999999999999999999 * * * * *", "second"},
        {"* * * * fri *", "month"},
        {"@never", "sec min hour"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct cron c;
        struct err err = {0};

        if (cron_read(bad[i].line, &c, &err) == 0)
            TAP_FAIL("\"%s\" was taken", bad[i].line);
        CHECK_INT(err.kind, ERR_INVALID);
        CHECK_STR(err.code, "bad_cron");
        if (!strstr(err.text, bad[i].word))
            TAP_FAIL("\"%s\": %s", bad[i].line, err.text);
    }
}

TEST(a_line_that_is_too_long_is_refused)
{
    char line[CRON_TEXT_MAX + 20];
    struct cron c;

    memset(line, ' ', sizeof(line));
    memcpy(line, "* * * * * *", 11);
    line[sizeof(line) - 1] = '\0';
    CHECK_INT(cron_read(line, &c, NULL), -1);
}

TAP_MAIN
