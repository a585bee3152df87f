#include "service/prometheus.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX (8u << 20)

void prometheus_init(struct prometheus *p)
{
    *p = (struct prometheus){0};
    buf_init(&p->text, TEXT_MAX);
}

void prometheus_done(struct prometheus *p)
{
    buf_done(&p->text);
}

void prometheus_family(struct prometheus *p, const char *name, const char *type, const char *help)
{
    p->family = name;
    (void)buf_addf(&p->text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Inside of quotes: a backslash, a quote and the end of a line have a backslash before them. */
static void add_escaped(struct buf *b, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            (void)buf_addf(b, "\\%c", *text);
        else if (*text == '\n')
            (void)buf_add_str(b, "\\n");
        else
            (void)buf_add(b, text, 1);
    }
}

/* first: is there a label before it? */
static void add_label(struct buf *b, bool first, const char *name, const char *value)
{
    (void)buf_addf(b, "%s%s=\"", first ? "{" : ",", name);
    add_escaped(b, value);
    (void)buf_add_str(b, "\"");
}

/* Whole numbers whole: counters are long. */
static void add_value(struct buf *b, double value)
{
    if (value == floor(value) && fabs(value) < 1e15)
        (void)buf_addf(b, " %.0f\n", value);
    else
        (void)buf_addf(b, " %.15g\n", value);
}

void prometheus_sample(struct prometheus *p, double value, ...)
{
    const char *name;
    bool first = true;
    va_list labels;

    (void)buf_add_str(&p->text, p->family);
    va_start(labels, value);
    while ((name = va_arg(labels, const char *))) {
        add_label(&p->text, first, name, va_arg(labels, const char *));
        first = false;
    }
    va_end(labels);
    if (!first)
        (void)buf_add_str(&p->text, "}");
    add_value(&p->text, value);
}

void prometheus_gauge(struct prometheus *p, const char *name, double value, const char *help)
{
    prometheus_family(p, name, "gauge", help);
    prometheus_sample(p, value, NULL);
}

void prometheus_counter(struct prometheus *p, const char *name, double value, const char *help)
{
    prometheus_family(p, name, "counter", help);
    prometheus_sample(p, value, NULL);
}

static void add_part(struct prometheus *p, const char *part, const char *label, const char *value,
                     const char *le, double number)
{
    (void)buf_addf(&p->text, "%s_%s", p->family, part);
    if (label)
        add_label(&p->text, true, label, value);
    if (le)
        add_label(&p->text, !label, "le", le);
    if (label || le)
        (void)buf_add_str(&p->text, "}");
    add_value(&p->text, number);
}

void prometheus_histogram(struct prometheus *p, const double *bounds, unsigned n,
                          const uint64_t *counts, double sum, const char *label, const char *value)
{
    uint64_t all = 0;
    char le[32];

    for (unsigned i = 0; i < n; i++) {
        all += counts[i];
        (void)snprintf(le, sizeof(le), "%g", bounds[i]);
        add_part(p, "bucket", label, value, le, (double)all);
    }
    all += counts[n];
    add_part(p, "bucket", label, value, "+Inf", (double)all);
    add_part(p, "sum", label, value, NULL, sum);
    add_part(p, "count", label, value, NULL, (double)all);
}
