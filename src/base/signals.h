#pragma once

/* What callers may send to a process of a sandbox, by name; ended by NULL. */
extern const char *const signal_words[];

/* The number of one of these, or -EINVAL. */
int signal_of_word(const char *word);

/* "SIGQUIT", "QUIT", "3", "SIGRTMIN+3": its number, or -EINVAL. */
int signal_parse(const char *text);
