#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "engine/ports_internal.h"

/* Who on this machine has a port, told from /proc. For the text of an error: what cannot be told is
 * left out. */

#define LINES_MAX     20000
#define PROCESSES_MAX 4096
#define FDS_MAX       4096

#define STATE_TIME_WAIT 0x06u
#define STATE_LISTEN    0x0au

/* The inode of a socket with that local port that others cannot share; 0 when there is none. TCP:
 * one that listens, else any; *ret_ended is set when a connection in TIME_WAIT has the port. */
static unsigned long find_inode(const char *path, bool tcp, uint16_t port, bool *ret_ended)
{
    FILE *f = fopen(path, "re");
    unsigned long found = 0;
    bool sure = false;
    char line[512];

    for (int i = 0; f && !sure && i < LINES_MAX && fgets(line, sizeof(line), f); i++) {
        unsigned local, state;
        unsigned long inode;

        if (sscanf(line,
                   " %*d: %*32[0-9A-Fa-f]:%4x %*32[0-9A-Fa-f]:%*4x %2x %*s %*s %*s %*s %*s %lu",
                   &local, &state, &inode) != 3 ||
            local != port)
            continue;
        sure = inode && (!tcp || state == STATE_LISTEN);
        if (sure || (inode && !found))
            found = inode;
        if (tcp && state == STATE_TIME_WAIT)
            *ret_ended = true;
    }
    if (f)
        (void)fclose(f);
    return found;
}

static bool has_socket(int dir, const char *target)
{
    DIR *d = fdopendir(dir);
    struct dirent *e;
    bool yes = false;

    if (!d) {
        (void)close(dir);
        return false;
    }
    for (int i = 0; !yes && i < FDS_MAX && (e = readdir(d)); i++) {
        char link[64];
        ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

        link[n > 0 ? n : 0] = '\0';
        yes = strcmp(link, target) == 0;
    }
    (void)closedir(d);
    return yes;
}

static bool tell_if_has(const char *pid, const char *target, char ret[PORT_OWNER_MAX])
{
    char path[64], name[32];
    int dir;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || !has_socket(dir, target))
        return false;
    (void)snprintf(path, sizeof(path), "/proc/%.16s/comm", pid);
    n = read_file_at(-1, path, name, sizeof(name));
    for (ssize_t i = 0; i < n; i++)
        if (!isprint((unsigned char)name[i]))
            name[i] = '\0';
    (void)snprintf(ret, PORT_OWNER_MAX, "%s (pid %.16s)", n > 0 ? name : "a process", pid);
    return true;
}

void port_owner(enum port_protocol protocol, uint16_t port, char ret[PORT_OWNER_MAX])
{
    bool tcp = protocol == PORT_TCP, ended = false;
    unsigned long inode = find_inode(tcp ? "/proc/net/tcp" : "/proc/net/udp", tcp, port, &ended);
    struct dirent *e;
    char target[64];
    DIR *proc;

    ret[0] = '\0';
    if (!inode)
        inode = find_inode(tcp ? "/proc/net/tcp6" : "/proc/net/udp6", tcp, port, &ended);
    if (!inode && ended)
        (void)snprintf(ret, PORT_OWNER_MAX,
                       "a connection that has ended, which the kernel keeps for up to a minute");
    proc = inode ? opendir("/proc") : NULL;
    if (!proc)
        return;
    (void)snprintf(target, sizeof(target), "socket:[%lu]", inode);
    for (int i = 0; i < PROCESSES_MAX && (e = readdir(proc)); i++)
        if (isdigit((unsigned char)e->d_name[0]) && tell_if_has(e->d_name, target, ret))
            break;
    (void)closedir(proc);
}
