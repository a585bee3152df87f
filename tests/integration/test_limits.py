"""Limits are caps: memory, processes, cpu, disk. The agent lives through all of them."""

import contextlib
import ctypes
import os
import struct
from pathlib import Path

import pytest

from cay_harness import FILL_PROCESSES, SLOW, pids, read_text, wait_until
from cay_ledger import cgroup_parents

pytestmark = pytest.mark.core

V2 = "memory" in read_text("/sys/fs/cgroup/cgroup.controllers")
LIMIT = "memory.max" if V2 else "memory.limit_in_bytes"

EAT = "python3 -c \"x = []\nwhile True: x.append(bytearray(1 << 20))\""


def test_a_command_that_takes_too_much_memory_dies_alone(api, make):
    id = make(memory=64)["id"]
    keep = api.background(id, "exec sleep 1000")
    done = api.exec(id, EAT, timeout=60)
    assert done["exitCode"] == 137 and done["reason"] == "oom", done
    assert api.sh(id, "echo alive") == "alive\n"
    assert api.background_status(keep["id"])["running"]


def test_tmpfs_counts_as_memory(api, make):
    """A small box has a small one, so that what fills it leaves room to run."""
    id = make(memory=64)["id"]
    done = api.exec(id, "head -c 200000000 /dev/zero > /dev/shm/x", timeout=30)
    assert done["exitCode"] != 0
    assert api.file(id, "info", path="/dev/shm/x", anywhere=True).ok()["size"] <= 32 << 20
    for _ in range(5):
        assert api.sh(id, "echo alive") == "alive\n"


def test_page_cache_does_not_kill(api, make):
    id = make(memory=64, disk=256)["id"]
    done = api.exec(id, "head -c 150000000 /dev/zero > f && cat f | wc -c", timeout=60)
    assert done["stdout"].strip() == "150000000", done


def cgroups(daemon, id):
    """The groups with memory limits: of all boxes, of this one's workload and of its agent."""
    if V2:
        top = Path(cgroup_parents(daemon)[0])
        return {"all": top, "work": top / id / "work", "agent": top / id / "agent"}
    top = Path("/sys/fs/cgroup/memory") / daemon.cgroup_name()
    return {"all": top, "work": top / id, "agent": top / f"{id}.agent"}


def number(path):
    return int(path.read_text())


def test_there_is_no_swap_to_hide_in(api, make, shared):
    """Neither for the workload nor for the agent, nor for all together."""
    id = make(memory=64)["id"]
    assert api.get(f"/sandboxes/{id}/metrics").ok()["memoryLimitMb"] == 64
    groups = cgroups(shared, id)
    assert number(groups["work"] / LIMIT) == 64 << 20
    for group in groups.values():
        if (group / "memory.swap.max").exists():
            assert (group / "memory.swap.max").read_text() == "0\n", group
        elif (group / "memory.memsw.limit_in_bytes").exists():
            assert number(group / "memory.memsw.limit_in_bytes") == number(group / LIMIT), group
        elif group.name.startswith("sbx_"):
            assert number(group / "memory.swappiness") == 0, group


# One of the shell (b() { b | b & }; b) can go out by itself where forks fail, before anybody has looked.
BOMB = ["python3", "-c", """
import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.01)
"""]


def test_a_fork_bomb_stays_inside_and_the_api_answers(api, make, shared):
    """Each call returns while the bomb runs: only the removal of its sandbox ends it."""
    id, other = make(pids=256)["id"], make()["id"]

    def bomb_runs():
        return 200 <= api.get(f"/sandboxes/{id}/metrics").ok()["pids"] <= 256 + 8

    api.background(id, BOMB)
    wait_until(bomb_runs, 60, what="the bomb")
    assert api.processes(id) and bomb_runs()
    assert api.try_exec(id, "true", timeout=5).status in (200, 408, 409, 429, 500, 503)
    assert bomb_runs()
    assert api.sh(other, "echo fine") == "fine\n"
    assert bomb_runs()
    api.remove(id)
    assert not [pid for pid in pids() if id in read_text(f"/proc/{pid}/cgroup")], "the removal returned before the bomb's end"


def test_at_the_process_limit_fork_says_eagain(api, make):
    box = make(memory=2048, pids=256)["id"]
    out = api.sh(box, ["python3", "-c", """
import os, errno
n = 0
pids = []
try:
    while n < 1000:
        pid = os.fork()
        if pid == 0:
            import signal
            signal.pause()
        pids.append(pid)
        n += 1
except OSError as e:
    print(errno.errorcode[e.errno], n)
for p in pids:
    os.kill(p, 9)
for p in pids:
    os.waitpid(p, 0)
"""], timeout=30 * SLOW)
    word, n = out.split()
    assert word == "EAGAIN" and 150 < int(n) <= 256
    assert api.sh(box, "echo alive") == "alive\n"


def test_a_full_process_table_can_still_be_looked_into_and_emptied(api, make):
    box = make(memory=2048, pids=256)["id"]
    x = api.background(box, ["python3", "-c", FILL_PROCESSES])
    wait_until(lambda: "full" in api.background_logs(x["id"])["output"])
    pids = [p["pid"] for p in api.processes(box) if "python3" in p["command"]]
    assert len(pids) > 150
    assert api.read(box, "/etc/passwd", anywhere=True)
    for pid in pids:
        api.post(f"/sandboxes/{box}/processes/kill", {"pid": pid, "signal": "KILL"}).ok()
    wait_until(lambda: len(api.processes(box)) < 20)
    assert api.sh(box, "echo alive") == "alive\n"


def cpu_group(daemon, id):
    """The group with the CPU quota of a sandbox's commands."""
    return cgroups(daemon, id)["work"] if V2 else Path("/sys/fs/cgroup/cpu") / daemon.cgroup_name() / id


def cpu_stat(group):
    return {key: int(value) for key, value in map(str.split, (group / "cpu.stat").read_text().splitlines())}


def quota_of(group):
    """CPU time per period and the period, in microseconds."""
    if V2:
        return map(int, (group / "cpu.max").read_text().split())
    return number(group / "cpu.cfs_quota_us"), number(group / "cpu.cfs_period_us")


# Uses as much CPU time as it gets until it is told to end, then prints how much that was, in microseconds.
SPIN = """
import os, sys
for _ in range(%d):
    if os.fork() == 0:
        while not os.path.exists("/tmp/end"):
            for _ in range(10000): pass
        os._exit(0)
print("spins", flush=True)
try:
    while True: os.wait()
except ChildProcessError:
    t = os.times()
    print(int((t.children_user + t.children_system) * 1e6))
"""


@pytest.mark.parametrize("processes", [1, 4], ids=["one process", "four processes together"])
def test_the_cpu_quota_holds(api, make, shared, processes):
    """They are stopped in period after period, and have no more than the quota of each period."""
    id = make(cpu=0.5)["id"]
    group = cpu_group(shared, id)
    quota, period = quota_of(group)
    assert quota / period == 0.5
    before = cpu_stat(group)
    job = api.background(id, ["python3", "-c", SPIN % processes])["id"]
    wait_until(lambda: cpu_stat(group)["nr_throttled"] >= before["nr_throttled"] + 3, 120, what="three periods with a stop")
    api.sh(id, "touch /tmp/end", timeout=60)
    api.background_end(job, 60)
    used = int(api.background_logs(job)["output"].split()[-1])
    periods = cpu_stat(group)["nr_periods"] - before["nr_periods"]
    # os.times() counts in ticks of 10 ms. Each processor may keep a slice of 5 ms of a period's quota for the next.
    assert used <= (periods + 1) * quota + processes * 10000 + os.cpu_count() * 5000, (used, periods, quota)


def test_an_agent_has_a_larger_share_of_the_processor_than_its_workload(shared, box):
    if V2:
        groups, file = cgroups(shared, box), "cpu.weight"
    else:
        top, file = Path("/sys/fs/cgroup/cpu") / shared.cgroup_name(), "cpu.shares"
        groups = {"all": top, "work": top / box, "agent": top / f"{box}.agent"}
    one = number(groups["work"] / file)
    assert number(groups["agent"] / file) >= 4 * one
    assert number(groups["all"] / file) == one * os.cpu_count()


def test_nproc_is_what_may_be_used(api, make):
    assert api.sh(make(cpu=1)["id"], "nproc") == "1\n"


def test_the_disk_is_full_at_its_limit(api, make, shared):
    id = make(disk=64)["id"]
    done = api.exec(id, "head -c 200000000 /dev/zero > big; stat -c %s big", timeout=60)
    assert "No space left" in done["stderr"] or "File too large" in done["stderr"], done
    assert 30_000_000 < int(done["stdout"]) <= 64 << 20
    done = api.exec(id, "for i in 1 2 3; do head -c 40000000 /dev/zero > f$i; done", timeout=60)
    assert "No space left" in done["stderr"], done
    api.file(id, "write", path="more", content="x" * 500_000).failed((400, 409, 413, 429, 500, 503, 507))
    assert api.sh(id, "rm -f big f?; echo alive > ok; cat ok") == "alive\n"


def test_root_inside_has_no_reserve_beyond_the_limit(api, make):
    id = make(disk=64)["id"]
    api.exec(id, "head -c 100000000 /dev/zero > a; head -c 100000000 /dev/zero > b", timeout=60)
    used = int(api.sh(id, "du -sk . | cut -f1"))
    assert used <= 64 << 10


def test_tmp_is_inside_the_quota_too(api, make):
    id = make(disk=64)["id"]
    done = api.exec(id, "for f in a b; do head -c 60000000 /dev/zero > /tmp/$f; done", timeout=60)
    assert done["exitCode"] != 0 and "No space left" in done["stderr"], done


class FolderWatch:
    """Counts the names that are deleted from a folder, until its filesystem is unmounted."""

    DELETE, UNMOUNT = 0x200, 0x2000

    def __init__(self, path):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self.libc.inotify_add_watch(self.fd, os.fsencode(path), self.DELETE) > 0, os.strerror(ctypes.get_errno())
        self.deleted = 0

    def unmounted(self):
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.fd, 1 << 20)
            while data:
                _, mask, _, length = struct.unpack_from("iIII", data)
                data = data[16 + length:]
                self.deleted += bool(mask & self.DELETE)
                if mask & self.UNMOUNT:
                    return True
        return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)


def test_inodes_run_out_before_the_host_s_do(api, make, shared):
    id = make(disk=64)["id"]
    out = api.sh(id, ["python3", "-c", """
import errno, os
os.mkdir("many")
n = 0
try:
    while n < 600000:
        os.close(os.open(f"many/{n}", os.O_CREAT | os.O_WRONLY))
        n += 1
except OSError as e:
    print(errno.errorcode[e.errno], n)
else:
    print("NONE", n)
"""], timeout=120)
    word, n = out.split()
    assert word in ("ENOSPC", "EDQUOT"), out
    with FolderWatch(f"/proc/{shared.agent_pid(id)}/root/workspace/many") as watch:
        api.remove(id)
        api.get(f"/sandboxes/{id}").failed(404)
        wait_until(watch.unmounted, 60, what="the unmount of the disk")
        assert watch.deleted == 0, "the removal deleted the files one by one"


def test_descriptors_run_out_inside_only(api, box):
    out = api.sh(box, ["python3", "-c", """
import errno, os, resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
print(soft, hard)
try:
    while True: os.open("/dev/null", 0)
except OSError as e:
    print(errno.errorcode[e.errno])
"""])
    soft, hard, word = out.split()
    assert word == "EMFILE" and int(soft) == 1024 and int(hard) <= 65536
    assert api.sh(box, "echo alive") == "alive\n"


def test_core_dumps_are_off_and_stay_off(api, box):
    out = api.sh(box, "ulimit -Hc; ulimit -Sc; ulimit -c unlimited 2>/dev/null; ulimit -Hc")
    assert set(out.split()) <= {"0", "1"}


# ---- all sandboxes together ----

HOLD = """
import signal
x = bytearray(%d << 20)
print("held", flush=True)
signal.pause()
"""


def held(api, id, mb):
    x = api.background(id, ["python3", "-c", HOLD % mb])
    wait_until(lambda: "held" in api.background_logs(x["id"])["output"]
               or not api.background_status(x["id"])["running"])
    return x


def test_the_machine_is_not_theirs_altogether(shared, box):
    """Without a word about it: less than the machine has."""
    top = cgroups(shared, box)["all"]
    total = int(next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemTotal"))) << 10
    assert 0 < number(top / LIMIT) < total
    pids = top if V2 else Path("/sys/fs/cgroup/pids") / top.name
    assert 0 < number(pids / "pids.max") < number(Path("/proc/sys/kernel/pid_max"))


def test_at_the_cap_of_all_the_largest_dies_and_nobody_else(daemon_of):
    own = daemon_of(env={"CAY_TOTAL_MEMORY": 256, "CAY_POOL": 0}).start()
    with own.api() as api:
        large, small = api.create(memory=512)["id"], api.create(memory=512)["id"]
        big = held(api, large, 150)
        assert api.background_status(big["id"])["running"]
        little = held(api, small, 30)
        assert api.background_status(little["id"])["running"]
        # More than is left: the largest has to go.
        held(api, small, 120)
        wait_until(lambda: not api.background_status(big["id"])["running"])
        assert api.background_status(little["id"])["running"]
        assert api.sh(large, "echo alive") == api.sh(small, "echo alive") == "alive\n"
        assert own.running()


def test_a_create_at_the_cap_of_memory_says_so(daemon_of):
    own = daemon_of(env={"CAY_TOTAL_MEMORY": 128, "CAY_POOL": 0}).start()
    with own.api() as api:
        id = api.create(memory=512)["id"]
        x = held(api, id, 112)
        assert api.background_status(x["id"])["running"]
        reply = api.try_create()
        reply.failed(503, "machine_full", "CAY_TOTAL_MEMORY")
        assert reply.headers["Retry-After"]
        api.remove(id)
        api.remove(api.create()["id"])


def test_at_the_cap_of_processes_calls_are_refused_by_name(daemon_of):
    own = daemon_of(env={"CAY_TOTAL_PIDS": 60, "CAY_POOL": 0}).start()
    with own.api() as api:
        id = api.create()["id"]
        x = api.background(id, ["python3", "-c", FILL_PROCESSES])
        wait_until(lambda: "full" in api.background_logs(x["id"])["output"])
        assert api.get(f"/sandboxes/{id}/metrics").ok()["pids"] < 60
        api.try_create().failed(503, "machine_full", "CAY_TOTAL_PIDS")
        reply = api.try_exec(id, "sleep 0 & sleep 0 & wait; echo done")
        assert reply.status == 200 or reply.code == "process_limit", reply.body
        api.remove(id)
        api.remove(api.create()["id"])
