"""F26: whoever should read the log does not, and the daemon goes on."""

import fcntl
import os
import threading

import pytest

pytestmark = pytest.mark.core

F_SETPIPE_SZ = 1031


def drain(fd):
    text = b""
    try:
        while True:
            text += os.read(fd, 1 << 20)
    except BlockingIOError:
        return text


def test_a_log_that_nobody_reads_is_dropped_and_counted(daemon_of):
    """Many threads log while the pipe is full: none of them waits for it."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    fcntl.fcntl(write, F_SETPIPE_SZ, 4096)
    own = daemon_of().start(stderr=write)

    def ask():
        with own.api(timeout=60) as api:
            for _ in range(50):
                api.get("/health").ok()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert b"level=info" in drain(read)  # the first line, which filled it
    ask()
    assert b"lines_lost_before=" in drain(read)
    own.stop()
    os.close(read)
    os.close(write)
