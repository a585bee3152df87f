#include "base/caps.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int caps_bound(uint64_t kept)
{
    for (int cap = 0; cap < 64; cap++)
        if (!(kept & CAP_BIT(cap)) && prctl(PR_CAPBSET_DROP, cap) < 0)
            return errno == EINVAL ? 0 : -errno; /* the kernel has no more */
    return 0;
}

int caps_get(uint64_t *ret)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};

    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    *ret = (uint64_t)data[1].permitted << 32 | data[0].permitted;
    return 0;
}

int caps_set(uint64_t caps)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)caps, .permitted = (uint32_t)caps},
        {.effective = (uint32_t)(caps >> 32), .permitted = (uint32_t)(caps >> 32)},
    };

    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}
