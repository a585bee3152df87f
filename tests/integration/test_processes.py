"""Processes as the sandbox sees them, metrics, health."""

import time

import pytest

from cay_harness import wait_until

pytestmark = pytest.mark.core


def test_the_list_has_the_sandbox_s_own_pids(api, box):
    pid = int(api.sh(box, "sleep 900 >/dev/null 2>&1 & echo $!"))

    def found():
        return next(p for p in api.processes(box) if p["pid"] == pid)

    wait_until(lambda: found()["command"] == "sleep 900", what="the child of the shell to become sleep")
    p = found()
    assert p["user"] == "root"
    assert isinstance(p["cpu"], str) and isinstance(p["memory"], str)
    float(p["cpu"]), float(p["memory"])
    top = api.get(f"/sandboxes/{box}/processes/top").ok()["processes"]
    t = next(t for t in top if t["pid"] == pid)
    assert isinstance(t["cpu"], str) and isinstance(t["mem"], str)
    assert isinstance(t["vsz"], int) and isinstance(t["rss"], int) and t["rss"] > 0
    assert t["command"] == "sleep 900"
    assert api.post(f"/sandboxes/{box}/processes/kill", {"pid": pid}).ok() == {
        "killed": pid, "signal": "TERM"}
    wait_until(lambda: not any(p["pid"] == pid for p in api.processes(box)))
    api.post(f"/sandboxes/{box}/processes/kill", {"pid": pid, "signal": "KILL"}).ok()


def test_a_busy_process_shows_its_cpu(api, box):
    x = api.background(box, "while :; do :; done")

    def busy():
        return any(float(p["cpu"]) > 5 for p in api.processes(box) if p["pid"] == x["pid"])

    wait_until(busy, what="some cpu")


def test_each_signal_arrives(api, box):
    for name in ("HUP", "USR1", "USR2", "INT", "TERM"):
        x = api.background(box, f"trap 'exit 77' {name}; echo on; while :; do sleep 0.05; done")
        wait_until(lambda: api.background_logs(x["id"])["output"])
        api.post(f"/sandboxes/{box}/processes/kill", {"pid": x["pid"], "signal": name}).ok()
        assert api.background_end(x["id"])["exitCode"] == 77


def test_stop_and_cont(api, box):
    x = api.background(box, "while :; do sleep 0.01; date +%s%N > /tmp/t; done")
    kill = f"/sandboxes/{box}/processes/kill"
    api.post(kill, {"pid": x["pid"], "signal": "STOP"}).ok()
    wait_until(lambda: api.sh(box, f"cut -d' ' -f3 /proc/{x['pid']}/stat") == "T\n")
    api.post(kill, {"pid": x["pid"], "signal": "CONT"}).ok()
    wait_until(lambda: api.sh(box, f"cut -d' ' -f3 /proc/{x['pid']}/stat") != "T\n")


def test_bad_kills_are_refused(api, box):
    for body in ({}, {"pid": 0}, {"pid": -1}, {"pid": "x"}, {"pid": 1.5}, {"pid": 2**32}, {"pid": 2**31}, {"pid": 5, "signal": "STOPP"},
                 {"pid": 5, "signal": 9}, {"pid": 5, "signal": "term"}, {"pid": 5, "signal": ""}):
        api.post(f"/sandboxes/{box}/processes/kill", body).failed(400)
    assert api.sh(box, "echo alive") == "alive\n"


def test_killing_pid_1_does_not_take_the_sandbox_down(api, box):
    reply = api.post(f"/sandboxes/{box}/processes/kill", {"pid": 1, "signal": "KILL"})
    assert reply.status in (200, 400, 403, 409)
    assert api.sh(box, "echo alive") == "alive\n"
    api.exec(box, "kill -9 1")
    assert api.sh(box, "echo alive") == "alive\n"


def test_metrics_of_a_sandbox(api, make):
    id = make(memory=256)["id"]
    m = api.get(f"/sandboxes/{id}/metrics").ok()
    assert set(m) >= {"sandboxId", "cpuPercent", "memoryUsageMb", "memoryLimitMb",
                      "networkRxBytes", "networkTxBytes", "pids"}
    assert m["sandboxId"] == id and m["memoryLimitMb"] == 256 and m["pids"] >= 1
    assert isinstance(m["pids"], int) and isinstance(m["networkRxBytes"], int)
    assert m["cpuPercent"] >= 0 and m["memoryUsageMb"] >= 0


def test_metrics_count_what_goes_to_the_disk_and_comes_from_it(api, make):
    """Also of commands that have ended, whoever waited for them."""
    id = make(disk=128)["id"]
    before = api.get(f"/sandboxes/{id}/metrics").ok()
    api.sh(id, "(dd if=/dev/zero of=/root/x bs=1M count=8 conv=fsync; dd if=/root/x of=/dev/null bs=1M iflag=direct) 2>/dev/null &"
               " wait")
    after = api.get(f"/sandboxes/{id}/metrics").ok()
    for name in ("diskReadBytes", "diskWriteBytes"):
        assert after[name] - before[name] >= 8 << 20
    assert after["cpuTimeNs"] > before["cpuTimeNs"] > 0 and after["diskLimitBytes"] == 128 << 20
    assert after["startedAt"] <= time.time() * 1000 + 1000
    wait_until(lambda: api.get(f"/sandboxes/{id}/metrics").ok().get("diskUsedBytes", 0) >= 8 << 20)
    api.post(f"/sandboxes/{id}/stop", {}).ok()
    stopped = api.get(f"/sandboxes/{id}/metrics").ok()
    assert stopped["diskWriteBytes"] == 0 and "startedAt" not in stopped


def test_metrics_show_what_is_used(api, make):
    id = make(memory=256)["id"]
    api.background(id, "python3 -c \"import time; x = bytearray(100 << 20); print('on', flush=True); "
                       "time.sleep(1000)\"")
    wait_until(lambda: api.get(f"/sandboxes/{id}/metrics").ok()["memoryUsageMb"] >= 90)
    api.background(id, "while :; do :; done")
    wait_until(lambda: api.get(f"/sandboxes/{id}/metrics").ok()["cpuPercent"] > 5)
    assert api.get(f"/sandboxes/{id}/metrics").ok()["pids"] >= 3


def test_global_metrics_count(own):
    with own.api() as api:
        first = api.get("/metrics").ok()
        assert set(first) >= {"activeSandboxes", "totalCreated", "totalKilled", "totalExpired",
                              "uptimeSeconds"}
        ids = [api.create()["id"] for _ in range(2)]
        api.remove(ids[0])
        now = api.get("/metrics").ok()
        assert now["activeSandboxes"] == first["activeSandboxes"] + 1
        assert now["totalCreated"] == first["totalCreated"] + 2
        assert now["totalKilled"] == first["totalKilled"] + 1
        assert (now["stoppedSandboxes"], now["snapshots"], now["volumes"]) == (0, 0, 0)
        api.post(f"/sandboxes/{ids[1]}/snapshots", {}).ok()
        api.post("/volumes", {"name": "v", "sizeMb": 16}).ok()
        api.post(f"/sandboxes/{ids[1]}/stop").ok()
        own.kill9()
        own.start()
        after = api.get("/metrics").ok()
        assert after["totalCreated"] == now["totalCreated"]
        assert (after["activeSandboxes"], after["stoppedSandboxes"], after["snapshots"], after["volumes"]) == (0, 1, 1, 1)


def test_health_needs_nothing(api):
    assert api.get("/health").ok()["status"] == "healthy"
