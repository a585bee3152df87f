#pragma once

struct buf;
struct command;

/* Everything that is said about commands comes from the one table: what a person reads in the
 * terminal, the manual page and the reference in docs/cli.md. */

void help_overview(struct buf *out);
void help_command(struct buf *out, const struct command *command);
/* The commands below a word such as "file". */
void help_group(struct buf *out, const char *word);

void help_man(struct buf *out);      /* roff: packaging/man/cay.1 */
void help_markdown(struct buf *out); /* the reference part of docs/cli.md */

#define HELP_MAX (1u << 20)
