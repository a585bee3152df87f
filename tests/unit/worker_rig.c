/* The gateway's worker by itself, for tests that play its warden: worker_rig WARDEN UDP TCP
 * INSPECT, four descriptors. */
#include <stdlib.h>

#include "gateway/worker.h"

int main(int argc, char **argv)
{
    struct worker_start start = {.dns_udp = {-1, -1}, .dns_tcp = {-1, -1}, .inspect = {-1, -1}};

    if (argc != 5)
        return 2;
    start.warden = (int)strtol(argv[1], NULL, 10);
    start.dns_udp[WORKER_V4] = (int)strtol(argv[2], NULL, 10);
    start.dns_tcp[WORKER_V4] = (int)strtol(argv[3], NULL, 10);
    start.inspect[WORKER_V4] = (int)strtol(argv[4], NULL, 10);
    worker_run(&start);
}
