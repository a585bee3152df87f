"""What the kernel counts by user, by namespace or for the machine (R11, R14, R16): a sandbox takes all it can
get, and meanwhile the host's root and a neighbour get as much as before."""

import json
import subprocess
import sys

import pytest

from cay_harness import read_text, wait_until
from test_attach import Attached

pytestmark = [pytest.mark.core, pytest.mark.alone]

# Takes of one kind until it is refused or there are `most`, and says how many it got and why not more.
# uids: taken by so many users in turn, since some counts are of a user.
TAKE = r"""
import ctypes, fcntl, json, os, resource, signal, socket, struct, sys, tempfile, time
libc = ctypes.CDLL(None, use_errno=True)
kind, most, uids, hold = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "hold"
held = []

def check(r):
    if r < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return r

def inotify():
    held.append(check(libc.inotify_init()))

def watch():
    if not held:
        held.append(check(libc.inotify_init()))
        held.append(tempfile.TemporaryDirectory())
    held.append(f"{held[1].name}/{len(held)}")
    os.mkdir(held[-1])
    check(libc.inotify_add_watch(held[0], held[-1].encode(), 2))

def queue():
    # The attributes: flags, messages, their size; 10 * 8192 bytes each.
    attr = struct.pack("8q", 0, 10, 8192, 0, 0, 0, 0, 0)
    name = f"/q{os.getpid()}-{len(held)}".encode()
    held.append(check(libc.syscall(240, name[1:], 0o102, 0o600, attr)))
    libc.syscall(241, name[1:])  # the name goes, the queue stays open

def timer():
    id = ctypes.c_int()
    check(libc.syscall(222, 1, None, ctypes.byref(id)))
    held.append(id)

def pty():
    held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))

def aio():
    ctx = ctypes.c_ulong()
    check(libc.syscall(206, 128, ctypes.byref(ctx)))
    held.append(ctx)

def epoll():
    if not held:
        held.append(os.open("/dev/null", 0))
        held.append(check(libc.epoll_create1(0)))
        held.append(os.pipe()[0])
    held.append(os.dup(held[2]))
    check(libc.epoll_ctl(held[1], 1, held[-1], struct.pack("<IQ", 1, 0)))

def timerfd():
    held.append(check(libc.timerfd_create(1, 0)))

def eventfd():
    held.append(check(libc.eventfd(0, 0)))

def pipe():
    r, w = os.pipe()
    held.append((r, w))
    os.set_blocking(w, False)
    fcntl.fcntl(w, 1031, 1 << 20)  # F_SETPIPE_SZ
    os.write(w, b"x" * (1 << 20))

def flight():
    # Descriptors that are nobody's: sent, and never received.
    if not held:
        held.extend(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        held[0].setblocking(False)
    fd = os.open("/dev/null", 0)
    socket.send_fds(held[0], [b"x"], [fd] * 200)
    os.close(fd)
    held.append(0)

def shm():
    held.append(check(libc.shmget(0, 4096, 0o1600)))

def sem():
    held.append(check(libc.semget(0, 100, 0o1600)))

def msg():
    held.append(check(libc.msgget(0, 0o1600)))

def locked():
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p] + [ctypes.c_long] * 5
    libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_long]
    p = libc.mmap(None, 65536, 3, 0x22, -1, 0)
    check(libc.mlock(p, 65536))
    held.append(p)

def huge():
    p = libc.mmap(None, 2 << 20, 3, 0x40022, -1, 0)
    if p in (-1, 0xffffffff, 0xffffffffffffffff):
        raise OSError(ctypes.get_errno(), "")
    held.append(p)

def memfd():
    # Larger than any machine; what is written to it is memory of the box.
    fd = os.memfd_create("x")
    held.append(fd)
    os.ftruncate(fd, 100 << 30)

def file():
    held.append(os.open("/dev/null", 0))

def child():
    pid = os.fork()
    if pid == 0:
        signal.pause()
    held.append(pid)

def key():
    check(libc.syscall(248, b"user", b"k%d" % len(held), b"x", 1, -3))
    held.append(0)

def take():
    h = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (h, h))
    got, why = 0, 0
    try:
        while got < most:
            globals()[kind]()
            got += 1
    except OSError as e:
        why = e.errno
    return got, why

if uids == 1:
    total, why = take()
else:
    total, why = 0, 0
    r, w = os.pipe()
    for uid in range(1000, 1000 + uids):
        if os.fork() == 0:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(w, json.dumps(take()).encode() + b"\n")
            signal.pause()
    lines = os.fdopen(r)
    for _ in range(uids):
        got, e = json.loads(lines.readline())
        total, why = total + got, why or e
print(json.dumps([total, why]), flush=True)
if kind == "child":
    for pid in held: os.kill(pid, 9)
if hold:
    signal.pause()
"""


def take_inside(api, id, kind, most, uids=1, **how):
    return tuple(json.loads(api.sh(id, ["python3", "-c", TAKE, kind, str(most), str(uids), "go"], timeout=60, **how)))


def hold_inside(api, id, kind, most, uids=1):
    """Goes on holding it. How much, and why not more."""
    x = api.background(id, ["python3", "-c", TAKE, kind, str(most), str(uids), "hold"])
    said = wait_until(lambda: api.background_logs(x["id"])["output"].strip(), 60)
    assert api.background_status(x["id"])["running"], said
    return tuple(json.loads(said))


def take_outside(kind, most):
    """As the host's root, who owns the machine's other services too."""
    done = subprocess.run([sys.executable, "-c", TAKE, kind, str(most), "1", "go"], capture_output=True, text=True,
                          timeout=60, check=True)
    return tuple(json.loads(done.stdout))


# kind: what a box asks for (by how many users), what it gets at most, and what the others then still get.
KINDS = {
    "inotify": (10_000, 4, None, 20),
    "queue": (1000, 1, 10, 5),
    "timer": (6000, 26, 26 * 4096, 1000),
    "pty": (1000, 1, 64, 10),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_one_takes_others_still_have(api, make, kind):
    """R16."""
    asked, uids, most, others = KINDS[kind]
    greedy, calm = make()["id"], make()["id"]
    got, why = hold_inside(api, greedy, kind, asked, uids)
    assert why in (11, 24, 28, 12), "control: it was refused more"
    if kind == "inotify":
        most = int(read_text("/proc/sys/fs/inotify/max_user_instances"))
    assert others <= got <= most, (got, why)
    assert take_inside(api, greedy, kind, 1)[0] == 0 or kind in ("timer", "queue")
    assert take_inside(api, calm, kind, others) == (others, 0)
    assert take_outside(kind, others) == (others, 0)


def test_a_terminal_too_many_is_refused_by_name(api, box):
    with Attached(api, box, command="true", tty=True) as a:
        assert a.status == 101, "control"
    hold_inside(api, box, "pty", 1000)
    with Attached(api, box, command="true", tty=True) as a:
        assert a.status == 429 and json.loads(a.body)["code"] == "limit", a.body
    assert api.sh(box, "echo served") == "served\n"


@pytest.mark.parametrize("kind,word", [("aio", 38), ("key", 1)])
def test_what_only_the_machine_counts_is_not_to_be_had(api, box, kind, word):
    """R11: without a bound of its own it is refused."""
    assert take_inside(api, box, kind, 1) == (0, word)
    assert take_outside(kind, 1) == (1, 0), "control"


def test_open_files_are_the_box_s_memory(api, make):
    """R16: the machine's own number is out of reach, and a box of little memory has few."""
    greedy, calm = make(memory=128)["id"], make()["id"]
    before = int(read_text("/proc/sys/fs/file-nr").split()[0])
    limit = int(read_text("/proc/sys/fs/file-nr").split()[2])
    got, _ = hold_inside(api, greedy, "file", 15_000, 10)
    assert got >= 20_000, "control"
    assert int(read_text("/proc/sys/fs/file-nr").split()[0]) >= before + got // 2, "control"
    assert api.get(f"/sandboxes/{greedy}/metrics").ok()["memoryUsageMb"] * (1 << 20) > got * 150
    assert limit > 1 << 40, "more than any machine has memory for"
    assert take_inside(api, calm, "file", 1000) == (1000, 0)
    assert take_outside("file", 1000) == (1000, 0)


@pytest.mark.parametrize("kind,most,uids", [("epoll", 15_000, 4), ("timerfd", 15_000, 4), ("eventfd", 15_000, 4),
                                            ("flight", 60, 4), ("pipe", 200, 1), ("shm", 4096, 1),
                                            ("sem", 320, 1), ("msg", 32_000, 1), ("locked", 1000, 4),
                                            ("watch", 3000, 1)])
def test_what_is_charged_or_of_the_box_s_own_namespace_leaves_others_alone(api, make, kind, most, uids):
    """R11."""
    greedy, calm = make(memory=256)["id"], make()["id"]
    got, _ = hold_inside(api, greedy, kind, most, uids)
    assert got > 0, "control"
    share = {"pipe": 3, "flight": 3, "locked": 10}.get(kind, 50)
    assert take_inside(api, calm, kind, share) == (share, 0)
    if kind not in ("shm", "sem", "msg"):  # on the host these would outlive the test
        assert take_outside(kind, share) == (share, 0)


def test_locked_memory_of_a_box_is_bounded(api, box):
    """R14."""
    got, why = take_inside(api, box, "locked", 10_000)
    assert why in (1, 11, 12) and got * 65536 <= 8 << 20


def test_huge_pages_are_not_a_box_s(api, box):
    """R14: they would be taken from the machine. A pool is not there, or not given."""
    got, _ = take_inside(api, box, "huge", 1)
    free = [line for line in open("/proc/meminfo") if line.startswith("HugePages_Total")][0].split()[1]
    assert got == 0 or int(free) == 0, "mapped, but there is none that could be touched"


def test_a_memfd_larger_than_the_machine_is_paid_for_as_it_is_filled(api, make):
    """R14: its size is nothing; its pages are the box's, and the box ends before the machine does."""
    id = make(memory=128)["id"]
    assert take_inside(api, id, "memfd", 3)[0] in (0, 3)
    done = api.exec(id, ["python3", "-c", """
import os
fd = os.memfd_create("x")
for i in range(400): os.write(fd, b"x" * (1 << 20))
print("all of it")
"""], timeout=60)
    assert "all of it" not in done["stdout"], done
    wait_until(lambda: api.try_exec(id, "echo alive").status == 200)


def test_a_sparse_file_of_any_size_is_read_within_bounds(api, box):
    """R13: none is larger than the disk, holes or not; sizes are told, contents past the limit refused."""
    done = api.exec(box, "for size in 7E 15T 2T; do truncate -s $size big && echo made; done; "
                         "truncate -s 1G big; echo x > small")
    assert "made" not in done["stdout"] and done["stderr"].count("File size limit exceeded") == 3, done
    listed = {f["name"]: f["size"] for f in api.file(box, "list", path=".").ok()}
    assert listed["big"] == 1 << 30, "control"
    reply = api.file(box, "read", path="big")
    assert reply.status in (400, 413), reply.status
    assert api.file(box, "read", path="small").status == 200, "control"
    assert api.sh(box, "echo alive") == "alive\n"


def test_processes_by_many_users_are_the_box_s(api, make):
    """Processes are counted by user as well: with as many as it may have, others start theirs."""
    greedy, calm = make()["id"], make()["id"]
    got, why = take_inside(api, greedy, "child", 5000)
    assert why == 11 and got < 1024
    assert take_inside(api, calm, "child", 100) == (100, 0)
    assert take_outside("child", 50) == (50, 0)


def test_a_box_goes_before_the_host_s_processes(api, box):
    """When the machine runs out of memory. Written from outside by somebody with CAP_SYS_RESOURCE it is also
    the least that can be set inside; without that capability no more than what the daemon itself had."""
    out = api.sh(box, ["python3", "-c", """
print(open("/proc/self/oom_score_adj").read().strip())
for n in (1000, 500, 499, 0, -1, -1000):
    try:
        with open("/proc/self/oom_score_adj", "w") as f: f.write(str(n))
        print("set", n)
    except PermissionError: print("refused", n)
"""]).splitlines()
    assert out[:3] == ["500", "set 1000", "set 500"], "control: it can be raised, and lowered again"
    assert out[-2:] == ["refused -1", "refused -1000"]
    if int(read_text("/proc/self/status").split("CapEff:")[1].split()[0], 16) >> 24 & 1:
        assert out[3:5] == ["refused 499", "refused 0"]
