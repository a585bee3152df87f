#pragma once

#include <stddef.h>
#include <stdint.h>

/* Text of others must not change what stands around it on a terminal. Returns the bytes of the
 * first character of text when it is one that does: a control character (also DEL and U+0080 to
 * U+009F), or one that is invisible and breaks lines or turns the direction of the text around it
 * (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069). 0 = it is none. */
size_t hidden_char(const char *text, size_t len, uint32_t *ret_code);
