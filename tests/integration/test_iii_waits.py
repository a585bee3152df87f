"""What the iii endpoint gives up after a time of its own: each after what is set."""

import contextlib
import socket

import pytest

from cay_harness import SLOW, wait_until
from cay_iii import *  # noqa: F401,F403 (fixtures too)
from cay_iii import Refused

pytestmark = pytest.mark.core


def test_what_is_given_up_after_a_while(iii_of, wire_of):
    """Headers that never end, an upload that stalls; a function of a client that tells no name is registered in the end."""
    daemon = iii_of(env={"CAY_HEAD_TIMEOUT": 1, "CAY_III_STALL": 1, "CAY_III_GRACE_MS": 500}).start()
    wire, silent = wire_of(daemon).announce(), wire_of(daemon)
    with socket.create_connection(("127.0.0.1", daemon.iii_port), timeout=60 * SLOW) as half, wire.box() as id:
        half.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        silent.say("registerfunction", id="cay.wire::without-a-name")
        writer, reader = wire.channel()
        with wire.end(writer) as sink:
            sink.send(b"some")
            call = wire.invoke("sandbox::fs::write", {"sandbox_id": id, "path": "/tmp/stalled", "content": reader})
            with contextlib.suppress(ConnectionResetError):
                while half.recv(4096):  # until the daemon closes it
                    pass
            message = wire.take("invocationresult", invocation_id=call)
        error = Refused(message["error"])
        assert error.s == "S218" and error.envelope["retryable"] is True and "for 1 s" in error.message
        assert wire.fs_refused("stat", id, path="/tmp/stalled").s == "S211"
        assert wire.sh(id, "ls -A /tmp").split() == [], "nothing half-made is left"
        wait_until(lambda: wire.call("engine::functions::list", {"prefix": "cay.wire::without-a-name"})["functions"], 60, "the registration")
