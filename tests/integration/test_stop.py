"""Stop and start: the processes go and come, the rest stays."""

import http.client
import json
import os
import random
import threading

import pytest

from cay_harness import cay, wait_until
from test_faults import BESIDE, STEPS

pytestmark = pytest.mark.core

WEEK_MS = 7 * 24 * 3600 * 1000


def stop(api, id):
    s = api.post(f"/sandboxes/{id}/stop").ok()
    assert s["status"] == "stopped" and s["reason"] == "requested"
    return s


def start(api, id):
    s = api.post(f"/sandboxes/{id}/start").ok()
    assert s["status"] == "running" and "reason" not in s
    return s


def lines(api, id):
    return [e["data"] for e in api.events("GET", f"/sandboxes/{id}/stream/logs?follow=false") if e["type"] == "stdout"]


def has_processes(daemon, id):
    try:
        return bool(daemon.agent_pid(id))
    except AssertionError:
        return False


def test_what_stays_and_what_goes(shared, api, make):
    made = make(env={"A": "b"}, metadata={"k": "v"}, memory=256, workdir="/srv/w", timeout=600,
                entrypoint=["sh", "-c", "echo run >> /srv/runs; wc -l < /srv/runs; exec sleep 1000"])
    id = made["id"]
    wait_until(lambda: lines(api, id) == ["1"])
    job = api.background(id, "exec sleep 1000")
    done = api.background(id, "echo done; exit 3")
    api.background_end(done["id"])
    api.sh(id, "echo one > f; mkdir d; ln -s f l; chmod 600 f; rm -r /usr/share/doc 2>/dev/null; echo mine > /etc/mine")
    s = stop(api, id)
    assert abs(s["expiresAt"] - s["createdAt"] - WEEK_MS) < 600000
    assert {k: s[k] for k in ("id", "name", "config", "metadata", "createdAt")} == \
           {k: made[k] for k in ("id", "name", "config", "metadata", "createdAt")}
    assert s["entrypointState"]["state"] == "exited"
    assert api.get("/sandboxes?status=stopped").ok()["items"][0]["id"] == id
    # Nothing runs; what was put out can be read.
    assert api.get(f"/sandboxes/{id}/metrics").ok()["pids"] == 0
    assert lines(api, id) == ["1"]
    assert api.background_logs(done["id"])["output"] == "done\n"
    assert api.background_status(done["id"])["exitCode"] == 3
    assert api.background_status(job["id"])["running"] is False
    again = start(api, id)
    assert again["expiresAt"] < s["expiresAt"] and again["entrypointState"] == {"state": "running"}
    assert api.sh(id, "cat f /etc/mine; readlink l; stat -c %a f; echo $A; pwd") == "one\nmine\nf\n600\nb\n/srv/w\n"
    wait_until(lambda: lines(api, id) == ["1", "2"])
    assert api.background_status(job["id"])["running"] is False
    assert api.background_status(done["id"])["exitCode"] == 3
    assert api.background_end(api.background(id, "exit 4")["id"])["exitCode"] == 4


def test_twice_is_as_once_and_a_paused_one_can_be_stopped(api, box):
    assert start(api, box)["status"] == "running"
    api.sh(box, "echo kept > f")
    api.post(f"/sandboxes/{box}/pause").ok()
    api.post(f"/sandboxes/{box}/start").failed(409, "sandbox_not_running", "cay resume")
    assert stop(api, box) == stop(api, box)
    for what in ("pause", "exec", "env/get"):
        body = {"command": "true", "key": "A"} if what != "pause" else None
        api.post(f"/sandboxes/{box}/{what}", body).failed(409, "sandbox_not_running", "cay start ID")
    api.post(f"/sandboxes/{box}/resume").failed(409, "sandbox_not_paused")
    start(api, box)
    assert api.sh(box, "cat f") == "kept\n"
    for i in range(5):
        stop(api, box)
        start(api, box)
        assert api.sh(box, f"echo {i} >> n; wc -l < n") == f"{i + 1}\n"


@pytest.mark.parametrize("said", [{}, {"wait": True}])
def test_an_entrypoint_is_asked_to_end(daemon_of, said):
    """It has much time here: the stop comes when it has ended."""
    with daemon_of(env={"CAY_STOP_TIMEOUT": 15}).start().api() as api:
        id = api.create(entrypoint=["sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done"])["id"]
        wait_until(lambda: lines(api, id) == ["up"])
        assert api.post(f"/sandboxes/{id}/stop", said).ok()["status"] == "stopped"
        assert lines(api, id) == ["up", "bye"]
        api.remove(id)


def test_files_of_a_stopped_one(shared, api, box):
    api.write(box, "a/b", "text")
    stop(api, box)
    assert api.read(box, "a/b") == "text"
    api.write(box, "new", "written while stopped")
    api.upload(box, "bytes", b"\0\xff" * 100000)
    assert api.download(box, "bytes") == b"\0\xff" * 100000
    assert {f["name"] for f in api.file(box, "list", path="/workspace").ok()} >= {"a", "new", "bytes"}
    assert api.sandbox(box)["status"] == "stopped"
    api.try_exec(box, "true").failed(409, "sandbox_not_running")
    assert cay(shared, "cp", f"{box}:a", str(shared.root / "copied")).returncode == 0
    assert (shared.root / "copied" / "b").read_text() == "text"
    assert cay(shared, "cp", str(shared.root / "copied"), f"{box}:back").returncode == 0
    # The box for that goes by itself, and comes again.
    wait_until(lambda: not has_processes(shared, box), 60, "the end of the quiet box")
    assert api.read(box, "back/b") == "text"
    start(api, box)  # takes it over
    assert api.sh(box, "cat new back/b; ls") == "written while stoppedtexta\nback\nbytes\nnew\n"


def test_a_stopped_one_is_committed_renewed_and_removed(api, box, make):
    api.write(box, "f", "in the image")
    stop(api, box)
    api.read(box, "f")  # a quiet box must not be in the way
    api.post(f"/sandboxes/{box}/commit", {"name": "stopped:1"}).ok()
    other = make(image="stopped:1")["id"]
    assert api.read(other, "f") == "in the image"
    api.remove(other)
    api.delete("/images/stopped:1").ok()
    end = api.sandbox(box)["expiresAt"]
    assert api.post(f"/sandboxes/{box}/renew", {"expiresAt": 1}).ok()["expiresAt"] == end
    api.remove(box)
    api.post(f"/sandboxes/{box}/start").failed(404, "sandbox_removed")


def test_a_stopped_one_is_kept_for_its_own_time(daemon_of):
    """Not for that which it was made for; and one of before counts from the upgrade on."""
    own = daemon_of(env={"CAY_STOPPED_TTL": 0, "CAY_TTL_SWEEP": 3600}).start()
    with own.api() as api:
        ids = [api.create(timeout=60)["id"] for _ in range(3)]
        for id in ids[:2]:
            assert stop(api, id)["expiresAt"] == 0
        own.stop()
        own.change_sandboxes("expires_ms = 1, deadline_ns = 1, boot_id = 'x'")
        own.change_sandboxes(f"pid = 1234567, pid_start = 1 where id = '{ids[0]}'")
        own.start()
        # By its row one is at its end; one is of an older cay; one ended with the machine.
        assert api.post("/admin/sweep").ok()["swept"] == 1
        assert sorted(api.ids()) == sorted([ids[0], ids[2]])
        assert [api.sandbox(id)["expiresAt"] for id in (ids[0], ids[2])] == [0, 0]
        assert api.sandbox(ids[2])["reason"] == "reboot"
        assert start(api, ids[2])["expiresAt"] > 0
        start(api, ids[0])


def test_after_a_reboot_or_a_lost_agent_it_can_be_started(own):
    with own.api() as api:
        id = api.create(entrypoint=["sleep", "1000"])["id"]
        api.write(id, "f", "kept")
        os.kill(own.agent_pid(id), 9)
        wait_until(lambda: api.sandbox(id).get("reason") == "agent_lost", what="the end of the sandbox")
        assert api.read(id, "f") == "kept"
        start(api, id)
        assert api.read(id, "f") == "kept"
        own.stop()
        os.kill(own.agent_pid(id), 9)
        wait_until(lambda: not has_processes(own, id))
        own.change_sandboxes("boot_id = '00000000-0000-0000-0000-000000000000'")
        own.start()
        assert api.sandbox(id)["reason"] == "reboot"
        assert start(api, id)["entrypointState"] == {"state": "running"}
        assert api.read(id, "f") == "kept"


def test_a_start_that_fails_leaves_it_stopped(daemon_of):
    """At every step of a launch."""
    own = daemon_of(env={"CAY_POOL": 0}).start()
    with own.api() as api:
        id = api.create()["id"]
        api.write(id, "f", "kept")
        stop(api, id)
        for step in [s for s in STEPS if s != "wait for the start"] + BESIDE:
            own.stop()
            own.extra["CAY_FAULT"] = step
            own.start()
            assert api.post(f"/sandboxes/{id}/start").status == 500, step
            assert api.sandbox(id)["reason"] == "requested"
            assert not has_processes(own, id), step
        own.stop()
        del own.extra["CAY_FAULT"]
        own.start()
        start(api, id)
        assert api.read(id, "f") == "kept"


@pytest.mark.parametrize("what", ["stop", "start"])
def test_kill_9_in_the_midst_leaves_the_old_state_or_the_new(own, what):
    """At points spread over all of it."""
    with own.api() as api:
        id = api.create(entrypoint=["sh", "-c", "echo up; exec sleep 1000"])["id"]
        api.write(id, "f", "kept")
        seen = set()
        for i in range(12):
            if what == "start":
                stop(api, id)
            t = threading.Thread(target=call_and_forget, args=(own.port, f"/sandbox/sandboxes/{id}/{what}"))
            t.start()
            threading.Event().wait(random.random() * 0.03)
            own.kill9()
            t.join()
            own.start()
            status = api.sandbox(id)["status"]
            seen.add(status)
            assert status in ("running", "stopped")
            assert has_processes(own, id) == (status == "running")
            assert api.read(id, "f") == "kept"
            assert status == "stopped" or api.sh(id, "cat f") == "kept"
            if status == "running":  # its entrypoint may have been asked to end already
                stop(api, id)
            start(api, id)
            assert api.sh(id, "cat f") == "kept"
            assert any("sleep" in p["command"] for p in api.processes(id))
        assert seen


def call_and_forget(port, path):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        c.request("POST", path, json.dumps({}), {"content-type": "application/json"})
        c.getresponse().read()
    except (OSError, http.client.HTTPException):
        pass
    finally:
        c.close()


def test_kill_9_while_files_of_a_stopped_one_are_used(own):
    with own.api() as api:
        id = api.create()["id"]
        api.write(id, "f", "kept")
        stop(api, id)
        assert api.read(id, "f") == "kept"
        assert has_processes(own, id)
        own.kill9()
        own.start()
        assert api.sandbox(id)["reason"] == "requested" and not has_processes(own, id)
        assert api.read(id, "f") == "kept"
        assert own.stop() == 0
        assert not has_processes(own, id)
        own.start()
        start(api, id)


def test_the_database_is_lost_and_a_stopped_one_is_not(own):
    with own.api() as api:
        id = api.create(env={"A": "b"})["id"]
        api.write(id, "f", "kept")
        stop(api, id)
        own.wait_for_note(id, '"stopped"')
        own.stop()
        for name in ("cay.db", "cay.db-wal", "cay.db-shm"):
            (own.data / name).unlink(missing_ok=True)
        own.start()
        assert api.sandbox(id)["status"] == "stopped"
        start(api, id)
        assert api.sh(id, "cat f; echo $A") == "keptb\n"


def test_many_at_once(own):
    with own.api() as api:
        ids = [api.create()["id"] for _ in range(8)]
        for id in ids:
            api.write(id, "id", id)
        for what in ["stop", "start", "stop", "start"]:
            threads = [threading.Thread(target=call_and_forget, args=(own.port, f"/sandbox/sandboxes/{id}/{what}"))
                       for id in ids for _ in range(2)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            assert {api.sandbox(id)["status"] for id in ids} == {"stopped" if what == "stop" else "running"}
        for id in ids:
            assert api.sh(id, "cat id") == id


def test_the_words_of_the_cli(daemon_of):
    own = daemon_of().start()

    def say(*words, status=0):
        done = cay(own, *words)
        assert done.returncode == status, done
        return (done.stdout + done.stderr).decode()

    with own.api() as api:
        id = api.create(name="words")["id"]
        assert say("stop", "words") == f"{id}\n"
        assert "stopped" in say("ls")
        assert "cay start" in say("exec", "words", "true", status=125)
        assert "kept" in say("stop", "--yes", "words", status=2)
        assert say("start", "words") == f"{id}\n"
        assert say("stop", "--all", "-q") == ""
        assert api.sandbox(id)["status"] == "stopped"
        assert say("stop", "--all") == ""
        assert say("start", "--all") == f"{id}\n"
        assert "cay stop words" in say("kill", "words", status=1)
        say("kill", "--yes", "words")
        assert api.ids() == []


def test_one_that_cannot_come_up_says_why(daemon_of, tmp_path):
    """An entrypoint that is gone, and a folder of the host that the operator does not list any more."""
    own = daemon_of(env={"CAY_BIND_ALLOW": str(tmp_path)}).start()
    with own.api() as api:
        id = api.create(entrypoint=["/root/main"], patches=[
            {"type": "text", "path": "/root/main", "content": "#!/bin/sh\nexec sleep 1000\n", "mode": "0755"}])["id"]
        bound = api.create(volumes=[{"path": str(tmp_path), "mountPath": "/h", "readOnly": True}])["id"]
        api.sh(id, "rm /root/main")
        stop(api, id)
        stop(api, bound)
        api.post(f"/sandboxes/{id}/start").failed(400, "command_not_found")
        assert api.sandbox(id)["status"] == "stopped"
    own.stop()
    own.extra["CAY_BIND_ALLOW"] = "/nowhere"
    own.start()
    with own.api() as api:
        api.post(f"/sandboxes/{bound}/start").failed(403, "bind_not_allowed")
        api.post(f"/sandboxes/{bound}/files/list", {"path": "/"}).failed(403, "bind_not_allowed")
        assert api.sandbox(bound)["status"] == "stopped"
        api.remove(id)
        api.remove(bound)
