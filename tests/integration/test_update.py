"""What of a sandbox can be changed while it is there."""

import json

import pytest

from cay_harness import cay, wait_until

pytestmark = [pytest.mark.core, pytest.mark.counts_rows]


def update(api, id, **fields):
    return api.call("PATCH", f"/sandboxes/{id}", fields)


def test_what_is_sent_changes_and_the_rest_stays(api, make):
    made = make(metadata={"a": "1", "b": "2"}, env={"OLD": "x", "KEPT": "y"}, memory=256, timeout=600)
    id = made["id"]
    s = update(api, id, metadata={"b": "3", "c": "4"}).ok()
    assert s["metadata"] == {"b": "3", "c": "4"} and s["config"]["memory"] == 256 and s["expiresAt"] == made["expiresAt"]
    s = update(api, id, env={"KEPT": "z", "NEW": "n"}).ok()
    assert s["config"]["env"] == {"KEPT": "z", "NEW": "n"} and s["metadata"] == {"b": "3", "c": "4"}
    assert api.sh(id, 'echo "$KEPT $NEW [$OLD]"; grep -c KEPT=z /etc/environment; grep -c OLD /etc/environment || :') == "z n []\n1\n0\n"
    s = update(api, id, timeout=1200, idleTimeout=300).ok()
    assert s["config"]["timeout"] == 1200 and abs(s["expiresAt"] - made["expiresAt"] - 600_000) < 60_000
    assert s["config"]["idleTimeout"] == 300 and s["idleAt"]
    assert "idleTimeout" not in update(api, id, idleTimeout=0).ok()["config"]
    assert update(api, id).ok()["metadata"] == {"b": "3", "c": "4"}
    assert wait_until(lambda: api.get(f"/events/history?topic=sandbox.updated&sandboxId={id}").ok()["events"])


def test_limits_hold_at_once(api, make):
    id = make(memory=128, pids=64, cpu=1)["id"]
    s = update(api, id, memory=256, pids=32, cpu=0.5).ok()
    assert (s["config"]["memory"], s["config"]["pids"], s["config"]["cpu"]) == (256, 32, 0.5)
    assert api.get(f"/sandboxes/{id}/metrics").ok()["memoryLimitMb"] == 256
    assert api.exec(id, "head -c 180m /dev/zero | tail -c 170m | wc -c")["exitCode"] == 0
    assert "fork" in api.exec(id, "for i in $(seq 60); do sleep 5 & done")["stderr"]
    assert update(api, id, memory=1).ok()["config"]["memory"] == 64  # the nearest that may be
    api.post(f"/sandboxes/{id}/stop").ok()
    assert update(api, id, memory=192, metadata={"k": "v"}, env={"E": "f"}).ok()["status"] == "stopped"
    api.post(f"/sandboxes/{id}/start").ok()
    assert api.get(f"/sandboxes/{id}/metrics").ok()["memoryLimitMb"] == 192
    assert api.sh(id, "echo $E; grep MemTotal /proc/meminfo") == f"f\nMemTotal: {192 << 10:>14} kB\n"


def test_nobody_dies_of_a_limit_below_what_is_used(shared, api, make):
    id = make(memory=512)["id"]
    job = api.background(id, ["python3", "-c", "x = bytearray(200 << 20); open('/tmp/up', 'w'); import time; time.sleep(1000)"])
    wait_until(lambda: api.exec(id, "test -e /tmp/up")["exitCode"] == 0)
    update(api, id, memory=128, metadata={"not": "either"}).failed(409, "conflict", text="memory")
    assert api.sandbox(id)["config"]["memory"] == 512 and api.sandbox(id)["metadata"] == {}
    assert api.background_status(job["id"])["running"]


def test_what_is_wrong_changes_nothing(api, make):
    id = make(metadata={"a": "1"})["id"]
    for wrong in ({"env": {"A=B": "x"}}, {"env": {"A": 1}}, {"metadata": {"k": 5}}, {"memory": "x"}, {"metadata": {"k": "x" * 70000}}):
        update(api, id, **{"idleTimeout": 60, **wrong}).failed((400, 413))
    assert api.sandbox(id)["metadata"] == {"a": "1"} and "idleTimeout" not in api.sandbox(id)["config"]
    update(api, "sbx_000000000000000000000000", metadata={}).failed(404)
    api.post(f"/sandboxes/{id}/pause").ok()
    assert update(api, id, metadata={"p": "q"}).ok()["status"] == "paused"
    update(api, id, env={"A": "b"}).failed(409, "sandbox_not_running")


def test_revoked_addresses_stay_revoked(api, make):
    id = make()["id"]
    api.post("/proxy/config", {"sandboxId": id, "requireAuth": True})
    before = api.sandbox(id)["metadata"]
    s = update(api, id, metadata={"mine": "x"}).ok()
    assert s["metadata"] == {**before, "mine": "x"}


def test_it_outlives_a_crash(own):
    with own.api() as api:
        id = api.create(memory=128)["id"]
        update(api, id, memory=256, metadata={"k": "v"}, idleTimeout=600).ok()
    own.kill9()
    own.start()
    with own.api() as api:
        s = api.sandbox(id)
        assert s["config"]["memory"] == 256 and s["metadata"] == {"k": "v"} and s["config"]["idleTimeout"] == 600
        assert api.get(f"/sandboxes/{id}/metrics").ok()["memoryLimitMb"] == 256
        api.remove(id)


def test_the_command_line_has_it_too(shared, api, make):
    id = make(metadata={"a": "1"})["id"]
    said = json.loads(cay(shared, "update", "--memory", "256M", "--cpu", "0.5", "--metadata", "b=2", "--json", id, check=True).stdout)
    assert said["config"]["memory"] == 256 and said["metadata"] == {"a": "1", "b": "2"}
    assert cay(shared, "update", id).returncode == 2
