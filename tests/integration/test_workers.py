"""The workers of the contract: one daemon is one machine, and says of itself what is true."""

import os
import socket

import pytest

from cay_harness import wait_until

pytestmark = [pytest.mark.core, pytest.mark.alone]


def worker(api):
    said = api.get("/admin/workers").ok()
    one, = said["workers"]
    assert (said["alive"], said["dead"]) == (1, 0)
    return one


def test_the_machine_tells_what_it_is(daemon_of):
    daemon = daemon_of(env={"CAY_MAX_SANDBOXES": 3}).start()
    with daemon.api() as api:
        was = worker(api)
        assert (was["hostname"], was["cores"], was["maxSandboxes"], was["activeSandboxes"]) == (socket.gethostname(), os.cpu_count(), 3, 0)
        assert 0 <= was["cpuPercent"] <= 100 and 0 < was["memory"]["freeMb"] <= was["memory"]["totalMb"] and was["diskFreeMb"] > 0
        assert abs(was["memory"]["totalMb"] - os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20) < 2
        id = api.create()["id"]
        stopped = api.create()["id"]
        api.post(f"/sandboxes/{stopped}/stop").ok()
        now = api.post("/admin/workers/heartbeat").ok()
        assert (now["activeSandboxes"], now["stoppedSandboxes"], now["workerId"]) == (1, 1, was["workerId"])
        assert now["lastHeartbeat"] >= was["lastHeartbeat"]
        assert api.get("/admin/workers/select").ok() == {"workerId": was["workerId"]}
        more = [api.create()["id"] for _ in range(2)]  # the stopped one takes no place
        api.get("/admin/workers/select").failed(503, "no_capacity", "No worker capacity available")
        for one in more:
            api.remove(one)
        assert api.get("/admin/workers/select").ok() == {"workerId": was["workerId"]}
        daemon.restart()
    with daemon.api() as api:
        assert worker(api)["workerId"] == was["workerId"]
        for one in (id, stopped):
            api.remove(one)


def test_load_is_seen(daemon_of):
    """With a loop on each processor the machine is busy, whatever else runs on it."""
    daemon = daemon_of(env={"CAY_MAX_CPU": os.cpu_count()}).start()
    with daemon.api() as api:
        box = api.create(cpu=os.cpu_count())["id"]
        for _ in range(os.cpu_count()):
            api.background(box, "while :; do :; done")
        wait_until(lambda: worker(api)["cpuPercent"] > 90, 60, what="load")


def test_the_documented_routes_are_the_same(api):
    same = ("workerId", "hostname", "maxSandboxes", "cores")
    one, = api.get("/workers").ok()["workers"]
    assert {k: one[k] for k in same} == {k: worker(api)[k] for k in same}
    for method, path in (("POST", "/workers/select"), ("GET", "/workers/select"), ("GET", "/admin/workers/select")):
        assert api.call(method, path).ok() == {"workerId": one["workerId"]}
    for where in ("/workers", "/admin/workers"):
        assert api.post(f"{where}/heartbeat").ok()["workerId"] == one["workerId"]
        assert api.post(f"{where}/reap").ok() == {"reaped": 0, "reassigned": 0, "expired": 0}
        assert api.post(f"{where}/migrate").ok() == {"migrated": 0}
