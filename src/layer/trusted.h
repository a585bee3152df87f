#pragma once

#include <stdint.h>

/* Attributes of the name space "trusted": overlayfs's marks, and what we note of a layer. Only root
 * of the host may see or set them. Whoever unpacks is not that: it sends the descriptor to a
 * process that is. All return 0 (or a mask) or -errno. */

enum {
    TRUSTED_OPAQUE = 1,   /* a folder hides what is below */
    TRUSTED_REDIRECT = 2, /* a folder is somewhere else below */
    TRUSTED_METACOPY = 4, /* the data of a file is below */
};

/* Which of them there are. */
int trusted_look(int fd);
int trusted_make_opaque(int dirfd);

/* On a layer's root: what it takes, unpacked. */
struct layer_note {
    uint64_t bytes, entries;
};

int trusted_set_note(int root, const struct layer_note *note);
/* What is not noted is 0: layers of older versions have no entries. */
int trusted_get_note(int root, struct layer_note *ret);

/* From now on the process at the other end does all of the above; any thread may ask. Before the
 * first other thread starts. */
void trusted_ask(int sock);
/* That process's side of a SOCK_SEQPACKET pair, until the other is gone. It trusts nobody: a
 * descriptor is good for what it was opened for, and the ones that whoever asks has, but for those
 * of its own folder, are of mounts that cannot be written to. */
void trusted_serve(int sock);
