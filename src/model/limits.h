#pragma once

/* How long a text of input may be, in bytes: for the table, which refuses what is longer, and for
 * the engine, whose other callers it has not passed. */

#define PATH_BYTES_MAX     4095   /* what the kernel takes */
#define PATH_TEXT_MAX      5460   /* the same as base64 */
#define ARG_BYTES_MAX      131071 /* the kernel takes no longer argument */
#define SANDBOX_NAME_MAX   255
#define METADATA_BYTES_MAX (64u << 10)
#define IMAGE_NAME_MAX     255 /* as registries have it */
#define ENV_KEY_MAX        255
/* Default seconds for the ready command of a template; public clients wait 30 s for an answer. A
 * plain number, because a help text contains it. */
#define TEMPLATE_READY_S 25

#define NETWORK_TEXT_MAX 16384 /* a network policy as presets, profiles and rules in one text */
