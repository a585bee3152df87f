#include "iii/cron.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"

#define DAY_S    86400
#define FIELDS   7
#define STEP_MAX 10000

static const char *const month_names[] = {"january",   "february", "march",    "april",
                                          "may",       "june",     "july",     "august",
                                          "september", "october",  "november", "december"};
static const char *const day_names[] = {"sunday",   "monday", "tuesday", "wednesday",
                                        "thursday", "friday", "saturday"};

/* What a field may hold. */
struct rule {
    const char *what;
    int first, last;
    bool is_day; /* takes `?` */
    const char *const *names;
    int n_names, name_base; /* the number of the first name */
};

enum field { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, YEAR };

static const struct rule rules[FIELDS] = {
    [SECOND] = {"second", 0, 59},
    [MINUTE] = {"minute", 0, 59},
    [HOUR] = {"hour", 0, 23},
    [DAY] = {"day of the month", 1, 31, .is_day = true},
    [MONTH] = {"month", 1, 12, .names = month_names, .n_names = 12, .name_base = 1},
    [WEEKDAY] = {"weekday", 1, 7, .is_day = true, .names = day_names, .n_names = 7, .name_base = 1},
    [YEAR] = {"year", CRON_YEAR_FIRST, CRON_YEAR_LAST},
};

/* In a crontab. */
static const struct rule crontab_weekday = {
    "weekday", 0, 7, .is_day = true, .names = day_names, .n_names = 7, .name_base = 0};

static const struct {
    const char *word, *text;
} short_forms[] = {
    {"@yearly", "0 0 0 1 1 ?"}, {"@annually", "0 0 0 1 1 ?"}, {"@monthly", "0 0 0 1 * ?"},
    {"@weekly", "0 0 0 ? * 1"}, {"@daily", "0 0 0 * * ?"},    {"@midnight", "0 0 0 * * ?"},
    {"@hourly", "0 0 * * * ?"},
};

/* ---- one field ---- */

/* A set of what a field holds: years have more than 64 values. */
struct set {
    uint32_t bits[(CRON_YEAR_LAST - CRON_YEAR_FIRST) / 32 + 1];
};

static void set_add(struct set *s, int n)
{
    s->bits[n / 32] |= 1u << (n % 32);
}

static int refuse(const struct rule *rule, const char *item, struct err *err)
{
    return err_code(err, ERR_INVALID, "bad_cron", "expression: \"%.40s\" is no %s (%d to %d%s)",
                    item, rule->what, rule->first, rule->last,
                    rule->names == day_names && rule->first == 1 ? ", where 1 is Sunday, or a name"
                    : rule->names                                ? ", or a name"
                                                                 : "");
}

/* "mon", "monday"; "tues" and "thurs" too. */
static int read_name(const char *text, size_t len, const struct rule *rule)
{
    for (int i = 0; i < rule->n_names && len >= 3; i++) {
        const char *name = rule->names[i];

        if (len > strlen(name) || strncasecmp(name, text, len) != 0)
            continue;
        if (len == 3 || len == strlen(name) ||
            (rule->names == day_names && ((i == 2 && len == 4) || (i == 4 && len == 5))))
            return rule->name_base + i;
    }
    return -1;
}

/* -1 when it is none of the rule's. */
static int read_value(const char *text, size_t len, const struct rule *rule)
{
    int n = 0;

    if (len == 0)
        return -1;
    if (!isdigit((unsigned char)text[0]))
        return read_name(text, len, rule);
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)text[i]) || n > rule->last)
            return -1;
        n = n * 10 + (text[i] - '0');
    }
    return n < rule->first || n > rule->last ? -1 : n;
}

static int read_step(const char *text, int *ret)
{
    int n = 0;

    if (!*text)
        return -1;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text) || n > STEP_MAX)
            return -1;
        n = n * 10 + (*text - '0');
    }
    *ret = n;
    return n > 0 ? 0 : -1;
}

/* "*", "5", "1-5", each with "/2" behind it. Changes the text. */
static int read_item(char *item, const struct rule *rule, struct set *set, struct err *err)
{
    char whole[48];
    char *slash = strchr(item, '/'), *dash;
    int from, to, step = 1;

    (void)snprintf(whole, sizeof(whole), "%.40s", item);
    if (slash) {
        *slash = '\0';
        if (read_step(slash + 1, &step) < 0)
            return refuse(rule, whole, err);
    }
    dash = strchr(item, '-');
    if (strcmp(item, "*") == 0 || (rule->is_day && strcmp(item, "?") == 0)) {
        from = rule->first;
        to = rule->last;
    } else if (dash) {
        from = read_value(item, (size_t)(dash - item), rule);
        to = read_value(dash + 1, strlen(dash + 1), rule);
    } else {
        from = read_value(item, strlen(item), rule);
        to = slash ? rule->last : from;
    }
    if (from < 0 || to < from)
        return refuse(rule, whole, err);
    for (int n = from; n <= to; n += step)
        set_add(set, rule == &rules[YEAR] ? n - CRON_YEAR_FIRST : n);
    return 0;
}

static int read_field(char *text, const struct rule *rule, struct set *ret, struct err *err)
{
    char *next = text;

    do {
        char *item = strsep(&next, ",");

        if (read_item(item, rule, ret, err) < 0)
            return -1;
    } while (next);
    return 0;
}

/* ---- a line ---- */

static size_t split(char *text, char *fields[FIELDS + 1])
{
    size_t n = 0;
    char *next = text, *word;

    while ((word = strsep(&next, " \t")))
        if (*word && n <= FIELDS)
            fields[n++] = word;
    return n;
}

static const char *whole_form(const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(short_forms); i++)
        if (strcasecmp(text, short_forms[i].word) == 0)
            return short_forms[i].text;
    return text;
}

static bool is_any(const char *field)
{
    return *field == '*' || *field == '?';
}

static uint32_t weekdays_of(const struct set *s, const struct rule *rule)
{
    uint32_t bits = s->bits[0];

    return rule->first == 1 ? bits >> 1 : (bits | bits >> 7) & 0x7f;
}

static uint64_t low_bits(const struct set *s)
{
    return s->bits[0] | (uint64_t)s->bits[1] << 32;
}

/* The fields of a line, all seven: what is not given is added. */
static int take_fields(char *text, char *ret[FIELDS], bool *ret_crontab, struct err *err)
{
    static char zero[] = "0", any[] = "*"; /* nothing in them is changed by reading them */
    char *given[FIELDS + 1];
    size_t n = split(text, given);

    if (n < 5 || n > FIELDS)
        return err_code(err, ERR_INVALID, "bad_cron",
                        "expression: \"sec min hour day month weekday\" and maybe a year, or the "
                        "five fields of a crontab");
    *ret_crontab = n == 5;
    ret[SECOND] = zero;
    ret[YEAR] = any;
    for (size_t i = 0; i < n; i++)
        ret[i + *ret_crontab] = given[i];
    return 0;
}

int cron_read(const char *text, struct cron *ret, struct err *err)
{
    char copy[CRON_TEXT_MAX + 1], *fields[FIELDS] = {NULL};
    const struct rule *weekday = &rules[WEEKDAY];
    struct set sets[FIELDS] = {0};
    bool crontab = false, either;

    text = whole_form(text);
    if (strlen(text) > CRON_TEXT_MAX)
        return err_code(err, ERR_INVALID, "bad_cron", "expression: at most %d bytes",
                        CRON_TEXT_MAX);
    (void)snprintf(copy, sizeof(copy), "%s", text);
    if (take_fields(copy, fields, &crontab, err) < 0)
        return -1;
    if (crontab)
        weekday = &crontab_weekday;
    either = crontab && !is_any(fields[DAY]) && !is_any(fields[WEEKDAY]);
    for (int i = 0; i < FIELDS; i++)
        if (read_field(fields[i], i == WEEKDAY ? weekday : &rules[i], &sets[i], err) < 0)
            return -1;
    *ret = (struct cron){
        .seconds = low_bits(&sets[SECOND]),
        .minutes = low_bits(&sets[MINUTE]),
        .hours = sets[HOUR].bits[0],
        .days = sets[DAY].bits[0],
        .months = sets[MONTH].bits[0],
        .weekdays = weekdays_of(&sets[WEEKDAY], weekday),
        .either = either,
    };
    memcpy(ret->years, sets[YEAR].bits, sizeof(ret->years));
    return 0;
}

/* ---- the calendar ---- */

static bool is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

static bool has_year(const struct cron *c, int year)
{
    int n = year - CRON_YEAR_FIRST;

    return c->years[n / 32] >> (n % 32) & 1;
}

/* number: of the day since 1 January 1970, a Thursday. */
static bool has_day(const struct cron *c, int day, int64_t number)
{
    bool by_date = c->days >> day & 1, by_weekday = c->weekdays >> (number + 4) % 7 & 1;

    return c->either ? by_date || by_weekday : by_date && by_weekday;
}

/* The first second of a day from `from` on; -1 = none. */
static int next_in_day(const struct cron *c, int from)
{
    for (int hour = from / 3600; hour < 24; hour++, from = hour * 3600) {
        if (!(c->hours >> hour & 1))
            continue;
        for (int minute = from / 60 % 60; minute < 60; minute++, from = (hour * 60 + minute) * 60) {
            uint64_t left = c->seconds >> from % 60;

            if ((c->minutes >> minute & 1) && left)
                return from + __builtin_ctzll(left);
        }
    }
    return -1;
}

int64_t cron_next(const struct cron *cron, int64_t after)
{
    int64_t from = after < 0 ? 0 : after + 1, number = 0;

    /* Whole years and months are passed over, so that a date that never comes costs little. */
    for (int year = CRON_YEAR_FIRST; year <= CRON_YEAR_LAST; year++) {
        int in_year = 365 + is_leap(year);

        if (!has_year(cron, year) || (number + in_year) * DAY_S <= from) {
            number += in_year;
            continue;
        }
        for (int month = 1; month <= 12; month++) {
            int in_month = days_in_month(year, month);

            if (!(cron->months >> month & 1) || (number + in_month) * DAY_S <= from) {
                number += in_month;
                continue;
            }
            for (int day = 1; day <= in_month; day++, number++) {
                int64_t start = number * DAY_S;
                int found;

                if (start + DAY_S <= from || !has_day(cron, day, number))
                    continue;
                found = next_in_day(cron, start >= from ? 0 : (int)(from - start));
                if (found >= 0)
                    return start + found;
            }
        }
    }
    return -1;
}
