"""Limits are caps: memory, processes, cpu, disk. The agent lives through all of them."""

import time

from cay_harness import SLOW, wait_until

EAT = "python3 -c \"x = []\nwhile True: x.append(bytearray(1 << 20))\""


def test_a_command_that_takes_too_much_memory_dies_alone(api, make):
    id = make(memory=64)["id"]
    keep = api.background(id, "exec sleep 1000")
    done = api.exec(id, EAT, timeout=20)
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


def test_there_is_no_swap_to_hide_in(api, make):
    id = make(memory=64)["id"]
    m = api.get(f"/sandboxes/{id}/metrics").ok()
    assert m["memoryLimitMb"] == 64


def test_a_fork_bomb_stays_inside_and_the_api_answers(api, make, shared):
    id, other = make()["id"], make()["id"]
    bomb = api.background(id, "b() { b | b & }; b; sleep 1000")
    wait_until(lambda: api.get(f"/sandboxes/{id}/metrics").ok()["pids"] >= 200, what="the bomb")
    began = time.monotonic()
    assert api.processes(id)
    assert time.monotonic() - began < 5 * SLOW
    began = time.monotonic()
    reply = api.try_exec(id, "true", timeout=5)
    assert time.monotonic() - began < 8 * SLOW
    assert reply.status in (200, 408, 409, 429, 500, 503)
    assert api.get(f"/sandboxes/{id}/metrics").ok()["pids"] <= 256 + 8
    began = time.monotonic()
    assert api.sh(other, "echo fine") == "fine\n"
    assert time.monotonic() - began < 3 * SLOW
    began = time.monotonic()
    api.remove(id)
    assert time.monotonic() - began < 10 * SLOW


def test_at_the_process_limit_fork_says_eagain(api, make):
    box = make(memory=2048)["id"]
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
    box = make(memory=2048)["id"]
    x = api.background(box, ["python3", "-c", """
import os, signal
try:
    while True:
        if os.fork() == 0:
            signal.pause()
except OSError:
    print("full", flush=True)
    signal.pause()
"""])
    wait_until(lambda: "full" in api.background_logs(x["id"])["output"])
    pids = [p["pid"] for p in api.processes(box) if "python3" in p["command"]]
    assert len(pids) > 150
    assert api.read(box, "/etc/passwd", anywhere=True)
    for pid in pids:
        api.post(f"/sandboxes/{box}/processes/kill", {"pid": pid, "signal": "KILL"}).ok()
    wait_until(lambda: len(api.processes(box)) < 20)
    assert api.sh(box, "echo alive") == "alive\n"


def test_the_cpu_quota_holds(api, make):
    id = make(cpu=0.5)["id"]
    out = api.sh(id, ["python3", "-c", """
import time
w, c = time.monotonic(), time.process_time()
while time.monotonic() - w < 2:
    pass
print((time.process_time() - c) / (time.monotonic() - w))
"""], timeout=20)
    assert float(out) < 0.62, out


def test_the_quota_holds_over_all_processes_together(api, make):
    id = make(cpu=0.5)["id"]
    out = api.sh(id, ["python3", "-c", """
import os, time
w = time.monotonic()
for _ in range(4):
    if os.fork() == 0:
        while time.monotonic() - w < 2:
            pass
        os._exit(0)
for _ in range(4):
    os.wait()
t = os.times()
print((t.children_user + t.children_system) / (time.monotonic() - w))
"""], timeout=20)
    assert float(out) < 0.65, out


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


def test_inodes_run_out_before_the_host_s_do(api, make):
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
    began = time.monotonic()
    api.remove(id)
    assert time.monotonic() - began < 5 * SLOW
    api.get(f"/sandboxes/{id}").failed(404)


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
