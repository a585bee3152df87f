"""What the iii endpoint gives up after a time of its own: all of it at once, since each takes its time."""

import contextlib
import socket
import time

import pytest

from cay_harness import SLOW, wait_until
from cay_iii import *  # noqa: F401,F403 (fixtures too)
from cay_iii import Refused

pytestmark = pytest.mark.full


def test_what_is_given_up_after_a_while(iii_of, wire_of):
    """Headers that never end (10 s), registrations of one who tells no name (5 s), an upload that stalls (30 s)."""
    daemon = iii_of().start()
    begun = time.monotonic()
    wire, silent = wire_of(daemon).announce(), wire_of(daemon)
    with socket.create_connection(("127.0.0.1", daemon.iii_port), timeout=60 * SLOW) as half, wire.box() as id:
        half.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        silent.say("registerfunction", id="cay.wire::without-a-name")
        writer, reader = wire.channel()
        with wire.end(writer) as sink:
            sink.send(b"some")
            call = wire.invoke("sandbox::fs::write", {"sandbox_id": id, "path": "/tmp/stalled", "content": reader})
            wait_until(lambda: wire.call("engine::functions::list", {"prefix": "cay.wire::without-a-name"})["functions"], 20, "the registration")
            with contextlib.suppress(ConnectionResetError):
                while half.recv(4096):
                    pass
            assert time.monotonic() - begun < 60 * SLOW
            message = None
            while message is None and time.monotonic() - begun < 150 * SLOW:
                with contextlib.suppress(TimeoutError):
                    message = wire.take("invocationresult", invocation_id=call)
        error = Refused(message["error"])
        assert error.s == "S218" and error.envelope["retryable"] is True
        assert wire.fs_refused("stat", id, path="/tmp/stalled").s == "S211"
        assert wire.sh(id, "ls -A /tmp").split() == [], "nothing half-made is left"
