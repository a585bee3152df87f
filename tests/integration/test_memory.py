"""What strangers can make the daemon hold has a bound, whatever they ask for and do not read."""

import base64
import json
import selectors
import socket
import time

import pytest

from cay_crowd import request, status_of
from cay_harness import RSS_SLACK_KIB, SANITIZER, SLOW, wait_until

pytestmark = [pytest.mark.full, pytest.mark.alone, pytest.mark.skipif(SANITIZER == "thread", reason="the thread sanitizer takes several times the memory that it watches")]

MIB = 1 << 10  # in KiB, as /proc/PID/status counts
PEAK_MAX, REST_MAX = 256 * MIB, 64 * MIB

OUTPUT_BYTES = 10 << 20  # what an exec keeps of each stream
FILE_BYTES = 16 << 20  # the largest file that is read into JSON
PIECE = 1 << 20
ONE = b"\\u0001"  # how a byte \x01 looks in JSON
ONES = ONE * (PIECE // len(ONE) + 2)


@pytest.fixture
def measured(daemon_of):
    """A daemon whose peak is held against the bound, and that must be small again at the end."""
    daemon = daemon_of("memory", env={"CAY_LOG_LEVEL": "info"}).start()
    with open(f"/proc/{daemon.pid}/clear_refs", "w") as f:
        f.write("5")
    yield daemon
    peak = status_of(daemon.pid, "VmHWM")
    assert peak < PEAK_MAX + RSS_SLACK_KIB, f"the peak was {peak // MIB} MiB"
    wait_until(lambda: status_of(daemon.pid, "VmRSS") < REST_MAX + RSS_SLACK_KIB, 60,
               "fall of the daemon's memory")


class Asked:
    """A request that was sent, and its answer, which is not read until somebody wants it. In HTTP/1.0, so
    the answer comes as it is, and one that breaks off ends with a reset. Every ONE is counted and
    taken out of it, since these answers are many and long."""

    def __init__(self, daemon, path, body):
        data = request("POST", path, body).replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1)
        self.socket = socket.create_connection(("127.0.0.1", daemon.port), timeout=60 * SLOW)
        self.ones = 0
        self.part = 0  # of a ONE that has come so far
        self.rest = bytearray()
        self.unsent = memoryview(data)

    def send(self):
        """True once all is sent."""
        self.unsent = self.unsent[self.socket.send(self.unsent):]
        return not self.unsent

    def take(self):
        """False at the end."""
        piece = self.socket.recv(PIECE)
        if ONES.startswith(piece, self.part):
            whole, self.part = divmod(self.part + len(piece), len(ONE))
            self.ones += whole
        else:
            data = ONE[:self.part] + piece
            self.part = next((n for n in range(len(ONE) - 1, 0, -1) if data.endswith(ONE[:n])), 0)
            data = data[:len(data) - self.part]
            self.ones += data.count(ONE)
            self.rest += data.replace(ONE, b"")
        return bool(piece)

    def result(self):
        """The body, or None for a refusal that is right: too much to do, come again."""
        head, body = (self.rest + ONE[:self.part]).split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        status, headers = lines[0].split()[1], dict(line.split(": ", 1) for line in lines[1:])
        if status == "200":
            return body
        assert status == "503" and json.loads(body)["code"] in ("busy", "sandbox_busy"), body
        assert int(headers["Retry-After"]) >= 1
        return None


def each(asked, events, step, timeout=120):
    """Makes a step with each that is ready, until step() is true for all. All at the same time: a client
    that takes nothing for 30 s is given up."""
    deadline = time.monotonic() + timeout * SLOW
    with selectors.DefaultSelector() as news:
        for a in asked:
            a.socket.setblocking(False)
            news.register(a.socket, events, a)
        while news.get_map():
            assert time.monotonic() < deadline, f"{len(news.get_map())} are not done"
            for key, _ in news.select(1):
                if step(key.data):
                    news.unregister(key.fileobj)


def ask(daemon, path, bodies):
    asked = [Asked(daemon, path, body) for body in bodies]
    each(asked, selectors.EVENT_WRITE, Asked.send)
    return asked


def answered(asked):
    """How many have something to read."""
    with selectors.DefaultSelector() as news:
        for a in asked:
            news.register(a.socket, selectors.EVENT_READ)
        return len(news.select(0))


def results(asked, read=json.loads):
    """(ones, read(body)) of each that was not refused."""
    got = []

    def step(a):
        if a.take():
            return False
        a.socket.close()
        body = a.result()
        a.rest.clear()
        if body is not None:
            got.append((a.ones, read(body)))
        return True

    each(asked, selectors.EVENT_READ, step)
    return got


def test_long_outputs_and_files_that_nobody_reads(measured):
    pour = f"head -c {OUTPUT_BYTES} /dev/zero | tr '\\0' '\\001' | tee /dev/stderr"
    with measured.api() as api:
        id = api.create()["id"]
        api.post(f"/sandboxes/{id}/files/upload?path=ones", raw=b"\1" * FILE_BYTES,
                 type="application/octet-stream").ok()
        outputs = ask(measured, f"/sandboxes/{id}/exec", [{"command": pour}] * 24)
        wait_until(lambda: answered(outputs), 60, what="the first answers")
        files = ask(measured, f"/sandboxes/{id}/files/read", [{"path": "ones"}] * 24)
        wait_until(lambda: answered(files) == len(files), 30, "answers to all who read")
        api.get("/health").ok()
        got = results(outputs + files)
        assert [text for ones, text in got if ones == FILE_BYTES] == [""] * 24
        ends = [end for ones, end in got if ones == 2 * OUTPUT_BYTES]
        assert len(ends) == 24
        for end in ends:
            assert (end["exitCode"], end["truncated"], end["stdout"], end["stderr"]) == (0, False, "", "")


def test_many_lists_of_a_large_folder(measured):
    files = 60000
    with measured.api(timeout=100) as api:
        id = api.create()["id"]
        api.sh(id, f"""python3 -c "
import os
os.mkdir('many')
for i in range({files}): os.mknod('many/%06d' % i + 'n' * 244)
" """, timeout=100)
        [(_, whole)] = results(ask(measured, f"/sandboxes/{id}/files/list", [{"path": "many"}]), bytes)
        assert len({entry["name"] for entry in json.loads(whole)}) == files
        lists = ask(measured, f"/sandboxes/{id}/files/list", [{"path": "many"}] * 40)
        wait_until(lambda: answered(lists), 60, what="the first answers")
        api.get("/health").ok()
        same = [same for _, same in results(lists, lambda body: body == whole)]
        assert len(same) >= 2 and all(same)


def test_long_bodies_at_once(measured):
    with measured.api() as api:
        id = api.create()["id"]
        data = b"\1" * FILE_BYTES
        content = base64.b64encode(data).decode()
        uploads = ask(measured, f"/sandboxes/{id}/files/upload",
                      [{"path": f"file{i}", "content": content} for i in range(8)])
        assert all(result == {"success": True} for _, result in results(uploads))
        written = api.sh(id, "cat file? | wc -c; rm file?").split()
        assert int(written[0]) % FILE_BYTES == 0 and int(written[0]) >= FILE_BYTES


def test_floods_that_nobody_reads(measured):
    with measured.api() as api:
        id = api.create()["id"]
        floods = ask(measured, f"/sandboxes/{id}/exec/stream", [{"command": "yes"}] * 50)
        wait_until(lambda: answered(floods) == len(floods), 30, "the start of all")
        for _ in range(50):
            api.get("/health").ok()
        assert api.sh(id, "echo served") == "served\n"
        assert api.exec_stream(id, "echo served")[0]["data"] == "served\n"
        for flood in floods:
            flood.socket.close()
        wait_until(lambda: not [p for p in api.processes(id) if p["command"] == "yes"],
                   what="end of the floods")
