"""What happens when a sandbox's time is over."""

import contextlib
import json
import socket
import subprocess
import time

import pytest

from cay_harness import CAY, cay, cli_environment, wait_until
from cay_mcp import Bridge, request

pytestmark = pytest.mark.core

OURS = {"Cay-Client": "test/1"}
KEPT = ("stopped", "expired")
SERVER = ["python3", "-m", "http.server", "8000"]


def expire(daemon, *ids):
    """Turns the clock of these on while the daemon is away."""
    marks = ",".join("?" * len(ids))
    with contextlib.closing(daemon.database()) as db:
        db.execute(f"update sandbox set expires_ms = ?, deadline_ns = 1 where id in ({marks})",
                   (int(time.time() * 1000) - 1000, *ids))
        db.commit()


def test_the_sweep_removes_what_has_expired_and_nothing_else(daemon_of):
    daemon = daemon_of(env={"CAY_TTL_SWEEP": 3600}).start()
    with daemon.api() as api:
        ids = [api.create()["id"] for _ in range(4)]
        api.post(f"/sandboxes/{ids[1]}/pause").ok()
        daemon.stop()
        expire(daemon, ids[0], ids[1])
        daemon.start()
        before = set(api.ids())
        swept = api.post("/admin/sweep").ok()["swept"]
        assert set(api.ids()) == set(ids[2:])
        assert swept == len(before) - 2
        assert api.post("/admin/sweep").ok() == {"swept": 0}
        for id in ids[:2]:
            api.get(f"/sandboxes/{id}").failed(404)
        for id in ids[2:]:
            assert api.sh(id, "echo on") == "on\n"
        assert api.get("/metrics").ok()["totalExpired"] == 2


def test_the_sweep_comes_by_itself(daemon_of):
    daemon = daemon_of(env={"CAY_TTL_SWEEP": 1}).start()
    with daemon.api() as api:
        gone, stays = api.create()["id"], api.create()["id"]
        daemon.stop()
        expire(daemon, gone)
        daemon.start()
        wait_until(lambda: api.get(f"/sandboxes/{gone}").status == 404, what="the sweep")
        assert api.sandbox(stays)["status"] == "running"


def test_a_renewed_sandbox_is_not_swept(daemon_of):
    daemon = daemon_of(env={"CAY_TTL_SWEEP": 3600}).start()
    with daemon.api() as api:
        id = api.create()["id"]
        daemon.stop()
        expire(daemon, id)
        daemon.start()
        if api.get(f"/sandboxes/{id}").status == 200:  # not swept at start: renewing saves it
            api.post(f"/sandboxes/{id}/renew", {"expiresAt": int(time.time() * 1000) + 300_000}).ok()
            assert api.post("/admin/sweep").ok() == {"swept": 0}
            assert api.sh(id, "echo on") == "on\n"


def test_a_wall_clock_that_jumped_sweeps_nothing(daemon_of):
    """The time left is counted by a clock that cannot be set (F15)."""
    daemon = daemon_of().start()
    with daemon.api() as api:
        id = api.create()["id"]
        daemon.stop()
        daemon.change_sandboxes("expires_ms = 1000")
        daemon.start()
        assert api.post("/admin/sweep").ok() == {"swept": 0}
        assert api.sh(id, "echo on") == "on\n"


# ---- sandboxes that are stopped at the end of their time ----


def create(api, **fields):
    return api.post("/sandboxes", {"image": "host", **fields}, headers=OURS).ok()


def state(api, id):
    said = api.get(f"/sandboxes/{id}")
    return (said.ok()["status"], said.ok().get("reason")) if said.status == 200 else said.failed(404)["code"]


def let_expire(daemon, api, *ids):
    """Their time is over while the daemon is away."""
    daemon.stop()
    expire(daemon, *ids)
    daemon.start()
    api.port = daemon.port
    api.post("/admin/sweep").ok()
    for id in ids:
        wait_until(lambda: state(api, id) == KEPT, what="the stop")


def reasons(api, topic, id):
    return [event["data"]["reason"] for event in api.get(f"/events/history?topic={topic}&sandboxId={id}").ok()["events"]]


def on_timeout(api, id):
    return api.sandbox(id)["config"].get("onTimeout")


def test_the_client_decides_what_becomes_of_it_unless_the_create_says_so(own):
    with own.api() as api:
        ours, theirs = create(api)["id"], api.create()["id"]
        assert (on_timeout(api, ours), on_timeout(api, theirs)) == ("stop", None)
        for header in ("cay", "/1", "cay/", ""):
            said = api.post("/sandboxes", {"image": "host"}, headers={"Cay-Client": header}).ok()
            assert "onTimeout" not in said["config"], header
        assert "onTimeout" not in create(api, onTimeout="remove")["config"]
        assert api.create(onTimeout="stop")["config"]["onTimeout"] == "stop"
        api.try_create(onTimeout="keep").failed(400)
        # Clones are made by who makes them, whoever made the first.
        assert "onTimeout" not in api.post(f"/sandboxes/{ours}/clone", {}).ok()["config"]
        assert api.post(f"/sandboxes/{theirs}/clone", {}, headers=OURS).ok()["config"]["onTimeout"] == "stop"
        forks = api.post(f"/sandboxes/{theirs}/fork", {"count": 2, "onTimeout": "stop"}).ok()["sandboxes"]
        assert [fork["config"]["onTimeout"] for fork in forks] == ["stop", "stop"]
        # The command line and `cay mcp` are clients of cay's own; /mcp alone is not.
        for words, want in ((["create"], "stop"), (["create", "--on-timeout", "remove"], None), (["run", "-d", "--", "sleep", "60"], "stop"),
                            (["fork", theirs], "stop")):
            assert on_timeout(api, cay(own, *words, check=True).stdout.decode().strip()) == want, words
        called = request(1, "tools/call", name="sandbox_create", arguments={"image": "host"})
        with Bridge(own) as bridge:
            bridge.begin()
            assert json.loads(bridge.ask(called)["result"]["content"][0]["text"])["config"]["onTimeout"] == "stop"
        before = set(api.ids())
        with subprocess.Popen([CAY, "run", "-i", "--", "cat"], env=cli_environment(own), stdin=subprocess.PIPE) as run:
            (ran,) = wait_until(lambda: set(api.ids()) - before, what="the sandbox of `cay run`")
            assert on_timeout(api, ran) is None
            run.stdin.close()
        assert state(api, ran) == "sandbox_removed"
        for id in api.ids():
            api.remove(id)


def test_what_has_expired_meanwhile_is_stopped_and_can_be_started(daemon_of):
    daemon = daemon_of(env={"CAY_TTL_SWEEP": 3600}).start()
    with daemon.api() as api:
        box, paused = create(api)["id"], create(api)["id"]
        gone = create(api, onTimeout="remove")["id"]
        api.write(box, "kept", "here")
        api.post(f"/sandboxes/{paused}/pause").ok()
        daemon.stop()
        expire(daemon, gone)
        daemon.start()
        let_expire(daemon, api, box, paused)
        assert state(api, gone) == "sandbox_expired"
        assert wait_until(lambda: reasons(api, "sandbox.stopped", box)) == ["expired"]
        assert "stopped (expired)" in cay(daemon, "ls", check=True).stdout.decode()
        assert set(cay(daemon, "ls", "-q", "--status", "expired", check=True).stdout.decode().split()) == {box, paused}
        assert {s["id"] for s in api.get("/sandboxes?status=expired").ok()["items"]} == {box, paused}
        assert api.get("/sandboxes?status=running").ok()["items"] == []
        api.try_exec(box, "true").failed(409, "sandbox_not_running")
        told = [json.loads(line) for path in (daemon.data / "audit").glob("*.jsonl") for line in path.read_text().splitlines()]
        assert {e["sandboxId"]: e["function"] for e in told if e["who"] == "daemon" and e.get("sandboxId")} == {
            box: "sandbox.stopped", paused: "sandbox.stopped", gone: "sandbox.expired"}
        # Jobs wait for it, and its files can be read.
        job = api.post(f"/sandboxes/{box}/exec/queue", {"command": "cat kept"}).ok()
        assert api.read(box, "kept") == "here"
        before = time.time()
        assert api.post(f"/sandboxes/{box}/start").ok()["expiresAt"] > (before + 3000) * 1000
        wait_until(lambda: api.get(f"/queue/{job['id']}/status").ok()["status"] == "completed", what="the job")
        let_expire(daemon, api, box)
        expired = api.get("/metrics").ok()
        assert (expired["stoppedSandboxes"], expired["totalExpired"]) == (2, 1)  # counted when they are removed


def test_its_entrypoint_is_asked_to_end(daemon_of):
    daemon = daemon_of(env={"CAY_TTL_SWEEP": 3600, "CAY_STOP_TIMEOUT": 15}).start()
    with daemon.api() as api:
        id = create(api, entrypoint=["sh", "-c", "trap 'echo bye > /workspace/last; exit' TERM; while :; do sleep 0.05; done"])["id"]
        let_expire(daemon, api, id)
        assert api.read(id, "last") == "bye\n"


def test_the_limits_of_stopped_ones_remove_the_one_that_expired_first(daemon_of):
    env = {"CAY_TTL_SWEEP": 3600, "CAY_MAX_STOPPED": 2, "CAY_MAX_SANDBOXES": 3}
    daemon = daemon_of(env=env).start()
    with daemon.api() as api:
        first, second, asked = (create(api)["id"] for _ in range(3))
        api.try_create().failed(429, "sandbox_limit")
        let_expire(daemon, api, first)
        let_expire(daemon, api, second)
        api.post(f"/sandboxes/{asked}/stop").ok()
        assert wait_until(lambda: reasons(api, "sandbox.expired", first)) == ["stopped_limit"]
        assert (state(api, first), state(api, second), state(api, asked)) == ("sandbox_expired", KEPT, ("stopped", "requested"))
        api.get(f"/sandboxes/{first}").failed(404, "sandbox_expired", "had expired and was removed")
        assert api.get("/info").ok()["limits"]["maxStopped"] == 2
        for _ in range(3):
            api.create()
        api.post(f"/sandboxes/{second}/start").failed(429, "sandbox_limit", "CAY_MAX_SANDBOXES")
        assert state(api, second) == KEPT
        # With the limit of the disk at 0 none that expired is kept; one that was stopped is.
        daemon.extra["CAY_STOPPED_DISK"] = "0"
        daemon.stop()
        daemon.start()
        api.port = daemon.port
        api.post("/admin/sweep").ok()
        assert wait_until(lambda: reasons(api, "sandbox.expired", second)) == ["stopped_disk"]
        assert state(api, asked) == ("stopped", "requested")
        # Only such are left: a create says so, and a stop works.
        api.post(f"/sandboxes/{api.ids()[0]}/stop").ok()
        cay(daemon, "rm", api.ids()[1], check=True)
        api.try_create().failed(429, "stopped_limit", "CAY_MAX_STOPPED")
        cay(daemon, "rm", asked, check=True)
        create(api)


def test_the_name_and_the_ports_of_an_expired_one_go_to_the_next(daemon_of):
    daemon = daemon_of(env={"CAY_TTL_SWEEP": 3600}).start()
    with daemon.api() as api:
        words = ["create", "--name", "web", "host", *SERVER]
        old = cay(daemon, *words[:3], "-p", "0:8000", *words[3:], check=True).stdout.decode().strip()
        port = api.sandbox(old)["config"]["ports"][0]["hostPort"]
        refused = cay(daemon, *words)
        assert refused.returncode and b"is that of " + old.encode() in refused.stderr
        let_expire(daemon, api, old)
        made = cay(daemon, *words[:3], "-p", f"{port}:8000", *words[3:], check=True)
        assert f"{old} had expired with the same name and was removed" in made.stderr.decode()
        new = made.stdout.decode().strip()
        assert state(api, old) == "sandbox_removed" and reasons(api, "sandbox.killed", old) == ["replaced"]

        def answers():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 10) as s:
                s.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return s.recv(12)

        assert wait_until(answers, what="the server").startswith(b"HTTP/1.0 200")
        assert api.sandbox(new)["name"] == "web"


def test_a_create_that_is_refused_does_not_remove_the_sandbox_whose_ports_it_needs(daemon_of):
    daemon = daemon_of(env={"CAY_TTL_SWEEP": 3600, "CAY_MAX_SANDBOXES": 2}).start()
    with daemon.api() as api:
        any_port = [{"containerPort": 8000, "hostPort": 0}]
        old = create(api, name="web", ports=any_port)
        other = create(api, ports=any_port)
        has, taken = ([{"containerPort": 8000, "hostPort": made["config"]["ports"][0]["hostPort"]}] for made in (old, other))
        let_expire(daemon, api, old["id"])
        wait_until(lambda: reasons(api, "sandbox.stopped", old["id"]), what="its place")
        for ports, image, why in ((taken, "host", (409, "port_in_use")), (has, "no-such-image", (404, "image_not_found"))):
            api.post("/sandboxes", {"image": image, "name": "web", "unique": True, "pull": "never", "ports": ports}).failed(*why)
        full = create(api)["id"]
        api.try_create(name="web", unique=True, ports=has).failed(429, "sandbox_limit")
        assert state(api, old["id"]) == KEPT
        api.remove(full)
        new = create(api, name="web", unique=True, ports=has)
        assert new["config"]["ports"][0]["hostPort"] == has[0]["hostPort"]
        assert new["warnings"] == [f"{old['id']} had expired with the same name and was removed"]
        (port,) = api.get(f"/sandboxes/{new['id']}/ports").ok()["ports"]
        assert port["state"] == "active"


def test_a_restore_that_finds_no_place_does_not_keep_the_layers_of_the_snapshot(daemon_of):
    daemon = daemon_of(env={"CAY_TTL_SWEEP": 3600, "CAY_MAX_SANDBOXES": 1}).start()
    with daemon.api() as api:
        box = create(api)["id"]
        api.sh(box, "echo kept >/root/f")
        snapshot = api.post(f"/sandboxes/{box}/snapshots", {}).ok()["id"]
        api.post(f"/sandboxes/{box}/stop").ok()
        create(api)
        api.post(f"/sandboxes/{box}/snapshots/restore", {"snapshotId": snapshot}).failed(429, "sandbox_limit")
        assert state(api, box) == ("stopped", "requested")
        api.delete(f"/snapshots/{snapshot}").ok()
        wait_until(lambda: not list((daemon.data / "images/layers").iterdir()), what="its layer to go")


def test_a_tenant_neither_replaces_nor_removes_what_expired_of_another(daemon_of):
    daemon = daemon_of(env={"CAY_TTL_SWEEP": 3600, "CAY_MAX_STOPPED": 2, "CAY_AUTH_TOKEN": "secret"}).start()
    with daemon.api() as api:
        def of(team):
            return api.again(token=api.post("/tokens", {"scopes": ["read", "write"], "label": {"team": team}}).ok()["token"])

        with of("red") as red, of("blue") as blue:
            hers = create(red, name="web")["id"]
            let_expire(daemon, api, hers)
            red.port = blue.port = daemon.port
            blue.post("/sandboxes", {"image": "host", "name": "web", "unique": True}, headers=OURS).failed(409, "name_taken")
            assert "warnings" not in create(blue, name="web")
            many = [create(blue)["id"] for _ in range(3)]
            let_expire(daemon, api, many[0])
            red.port = blue.port = daemon.port
            for id in many[1:]:
                blue.post(f"/sandboxes/{id}/stop").ok()
            assert wait_until(lambda: reasons(api, "sandbox.expired", many[0])) == ["stopped_limit"]
            api.post("/admin/sweep").ok()
            assert state(api, hers) == KEPT
            blue.try_create().failed(429, "stopped_limit")
            assert create(red, name="web")["warnings"] == [f"{hers} had expired with the same name and was removed"]
