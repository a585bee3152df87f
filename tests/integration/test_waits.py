"""Who waits for a box, and for how long: a box that does not answer holds up nobody but its callers."""

import concurrent.futures
import os
import re
import signal
import threading
import time
from pathlib import Path

from cay_harness import SLOW, read_text, wait_until

NAMES = """python3 -c "
import os
os.mkdir('many')
for i in range(%d): os.mknod('many/' + '%%06d' %% i + 'n' * 249)
" """


def at_once(api, n, call):
    """Makes n calls on n connections at the same time and returns their replies."""
    ready = threading.Barrier(n)

    def one(_):
        with api.again(timeout=60) as own:
            ready.wait()
            return call(own)

    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return list(pool.map(one, range(n)))


def test_many_lists_of_a_large_folder_lose_no_agent(api, make):
    """The agents of a box share 64 MiB; one list of this folder takes 5."""
    id = make(disk=512)["id"]
    api.sh(id, NAMES % 20000, timeout=60)
    replies = at_once(api, 20, lambda own: own.file(id, "list", path="many"))
    for reply in replies:
        if reply.status == 200:
            assert len(reply.json) == 20000
        else:
            reply.failed(503, "sandbox_busy")
    assert sum(reply.status == 200 for reply in replies) >= 5
