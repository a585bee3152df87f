"""Sandboxes that nobody uses are stopped."""

import http.client
import threading

from cay_harness import cay, wait_until

SERVER = ["python3", "-m", "http.server", "8000", "--directory", "/usr/share/doc"]
ASKED_TO_END = ["sh", "-c", "trap 'echo bye > /workspace/last; exit' TERM; while :; do sleep 0.05; done"]


def status(api, id):
    return api.get(f"/sandboxes/{id}").ok()["status"]


def await_idle(api, *ids):
    for id in ids:
        wait_until(lambda: status(api, id) == "stopped", timeout=30, what="the sandbox to be idle")
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
    made = make(idleTimeout=1)
    main = make(idleTimeout=1, entrypoint=ASKED_TO_END)["id"]
    own = cay(shared, "create", "--idle-timeout", "1s", "-q", check=True).stdout.decode().strip()
    assert made["config"]["idleTimeout"] == 1 and made["idleAt"] - made["createdAt"] <= 1100
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
    uses = {how: make(idleTimeout=2)["id"] for how in ("job", "attached", "touch", "files", "processes", "paused")}
    uses["port"] = make(idleTimeout=2, entrypoint=SERVER)["id"]
    uses["never"], uses["zero"] = make()["id"], make(idleTimeout=0)["id"]
    assert "idleTimeout" not in api.sandbox(uses["zero"])["config"] and "idleAt" not in api.sandbox(uses["never"])
    job = api.background(uses["job"], "exec sleep 1000")
    api.post(f"/sandboxes/{uses['paused']}/pause").ok()
    wait_until(lambda: page(shared, uses["port"]) == 200, timeout=30, what="the server")

    def attend():
        with shared.api(timeout=60) as other:
            other.exec(uses["attached"], "while [ ! -e /tmp/go ]; do sleep 0.05; done")

    thread = threading.Thread(target=attend)
    thread.start()
    twin = make(idleTimeout=2)["id"]
    while status(api, twin) == "running":
        assert api.post(f"/sandboxes/{uses['touch']}/touch").ok()["status"] == "running"
        api.write(uses["files"], "a", "b")
        api.processes(uses["processes"])
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
