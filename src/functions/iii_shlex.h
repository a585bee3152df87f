#pragma once

/* A line as a list of words, as POSIX shells split it: blanks, quotes, backslashes and comments.
 * Nothing is expanded, and no word is special. *ret is the caller's (strv_free), NULL when there is
 * no word. 0, or -EINVAL when a quote is not closed or the last character is a backslash. */
int shlex_split(const char *line, char ***ret);
