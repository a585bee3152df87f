"""What programs find when they ask how much they may use: their limits, not the machine; and their own name."""

import json
import re

import pytest

from cay_harness import read_text, wait_until

pytestmark = pytest.mark.core

V2 = "memory" in read_text("/sys/fs/cgroup/cgroup.controllers")
MB = 1 << 20


def meminfo(text):
    return {name: int(kb) << 10 for name, kb in re.findall(r"^(\S+):\s+(\d+) kB$", text, re.M)}


@pytest.mark.parametrize("memory, cpu", [(256, 1), (512, 1), (300, 2), (128, 0.5)])
def test_programs_see_the_limits(api, make, memory, cpu):
    """512 and 1 are what a box is prepared with, the others are told to it when it is made."""
    id = make(memory=memory, cpu=cpu)["id"]
    cpus = min(-(-cpu // 1), int(api.sh(make(cpu=4)["id"], "nproc")))
    out = api.sh(id, "free -b | awk '/^Mem/ {print $2} /^Swap/ {print $2}'; nproc; "
                     "python3 -c 'import os; print(os.cpu_count())'").split()
    assert out == [str(memory * MB), "0", str(int(cpus)), str(int(cpus))]
    assert meminfo(api.sh(id, "cat /proc/meminfo"))["MemTotal"] == memory * MB
    if V2:
        assert api.sh(id, "cat /sys/fs/cgroup/memory.max").strip() == str(memory * MB)
        assert api.sh(id, "cat /sys/fs/cgroup/cpu.max").split() == [str(int(cpu * 100000)), "100000"]
    else:
        assert api.sh(id, "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us "
                          "cpu/cpu.cfs_period_us").split() == [str(memory * MB), str(int(cpu * 100000)), "100000"]


def test_meminfo_follows_what_is_used(api, make):
    id = make(memory=256)["id"]
    before = meminfo(api.sh(id, "cat /proc/meminfo"))
    assert 200 * MB < before["MemFree"] <= before["MemAvailable"] <= before["MemTotal"] == 256 * MB
    api.background(id, ["python3", "-c", "import time; x = bytearray(b'x' * (100 << 20)); time.sleep(1000)"])
    now = wait_until(lambda: (m := meminfo(api.sh(id, "cat /proc/meminfo")))["MemAvailable"] < 156 * MB and m)
    # The kernel counts pages in batches per CPU: what it tells may lag by some hundred kilobytes.
    assert now["AnonPages"] > 95 * MB and now["MemFree"] < 160 * MB


def test_the_page_cache_is_available(api, make):
    id = make(memory=256)["id"]
    api.sh(id, "head -c 100000000 /dev/zero > f; cat f > /dev/null")
    now = wait_until(lambda: (m := meminfo(api.sh(id, "cat /proc/meminfo")))["Cached"] > 90 * MB and m)
    assert now["MemFree"] < 160 * MB and now["MemAvailable"] > 200 * MB


KEEP = """
import os, sys, time
kept = os.open("/proc/meminfo", os.O_RDONLY)
def free():
    os.lseek(kept, 0, 0)
    return int(os.read(kept, 4096).split(b"MemFree:")[1].split()[0])
print(free(), flush=True)
first = free()
x = bytearray(b"x" * (100 << 20))
while free() > first - (90 << 10):
    time.sleep(0.01)
print("seen", flush=True)
time.sleep(1000)
"""


def test_who_keeps_it_open_sees_it_change_and_keeps_nobody_from_looking(api, make):
    """As top and free -s do; and as somebody would who means harm."""
    id = make(memory=256)["id"]
    kept = api.background(id, ["python3", "-c", KEEP])
    wait_until(lambda: "seen" in api.background_logs(kept["id"])["output"], timeout=30)
    wait_until(lambda: meminfo(api.sh(id, "cat /proc/meminfo", timeout=60))["MemFree"] < 156 * MB)


def test_many_who_look_at_once_are_all_told(api, make):
    id = make(memory=256)["id"]
    out = api.sh(id, "for i in $(seq 40); do (head -1 /proc/meminfo) & done; wait", timeout=30)
    assert out == "MemTotal:         262144 kB\n" * 40


def test_a_box_in_which_all_look_can_be_paused(api, make):
    id = make(memory=256)["id"]
    api.background(id, "while :; do cat /proc/meminfo > /dev/null; done")
    for _ in range(10):
        api.post(f"/sandboxes/{id}/pause").ok()
        api.post(f"/sandboxes/{id}/resume").ok()
    assert api.sh(id, "head -1 /proc/meminfo") == "MemTotal:         262144 kB\n"


def test_it_can_be_read_through_the_api_too(api, make):
    id = make(memory=256)["id"]
    assert "MemTotal:         262144 kB" in api.read(id, "/proc/meminfo", anywhere=True)


def test_nothing_of_it_can_be_written(api, box):
    for path in ("/proc/meminfo", "/sys/.box/meminfo", "/sys/devices/system/cpu/online", "/sys/fs/cgroup/x",
                 "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/.box/hosts", "/sys/.box/x"):
        assert api.exec(box, f"echo 1 > {path}")["exitCode"] != 0, path
        assert api.exec(box, f"chmod 777 {path}")["exitCode"] != 0, path


def test_no_path_leads_to_the_cgroups_that_are_mounted(api, box):
    if V2:
        pytest.skip("the groups of cgroup v2 are shown")
    assert " cgroup cgroup " in api.sh(box, "cat /proc/self/mountinfo"), "control"
    assert api.sh(box, "find /sys -name cgroup.procs -o -name tasks -o -name release_agent") == ""
    assert api.sh(box, "ls /sys/fs/cgroup/memory/.. /sys/fs/cgroup/cpu/..").count("cpuset") == 2


# ---- the programs that were meant ----

NODE = """
const os = require('os'), heap = require('v8').getHeapStatistics().heap_size_limit;
console.log(JSON.stringify([os.totalmem(), (os.availableParallelism ?? (() => 1))(), heap]));
"""


@pytest.mark.needs("program:node")
def test_node(api, make):
    id = make(memory=512)["id"]
    total, cpus, heap = json.loads(api.sh(id, ["node", "-e", NODE], timeout=60))
    assert total == 512 * MB and cpus == 1 and heap <= 512 * MB


@pytest.mark.needs("program:java")
def test_java(api, make):
    id = make(memory=512)["id"]
    out = api.sh(id, "java -XX:+PrintFlagsFinal -XshowSettings:system -version 2>&1", timeout=120)
    assert int(re.search(r" MaxHeapSize\s+= (\d+)", out)[1]) <= 256 * MB
    assert "Effective CPU Count: 1\n" in out and "Memory Limit: 512.00M\n" in out


# ---- its name ----

def test_a_box_knows_its_own_name(api, make):
    id = make()["id"]
    name = api.sh(id, "hostname").strip()
    assert name == id.replace("_", "-") and re.fullmatch(r"[a-z0-9-]{1,63}", name)
    assert api.sh(id, "getent hosts $(hostname)").split() == ["127.0.0.1", name]
    assert api.sh(id, "printenv HOSTNAME").strip() == name
    assert api.sh(id, ["python3", "-c", "import socket; print(socket.gethostbyname(socket.gethostname()), "
                                        "socket.gethostbyname('localhost'))"]).split() == ["127.0.0.1"] * 2


def test_its_hosts_can_be_changed_but_not_without_bound(api, make):
    id = make()["id"]
    api.sh(id, "echo '127.0.0.9 there' >> /etc/hosts")
    assert api.sh(id, "getent hosts there").split() == ["127.0.0.9", "there"]
    api.write(id, "/etc/hosts", "127.0.0.1 localhost\n127.0.0.8 here\n", anywhere=True)
    assert api.sh(id, "getent hosts here; ls -A /etc | grep -c cay || :").split() == ["127.0.0.8", "here", "0"]
    api.file(id, "write", path="/etc/hosts", content="x" * 100000, anywhere=True).failed(429, code="no_space")
    assert api.sh(id, "getent hosts here").split() == ["127.0.0.8", "here"], "what does not fit changes nothing"
    api.write(id, "/etc/hosts", "127.0.0.7 it\n", anywhere=True)
    assert api.sh(id, "cat /etc/hosts") == "127.0.0.7 it\n"
    assert api.exec(id, "head -c 1000000 /dev/zero >> /etc/hosts")["exitCode"] != 0
    assert int(api.sh(id, "stat -c %s /etc/hosts")) <= 65536
    assert "MemTotal" in api.sh(id, "cat /proc/meminfo")
