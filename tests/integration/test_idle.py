"""Sandboxes that nobody uses are stopped."""

import http.client
import threading
import time

import pytest

from cay_harness import cay, wait_until

pytestmark = pytest.mark.core

SERVER = ["python3", "-m", "http.server", "8000", "--directory", "/usr/share/doc"]
HOUR = 3600
ASKED_TO_END = ["sh", "-c", "trap 'echo bye > /workspace/last; exit' TERM; while :; do sleep 0.05; done"]


def status(api, id):
    return api.get(f"/sandboxes/{id}").ok()["status"]


def await_idle(api, *ids):
    for id in ids:
        wait_until(lambda: status(api, id) == "stopped", timeout=120, what="the sandbox to be idle")
        assert api.sandbox(id)["reason"] == "idle"


def page(daemon, id):
    """What the server in the sandbox answers through the proxy."""
    conn = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30)
    try:
        conn.request("GET", f"/sandbox/proxy/{id}/8000/")
        return conn.getresponse().status
    finally:
        conn.close()


def test_the_entrypoint_of_an_idle_one_is_asked_to_end(daemon_of):
    with daemon_of(env={"CAY_STOP_TIMEOUT": 15}).start().api() as api:
        id = api.create(idleTimeout=1, entrypoint=ASKED_TO_END)["id"]
        await_idle(api, id)
        assert api.read(id, "last") == "bye\n"
        api.remove(id)


def test_one_that_nobody_uses_is_stopped_and_can_be_started(shared, api, make):
    before = time.time() * 1000
    made = make(idleTimeout=1)
    assert before - 10 <= made["idleAt"] - 1000 <= time.time() * 1000 + 10
    own = cay(shared, "create", "--idle-timeout", "1s", "-q", check=True).stdout.decode().strip()
    assert made["config"]["idleTimeout"] == 1
    # Looking at it is no use of it.
    wait_until(lambda: [api.get(f"/sandboxes/{made['id']}/metrics").ok(), api.get("/sandboxes").ok()] and
               status(api, made["id"]) == "stopped", timeout=30, what="the end of one that is only looked at")
    await_idle(api, made["id"], own)
    assert "idleAt" not in api.sandbox(made["id"])
    assert wait_until(lambda: [e["data"]["reason"] for e in api.get(
        f"/events/history?topic=sandbox.stopped&sandboxId={made['id']}").ok()["events"]]) == ["idle"]
    api.post(f"/sandboxes/{made['id']}/touch").failed(409, "sandbox_not_running")
    assert cay(shared, "touch", own).returncode == 1
    api.remove(own)
    api.post(f"/sandboxes/{made['id']}/start").ok()
    await_idle(api, made["id"])


def test_each_use_moves_the_time_at_which_it_would_be_idle(shared, api, make):
    id = make(idleTimeout=HOUR, entrypoint=SERVER)["id"]
    wait_until(lambda: page(shared, id) == 200, timeout=30, what="the server")
    for how, use in {"touch": lambda: api.post(f"/sandboxes/{id}/touch").ok(), "files": lambda: api.write(id, "a", "b"),
                     "processes": lambda: api.processes(id), "port": lambda: page(shared, id)}.items():
        wait_until(lambda: api.sandbox(id)["idleAt"] < (time.time() + HOUR) * 1000 - 100, what="100 ms in which it is only looked at")
        before = time.time()
        use()
        assert api.sandbox(id)["idleAt"] >= (before + HOUR) * 1000 - 10, how  # the clocks of the two need not agree to the millisecond


def test_what_lasts_keeps_it_up(shared, api, make):
    """Sandboxes whose idle timeout begins before that of a twin, which nobody uses, still run when the twin has been stopped."""
    uses = {how: make(idleTimeout=HOUR)["id"] for how in ("job", "paused", "attached")}
    never, zero = make()["id"], make(idleTimeout=0)["id"]
    assert "idleTimeout" not in api.sandbox(zero)["config"] and "idleAt" not in api.sandbox(never)

    def attend():
        with shared.api(timeout=600) as other:
            other.exec(uses["attached"], "touch /tmp/up; while [ ! -e /tmp/go ]; do sleep 0.05; done")

    job = api.background(uses["job"], "exec sleep 1000")
    api.post(f"/sandboxes/{uses['paused']}/pause").ok()
    thread = threading.Thread(target=attend)
    thread.start()
    wait_until(lambda: api.exec(uses["attached"], "test -e /tmp/up")["exitCode"] == 0, what="the command that somebody waits for")
    for id in uses.values():
        api.call("PATCH", f"/sandboxes/{id}", {"idleTimeout": 1}).ok()
    await_idle(api, make(idleTimeout=1)["id"])
    assert {how: status(api, id) for how, id in uses.items()} == {"job": "running", "paused": "paused", "attached": "running"}
    api.post(f"/sandboxes/{uses['paused']}/resume").ok()
    api.sh(uses["attached"], "touch /tmp/go")
    thread.join()
    api.post(f"/sandboxes/{uses['job']}/exec/{job['id']}/kill").ok()
    await_idle(api, *uses.values())
    assert status(api, never) == status(api, zero) == "running"


def test_it_is_kept_over_a_crash(own):
    with own.api() as api:
        id = api.create(idleTimeout=2)["id"]
    own.kill9()
    own.start()
    with own.api() as api:
        assert api.sandbox(id)["config"]["idleTimeout"] == 2
        await_idle(api, id)
        api.remove(id)
