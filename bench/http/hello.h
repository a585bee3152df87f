#pragma once

/* The servers compared: each starts in a process of its own and answers HELLO to every request on
 * the listening socket. They return when running, -1 if they cannot. */

#define HELLO "{\"hello\": \"world\"}"

int hello_cay(int listen_fd);
int hello_microhttpd_pool(int listen_fd);
int hello_microhttpd_threads(int listen_fd);
