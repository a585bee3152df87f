#pragma once

struct buf;

#define ODD_FILES_TOLD 8

/* Looks for what the daemon cannot use in its folders: a FIFO, a device, a socket, a folder or a
 * link where a file is expected, something else where a folder or a socket is, and damaged files
 * that the daemon has set aside. Appends "PATH (what it is)" of the first ones to text, separated
 * by commas; returns how many there are. Opens no file. A folder that is not there has none. */
unsigned odd_files_find(const char *data, const char *run, struct buf *text);
