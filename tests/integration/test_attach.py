"""exec/attach: the upgraded connection that `cay exec` uses, spoken by hand."""

import json
import os
import re
import signal
import socket
import struct
import time

import pytest

import cay_shapes
from cay_harness import CAY, read_text, wait_until

pytestmark = pytest.mark.core

STARTED, STDOUT, STDERR, EXIT, ERROR = 3, 4, 5, 6, 2
STDIN, RESIZE, SIGNAL = 10, 11, 12


class Attached:
    def __init__(self, api, id, again=None, **body):
        path = f"/sandboxes/{id}/exec/{again + '/' if again else ''}attach"
        self.s = socket.create_connection(("127.0.0.1", api.port), timeout=60)
        data = json.dumps(body).encode()
        token = f"Authorization: Bearer {api.token}\r\n" if api.token else ""
        self.s.sendall(f"POST /sandbox{path} HTTP/1.1\r\nHost: localhost\r\n"
                       "Connection: Upgrade\r\nUpgrade: cay-exec\r\nContent-Type: application/json\r\n"
                       f"{token}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        self.file = self.s.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, value = line.decode().split(":", 1)
            self.headers[name.lower()] = value.strip()
        answer = cay_shapes.Answer(CAY, "POST", path)
        kind = cay_shapes.media_type(self.headers.get("content-type"))
        answer.head(self.status, kind)
        if self.status != 101:
            self.body = self.file.read(int(self.headers["content-length"]))
            answer.body(self.status, kind, self.body)

    def send(self, type, payload=b""):
        self.s.sendall(struct.pack("<IB3x", len(payload), type) + payload)

    def frame(self):
        head = self.file.read(8)
        if len(head) < 8:
            return None, b""
        length, type = struct.unpack("<IB3x", head)
        return type, self.file.read(length)

    def rest(self):
        """Output and the exit: (stdout, stderr, how, code)."""
        out, err = bytearray(), b""
        while True:
            type, payload = self.frame()
            if type == STDOUT:
                out += payload
            elif type == STDERR:
                err += payload
            elif type == EXIT:
                how, code = struct.unpack_from("<II", payload)
                return out, err, how, code
            else:
                return out, err, type, payload

    def close(self):
        self.file.close()
        self.s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def test_output_and_exit_come_as_frames(api, box):
    with Attached(api, box, command="echo out; echo err >&2; exit 5") as a:
        assert a.status == 101 and a.headers["upgrade"] == "cay-exec"
        type, payload = a.frame()
        assert type == STARTED and struct.unpack("<I", payload)[0] > 1
        assert a.rest() == (b"out\n", b"err\n", 0, 5)
        assert a.frame() == (None, b"")


def test_input_goes_in_until_its_end(api, box):
    with Attached(api, box, command=["cat"], stdin=True) as a:
        a.frame()
        a.send(STDIN, b"one ")
        a.send(STDIN, b"two")
        a.send(STDIN)
        assert a.rest() == (b"one two", b"", 0, 0)


def test_a_terminal_echoes_and_resizes(api, box):
    with Attached(api, box, command=["sh", "-c", "stty size; read x; stty size; tty"], stdin=True,
                  tty=True, rows=30, cols=100) as a:
        a.frame()
        type, first = a.frame()
        assert b"30 100" in first
        a.send(RESIZE, struct.pack("<II", 31, 101))
        a.send(STDIN, b"x\n")
        out, err, how, code = a.rest()
        assert b"31 101" in out and b"/dev/pts/" in out and err == b"" and (how, code) == (0, 0)


def test_signals_reach_the_command(api, box):
    with Attached(api, box, command="trap 'echo got; exit 4' USR1; echo on; while :; do :; done") as a:
        a.frame()
        assert a.frame() == (STDOUT, b"on\n")
        a.send(SIGNAL, struct.pack("<I", signal.SIGUSR1))
        assert a.rest() == (b"got\n", b"", 0, 4)


def test_hanging_up_ends_the_command(api, box):
    a = Attached(api, box, command="echo on; exec sleep 654", stdin=True)
    a.frame()
    assert a.frame()[0] == STDOUT
    a.close()
    wait_until(lambda: not [p for p in api.processes(box) if "sleep 654" in p["command"]])


def below(pid):
    """The processes below a process, as the host sees them."""
    tree = [pid]
    for parent in tree:
        for task in (os.listdir(f"/proc/{parent}/task") if os.path.exists(f"/proc/{parent}/task") else ()):
            tree += map(int, read_text(f"/proc/{parent}/task/{task}/children").split())
    return tree[1:]


def reads_of_agent(agent):
    """How many reads the agent's processes have made, and those below them that have ended."""
    names = ("cay-agent", "cay-spawn", "cay-exec")
    mine = [pid for pid in [agent, *below(agent)] if read_text(f"/proc/{pid}/comm").strip() in names]
    return sum(int(re.search(r"^syscr: (\d+)", text, re.M)[1])
               for pid in mine if (text := read_text(f"/proc/{pid}/io")))


def test_ending_many_commands_at_once_costs_each_of_them_little(shared, api, make):
    """Each looks at its own two processes, some 50 times at most, and never at those of the others: 150 commands that
    look at all processes of the sandbox read 3,800 times each."""
    many = 150
    box = make(pids=1024)["id"]
    agent = shared.agent_pid(box)
    attached = [Attached(api, box, command="sleep 1000 & wait") for _ in range(many)]
    assert all(a.frame()[0] == STARTED for a in attached)
    wait_until(lambda: len([p for p in below(agent) if read_text(f"/proc/{p}/comm").strip() == "sleep"]) == many)
    before, began = reads_of_agent(agent), time.monotonic()
    for a in attached:
        a.s.shutdown(socket.SHUT_RDWR)
        a.close()
    wait_until(lambda: len(below(agent)) < 10, what="the end of all commands")
    print(f"{many} commands ended in {time.monotonic() - began:.2f} s")
    assert (reads_of_agent(agent) - before) / many < 1000
    assert api.sh(box, "echo still here") == "still here\n"


def test_a_timeout_says_so(api, box):
    with Attached(api, box, command="sleep 100", timeout=1) as a:
        a.frame()
        assert a.rest()[2] == 2


@pytest.mark.parametrize("junk", [b"\xff\xff\xff\xff\x0a\0\0\0", b"\x04\0\0\0\x0a\0\1\0abcd",
                                  b"\0\0\0\0\x63\0\0\0", b"\x02\0\0\0\x0b\0\0\0xx",
                                  b"\x04\0\0\0\x0c\0\0\0\xff\0\0\0", b"\0\0\0\0\x21\0\0\0"])
def test_a_frame_that_is_none_ends_it_with_a_reason(api, box, junk):
    with Attached(api, box, command="exec sleep 543", stdin=True) as a:
        a.frame()
        a.s.sendall(junk)
        out, err, type, payload = a.rest()
        assert type == ERROR and b"bad_frame" in payload
    wait_until(lambda: not [p for p in api.processes(box) if "sleep 543" in p["command"]])
    assert api.sh(box, "echo alive") == "alive\n"


def test_input_that_nobody_asked_for_is_refused(api, box):
    with Attached(api, box, command="exec sleep 543") as a:
        a.frame()
        a.send(STDIN, b"x")
        assert a.rest()[2] == ERROR


def test_a_reader_that_is_slow_holds_only_itself_up(api, box):
    with Attached(api, box, command="yes | head -c 30000000; exit 3") as a:
        a.frame()
        assert api.sh(box, "echo other") == "other\n"
        out, err, how, code = a.rest()
        assert len(out) == 30_000_000 and code == 3


def test_without_the_upgrade_it_is_a_plain_error(api, box):
    api.post(f"/sandboxes/{box}/exec/attach", {"command": "true"}).failed(400, "upgrade_required")


def test_errors_before_the_upgrade_are_plain_answers(api, box):
    with Attached(api, "sbx_000000000000000000000000", command="true") as a:
        assert a.status == 404
    with Attached(api, box, command="true", cwd="/no/such") as a:
        assert a.status == 400
    with Attached(api, box) as a:
        assert a.status == 400
