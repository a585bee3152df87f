/* Which of an index's images runs here. */
#include "oci/manifest.h"

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "oci/oci_internal.h"

#define PLATFORM_MAX 96

const char *platform_here(void)
{
#if defined(__x86_64__)
    return "linux/amd64";
#elif defined(__aarch64__)
    return "linux/arm64";
#elif defined(__arm__)
    return "linux/arm/v7";
#elif defined(__i386__)
    return "linux/386";
#elif defined(__riscv)
    return "linux/riscv64";
#elif defined(__powerpc64__)
    return "linux/ppc64le";
#elif defined(__s390x__)
    return "linux/s390x";
#else
#error "which platform is this, in the words of OCI?"
#endif
}

/* Architectures go by two names. */
static const char *arch_name(const char *arch)
{
    if (strcmp(arch, "x86_64") == 0)
        return "amd64";
    if (strcmp(arch, "aarch64") == 0)
        return "arm64";
    return arch;
}

/* "v7" is 7, and "" what that architecture means by it; -1 is some other word. */
static int variant_level(const char *arch, const char *variant)
{
    uint64_t n;

    if (!variant[0])
        return strcmp(arch, "amd64") == 0   ? 1
               : strcmp(arch, "arm") == 0   ? 7
               : strcmp(arch, "arm64") == 0 ? 8
                                            : 0;
    if (variant[0] != 'v' || str_u64(variant + 1, &n) < 0 || n > 1000)
        return -1;
    return (int)n;
}

struct wanted {
    char text[PLATFORM_MAX];
    const char *os, *arch, *variant;
};

static int read_wanted(const char *platform, struct wanted *w, struct err *err)
{
    char *slash;

    if (strlen(platform) >= sizeof(w->text))
        return err_code(err, ERR_INVALID, "bad_platform", "the platform %.40s… is too long",
                        platform);
    memcpy(w->text, platform, strlen(platform) + 1);
    w->os = w->text;
    w->variant = "";
    slash = strchr(w->text, '/');
    if (!slash || slash == w->text || !slash[1])
        return err_code(err, ERR_INVALID, "bad_platform",
                        "%s is not a platform: write os/architecture, like linux/arm64", platform);
    *slash = '\0';
    w->arch = slash + 1;
    slash = strchr(slash + 1, '/');
    if (slash) {
        *slash = '\0';
        w->variant = slash + 1;
    }
    w->arch = arch_name(w->arch);
    return 0;
}

/* How well it fits: 0 is not at all, and more is better. An older variant runs too. */
static int fit(const char *os, const char *arch, const char *variant, const struct wanted *w)
{
    int have, want;

    arch = arch_name(arch);
    if (strcmp(os, w->os) != 0 || strcmp(arch, w->arch) != 0)
        return 0;
    have = variant_level(arch, variant);
    want = variant_level(arch, w->variant);
    if (have < 0 || want < 0)
        return strcmp(variant, w->variant) == 0;
    return have <= want ? have + 1 : 0;
}

int platform_check(const char *os, const char *arch, const char *platform, struct err *err)
{
    struct wanted w = {0};

    if (read_wanted(platform, &w, err) < 0)
        return -1;
    if (!os[0] || !arch[0] || (strcmp(os, w.os) == 0 && strcmp(arch_name(arch), w.arch) == 0))
        return 0;
    return err_code(err, ERR_NOT_FOUND, "no_platform",
                    "it is there for %.60s/%.60s only, not for %.60s", os, arch, platform);
}

bool platform_fits(const char *have, const char *platform)
{
    struct wanted image = {0}, w = {0};

    if (read_wanted(have, &image, NULL) < 0 || read_wanted(platform, &w, NULL) < 0)
        return strcmp(have, platform) == 0;
    return strcmp(image.arch, PLATFORM_UNSAID) == 0 ||
           fit(image.os, image.arch, image.variant, &w) > 0;
}

/* Attestations stand in an index as images for no platform. */
static bool is_no_image(const struct platform_blob *image)
{
    return strcmp(image->os, "unknown") == 0;
}

static int refuse(const struct manifest *index, const char *platform, struct err *err)
{
    auto_buf struct buf list;

    buf_init(&list, 160);
    for (size_t i = 0; i < index->n_images; i++) {
        const struct platform_blob *image = &index->images[i];

        if (is_no_image(image))
            continue;
        if (buf_addf(&list, "%s%s/%s%s%s", list.len ? ", " : "", image->os[0] ? image->os : "?",
                     image->arch[0] ? image->arch : "?", image->variant[0] ? "/" : "",
                     image->variant) < 0) {
            (void)buf_add_str(&list, " ...");
            break;
        }
    }
    if (list.data)
        make_printable(list.data);
    return err_code(err, ERR_NOT_FOUND, "no_platform",
                    "the image has nothing for %.40s; it is there for %s", platform,
                    list.len ? list.data : "no platform");
}

int manifest_choose(const struct manifest *index, const char *platform, const struct blob **ret,
                    struct err *err)
{
    const struct platform_blob *best = NULL, *unsaid = NULL;
    int best_fit = 0, n_unsaid = 0;
    struct wanted w = {0};

    if (read_wanted(platform, &w, err) < 0)
        return -1;
    for (size_t i = 0; i < index->n_images; i++) {
        const struct platform_blob *image = &index->images[i];
        int n = is_no_image(image) ? 0 : fit(image->os, image->arch, image->variant, &w);

        if (n > best_fit) {
            best = image;
            best_fit = n;
        }
        if (!image->os[0] && !image->arch[0]) {
            unsaid = image;
            n_unsaid++;
        }
    }
    /* A layout's index names its only image without saying for what it is. */
    if (!best && n_unsaid == 1)
        best = unsaid;
    if (!best)
        return refuse(index, platform, err);
    *ret = &best->blob;
    return 0;
}
