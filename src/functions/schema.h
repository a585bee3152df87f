#pragma once

#include <jansson.h>

struct field;
struct function;
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

/* A new schema without references to the shapes of such an object, and without examples: whole
 * wherever it stands. */
json_t *schema_whole(const json_t *schema, const json_t *shapes);

/* What a function takes in one object, with what its route has in the path, and what it gives:
 * whole schemas, for faces without routes. Of the second NULL = nothing that has a shape. */
json_t *function_takes(const struct function *f);
json_t *function_gives(const struct function *f);

/* Of a parameter of a path where it is not in one, and so is not encoded. */
json_t *path_param_schema(const struct field *param);

/* A value that follows the shape or the fields. Of what is optional it has what has an example. */
json_t *shape_example(const struct shape *shape);
json_t *fields_example(const struct field *fields);

/* Of one field: its example, else its default, else something of its type. */
json_t *field_example(const struct field *field);
