#pragma once

/* What other tools call things: people who have their words and flags in the fingers are told what
 * to write here. */

/* What to do instead of a flag (without its dashes; one letter for a short one) that the command
 * does not have; NULL when nothing better than the nearest flag is known. */
const char *hint_flag(const char *command, const char *flag);

/* A whole sentence about a word, or two words, that no command is called; the caller frees it. */
char *hint_word(const char *word);
