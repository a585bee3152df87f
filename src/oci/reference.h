#pragma once

#include <stdbool.h>

struct err;

/* The name of an image, as people write it: [HOST[:PORT]/]PATH[:TAG][@sha256:HEX]. The first part
 * is a host when it has a dot or a colon, or is "localhost"; without one it is docker.io, and a
 * path of one word there is below library/. Without tag and digest the tag is "latest". */
struct reference {
    char *host;   /* "docker.io", "localhost:5000" */
    char *path;   /* "library/python" */
    char *tag;    /* NULL when there is only a digest */
    char *digest; /* 64 hex digits, or NULL */
};

#define REFERENCE_MAX 255

/* ERR_INVALID "bad_image_name" says what is wrong with it. */
int reference_parse(const char *text, struct reference *ret, struct err *err);
void reference_done(struct reference *ref);

/* Whole: docker.io/library/python:3.12-slim. Free it. */
char *reference_full(const struct reference *ref);
/* As short as it can be without meaning another: python:3.12-slim, python for :latest. One image
 * has one short form, so that names are kept and compared in it. Free it. */
char *reference_short(const struct reference *ref);
/* The short form of a text; NULL if it is no reference. Free it. */
char *reference_shorten(const char *text);
