#pragma once

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>

/* SHA-256, as 64 lower-case hex digits; the "sha256:" in front of it belongs to the text forms. */

#define DIGEST_PREFIX "sha256:"
#define DIGEST_HEX    65 /* with the NUL */

EVP_MD_CTX *digest_new(void);
void digest_add(EVP_MD_CTX *sha, const void *data, size_t len);
void digest_end(EVP_MD_CTX *sha, char ret[DIGEST_HEX]); /* frees sha */

/* The digits of "sha256:…" or of digits alone, 12 to 64 of them; NULL if it is neither. */
const char *digest_digits(const char *s);

/* Is s 64 lower-case hex digits? */
bool digest_valid(const char *s);
