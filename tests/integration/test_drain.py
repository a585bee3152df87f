"""Stops that wait: for commands, or for an entrypoint that takes its time."""

import threading

import pytest

from cay_harness import cay, wait_until

pytestmark = pytest.mark.core

WAITS = "while [ ! -e /tmp/go ]; do sleep 0.05; done; echo done"


def status(api, id):
    return api.get(f"/sandboxes/{id}").ok()["status"]


def await_stop(api, id):
    wait_until(lambda: status(api, id) == "stopped", timeout=30, what="the stop")
    assert api.sandbox(id)["reason"] == "requested"


class Runs:
    """A command that goes on until it is let go, with somebody who waits for it."""

    def __init__(self, daemon, api, id):
        self.daemon, self.id, self.done = daemon, id, None
        self.thread = threading.Thread(target=self.wait)
        self.thread.start()
        wait_until(lambda: any(e["running"] for e in api.get(f"/sandboxes/{id}/exec").ok()["execs"]))

    def wait(self):
        with self.daemon.api(timeout=60) as api:
            self.done = api.try_exec(self.id, WAITS)

    def end(self):
        self.thread.join()
        return self.done


def test_commands_come_to_their_end_and_no_new_ones_begin(shared, api, box):
    runs = Runs(shared, api, box)
    s = api.post(f"/sandboxes/{box}/stop", {"drain": True}).ok()
    assert s["status"] == "running" and s["draining"] is True
    api.try_exec(box, "true").failed(409, "sandbox_draining")
    api.post(f"/sandboxes/{box}/exec/background", {"command": "true"}).failed(409, "sandbox_draining")
    assert api.post(f"/sandboxes/{box}/stop", {"drain": True}).ok()["draining"]  # twice is as once
    api.write(box, "/tmp/go", "", anywhere=True)  # files can be had until the end
    assert runs.end().ok()["stdout"] == "done\n"
    await_stop(api, box)
    assert "draining" not in api.sandbox(box)

    def topics():
        return [e["topic"] for e in api.get(f"/events/history?sandboxId={box}").ok()["events"]]

    wait_until(lambda: "sandbox.stopped" in topics())  # which is told when it is so
    assert topics().index("sandbox.stopped") < topics().index("sandbox.draining")  # the newest first
    api.post(f"/sandboxes/{box}/start").ok()
    assert api.sh(box, "echo again") == "again\n"


def test_those_that_nobody_waits_for_are_waited_for_too(api, box):
    api.background(box, WAITS)
    api.post(f"/sandboxes/{box}/stop", {"drain": True}).ok()
    api.try_exec(box, "true").failed(409, "sandbox_draining")
    assert status(api, box) == "running"
    api.write(box, "/tmp/go", "", anywhere=True)
    await_stop(api, box)


def test_their_time_is_over_at_some_time(shared, api, box):
    runs = Runs(shared, api, box)
    s = api.post(f"/sandboxes/{box}/stop", {"drain": True, "timeout": 0.3, "wait": True}).ok()
    assert s["status"] == "stopped"
    runs.end().failed((404, 409, 503))


def test_a_start_lets_it_run_on(api, box):
    api.background(box, WAITS)
    assert api.post(f"/sandboxes/{box}/stop", {"drain": True}).ok()["draining"]
    s = api.post(f"/sandboxes/{box}/start").ok()
    assert s["status"] == "running" and "draining" not in s
    assert api.sh(box, "echo on") == "on\n"


def test_one_without_commands_or_that_is_paused_or_stopped(api, make):
    quiet, paused = make()["id"], make()["id"]
    assert api.post(f"/sandboxes/{quiet}/stop", {"drain": True, "wait": True}).ok()["status"] == "stopped"
    assert api.post(f"/sandboxes/{quiet}/stop", {"drain": True}).ok()["status"] == "stopped"
    api.post(f"/sandboxes/{paused}/pause").ok()
    assert api.post(f"/sandboxes/{paused}/stop", {"drain": True}).ok()["status"] == "paused"
    api.post(f"/sandboxes/{paused}/resume").ok()
    await_stop(api, paused)
    api.post("/sandboxes/sbx_000000000000000000000000/stop", {"drain": True}).failed(404)


def test_a_crash_in_the_middle_is_gone_on_with(own):
    with own.api() as api:
        id = api.create()["id"]
        job = api.background(id, WAITS)
        api.post(f"/sandboxes/{id}/stop", {"drain": True, "timeout": 600}).ok()
    own.kill9()
    own.start()
    with own.api() as api:
        assert api.sandbox(id)["draining"] is True
        api.try_exec(id, "true").failed(409, "sandbox_draining")
        assert api.background_status(job["id"])["running"]
        api.write(id, "/tmp/go", "", anywhere=True)
        await_stop(api, id)
        api.remove(id)


SLOW_END = ["sh", "-c", "trap 'echo asked; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo ended > /workspace/last; exit' TERM; "
                        "echo up; while :; do sleep 0.05; done"]


def said(api, id):
    return [e["data"] for e in api.events("GET", f"/sandboxes/{id}/stream/logs?follow=false") if e["type"] == "stdout"]


class Stops:
    """A sandbox whose entrypoint has been asked to end and does not, with a caller that waits for the stop."""

    def __init__(self, daemon, api, **how):
        self.api, self.id = api, api.create(entrypoint=SLOW_END)["id"]
        wait_until(lambda: said(api, self.id) == ["up"])
        self.thread = threading.Thread(target=self.stop, args=(daemon, how))
        self.thread.start()
        wait_until(lambda: said(api, self.id) == ["up", "asked"])

    def stop(self, daemon, how):
        with daemon.api(timeout=60) as api:
            api.post(f"/sandboxes/{self.id}/stop", how)

    def let_go(self):
        assert status(self.api, self.id) == "running"
        self.api.write(self.id, "/tmp/go", "", anywhere=True)
        self.thread.join()
        assert status(self.api, self.id) == "stopped" and self.api.read(self.id, "last") == "ended\n"


def test_an_entrypoint_has_the_time_that_is_asked_for(daemon_of):
    """The entrypoint gets its stop signal before another one, whose stop names no time, and still runs when that one has been killed."""
    daemon = daemon_of(env={"CAY_STOP_TIMEOUT": 1}).start()
    with daemon.api() as api:
        stops, other = Stops(daemon, api, timeout=60), api.create(entrypoint=SLOW_END)["id"]
        wait_until(lambda: said(api, other) == ["up"])
        assert api.post(f"/sandboxes/{other}/stop", {"wait": True}).ok()["status"] == "stopped"
        stops.let_go()
        api.file(other, "read", path="last").failed(404)


def test_and_none_when_that_is_asked_for(daemon_of):
    """It is killed while another one, which was asked before, has its time."""
    daemon = daemon_of(env={"CAY_STOP_TIMEOUT": 15}).start()
    with daemon.api() as api:
        id = api.create(entrypoint=SLOW_END)["id"]
        wait_until(lambda: said(api, id) == ["up"])
        stops = Stops(daemon, api)
        assert api.post(f"/sandboxes/{id}/stop", {"timeout": 0}).ok()["status"] == "stopped"
        stops.let_go()
        api.file(id, "read", path="last").failed(404)


def test_the_command_line_waits_for_it(shared, api, make):
    id = make()["id"]
    job = api.background(id, WAITS)
    stopping = threading.Thread(target=cay, args=(shared, "stop", "--drain", "--time", "60", id))
    stopping.start()
    wait_until(lambda: api.sandbox(id).get("draining"))
    assert api.background_status(job["id"])["running"]
    api.write(id, "/tmp/go", "", anywhere=True)
    stopping.join()
    assert status(api, id) == "stopped"
