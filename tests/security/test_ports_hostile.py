"""Ports on the host, when what is in the sandbox is hostile (N21)."""

import contextlib
import os
import socket
import struct
import threading

import pytest

from cay_harness import read_text, wait_until

pytestmark = pytest.mark.core

# A server that does to each connection what it can: by the first byte that it is sent.
HOSTILE = """
import socket, struct, threading, time
s = socket.socket(); s.bind(("127.0.0.1", 8000)); s.listen(500)
def serve(c):
    what = c.recv(1)
    if what == b"e":
        while d := c.recv(65536): c.sendall(d)
    elif what == b"r":
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); c.close()
    elif what == b"l":
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60)); c.close()
    elif what == b"n":
        time.sleep(1000)          # reads nothing any more
    elif what == b"h":
        c.shutdown(socket.SHUT_WR); time.sleep(1000)
open("/tmp/up", "w").close()
while True:
    c, _ = s.accept(); threading.Thread(target=serve, args=(c,), daemon=True).start()
"""


@pytest.fixture
def box(api):
    id = api.create()["id"]
    api.write(id, "/workspace/serve.py", HOSTILE)
    api.background(id, "python3 /workspace/serve.py")
    wait_until(lambda: api.exec(id, "test -e /tmp/up")["exitCode"] == 0, what="the server listens")
    yield id
    api.remove(id)


def expose(api, id, **fields):
    return api.post(f"/sandboxes/{id}/ports", {"containerPort": 8000, "hostPort": 0, **fields})


def connect(port):
    return socket.create_connection(("127.0.0.1", port), 60)


def echoes(port):
    with connect(port) as s:
        s.sendall(b"ehello")
        return s.recv(5) == b"hello"


def listeners(port):
    """Local addresses, as the kernel writes them, that listen on a TCP port."""
    rows = [line.split() for f in ("tcp", "tcp6") for line in read_text(f"/proc/net/{f}").splitlines()[1:]]
    return [r[1].split(":")[0] for r in rows if r[3] == "0A" and int(r[1].split(":")[1], 16) == port]


def test_a_port_is_on_the_loopback_unless_it_is_asked_for_and_allowed(api, box):
    port = expose(api, box).ok()["hostPort"]
    assert listeners(port) == ["0100007F"]
    for address in ("0.0.0.0", "::", "192.0.2.1", "::ffff:0.0.0.0"):
        expose(api, box, hostAddress=address, protocol="udp").failed((400, 403))
    assert listeners(port) == ["0100007F"]
    made = expose(api, box, containerPort=8001, hostAddress="::1").ok()
    assert listeners(made["hostPort"]) == ["00000000000000000000000001000000"]


def test_what_a_server_does_to_its_connections_holds_up_no_others(api, box):
    port = expose(api, box).ok()["hostPort"]
    with contextlib.ExitStack() as stack:
        for what in b"rlnh" * 20:
            s = stack.enter_context(connect(port))
            s.sendall(bytes([what]))
            if what == ord("n"):  # until neither the server nor what is between takes more
                s.setblocking(False)
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    while True:
                        s.send(bytes(1 << 20))
        for _ in range(20):
            assert echoes(port)
        assert api.exec(box, "true")["exitCode"] == 0
    assert echoes(port)


def test_a_server_that_accepts_nobody_holds_up_no_others(api, box):
    api.write(box, "/workspace/deaf.py", """
import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 8002)); s.listen(0)
open("/tmp/deaf", "w").close(); time.sleep(1000)
""")
    api.background(box, "python3 /workspace/deaf.py")
    wait_until(lambda: api.exec(box, "test -e /tmp/deaf")["exitCode"] == 0, what="it listens")
    port = expose(api, box).ok()["hostPort"]
    deaf = expose(api, box, containerPort=8002).ok()["hostPort"]
    other = api.create()["id"]
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: api.remove(other))
        for _ in range(20):
            stack.enter_context(connect(deaf))
        assert echoes(port)
        assert api.exec(box, "true")["exitCode"] == 0
        assert api.exec(other, "true")["exitCode"] == 0


def test_nothing_inside_reaches_the_host_s_ports_through_it(api, box):
    """A port leads in, never out: the host's loopback is not the sandbox's."""
    port = expose(api, box).ok()["hostPort"]
    assert echoes(port)
    got = api.exec(box, f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 20)'")
    assert got["exitCode"] != 0 and "refused" in got["stderr"]
