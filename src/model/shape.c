#include "model/shape.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

/* Input is made to fit where that is harmless, and bounded; an answer is ours and must fit as it
 * is. The walk follows the tables, so its depth is theirs and not that of what it looks at. */
enum walk { TAKE, CHECK };

#define WHOLE_MAX  9007199254740992.0 /* up to here a double has every whole number */
#define NAME_BYTES 160                /* "moves[12].from" in a message; a longer one is cut */

static int check_shape(const struct shape *shape, const char *name, json_t **v, enum walk walk,
                       struct err *err);

static double string_max(const struct field *f, enum walk walk)
{
    if (f->max > 0)
        return f->max;
    return walk == TAKE ? TAKE_STRING_MAX : (double)SIZE_MAX;
}

static int check_choice(const struct field *f, const char *name, const char *text, struct err *err)
{
    char words[160] = "";

    for (const char *const *c = f->choices; *c; c++) {
        size_t len = strlen(words);

        if (strcmp(*c, text) == 0)
            return 0;
        (void)snprintf(words + len, sizeof(words) - len, "%s%s", len > 0 ? ", " : "", *c);
    }
    return err_set(err, ERR_INVALID, "%s must be one of %s", name, words);
}

static int check_string(const struct field *f, const char *name, const json_t *v, enum walk walk,
                        struct err *err)
{
    double max = string_max(f, walk);
    size_t len;

    if (!json_is_string(v))
        return err_set(err, ERR_INVALID, "%s must be a string", name);
    if (f->choices)
        return check_choice(f, name, json_string_value(v), err);
    len = json_string_length(v);
    if (len == 0 && f->min >= 1)
        return err_set(err, ERR_INVALID, "%s is required and must not be empty", name);
    if ((double)len < f->min)
        return err_set(err, ERR_INVALID, "%s must have at least %.0f bytes", name, f->min);
    if ((double)len > max)
        return err_set(err, ERR_INVALID, "%s must have at most %.0f bytes", name, max);
    return 0;
}

static bool in_range(const struct field *f, double v)
{
    return (f->min == 0 && f->max == 0) || (v >= f->min && v <= f->max);
}

/* A number without a fraction is whole, however it was written. */
static bool is_whole(const json_t *v)
{
    double value = json_real_value(v);

    return json_is_integer(v) || (json_is_real(v) && value >= -WHOLE_MAX && value <= WHOLE_MAX &&
                                  value == (double)(json_int_t)value);
}

static void make_whole(json_t **v)
{
    json_t *whole;

    if (!json_is_real(*v) || !is_whole(*v))
        return;
    whole = json_integer((json_int_t)json_real_value(*v));
    json_decref(*v);
    *v = whole;
}

static int check_number(const struct field *f, const char *name, json_t **v, enum walk walk,
                        struct err *err)
{
    const char *kind = f->type == FIELD_INT ? "whole number" : "number";
    double value = json_number_value(*v);
    bool right;

    if (f->type == FIELD_INT && walk == TAKE)
        make_whole(v);
    right = f->type == FIELD_INT ? json_is_integer(*v) : json_is_number(*v);
    if (right && in_range(f, value))
        return 0;
    if (right && f->clamp && !f->optional && value < 0 && f->min >= 0)
        return err_set(err, ERR_INVALID, "%s must not be negative", name);
    if (right && f->clamp && walk == TAKE) {
        double nearer = value < f->min ? f->min : f->max;

        json_decref(*v);
        *v = f->type == FIELD_INT ? json_integer((json_int_t)nearer) : json_real(nearer);
        return 0;
    }
    if (f->min == 0 && f->max == 0)
        return err_set(err, ERR_INVALID, "%s must be a %s", name, kind);
    return err_set(err, ERR_INVALID, "%s must be a %s from %.16g to %.16g", name, kind, f->min,
                   f->max);
}

/* Of an array or a map. */
static int check_count(const struct field *f, const char *name, size_t n, enum walk walk,
                       struct err *err)
{
    if (n == 0 && f->filled)
        return err_set(err, ERR_INVALID, "%s is required and must not be empty", name);
    if (n > TAKE_ITEMS_MAX && walk == TAKE)
        return err_set(err, ERR_INVALID, "%s must have at most %d items", name, TAKE_ITEMS_MAX);
    return 0;
}

static int check_strings(const struct field *f, const char *name, const json_t *v, enum walk walk,
                         struct err *err)
{
    char item[NAME_BYTES];

    if (!json_is_array(v))
        return err_set(err, ERR_INVALID, "%s must be an array of strings", name);
    if (check_count(f, name, json_array_size(v), walk, err) < 0)
        return -1;
    for (size_t i = 0; i < json_array_size(v); i++) {
        (void)snprintf(item, sizeof(item), "%s[%zu]", name, i);
        if (check_string(f, item, json_array_get(v, i), walk, err) < 0)
            return -1;
    }
    return 0;
}

static int check_string_map(const struct field *f, const char *name, json_t *v, enum walk walk,
                            struct err *err)
{
    char entry[NAME_BYTES];
    const char *key;
    json_t *item;

    if (!json_is_object(v))
        return err_set(err, ERR_INVALID, "%s must be an object whose values are strings", name);
    if (check_count(f, name, json_object_size(v), walk, err) < 0)
        return -1;
    json_object_foreach(v, key, item)
    {
        (void)snprintf(entry, sizeof(entry), "%s.%s", name, key);
        if (check_string(f, entry, item, walk, err) < 0)
            return -1;
    }
    return 0;
}

static int check_command(const struct field *f, const char *name, const json_t *v, enum walk walk,
                         struct err *err)
{
    if (json_is_string(v))
        return check_string(f, name, v, walk, err);
    if (!json_is_array(v) || json_array_size(v) == 0)
        return err_set(err, ERR_INVALID,
                       "%s must be a string (run by a shell) or a non-empty array of strings (run "
                       "as it is)",
                       name);
    /* Only the program's name must be there; other arguments may be empty. */
    if (json_string_length(json_array_get(v, 0)) == 0)
        return err_set(err, ERR_INVALID, "%s[0] must be the name of a program", name);
    return check_strings(&(struct field){.max = f->max}, name, v, walk, err);
}

/* What an object of it means is judged by who reads policies. */
static int check_network(const struct field *f, const char *name, const json_t *v, enum walk walk,
                         struct err *err)
{
    if (json_is_boolean(v) || json_is_object(v))
        return 0;
    if (!json_is_string(v))
        return err_set(err, ERR_INVALID, "%s must be true, false, a preset or an object", name);
    return check_string(f, name, v, walk, err);
}

static int check_array(const struct field *f, const char *name, json_t *v, enum walk walk,
                       struct err *err)
{
    char item[NAME_BYTES];

    if (!json_is_array(v))
        return err_set(err, ERR_INVALID, "%s must be an array", name);
    if (check_count(f, name, json_array_size(v), walk, err) < 0)
        return -1;
    for (size_t i = 0; f->of && i < json_array_size(v); i++) {
        json_t *value = json_incref(json_array_get(v, i));
        int r;

        (void)snprintf(item, sizeof(item), "%s[%zu]", name, i);
        r = check_shape(f->of, item, &value, walk, err);
        if (r == 0 && value != json_array_get(v, i))
            (void)json_array_set(v, i, value);
        json_decref(value);
        if (r < 0)
            return -1;
    }
    return 0;
}

/* *v is a reference of the caller's; a clamped number takes its place. */
static int check_value(const struct field *f, const char *name, json_t **v, enum walk walk,
                       struct err *err)
{
    if (f->nullable && json_is_null(*v))
        return 0;
    switch (f->type) {
    case FIELD_STRING:
        return check_string(f, name, *v, walk, err);
    case FIELD_INT:
    case FIELD_NUMBER:
        return check_number(f, name, v, walk, err);
    case FIELD_BOOL:
        return json_is_boolean(*v) ? 0
                                   : err_set(err, ERR_INVALID, "%s must be true or false", name);
    case FIELD_STRINGS:
        return check_strings(f, name, *v, walk, err);
    case FIELD_STRING_MAP:
        return check_string_map(f, name, *v, walk, err);
    case FIELD_OBJECT:
        if (!json_is_object(*v))
            return err_set(err, ERR_INVALID, "%s must be an object", name);
        return f->of ? check_shape(f->of, name, v, walk, err) : 0;
    case FIELD_ARRAY:
        return check_array(f, name, *v, walk, err);
    case FIELD_COMMAND:
        return check_command(f, name, *v, walk, err);
    case FIELD_ANY:
        return 0;
    case FIELD_NETWORK:
        return check_network(f, name, *v, walk, err);
    }
    return err_set(err, ERR_INTERNAL, "%s has no known type", name);
}

bool field_has_type(const struct field *f, const json_t *v)
{
    switch (f->type) {
    case FIELD_STRING:
        return json_is_string(v);
    case FIELD_INT:
        return is_whole(v);
    case FIELD_NUMBER:
        return json_is_number(v);
    case FIELD_BOOL:
        return json_is_boolean(v);
    case FIELD_STRINGS:
    case FIELD_ARRAY:
        return json_is_array(v);
    case FIELD_STRING_MAP:
    case FIELD_OBJECT:
        return json_is_object(v);
    case FIELD_COMMAND:
        return json_is_string(v) || json_is_array(v);
    case FIELD_ANY:
        return true;
    case FIELD_NETWORK:
        return json_is_boolean(v) || json_is_string(v) || json_is_object(v);
    }
    return false;
}

static void ignore(const struct field *f, const char *name, json_t *object)
{
    json_t *v = json_incref(json_object_get(object, f->name)), *told;
    struct err why = {0};

    (void)check_value(f, name, &v, TAKE, &why);
    json_decref(v);
    (void)json_object_del(object, f->name);
    told = json_object_get(object, TAKE_IGNORED);
    if (!told) {
        told = json_array();
        (void)json_object_set_new(object, TAKE_IGNORED, told);
    }
    (void)json_array_append_new(told, json_sprintf("%s; what was sent is ignored", why.text));
}

static int check_field(const struct field *f, const char *name, json_t *object, enum walk walk,
                       struct err *err)
{
    json_t *v = json_object_get(object, f->name);
    int r;

    if (v && f->lenient && walk == TAKE && !field_has_type(f, v))
        ignore(f, name, object);
    v = json_incref(json_object_get(object, f->name));
    if (!v && f->preset && walk == TAKE)
        v = json_loads(f->preset, JSON_DECODE_ANY, NULL);
    if (!v && f->optional)
        return 0;
    if (!v)
        return err_set(err, ERR_INVALID, "%s is required", name);
    r = check_value(f, name, &v, walk, err);
    if (r == 0 && v != json_object_get(object, f->name))
        (void)json_object_set(object, f->name, v);
    json_decref(v);
    return r;
}

const struct field *field_find(const struct field *fields, const char *name)
{
    for (const struct field *f = fields; f && f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

static int check_unknown(const struct field *fields, const char *name, json_t *object,
                         enum walk walk, struct err *err)
{
    const char *key;
    json_t *v;
    void *next;

    json_object_foreach_safe(object, next, key, v)
    {
        bool known = field_find(fields, key) != NULL;

        if (!known && walk == CHECK)
            return err_set(err, ERR_INVALID, "%s must not have %s", name, key);
        if ((!known || json_is_null(v)) && walk == TAKE)
            (void)json_object_del(object, key);
    }
    return 0;
}

/* name is "" for the input itself. */
static int check_fields(const struct field *fields, const char *name, json_t *object,
                        enum walk walk, struct err *err)
{
    char inner[NAME_BYTES];

    if (check_unknown(fields, name, object, walk, err) < 0)
        return -1;
    for (const struct field *f = fields; f && f->name; f++) {
        (void)snprintf(inner, sizeof(inner), "%s%s%s", name, *name ? "." : "", f->name);
        if (check_field(f, inner, object, walk, err) < 0)
            return -1;
    }
    return 0;
}

/* Has it the word by which this alternative is known? That is the first field of an event. */
static bool is_meant(const struct shape *shape, const json_t *v)
{
    const struct field *tag = shape->fields;
    const char *word = tag ? json_string_value(json_object_get(v, tag->name)) : NULL;

    return word && tag->choices && check_choice(tag, tag->name, word, NULL) == 0;
}

static int check_one_of(const struct shape *shape, const char *name, json_t **v, enum walk walk,
                        struct err *err)
{
    for (const struct shape *const *s = shape->one_of; *s; s++) {
        struct err why = {0};

        if (check_shape(*s, name, v, walk, &why) == 0)
            return 0;
        if (is_meant(*s, *v)) {
            if (err)
                *err = why;
            return -1;
        }
    }
    return err_set(err, ERR_INVALID, "%s must be a %s", name, shape->name);
}

static int check_shape(const struct shape *shape, const char *name, json_t **v, enum walk walk,
                       struct err *err)
{
    if (shape->one_of)
        return check_one_of(shape, name, v, walk, err);
    if (shape->value)
        return check_value(shape->value, name, v, walk, err);
    if (!json_is_object(*v))
        return err_set(err, ERR_INVALID, "%s must be an object", name);
    return check_fields(shape->fields, name, *v, walk, err);
}

int shape_check(const struct shape *shape, const json_t *value, struct err *err)
{
    json_t *v = (json_t *)(uintptr_t)value; /* CHECK changes nothing */

    if (!v)
        return err_set(err, ERR_INVALID, "%s is missing", shape->name);
    return check_shape(shape, shape->name, &v, CHECK, err);
}

int fields_take(const struct field *fields, json_t *in, struct err *err)
{
    return check_fields(fields, "", in, TAKE, err);
}
