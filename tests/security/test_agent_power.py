"""What holds a command is out of its reach: the agent, its spawner, supervisors and handlers (E31, E37).
Each attempt is made on a process of one's own too, where it must succeed."""

import glob
import json
import os
import re

import pytest

from cay_harness import pids, read_text, wait_until

pytestmark = pytest.mark.core

# Tries everything on every process that is not ours, and on a child of ours: {who: {what: errno}}.
ATTACK = r"""
import ctypes, fcntl, json, os, resource, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
NR = dict(sched_setattr=314, ioprio_set=251, process_madvise=440, pidfd_open=434, pidfd_send_signal=424,
          rt_sigqueueinfo=129, tgkill=234, kcmp=312, process_vm_readv=310)

def call(name, *args):
    if libc.syscall(NR[name], *args) < 0:
        raise OSError(ctypes.get_errno(), name)

def by_pidfd(pid, sig):
    fd = os.pidfd_open(pid)
    signal.pidfd_send_signal(fd, sig)
    os.close(fd)

def by_owner(pid):
    # The kernel sends it when the pipe has data, on behalf of who set it.
    r, w = os.pipe()
    fcntl.fcntl(r, fcntl.F_SETOWN, pid)
    fcntl.fcntl(r, 10, signal.SIGKILL)  # F_SETSIG
    fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(w, b"x")
    os.close(w); os.close(r)

idle = os.sched_param(0)
ways = {
    "prlimit": lambda p: resource.prlimit(p, resource.RLIMIT_NOFILE, (8, 8)),
    "prlimit of cpu": lambda p: resource.prlimit(p, resource.RLIMIT_CPU, (1, 1)),
    "affinity": lambda p: os.sched_setaffinity(p, os.sched_getaffinity(0)),
    "scheduler": lambda p: os.sched_setscheduler(p, os.SCHED_IDLE, idle),
    "param": lambda p: os.sched_setparam(p, idle),
    "nice": lambda p: os.setpriority(os.PRIO_PROCESS, p, 19),
    "ioprio": lambda p: call("ioprio_set", 1, p, 3 << 13),
    "trace": lambda p: libc.ptrace(0x4206, p, 0, 0) and (_ for _ in ()).throw(OSError(ctypes.get_errno(), "")),
    "stop": lambda p: os.kill(p, signal.SIGSTOP),
    "stop by pidfd": lambda p: by_pidfd(p, signal.SIGSTOP),
    "stop a thread": lambda p: call("tgkill", p, p, signal.SIGSTOP),
    "kill by owner": by_owner,
    "kill by pidfd": lambda p: by_pidfd(p, signal.SIGKILL),
    "kill": lambda p: os.kill(p, signal.SIGKILL),
}

def attempt(pid):
    said = {}
    for name, way in ways.items():
        try: way(pid); said[name] = 0
        except OSError as e: said[name] = e.errno
    return said

def sleeper():
    pid = os.fork()
    if pid == 0:
        while True: signal.pause()
    return pid

out = {"own": {}}
for name, way in ways.items():  # a fresh one each: some do not live on
    pid = sleeper()
    try: way(pid); out["own"][name] = 0
    except OSError as e: out["own"][name] = e.errno
    try: os.kill(pid, signal.SIGKILL)
    except OSError: pass
    os.waitpid(pid, 0x40000000)
for pid in sorted(int(p) for p in os.listdir("/proc") if p.isdigit()):
    if pid != os.getpid():
        out[pid] = attempt(pid)
out["alive"] = [pid for pid in out if pid != "own" and os.path.exists(f"/proc/{pid}")]
print(json.dumps(out))
"""


def agent_states(id):
    """Of the agent's processes, as the host sees them: pid → state."""
    found = {}
    for pid in pids():
        if id in read_text(f"/proc/{pid}/cgroup") and read_text(f"/proc/{pid}/comm").startswith("cay-"):
            found[int(pid)] = read_text(f"/proc/{pid}/stat").rsplit(")", 1)[-1].split()[:1]
    return found


def grown_up(api, id):
    """Has it all its processes? The supervisor that it began with goes when there is a spawner."""
    api.sh(id, "true")
    names = {pid: read_text(f"/proc/{pid}/comm").strip() for pid in agent_states(id)}
    parents = {pid: int(read_text(f"/proc/{pid}/stat").rsplit(")", 1)[-1].split()[1]) for pid in names}
    return "cay-spawn" in names.values() and all(names.get(parents[pid]) == "cay-spawn"
                                                 for pid in names if names[pid] == "cay-exec")


@pytest.mark.parametrize("user", ["root", "1000:1000"])
def test_nothing_can_be_done_to_the_agent_s_processes(api, box, user):
    wait_until(lambda: grown_up(api, box), what="the agent to have all its processes")
    before = agent_states(box)
    said = json.loads(api.sh(box, ["python3", "-c", ATTACK], user=user, timeout=30))
    own, alive = said.pop("own"), said.pop("alive")
    assert set(own.values()) == {0}, ("control", own)
    assert len(said) >= 4 and "1" in said, "main, a handler, the spawner and our supervisor at least"
    for pid, ways in said.items():
        # What is sent by the kernel for us is not refused, it just does not happen.
        assert {name: e for name, e in ways.items() if e not in (1, 13)} == {"kill by owner": 0}, (pid, ways)
    assert sorted(map(str, alive)) == sorted(said)
    after = agent_states(box)
    assert set(before) <= set(after) and ["T"] not in after.values(), (before, after)
    assert api.sh(box, "echo served") == "served\n"


@pytest.mark.parametrize("what", ["kill -9 $PPID", "kill -STOP $PPID", "kill -9 -1", "kill -STOP -1",
                                  "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = $$ ] || kill -9 $p; done",
                                  "setsid sleep 1234 & (setsid sh -c 'kill -9 $PPID; kill -STOP 1; sleep 1234' &)"])
def test_a_timeout_holds_whatever_the_command_does(api, box, what):
    """The rest of the command is asleep when its time is up, and nothing of it is left."""
    for timeout in (0.3, 5, 25):  # until it is long enough on this machine for what the command does
        reply = api.try_exec(box, f"trap '' TERM INT HUP; {what}; setsid sleep 1234 & echo done; sleep 1234; sleep 1234", timeout=timeout)
        reply.failed(408, "command_timeout")
        assert not [p for p in api.processes(box) if "1234" in p["command"]]
        assert api.sh(box, "echo served") == "served\n"
        if reply.json["stdout"] == "done\n":
            break
    else:
        pytest.fail("the command has not come to its end in 25 s")


def test_a_supervisor_that_the_host_ends_takes_its_command_along(api, box):
    """As when the machine runs out of memory: the caller hears it, and the command does not go on. What an
    exec left that has ended stays."""
    api.sh(box, "setsid sleep 4321 > /dev/null 2>&1 &")
    api.sh(box, "sleep 0.1")  # a start is known by ticks
    events = api.events("POST", f"/sandboxes/{box}/exec/stream",
                        {"command": "(sleep 1234 & setsid sleep 1234 & wait) & (setsid sleep 1234 &) ;"
                                    "echo up; sleep 1234"}, timeout=60)
    assert next(e for e in events if e["type"] == "stdout")["data"] == "up\n"
    wait_until(lambda: len([p for p in api.processes(box) if p["command"] == "sleep 1234"]) == 4)
    supervisor = next(int(pid) for pid in pids() if box in read_text(f"/proc/{pid}/cgroup")
                      and read_text(f"/proc/{pid}/cmdline") == "sleep\x001234\x00")
    while not read_text(f"/proc/{supervisor}/comm").startswith("cay-"):
        supervisor = int(read_text(f"/proc/{supervisor}/stat").rsplit(")", 1)[1].split()[1])
    os.kill(supervisor, 9)
    last = None
    for last in events:
        pass
    assert last["type"] in ("exit", "error"), last
    wait_until(lambda: not [p for p in api.processes(box) if p["command"] == "sleep 1234"])
    assert [p for p in api.processes(box) if p["command"] == "sleep 4321"]
    assert api.sh(box, "echo served") == "served\n"


def test_a_timeout_holds_while_somebody_stops_all_there_is(api, make):
    """Also for a command that is stopped before it has begun: each of them is answered."""
    id = make(cpu=2)["id"]
    x = api.background(id, ["python3", "-c", """
import os
while True:
    try: os.kill(-1, 19)
    except OSError: pass
"""])
    said = {api.try_exec(id, ["true"], timeout=1).status for _ in range(12)}
    assert said <= {200, 408}, said
    assert api.background_status(x["id"])["running"], "control"


# Its first thread has ended, so /proc calls it a zombie; the other one goes on.
HEADLESS = """
import ctypes, os, threading, time
def work():
    while True:
        os.utime("/tmp/works")
        if ") Z " in open("/proc/self/stat").read(): open("/tmp/headless", "w").close()
        time.sleep(0.05)
open("/tmp/works", "w").close()
threading.Thread(target=work).start()
time.sleep(0.2)
ctypes.CDLL(None).syscall(60, 0)
"""


def test_a_timeout_ends_a_process_whose_first_thread_has_ended(api, box):
    def last():
        return api.sh(box, "stat -c %.Y /tmp/works")

    def works():
        """Its threads; one that has ended is in no group of the sandbox any more."""
        tasks = [task for p in pids() if read_text(f"/proc/{p}/comm") == "python3\n" for task in glob.glob(f"/proc/{p}/task/*")]
        return [task for task in tasks if box in read_text(f"{task}/cgroup") and not re.search(r"^State:\s+[ZX]", read_text(
            f"{task}/status"), re.M)]

    for timeout in (1, 5, 25):  # until it is long enough on this machine for what comes before
        api.try_exec(box, ["python3", "-c", HEADLESS], timeout=timeout).failed(408)
        assert not works()
        if api.sh(box, "ls /tmp/headless 2>/dev/null; true"):
            break
    else:
        pytest.fail("its first thread has not ended in 25 s")
    # Control: while nothing ends it, it works.
    api.background(box, ["python3", "-c", HEADLESS])
    wait_until(lambda: re.search(r"^Z\S*l", api.sh(box, "ps -eo stat"), re.M))  # ZNsl where all of this has low priority
    before = last()
    wait_until(lambda: last() != before)
    assert works()
