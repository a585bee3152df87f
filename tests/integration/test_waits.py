"""Who waits for a box, and for how long: a box that does not answer holds up nobody but its callers."""

import concurrent.futures
import contextlib
import json
import os
import re
import signal
import socket
import struct
import threading

import pytest

from cay_harness import SLOW, pids, read_text, wait_until

pytestmark = pytest.mark.core

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

    def list_many(own):
        """Status and text: 400,000 entries would take the test 4 s to read as JSON, so it counts them."""
        response = own.start("POST", f"/sandboxes/{id}/files/list", {"path": "many"})
        return response.status, response.read()

    replies = at_once(api, 20, list_many)
    for status, text in replies:
        if status == 200:
            assert text.count(b'"name":') == 20000
        else:
            assert (status, json.loads(text)["code"]) == (503, "sandbox_busy")
    assert sum(status == 200 for status, _ in replies) >= 5


# ---- a box that keeps its agent from serving ----

TAKE_DESCRIPTORS = """exec python3 -c "
import os, resource
said = set()
for pid in filter(str.isdigit, os.listdir('/proc')):
    if int(pid) == os.getpid(): continue
    try: resource.prlimit(int(pid), resource.RLIMIT_NOFILE, (0, 0)); said.add('done')
    except OSError as e: said.add(type(e).__name__)
resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
print(*said, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
" """


def test_a_box_cannot_take_its_agent_s_descriptors_away(api, box):
    assert api.sh(box, TAKE_DESCRIPTORS) == "PermissionError 50\n"
    for _ in range(6):  # more than there were supervisors
        assert api.sh(box, "echo served") == "served\n"


def agent_processes(id):
    """Those of the agent on the host: they are called so, and have no program file of the box."""
    named = [pid for pid in pids() if id in read_text(f"/proc/{pid}/cgroup")]
    return [int(pid) for pid in named if read_text(f"/proc/{pid}/comm").startswith("cay-")]


@contextlib.contextmanager
def stopped(processes):
    """All of them stopped, main first, so that it does not wake the others."""
    for pid in sorted(processes):
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def fill_backlog(path):
    """Connects until nobody can any more."""
    made = []
    while True:
        s = socket.socket(socket.AF_UNIX)
        s.setblocking(False)
        try:
            s.connect(str(path))
        except BlockingIOError:
            s.close()
            return made
        made.append(s)


def test_a_box_that_takes_no_connection_holds_up_nobody(own):
    with own.api() as api:
        id, other = api.create()["id"], api.create()["id"]
        with stopped(agent_processes(id)):
            made = fill_backlog(own.run / id / "exec.sock")
            for reply in at_once(api, 20, lambda its: its.try_exec(id, "true")):
                reply.failed(503, "sandbox_busy", "try again")
            assert api.sh(other, "echo fine") == "fine\n"
            for s in made:
                s.close()
        wait_until(lambda: api.try_exec(id, "true").status == 200, 60, "the box serving again")


def test_a_stopped_agent_is_sent_on(own):
    with own.api() as api:
        id = api.create()["id"]
        agent = own.agent_pid(id)
        os.kill(agent, signal.SIGSTOP)
        for _ in range(3):  # the first may find a process that was ready before
            api.file(id, "list", path=".").ok()
        assert not re.search(r"^State:\s+T", read_text(f"/proc/{agent}/status"), re.M)
        assert own.log().count("was stopped by a signal and has been continued") == 1


# ---- a log that is followed ----

CALL_FOLLOW, OK, DATA, END = 32 + 15, 1, 8, 9
EXIT_CODE, EXIT_LOST = 0, 4


class Follower:
    """Follows a log through the agent's own socket."""

    def __init__(self, daemon, id, exec_id):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20 * SLOW)
        self.socket.connect(str(daemon.run / id / "agent.sock"))
        name = exec_id.encode()
        args = struct.pack("<I", len(name)) + name + struct.pack("<Q", 0)
        self.socket.sendall(struct.pack("<IBxxx", len(args), CALL_FOLLOW) + args)
        assert self.frame()[0] == OK

    def exactly(self, n):
        data = b""
        while len(data) < n:
            piece = self.socket.recv(n - len(data))
            assert piece, "the stream broke off"
            data += piece
        return data

    def frame(self):
        length, type = struct.unpack("<IBxxx", self.exactly(8))
        return type, self.exactly(length)

    def text(self, want):
        got = b""
        while len(got) < len(want):
            type, data = self.frame()
            assert type == DATA
            got += data
        assert got.decode() == want

    def end(self):
        """How the exec ended: (how, code)."""
        type, data = self.frame()
        assert type == END
        self.socket.close()
        size, running, pid, started, finished, how, code = struct.unpack_from("<QIIQQII", data)
        assert not running
        return how, code & 0xFF  # the bits above tell of memory


def test_a_log_is_followed_to_its_end(own):
    with own.api() as api:
        id = api.create()["id"]
        job = api.background(id, "echo one; until test -e go; do sleep 0.05; done; echo two; exit 3")
        follower = Follower(own, id, job["id"])
        follower.text("one\n")
        api.write(id, "go", "")
        follower.text("two\n")
        assert follower.end() == (EXIT_CODE, 3)


def test_a_follower_hears_that_its_supervisor_was_killed(own):
    with own.api() as api:
        id = api.create()["id"]
        job = api.background(id, "echo one; sleep 1000")
        follower = Follower(own, id, job["id"])
        follower.text("one\n")
        command = next(pid for pid in pids() if id in read_text(f"/proc/{pid}/cgroup")
                       and re.search(rf"^NSpid:.*\t{job['pid']}$", read_text(f"/proc/{pid}/status"), re.M))
        os.kill(int(read_text(f"/proc/{command}/stat").rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
        assert follower.end()[0] == EXIT_LOST
