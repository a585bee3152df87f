#include "oci/digest.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MIN 12

EVP_MD_CTX *digest_new(void)
{
    EVP_MD_CTX *sha = EVP_MD_CTX_new();

    if (!sha || EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1)
        abort();
    return sha;
}

void digest_add(EVP_MD_CTX *sha, const void *data, size_t len)
{
    if (EVP_DigestUpdate(sha, data, len) != 1)
        abort();
}

void digest_end(EVP_MD_CTX *sha, char ret[DIGEST_HEX])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];

    if (EVP_DigestFinal_ex(sha, bytes, NULL) != 1)
        abort();
    EVP_MD_CTX_free(sha);
    for (size_t i = 0; i < 32; i++) {
        ret[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        ret[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    ret[64] = '\0';
}

bool digest_valid(const char *s)
{
    return strlen(s) == DIGEST_HEX - 1 && strspn(s, "0123456789abcdef") == DIGEST_HEX - 1;
}

const char *digest_digits(const char *s)
{
    size_t prefix = strlen(DIGEST_PREFIX), n;

    if (strncmp(s, DIGEST_PREFIX, prefix) == 0)
        s += prefix;
    n = strspn(s, "0123456789abcdef");
    return n >= DIGITS_MIN && n < DIGEST_HEX && !s[n] ? s : NULL;
}
