"""Sandboxes that nobody uses are stopped."""

import http.client
import math
import threading
import time

import pytest

from cay_harness import cay, wait_until

pytestmark = pytest.mark.core

SERVER = ["python3", "-m", "http.server", "8000", "--directory", "/usr/share/doc"]
IDLE, ROUNDS = 4, 40  # seconds, or as long as so many rounds of uses take on this machine: each use comes again sooner
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


def test_one_that_nobody_uses_is_stopped_and_can_be_started(shared, api, make):
    before = time.time() * 1000
    made = make(idleTimeout=1)
    assert before - 10 <= made["idleAt"] - 1000 <= time.time() * 1000 + 10
    main = make(idleTimeout=1, entrypoint=ASKED_TO_END)["id"]
    own = cay(shared, "create", "--idle-timeout", "1s", "-q", check=True).stdout.decode().strip()
    assert made["config"]["idleTimeout"] == 1
    # Looking at it is no use of it.
    wait_until(lambda: [api.get(f"/sandboxes/{made['id']}/metrics").ok(), api.get("/sandboxes").ok()] and
               status(api, made["id"]) == "stopped", timeout=30, what="the end of one that is only looked at")
    await_idle(api, made["id"], main, own)
    assert "idleAt" not in api.sandbox(made["id"])
    assert wait_until(lambda: [e["data"]["reason"] for e in api.get(
        f"/events/history?topic=sandbox.stopped&sandboxId={made['id']}").ok()["events"]]) == ["idle"]
    assert api.read(main, "last") == "bye\n"
    api.post(f"/sandboxes/{made['id']}/touch").failed(409, "sandbox_not_running")
    assert cay(shared, "touch", own).returncode == 1
    api.remove(own)
    api.post(f"/sandboxes/{made['id']}/start").ok()
    await_idle(api, made["id"])


def test_use_keeps_it_up(shared, api, make):
    """Until a twin that nobody uses has been stopped, which was made after all of them."""
    uses = {}

    def one(how, **fields):
        uses[how] = make(**{"idleTimeout": idle, **fields})["id"]
        return uses[how]

    def use(touch, files, processes):
        assert api.post(f"/sandboxes/{touch}/touch").ok()["status"] == "running"
        api.write(files, "a", "b")
        api.processes(processes)

    def attend():
        with shared.api(timeout=600) as other:
            other.exec(uses["attached"], "while [ ! -e /tmp/go ]; do sleep 0.05; done")

    idle = 0
    never, _ = one("never", idleTimeout=None), one("zero")
    began = time.monotonic()
    use(never, never, never)
    idle = max(IDLE, math.ceil(ROUNDS * (time.monotonic() - began)))
    assert "idleTimeout" not in api.sandbox(uses["zero"])["config"] and "idleAt" not in api.sandbox(uses["never"])
    job = api.background(one("job"), "exec sleep 1000")
    api.post(f"/sandboxes/{one('paused')}/pause").ok()
    one("attached")
    thread = threading.Thread(target=attend)
    thread.start()
    one("port", entrypoint=SERVER)
    wait_until(lambda: page(shared, uses["port"]) == 200, timeout=30, what="the server")
    for how in ("touch", "files", "processes"):  # which are used from now on, and not before
        one(how)
    twin = make(idleTimeout=idle)["id"]
    while status(api, twin) == "running":
        use(uses["touch"], uses["files"], uses["processes"])
        assert page(shared, uses["port"]) == 200
    assert {how: status(api, id) for how, id in uses.items()} == \
           {**dict.fromkeys(uses, "running"), "paused": "paused"}
    api.post(f"/sandboxes/{uses['paused']}/resume").ok()
    api.sh(uses["attached"], "touch /tmp/go")
    thread.join()
    api.post(f"/sandboxes/{uses['job']}/exec/{job['id']}/kill").ok()
    await_idle(api, *(id for how, id in uses.items() if how not in ("never", "zero")))
    assert status(api, uses["never"]) == status(api, uses["zero"]) == "running"


def test_it_is_kept_over_a_crash(own):
    with own.api() as api:
        id = api.create(idleTimeout=2)["id"]
    own.kill9()
    own.start()
    with own.api() as api:
        assert api.sandbox(id)["config"]["idleTimeout"] == 2
        await_idle(api, id)
        api.remove(id)
