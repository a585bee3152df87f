"""What one sandbox can take of what all sandboxes share: the table of flows, the gateway's sockets and its attention."""

import os
import re
import resource
import signal
import subprocess
import time

import pytest

from cay_harness import SLOW, read_text, wait_until
from cay_order import comes_before
from cay_space import Space
from cay_world import needs_network
from test_gateway_walls import flows, halves, status

pytestmark = [pytest.mark.core, pytest.mark.alone, needs_network]
CAP_SYS_RESOURCE = 24

ONE_NAME = {"default": "deny", "rules": [{"action": "allow", "destination": "pypi.org", "protocol": "tcp"}]}

# Datagrams to port 53 of ever other addresses, each of which is a flow of its own.
SPRAY = """
import socket
s = socket.socket(type=socket.SOCK_DGRAM)
for i in range(20000):
    s.sendto(b"x", ("1.2.%d.%d" % (i >> 8, i & 255), 53))
"""

# As many questions as go, until its sandbox is removed.
ASK_ALWAYS = """
import socket, struct
name = b"".join(bytes([len(l)]) + l for l in b"pypi.org".split(b"."))
question = b"\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0" + name + b"\\0" + struct.pack("!HH", 1, 1)
s = socket.socket(type=socket.SOCK_DGRAM)
s.connect(("9.9.9.9", 53))
print("asks", flush=True)
while True:
    try:
        s.send(question)
    except OSError:
        pass
"""

# Lookups of one question each: one that is lost is not asked again, and fails after 30 s.
LOOK_UP = """
import os, socket
os.environ["RES_OPTIONS"] = "attempts:1 timeout:30"
for n in range(20):
    socket.gethostbyname("pypi.org")
    print("answers", n + 1, flush=True)
"""

# Opens connections all at once when it is told to; when it is told again, says how many were broken off.
CROWD = """
import pathlib, socket, time
def told(word):
    while not pathlib.Path("/workspace", word).exists():
        time.sleep(0.02)
to = (socket.gethostbyname("pypi.org"), 443)
print("knows", flush=True)
told("go")
crowd = [socket.create_connection(to, PATIENCE) for _ in range(800)]
print("came", flush=True)
told("count")
broken = 0
for s in crowd:
    s.setblocking(False)
    try:
        s.recv(1)
        broken += 1
    except BlockingIOError:
        pass
    except OSError:
        broken += 1
print("broken", broken, flush=True)
""".replace("PATIENCE", str(60 * SLOW))

# Reads much from many, so that the kernel gives them room, and then nothing any more.
STALL = """
import socket, sys, time
to = (socket.gethostbyname("pypi.org"), 80)
crowd = [socket.create_connection(to, PATIENCE) for _ in range(int(sys.argv[1]))]
for s in crowd:
    s.sendall(b"GET / HTTP/1.1\\r\\nHost: pypi.org\\r\\n\\r\\n")
taken = 0
while taken < len(crowd) * int(sys.argv[2]):
    for s in crowd:
        try:
            taken += len(s.recv(1 << 18, socket.MSG_DONTWAIT))
        except BlockingIOError:
            pass
print("stalls", flush=True)
time.sleep(1000)
""".replace("PATIENCE", str(60 * SLOW))

# Asks for many names, as many at once as there may be.
MANY_NAMES = """
import socket, struct
def question(number):
    labels = [b"n%d" % number, b"many", b"test"]
    name = b"".join(bytes([len(l)]) + l for l in labels)
    return b"\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0" + name + b"\\0" + struct.pack("!HH", 1, 1)
s = socket.socket(type=socket.SOCK_DGRAM)
s.connect(("9.9.9.9", 53))
s.settimeout(PATIENCE)
answers = 0
for first in range(0, 200, 100):
    for number in range(first, first + 100):
        s.send(question(number))
    for number in range(100):
        answers += s.recv(4096)[3] & 15 == 0
print("answers", answers, flush=True)
""".replace("PATIENCE", str(60 * SLOW))


def output(net, job, word):
    """The line that begins with the word; one that ended without a word has failed, and says why."""
    def said():
        running = net.background_status(job)["running"]
        text = net.background_logs(job)["output"]
        line = next((l for l in text.splitlines() if l.startswith(word)), None)
        assert line or running, text
        return line

    return wait_until(said, 300, what=word)


def test_questions_of_one_box_do_not_fill_the_table_of_flows(online, net, net_box):
    id, before = net_box({"default": "deny"}), flows(online)
    assert net.exec(id, ["python3", "-c", SPRAY])["exitCode"] == 0
    assert flows(online) - before <= 4096


def test_who_asks_for_names_without_end_keeps_nobody_from_asking(net, net_box):
    loud, quiet = net_box(ONE_NAME), net_box(ONE_NAME)
    """All lookups are answered while the other sandbox asks, and before 300 commands have run in the same sandbox."""
    asker = net.background(loud, ["python3", "-c", ASK_ALWAYS])["id"]
    output(net, asker, "asks")
    with net.again(timeout=900) as own:
        done = comes_before(lambda: own.exec(quiet, ["python3", "-c", LOOK_UP], timeout=800), lambda: net.exec(quiet, "true"), 300)
    assert done["exitCode"] == 0 and done["stdout"].endswith("answers 20\n"), done
    assert net.background_status(asker)["running"]


def unaccepted(daemon):
    """Returns the number of connections to the inspecting sockets that the gateway's worker has not accepted yet."""
    argv = ["nsenter", f"--net={daemon.run}/netns", "ss", "-Htln", "sport", "=", ":1253"]
    listeners = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert listeners
    return sum(int(line.split()[1]) for line in listeners)


def test_a_crowd_of_connections_waits_for_a_busy_warden(online_of):
    daemon = online_of()
    daemon.start()
    with daemon.api() as api:
        id = api.create(network=ONE_NAME)["id"]
        job = api.background(id, ["python3", "-c", CROWD])["id"]
        output(api, job, "knows")
        warden, _ = wait_until(lambda: halves(daemon))
        os.kill(warden, signal.SIGSTOP)
        try:
            api.upload(id, "/workspace/go", b"")
            output(api, job, "came")
            wait_until(lambda: not unaccepted(daemon), what="the gateway to accept the crowd")
        finally:
            os.kill(warden, signal.SIGCONT)
        api.upload(id, "/workspace/count", b"")
        assert output(api, job, "broken") == "broken 0"


def files_of(pid):
    """How many it may open."""
    return int(re.search(r"Max open files +\d+ +(\d+)", read_text(f"/proc/{pid}/limits"))[1])


def test_the_gateway_has_descriptors_for_many_whatever_the_daemon_has(online_of):
    """More than the shell has that the daemon was started from, where root has the right to take more."""
    daemon = online_of()
    daemon.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)))
    with daemon.api() as api:
        api.create(network=ONE_NAME)
        _, worker = wait_until(lambda: halves(daemon))
        may_take = int(status(os.getpid())["CapEff"], 16) >> CAP_SYS_RESOURCE & 1
        wait_until(lambda: files_of(worker) == (65536 if may_take else 4096), what="its limit")


def waiting(within):
    """Bytes that lie in the sockets of TCP there."""
    said = subprocess.run([*within, "ss", "-tmn"], capture_output=True, text=True, check=True).stdout
    return sum(int(n) for pair in re.findall(r"skmem:\(r(\d+),.*?,w(\d+),", said) for n in pair)


def counters(kind, *names):
    """Counters of the network namespace of the calling thread."""
    lines = [line.split() for line in read_text("/proc/thread-self/net/netstat").splitlines()]
    head, numbers = (line for line in lines if line[0] == f"{kind}:")
    return {name: int(number) for name, number in zip(head, numbers) if name in names}


def test_connections_that_read_nothing_hold_little(online, net, net_box, world):
    body = b"x" * (64 << 20)
    world.web.sites["pypi.org"] = lambda _: (200, "text/plain", body)
    id = net_box(ONE_NAME)
    output(net, net.background(id, ["python3", "-c", STALL, "60", str(1 << 18)])["id"], "stalls")

    seen = []

    def take_no_more():
        """None of the last ten looks found more than the looks before. The kernel's probes of full sockets make the number go up and down."""
        seen.append(waiting(world.host.argv()) + waiting(["nsenter", f"--net={online.run}/netns"]))
        time.sleep(0.1)
        return len(seen) > 10 and max(seen[-10:]) <= max(seen[:-10])

    wait_until(take_no_more, what="the connections to take no more")
    assert 0 < max(seen) < 160 << 20, seen


def test_what_a_crowd_does_not_read_stays_below_the_cap_of_its_sandbox(online, net, net_box, world):
    """The cap is an eighth of its memory. Above it the kernel drops packets, and each of their connections waits for seconds."""
    body = b"x" * (64 << 20)
    world.web.sites["pypi.org"] = lambda _: (200, "text/plain", body)
    id = net_box(ONE_NAME)
    output(net, net.background(id, ["python3", "-c", STALL, "40", str(4 << 20)])["id"], "stalls")
    with Space.of(online.agent_pid(id)) as space:
        assert 0 < waiting(["nsenter", f"--net=/proc/{online.agent_pid(id)}/ns/net"])
        dropped = space.call(counters, "TcpExt", "TCPRcvQDrop", "RcvPruned", "PruneCalled")
    assert set(dropped.values()) == {0}, dropped


def test_many_pins_at_once_do_not_reset_the_rules(online_of, world):
    world.dns.add("*.many.test", *(f"93.184.{20 + i}.1" for i in range(60)))
    slow = {"queryTimeout": int(5000 * SLOW)}
    daemon = online_of()
    daemon.start()
    with daemon.api() as api:
        policy = {"default": "deny", "dns": slow, "rules": [{"action": "allow", "destination": "*.many.test", "protocol": "tcp"}]}
        ids = [api.create(network=policy)["id"] for _ in range(2)]
        jobs = [api.background(id, ["python3", "-c", MANY_NAMES])["id"] for id in ids]
        assert [output(api, job, "answers") for job in jobs] == ["answers 200"] * 2
    assert "rules of the crossroads" not in daemon.log()
