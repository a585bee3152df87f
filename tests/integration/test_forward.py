"""cay forward, and the connections that the API gives (Upgrade: cay-dial)."""

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import threading

import pytest

from cay_harness import CAY, cay, cli_environment, wait_until
from test_ports import ECHO, connect, read_all, refused, serve, taken, talk, works

pytestmark = pytest.mark.core


@pytest.fixture
def echo(api, box):
    serve(api, box, ECHO)
    return box


@contextlib.contextmanager
def forward(daemon, *args, env=None):
    """The command, and what it prints until it listens everywhere."""
    process = subprocess.Popen([CAY, "forward", *args], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=cli_environment(daemon, **(env or {})))
    wanted = sum(not a.startswith("-") for a in args) - 1
    try:
        yield process, [process.stdout.readline().rstrip("\n") for _ in range(wanted)]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def port_of(line):
    return int(line.split(" -> ")[0].rsplit(":", 1)[1])


def dial(daemon, id, port, headers="Connection: Upgrade\r\nUpgrade: cay-dial\r\n", early=b""):
    """A connection by hand, over the unix socket: the status, the rest of the head, the socket."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(str(daemon.socket_path))
    s.sendall((f"POST /sandbox/sandboxes/{id}/dial/{port} HTTP/1.1\r\nHost: localhost\r\n"
               f"{headers}Content-Length: 0\r\n\r\n").encode() + early)
    data = b""
    while b"\r\n\r\n" not in data:
        piece = s.recv(1)
        assert piece, data
        data += piece
    return int(data.split()[1]), s


# ---- the row ----


def test_the_connection_becomes_one_to_the_port(shared, echo):
    status, s = dial(shared, echo, 8000, early=b"early ")
    assert status == 101
    with s:
        s.sendall(b"late")
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b"early latetotal 10"


def test_what_is_sent_before_the_client_leaves_arrives(api, shared, box):
    serve(api, box, """
import socket
s = socket.socket(); s.bind(({address!r}, {port})); s.listen()
open("/tmp/up", "w").close()
c, _ = s.accept(); n = 0
while d := c.recv(65536): n += len(d)
open("/tmp/got", "w").write(str(n))
""")
    status, s = dial(shared, box, 8000)
    assert status == 101
    s.sendall(b"x" * 100_000)
    s.close()
    wait_until(lambda: api.exec(box, "cat /tmp/got")["stdout"] == "100000", what="all of it came")


def test_a_server_may_end_first_and_still_hear(api, shared, box):
    serve(api, box, """
import socket
s = socket.socket(); s.bind(({address!r}, {port})); s.listen()
open("/tmp/up", "w").close()
c, _ = s.accept(); c.sendall(b"over"); c.shutdown(socket.SHUT_WR); d = b""
while p := c.recv(65536): d += p
open("/tmp/got", "wb").write(d)
""")
    status, s = dial(shared, box, 8000)
    with s:
        assert status == 101 and read_all(s) == b"over"
        s.sendall(b"and yet")
    wait_until(lambda: api.exec(box, "cat /tmp/got")["stdout"] == "and yet", what="it heard")


def test_what_cannot_be_is_said_before(api, shared, box):
    with dial(shared, box, 8000)[1] as s:
        assert json.loads(s.recv(65536))["code"] == "port_closed"
    path = f"/sandboxes/{box}/dial/8000"
    api.post(path).failed(400, "upgrade_required")
    up = {"Connection": "Upgrade", "Upgrade": "cay-dial"}
    api.post(path, headers=up).failed(503, "port_closed")
    for bad in ("0", "65536", "x"):
        api.post(f"/sandboxes/{box}/dial/{bad}", headers=up).failed(400)
    api.post("/sandboxes/sbx_000000000000000000000000/dial/80", headers=up).failed(404)
    api.post(f"/sandboxes/{box}/stop").ok()
    api.post(path, headers=up).failed(409, "sandbox_not_running")


def test_connections_that_rest_hold_no_thread(shared, echo):
    def threads():
        return len(os.listdir(f"/proc/{shared.pid}/task"))

    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(dial(shared, echo, 8000)[1]) for _ in range(60)]
        wait_until(lambda: threads() < 60, 40, "workers go")  # after ten idle seconds
        for i, s in enumerate(held):
            s.sendall(b"%03d" % i)
            assert s.recv(3) == b"%03d" % i


# ---- the command ----


def test_ports_of_a_sandbox_are_here(shared, echo):
    with taken() as free:
        pass
    with forward(shared, echo, f"{free}:8000", "0:8000", "[::1]:0:8000") as (process, lines):
        assert lines[0] == f"127.0.0.1:{free} -> {echo}:8000"
        assert lines[1].startswith("127.0.0.1:") and lines[2].startswith("[::1]:")
        assert works(free) and works(port_of(lines[1]))
        with connect(port_of(lines[2]), address="::1") as s:
            s.sendall(b"six")
            assert s.recv(3) == b"six"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
    assert refused(free)


def test_many_at_once_and_a_large_transfer(shared, echo):
    data = os.urandom(16 << 20)
    with forward(shared, "--json", echo, "0:8000") as (_, lines):
        port = json.loads(lines[0])["localPort"]
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(connect(port)) for _ in range(100)]
            for i, s in enumerate(held):
                s.sendall(b"%03d" % i)
            for i, s in enumerate(held):
                assert s.recv(3) == b"%03d" % i
            s = stack.enter_context(connect(port))

            def send():
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)

            sender = threading.Thread(target=send)
            sender.start()
            got = read_all(s)
            sender.join()
        assert hashlib.sha256(got[:len(data)]).digest() == hashlib.sha256(data).digest()
        assert got[len(data):] == b"total %d" % len(data)


def test_it_works_from_elsewhere_with_a_token(daemon_of):
    daemon = daemon_of("token", env={"CAY_AUTH_TOKEN": "s3cret"}).start()
    api = daemon.api(token="s3cret")
    box = api.create()["id"]
    serve(api, box, ECHO)
    host = {"CAY_HOST": f"http://127.0.0.1:{daemon.port}"}
    with forward(daemon, box, "0:8000", env={**host, "CAY_TOKEN": "s3cret"}) as (_, lines):
        assert talk(port_of(lines[0])) == b"hellototal 5"
    refusal = cay(daemon, "forward", box, "0:8000", env={**host, "CAY_TOKEN": "wrong"})
    assert refusal.returncode == 1 and b"invalid_token" in refusal.stderr


def test_nothing_listens_yet_is_a_reset_and_then_it_works(api, shared, box):
    with forward(shared, box, "0:8000") as (process, lines):
        port = port_of(lines[0])
        with pytest.raises(ConnectionResetError), connect(port) as s:  # which may see it already
            s.recv(1)
        assert "port 8000" in process.stderr.readline()
        serve(api, box, ECHO)
        assert works(port)


def test_it_ends_when_the_sandbox_is_gone(api, shared):
    box = api.create()["id"]
    with forward(shared, box, "0:8000") as (process, lines):
        api.remove(box)
        with contextlib.suppress(OSError), connect(port_of(lines[0])) as s:
            s.recv(1)
        assert process.wait(60) == 1
        assert box in process.stderr.read()


def test_what_is_wrong_is_said(shared, box):
    with taken() as port:
        out = cay(shared, "forward", box, f"{port}:80")
        assert out.returncode == 1 and b"0:80 takes any free port" in out.stderr
    for bad in ("0", "x", "80:", "65536", "1:2:3", "host:1:2", "1.2.3.4.5:1:2"):
        assert cay(shared, "forward", box, bad).returncode == 2, bad
    assert cay(shared, "forward", "nobody", "80").returncode == 1


# ---- any port of the host ----


def test_port_0_is_any_free_one(api, shared, box):
    out = cay(shared, "port", "add", box, "0:8000", check=True).stdout
    assert int(out.strip().rsplit(b":", 1)[1]) > 0
    id = cay(shared, "create", "-q", "-p", "0:8000", "-p", "127.0.0.1:0:8001", "host",
             check=True).stdout.decode().strip()
    try:
        listed = api.get(f"/sandboxes/{id}/ports").ok()["ports"]
        assert [p["containerPort"] for p in listed] == [8000, 8001]
        assert all(p["hostPort"] > 0 and p["state"] == "active" for p in listed)
    finally:
        api.remove(id)
