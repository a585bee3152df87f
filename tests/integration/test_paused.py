"""What can be had of a sandbox that is paused."""


import pytest

from cay_harness import read_text, wait_until

pytestmark = pytest.mark.core


def pause(api, id):
    api.post(f"/sandboxes/{id}/pause").ok()


def resume(api, id):
    api.post(f"/sandboxes/{id}/resume").ok()


def test_an_interrupt_is_taken_when_the_sandbox_goes_on(api, box):
    job = api.background(box, "trap 'echo caught; exit 3' INT; echo up; sleep 1001; exit 4")
    other = api.background(box, "exec sleep 1000")
    wait_until(lambda: "sleep 1001" in [p["command"] for p in api.processes(box)])
    pause(api, box)
    said = api.post(f"/sandboxes/{box}/exec/interrupt", {"pid": job["pid"]}).ok()
    assert said == {"success": True, "pending": True}
    assert api.get(f"/exec/background/{job['id']}/status").ok()["running"] is True
    resume(api, box)
    assert api.background_end(job["id"])["exitCode"] == 3
    assert api.background_logs(job["id"])["output"] == "up\ncaught\n"
    assert api.get(f"/exec/background/{other['id']}/status").ok()["running"] is True
    said = api.post(f"/sandboxes/{box}/exec/interrupt", {}).ok()
    assert said == {"success": True, "pending": False}
    assert api.background_end(other["id"])["exitCode"] == 130


def test_an_interrupt_does_not_hit_what_begins_afterwards(api, make):
    for _ in range(5):
        id = make()["id"]
        job = api.background(id, "exec sleep 1000")
        pause(api, id)
        for _ in range(60):
            assert api.post(f"/sandboxes/{id}/exec/interrupt", {}).ok()["pending"] is True
        resume(api, id)
        assert api.exec(id, "sleep 0.05; echo late")["stdout"] == "late\n"
        assert api.background_end(job["id"])["exitCode"] == 130
        late = api.background(id, "exec sleep 1000")
        pause(api, id)  # another pause, another interrupt
        assert api.post(f"/sandboxes/{id}/exec/interrupt", {}).ok()["pending"] is True
        resume(api, id)
        assert api.background_end(late["id"])["exitCode"] == 130


def test_an_interrupt_outlives_the_daemon(own):
    with own.api() as api:
        box = api.create()["id"]
        job = api.background(box, "exec sleep 1000")
        pause(api, box)
        assert api.post(f"/sandboxes/{box}/exec/interrupt", {}).ok()["pending"] is True
    own.kill9()
    own.start()
    with own.api() as api:
        resume(api, box)
        assert api.background_end(job["id"])["exitCode"] == 130


def test_background_commands_can_be_looked_at(api, box):
    done = api.background(box, "echo héllo; echo two >&2; exit 4")
    api.background_end(done["id"])
    runs = api.background(box, "echo up; exec sleep 1000")
    wait_until(lambda: api.background_logs(runs["id"])["output"] == "up\n")
    before = api.get(f"/exec/background/{done['id']}/status").ok()
    pause(api, box)
    assert api.get(f"/exec/background/{done['id']}/status").ok() == before
    assert before["exitCode"] == 4
    now = api.get(f"/exec/background/{runs['id']}/status").ok()
    assert now["running"] is True and now["pid"] == runs["pid"]
    assert api.background_logs(done["id"]) == {"output": "héllo\ntwo\n", "cursor": 11}
    assert api.background_logs(done["id"], 7)["output"] == "two\n"
    assert api.background_logs(runs["id"])["output"] == "up\n"
    state = api.get(f"/sandboxes/{box}/exec/{done['id']}").ok()
    assert state["stdout"] == "héllo\ntwo\n" and state["exitCode"] == 4 and state["cursor"] == 11 and not state["more"]
    state = api.get(f"/sandboxes/{box}/exec/{runs['id']}?cursor=1").ok()
    assert state["stdout"] == "p\n" and state["running"] is True
    api.get(f"/sandboxes/{box}/exec/bg_000000000000000000000000").failed(404, "exec_not_found")
    resume(api, box)
    assert api.background_logs(done["id"])["cursor"] == 11


def test_a_background_command_that_memory_ended_can_be_looked_at(api, make):
    id = make(memory=64)["id"]
    job = api.background(id, "python3 -c 'b = bytearray(400 << 20)'")
    before = api.background_end(job["id"])
    assert before["reason"] == "oom"
    pause(api, id)
    assert api.get(f"/exec/background/{job['id']}/status").ok() == before
    state = api.get(f"/sandboxes/{id}/exec/{job['id']}").ok()
    assert [state[k] for k in ("exitCode", "reason", "oom", "message")] == [before[k] for k in
                                                                           ("exitCode", "reason", "oom", "message")]


def test_logs_show_what_there_is_and_go_on_afterwards(api, make):
    id = make(entrypoint=["sh", "-c", "echo out; echo err >&2; touch /tmp/up;"
                                      "until [ -e /tmp/go ]; do sleep 0.01; done; echo more; exec sleep 1000"])["id"]
    wait_until(lambda: api.exec(id, "test -e /tmp/up")["exitCode"] == 0)
    pause(api, id)
    path = f"/sandboxes/{id}/stream/logs"
    seen = [(e["type"], e["data"]) for e in api.events("GET", path + "?follow=false")]
    assert sorted(seen) == [("end", ""), ("stderr", "err"), ("stdout", "out")]
    one = [(e["type"], e["data"]) for e in api.events("GET", path + "?follow=false&tail=1")]
    assert len(one) == 2
    stream = api.events("GET", path)
    assert {next(stream)["data"], next(stream)["data"]} == {"out", "err"}
    resume(api, id)
    api.sh(id, "touch /tmp/go")
    assert next(stream)["data"] == "more"
    stream.close()


def test_other_calls_say_that_it_is_paused(api, box):
    pause(api, box)
    api.file(box, "list").failed(409, "sandbox_not_running", "paused")
    api.post(f"/sandboxes/{box}/processes/kill", {"pid": 1}).failed(409, "sandbox_not_running")


def reads(daemon):
    """How often the daemon has read from a file."""
    lines = dict(line.split(": ") for line in read_text(f"/proc/{daemon.pid}/io").splitlines())
    return int(lines["syscr"])


def create_one_that_waits(api):
    id = api.create(entrypoint=["sh", "-c", "echo before; touch /tmp/up; until [ -e /tmp/go ]; do sleep 0.1; done; echo after; exit 5"])["id"]
    wait_until(lambda: api.exec(id, "test -e /tmp/up")["exitCode"] == 0)
    return id


def test_a_disk_is_looked_into_once_in_a_pause(own):
    """However many ask how the main process is, or follow its output: neither can change."""
    with own.api() as api, own.api() as other:
        id = create_one_that_waits(api)
        pause(api, id)
        follow = other.events("GET", f"/sandboxes/{id}/stream/logs?follow=true")
        assert next(follow)["data"] == "before"
        assert api.sandbox(id)["entrypointState"]["state"] == "running"
        before = reads(own)
        for _ in range(100):
            assert api.sandbox(id)["entrypointState"]["state"] == "running"
            api.get("/sandboxes").ok()
        assert reads(own) - before < 50
        resume(api, id)
        api.sh(id, "touch /tmp/go")
        assert next(follow)["data"] == "after"
        wait_until(lambda: api.sandbox(id)["entrypointState"]["state"] == "exited")
        assert api.sandbox(id)["entrypointState"]["exitCode"] == 5


def test_two_pauses_in_a_row_are_told_apart(own):
    """What was written between them is shown, though nobody asked then."""
    with own.api() as api, own.api() as other:
        id = create_one_that_waits(api)
        pause(api, id)
        follow = other.events("GET", f"/sandboxes/{id}/stream/logs?follow=true")
        assert next(follow)["data"] == "before"
        assert api.sandbox(id)["entrypointState"]["state"] == "running"
        resume(api, id)
        api.sh(id, "touch /tmp/go")
        wait_until(lambda: "sleep" not in [p["command"].split()[0] for p in api.processes(id)])
        pause(api, id)
        assert next(follow)["data"] == "after"
        assert api.sandbox(id)["entrypointState"]["exitCode"] == 5
