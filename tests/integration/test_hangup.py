"""Clients that hang up before their answer, and clients that end only their own side of the connection and read on."""

import contextlib
import json
import os
import signal
import socket

import pytest

from cay_crowd import request
from cay_harness import SLOW, Daemon, wait_until
from cay_order import commands_of

pytestmark = [pytest.mark.core, pytest.mark.counts_rows]

INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.fixture(scope="module")
def daemon():
    daemon = Daemon("hangup")
    try:
        yield daemon.start()
    finally:
        Daemon.everyone.remove(daemon)
        daemon.destroy()


@pytest.fixture
def own(daemon):
    """Without a sandbox, before and after."""
    yield daemon
    with daemon.api() as api:
        for id in api.ids():
            api.remove(id)


@pytest.fixture(params=["tcp", "unix"])
def way(request):
    return request.param


def dial(daemon, way):
    if way == "tcp":
        return socket.create_connection(("127.0.0.1", daemon.port), timeout=60 * SLOW)
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60 * SLOW)
    s.connect(str(daemon.socket_path))
    return s


@contextlib.contextmanager
def asleep(daemon):
    """The daemon does not run: it finds what was sent meanwhile all at once."""
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon.pid, signal.SIGCONT)


def ask_and_leave(daemon, way, *what):
    with dial(daemon, way) as s, asleep(daemon):
        s.sendall(request(*what))
        s.close()


def ask_and_end(daemon, way, *what):
    """Returns all that comes behind the interim answers."""
    with dial(daemon, way) as s:
        with asleep(daemon):
            s.sendall(request(*what))
            s.shutdown(socket.SHUT_WR)
        out = b""
        while piece := s.recv(65536):
            out += piece
    while out.startswith(INTERIM):
        out = out[len(INTERIM):]
    return out


def answer_of(out):
    head, _, body = out.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), out
    return json.loads(body)


class Told:
    """Events from now on."""

    def __init__(self, api):
        self.api, self.last = api, ""
        self.last = max([e["id"] for e in self.events()], default="")

    def events(self):
        return [e for e in self.api.get("/events/history").ok()["events"] if e["id"] > self.last]

    def wait(self, topic):
        wait_until(lambda: topic in [e["topic"] for e in self.events()], what=topic)


# ---- what was made for a client that has gone ----


def test_a_create_whose_client_hung_up_leaves_no_sandbox(own, way):
    with own.api() as api:
        told = Told(api)
        ask_and_leave(own, way, "POST", "/sandboxes", {"image": "host"})
        told.wait("sandbox.created")
        told.wait("sandbox.killed")
        assert api.ids() == []


@pytest.mark.parametrize("what, body", [("clone", {}), ("fork", {"count": 3})])
def test_clones_whose_client_hung_up_do_not_stay(own, what, body):
    with own.api() as api:
        id = api.create()["id"]
        ask_and_leave(own, "tcp", "POST", f"/sandboxes/{id}/{what}", body)
        wait_until(lambda: f"/sandboxes/{id}/{what} " in own.log(), what="the end of the request")
        assert api.ids() == [id]


def test_with_a_key_the_sandbox_stays_and_the_retry_gets_it(own, way):
    with own.unix_api() if way == "unix" else own.api() as api:  # keys are the caller's own
        told = Told(api)
        ask_and_leave(own, way, "POST", "/sandboxes", {"image": "host"}, "Idempotency-Key: " + way)
        told.wait("sandbox.created")
        again = api.post("/sandboxes", {"image": "host"}, headers={"Idempotency-Key": way})
        assert again.headers["Idempotent-Replayed"] == "true"
        assert api.ids() == [again.ok()["id"]]


# ---- a client that has said all and reads on ----


def test_a_half_closed_client_gets_its_sandbox(own, way):
    made = answer_of(ask_and_end(own, way, "POST", "/sandboxes", {"image": "host"}))
    with own.api() as api:
        assert api.ids() == [made["id"]]


@pytest.mark.parametrize("seconds", [0, 0.2])
def test_a_half_closed_client_gets_the_end_of_its_command(own, way, seconds):
    """After 0.2 s the request has no thread any more."""
    with own.api() as api:
        id = api.create()["id"]
        done = answer_of(ask_and_end(own, way, "POST", f"/sandboxes/{id}/exec", {"command": f"sleep {seconds}; echo done"}))
        assert done["stdout"] == "done\n"


def test_a_half_closed_client_gets_its_stream(own, way):
    with own.api() as api:
        id = api.create()["id"]
        out = ask_and_end(own, way, "POST", f"/sandboxes/{id}/exec/stream", {"command": "echo first; sleep 0.2; echo last"})
        assert b"first" in out and b"last" in out and out.endswith(b"\r\n0\r\n\r\n")


def test_a_client_that_closes_all_of_it_ends_its_command(own, way):
    with own.api() as api:
        id = api.create()["id"]
        for what in ("exec", "exec/stream"):
            with dial(own, way) as s:
                s.sendall(request("POST", f"/sandboxes/{id}/{what}", {"command": "exec sleep 1000"}))
                wait_until(lambda: "sleep 1000" in commands_of(id).values())
                s.shutdown(socket.SHUT_WR)
                assert api.sh(id, "echo goes on") == "goes on\n"
                assert "sleep 1000" in commands_of(id).values()
            wait_until(lambda: "sleep 1000" not in commands_of(id).values(), what="end of the command")
