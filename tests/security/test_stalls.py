"""Request bodies that stop coming hold up nobody: file calls, commands, creates and uploads of others are served beside hundreds of them."""

import contextlib
import io
import json
import os
import select
import socket
import tarfile

import pytest

from cay_harness import SLOW, Daemon, read_text, wait_until

pytestmark = pytest.mark.core

CROWD = 300
ENTERED = 64 << 10  # of an upload, that come before a function is called
UPLOADS_MAX = 64  # in one sandbox
POLL = ("7", "271", "73")  # numbers of poll and ppoll on x86-64, and of ppoll on arm64


@pytest.fixture(scope="module")
def daemon():
    daemon = Daemon("stalls", env={"CAY_STALL_TIMEOUT": 600})
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


def head(path, length, type="application/octet-stream", *more):
    size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {type}", size, *more, "", ""]).encode()


JSON = "application/json"
ACCEPT = "Accept: application/json, text/event-stream"
LENGTH = 3 * ENTERED
WHOLE = json.dumps({"path": "late", "content": "x" * 1000}).encode()
STALLS = {
    "nothing": lambda id, vol: head(f"/sandbox/sandboxes/{id}/files/write", 5000, JSON),
    "json": lambda id, vol: head(f"/sandbox/sandboxes/{id}/files/write", 5000, JSON) + b"{",
    "create": lambda id, vol: head("/sandbox/sandboxes", 5000, JSON) + b"{",
    "mcp": lambda id, vol: head("/mcp", 5000, JSON, ACCEPT) + b"{",
    "unread": lambda id, vol: head("/sandbox/health", 5000, JSON) + b"{",
    "upload": lambda id, vol: head(f"/sandbox/sandboxes/{id}/files/upload?path=a", LENGTH) + b"x",
    "chunked": lambda id, vol: head(f"/sandbox/sandboxes/{id}/files/upload?path=a", None) + b"fffff\r\nx",
    "volume": lambda id, vol: head(f"/sandbox/volumes/{vol}/files/upload?path=a", LENGTH) + b"x" * 2 * ENTERED,
    "build": lambda id, vol: head("/sandbox/templates/build?name=stalled", LENGTH) + b"x" * 2 * ENTERED,
}


@contextlib.contextmanager
def crowd(daemon, data, n=CROWD):
    """Connections that send `data`, the beginning of a request, and no more."""
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(n):
            s = stack.enter_context(socket.create_connection(("127.0.0.1", daemon.port), timeout=60 * SLOW))
            s.sendall(data)
            made.append(s)
        yield made


def answer(s):
    """The status and the text of the next answer, which states its length."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = s.recv(65536)
        assert piece, got
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))[15:])
    while len(body) < length:
        body += s.recv(65536)
    return int(head.split()[1]), body


def answered(sockets):
    """Those that have an answer to read, or are closed."""
    return select.select(sockets, [], [], 0)[0]


def waiting_threads(pid):
    """Threads of a process that wait in poll() for one or a few descriptors. Workers without a request wait in epoll."""
    calls = [read_text(f"/proc/{pid}/task/{tid}/syscall").split(" ")[0] for tid in os.listdir(f"/proc/{pid}/task")]
    return len([call for call in calls if call in POLL])


def others_are_served(api, id):
    assert api.sh(id, "echo served") == "served\n"
    api.write(id, "note", "a note")
    assert api.read(id, "note") == "a note"
    api.file(id, "list", path=".").ok()
    api.upload(id, "small", b"s" * 1000)
    other = api.create()["id"]
    api.upload(other, "large", b"l" * (1 << 20))
    assert api.download(other, "large") == b"l" * (1 << 20)
    api.remove(other)


@pytest.mark.parametrize("kind", STALLS)
def test_stalled_bodies_hold_up_nobody(own, kind):
    """R20. They have no threads, and none of them is ended for the others."""
    with own.api() as api:
        id, volume = api.create()["id"], api.post("/volumes", {"name": kind}).ok()["id"]
        with crowd(own, STALLS[kind](id, volume)) as stalled:
            if kind == "unread":
                assert {answer(s)[0] for s in stalled} == {405}
            others_are_served(api, id)
            wait_until(lambda: waiting_threads(own.pid) < CROWD // 10, what="stalled bodies without a thread")
            assert not answered(stalled)
        api.delete(f"/volumes/{volume}").ok()


def test_uploads_that_have_begun_leave_calls_of_their_sandbox_to_others(own):
    """Each has one call of the agent, and only so many have."""
    more = 16
    with own.api() as api:
        id = api.create()["id"]
        begun = head(f"/sandbox/sandboxes/{id}/files/upload?path=a", LENGTH) + b"x" * 2 * ENTERED
        with crowd(own, begun, UPLOADS_MAX + more) as stalled:
            wait_until(lambda: len(answered(stalled)) == more, what="an answer to those that are too many")
            refused = answered(stalled)
            for s in refused:
                status, text = answer(s)
                assert (status, json.loads(text)["code"]) == (503, "sandbox_busy")
            assert api.sh(id, "echo served") == "served\n"
            api.write(id, "note", "a note")
            api.file(id, "list", path=".").ok()
            other = api.create()["id"]
            api.upload(other, "large", b"l" * (1 << 20))
            goes_on = next(s for s in stalled if s not in refused)
            goes_on.sendall(b"y" * (LENGTH - 2 * ENTERED))
            assert answer(goes_on)[0] == 200
            assert api.download(id, "a") == b"x" * 2 * ENTERED + b"y" * (LENGTH - 2 * ENTERED)
            api.upload(id, "b", b"in its place")
        wait_until(lambda: {f["name"] for f in api.file(id, "list", path=".").ok()} == {"a", "b", "note"}, what="no part of what broke off")


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in (("Dockerfile", b"FROM host\nCOPY noise /noise\n"), ("noise", bytes(3 * ENTERED))):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_a_body_that_stalled_and_goes_on_arrives_whole(daemon_of):
    own = daemon_of().start()
    with own.api() as api:
        id, volume = api.create()["id"], api.post("/volumes", {"name": "late"}).ok()["id"]
        large, tar = bytes(range(256)) * 1024, archive()
        calls = [(head(f"/sandbox/sandboxes/{id}/files/write", len(WHOLE), JSON), WHOLE),
                 (head(f"/sandbox/sandboxes/{id}/files/upload?path=large", len(large)), large),
                 (head(f"/sandbox/sandboxes/{id}/files/upload?path=empty", 0), b""),
                 (head(f"/sandbox/volumes/{volume}/files/upload?path=large", len(large)), large),
                 (head("/sandbox/templates/build?name=late", len(tar)), tar)]
        for begin, body in calls:
            cuts = [0, 1, len(body) // 2, max(len(body) - 1, 0), len(body)]
            with crowd(own, begin, 1) as (s,):
                for start, end in zip(cuts, cuts[1:]):
                    s.sendall(body[start:end])
                    api.get("/health").ok()
                status, text = answer(s)
                assert status == 200, text
        assert api.read(id, "late") == "x" * 1000
        assert api.download(id, "large") == large and api.download(id, "empty") == b""
        assert api.sh(api.create(template="late")["id"], "wc -c </noise") == f"{3 * ENTERED}\n"
