#pragma once

#include <jansson.h>

struct field;
struct shape;

/* JSON Schema (draft 2020-12) and examples, made from the tables of fields. Every face that tells
 * its callers what a function takes and gives gets it here. */

/* A shape as it stands in a collection: the shapes in it are "$ref"s to
 * #/components/schemas/<name>. */
json_t *shape_schema(const struct shape *shape);

/* {"$ref": …} to it. */
json_t *shape_ref(const struct shape *shape);

/* Puts a shape and all that it refers to into an object: name → schema. */
void shape_collect(const struct shape *shape, json_t *schemas);
void fields_collect(const struct field *fields, json_t *schemas);

json_t *field_schema(const struct field *field);
json_t *fields_schema(const struct field *fields);

/* A value that follows the shape or the fields. Of what is optional it has what has an example. */
json_t *shape_example(const struct shape *shape);
json_t *fields_example(const struct field *fields);

/* Of one field: its example, else its default, else something of its type. */
json_t *field_example(const struct field *field);
