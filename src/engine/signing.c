#include "engine/signing_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/replace.h"
#include "base/str.h"
#include "engine/engine_internal.h"
#include "engine/proxy.h"

/* Signed addresses: "<time in hex>-<HMAC-SHA256 in hex, 24 bytes of it>" over all that the right
 * depends on. Nothing is stored for each; what ends one is its time, a higher count in the
 * sandbox's settings, or another key (remove <data>/proxy.key and start the daemon again). */

#define KEY_FILE  "proxy.key"
#define MAC_BYTES 24

static int make_key(int dir, unsigned char key[SIGNING_KEY_BYTES], struct err *err)
{
    if (getrandom(key, SIGNING_KEY_BYTES, 0) != SIGNING_KEY_BYTES)
        return err_sys(err, errno, "draw a key for signatures");
    return replace_file(dir, KEY_FILE, key, SIGNING_KEY_BYTES, err);
}

int signing_open(struct engine *e, struct err *err)
{
    auto_close int dir = open(e->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_close int fd = -1;

    if (dir < 0)
        return err_sys(err, errno, "open %s", e->data_dir);
    fd = regular_open(dir, KEY_FILE, O_RDONLY, 0, err);
    if (fd < 0 && fd != -ENOENT)
        return err_wrap(err, "%s", e->data_dir);
    /* One that was cut short by hand is no key. */
    if (fd >= 0 && read_exact(fd, e->signing_key, SIGNING_KEY_BYTES) == 0)
        return 0;
    return make_key(dir, e->signing_key, err);
}

static void sign(const struct engine *e, const char *id, uint16_t port, uint64_t revoked,
                 uint64_t expires_ms, char ret[PROXY_SIGNATURE_SIZE])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    char text[ID_SIZE + 80];
    char hex[2 * MAC_BYTES + 1];
    int n = snprintf(text, sizeof(text), "cay proxy 1\n%s\n%u\n%" PRIu64 "\n%" PRIu64, id,
                     (unsigned)port, revoked, expires_ms);

    if (!HMAC(EVP_sha256(), e->signing_key, SIGNING_KEY_BYTES, (unsigned char *)text, (size_t)n,
              mac, NULL))
        abort();
    for (size_t i = 0; i < MAC_BYTES; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", mac[i]);
    (void)snprintf(ret, PROXY_SIGNATURE_SIZE, "%" PRIx64 "-%s", expires_ms, hex);
}

int engine_proxy_sign(struct engine *e, const char *id, uint16_t port, int64_t expires_ms,
                      char ret[PROXY_SIGNATURE_SIZE], struct err *err)
{
    struct proxy_settings settings;

    if (engine_proxy_settings(e, id, port, &settings, err) < 0)
        return -1;
    sign(e, id, port, settings.revoked, (uint64_t)expires_ms, ret);
    return 0;
}

bool engine_proxy_is_signed(const struct engine *e, const char *id, uint16_t port,
                            const struct proxy_settings *settings, const char *signature)
{
    char right[PROXY_SIGNATURE_SIZE];
    unsigned long long expires_ms;
    size_t digits = strspn(signature, "0123456789abcdef");

    if (digits == 0 || digits > 13 || signature[digits] != '-')
        return false;
    errno = 0;
    expires_ms = strtoull(signature, NULL, 16);
    sign(e, id, port, settings->revoked, expires_ms, right);
    return str_equal_secret(right, signature) && expires_ms > (uint64_t)now_ms();
}
