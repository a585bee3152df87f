"""The launcher dies or hangs, or a child that it has parked dies: others take their place, and nothing else notices."""

import contextlib
import os
import re
import signal
import threading
from pathlib import Path

import pytest

from cay_harness import pids, read_text, wait_until

pytestmark = pytest.mark.core


def launchers(daemon):
    """Its launcher, which is a child of the daemon; a parked box is one of the launcher's."""
    return [int(pid) for pid in pids()
            if re.match(rf"\d+ \(cay-launch\) \S {daemon.pid} ", read_text(f"/proc/{pid}/stat"))]


def launcher(daemon, other_than=None):
    def one():
        found = [pid for pid in launchers(daemon) if pid != other_than]
        return found[0] if len(found) == 1 else None

    return wait_until(one, what="one launcher")


def parked(daemon):
    """The children of prepared boxes: in cgroups of ids that no caller has."""
    mine = launcher(daemon)
    return [int(pid) for pid in pids()
            if re.match(rf"\d+ \(.*\) \S {mine} ", read_text(f"/proc/{pid}/stat"))
            and "(cay-launch)" in read_text(f"/proc/{pid}/stat")]


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not read_text(f"/proc/{pid}/cmdline"), what="its end")


def create_after_loss(api):
    """A create that reaches the daemon before it knows that its launcher has ended is told to try again."""
    def made():
        reply = api.try_create()
        return reply.ok()["id"] if reply.status == 200 else reply.failed(503, "launcher_lost") and None

    return wait_until(made, what="a create")


def test_a_launcher_that_is_killed_is_started_again(daemon_of):
    daemon = daemon_of(env={"CAY_POOL": 3}).start()
    with daemon.api() as api:
        before = api.create()["id"]
        assert "problems" not in api.get("/health").ok()
        first = launcher(daemon)
        kill(first)
        made = [create_after_loss(api), *(api.create()["id"] for _ in range(5))]  # also those whose child was parked by the first
        assert launcher(daemon, first) != first
        for id in [before, *made]:
            assert api.sh(id, "echo on") == "on\n"
        (problem,) = api.get("/health").ok()["problems"]
        assert problem["what"] == "launcher_down" and problem["since"] > 0
        assert daemon.running()


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: re.search(r"^State:\tT", read_text(f"/proc/{pid}/status"), re.M), what="it to stand still")
    yield


@contextlib.contextmanager
def frozen(pid):
    """On cgroup v1 not even SIGKILL ends it, as if it waited for a device in the kernel."""
    freezer = Path("/sys/fs/cgroup/freezer")
    group = (freezer if freezer.is_dir() else Path("/sys/fs/cgroup")) / f"cay-test-{pid}"
    words = ("freezer.state", "FROZEN", "THAWED") if freezer.is_dir() else ("cgroup.freeze", "1", "0")
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(pid))
        (group / words[0]).write_text(words[1])
        yield
    finally:
        (group / words[0]).write_text(words[2])
        wait_until(lambda: not read_text(group / "cgroup.procs"), what="its end")
        group.rmdir()


@pytest.mark.parametrize("hang", [stopped, frozen])
def test_a_launcher_that_hangs_is_replaced(daemon_of, hang):
    daemon = daemon_of(env={"CAY_POOL": 2, "CAY_LAUNCHER_TIMEOUT": 1}).start()
    with daemon.api() as api:
        before = api.create()["id"]
        api.post("/volumes", {"name": "v", "sizeMb": 16}).ok()
        first = launcher(daemon)
        with hang(first):
            made = [create_after_loss(api), api.create()["id"]]
            assert first not in [found for found in launchers(daemon) if hang is stopped]
            api.post("/volumes/v/attach", {"sandboxId": before, "mountPath": "/v"}).ok()
            for id in [before, *made]:
                assert api.sh(id, "echo on") == "on\n"
            (problem,) = api.get("/health").ok()["problems"]
            assert problem["what"] == "launcher_down"
        for id in [before, *made]:
            api.remove(id)
        api.delete("/volumes/v").ok()
    assert "has not answered" in daemon.log()


def test_a_second_launcher_that_hangs_is_replaced_once_the_first_has_ended(daemon_of):
    """Only one that does not end is left behind: while it is there, the end of the second is waited for."""
    daemon = daemon_of(env={"CAY_LAUNCHER_TIMEOUT": 1}).start()
    with daemon.api() as api, daemon.api() as other, contextlib.ExitStack() as until_the_end:
        first = launcher(daemon)
        with frozen(first):
            made = [create_after_loss(api)]
            until_the_end.enter_context(frozen(next(pid for pid in launchers(daemon) if pid != first)))
            waits = threading.Thread(target=lambda: made.append(create_after_loss(other)))
            waits.start()
            wait_until(lambda: daemon.log().count("has not answered") == 2, what="a second launcher that hangs")
        waits.join()
        assert len(made) == 2
        for id in made:
            api.remove(id)


def test_a_daemon_ends_though_its_launcher_hangs(daemon_of):
    daemon = daemon_of().start()
    pid = launcher(daemon)
    with stopped(pid):
        assert daemon.stop() == 0
        assert not read_text(f"/proc/{pid}/cmdline")


def test_a_terminal_that_goes_ends_no_launcher(daemon_of):
    daemon = daemon_of().start(start_new_session=True)
    first = launcher(daemon)
    os.killpg(daemon.pid, signal.SIGHUP)
    wait_until(lambda: "SIGHUP" in daemon.log(), what="the daemon to hear of it")
    with daemon.api() as api:
        id = api.create()["id"]
        assert re.search(r"^SigIgn:\s+0+$", api.sh(id, "cat /proc/self/status"), re.M)
        assert "problems" not in api.get("/health").ok()
    assert launcher(daemon) == first


def test_creates_under_way_when_the_launcher_dies_are_made_or_told_to_come_again(daemon_of):
    daemon = daemon_of(env={"CAY_POOL": 2, "CAY_MAX_SANDBOXES": 200}).start()
    replies, stop = [], threading.Event()

    def make():
        with daemon.api() as api:
            while not stop.is_set():
                reply = api.try_create()
                replies.append(reply)
                if reply.status == 200:
                    api.remove(reply.json["id"])

    threads = [threading.Thread(target=make) for _ in range(3)]
    [t.start() for t in threads]
    last = None
    for _ in range(3):
        n = len(replies)
        wait_until(lambda: len(replies) > n + 5, 30, "creates")
        last = launcher(daemon, last)
        kill(last)
    n = len(replies)
    wait_until(lambda: sum(r.status == 200 for r in replies[n:]) > 5, 60, "creates to work again")
    stop.set()
    [t.join() for t in threads]
    for reply in replies:
        if reply.status != 200:
            reply.failed(503, "launcher_lost")
            assert reply.headers["Retry-After"]


def test_a_launcher_that_dies_again_and_again_is_started_less_and_less_often(own):
    with own.api() as api:
        last = None
        for _ in range(3):
            last = launcher(own, last)
            kill(last)

        def told():
            return [p for p in api.get("/health").ok().get("problems", []) if p["attempts"] >= 3]

        (problem,) = wait_until(told, what="health to say so")
        assert problem["what"] == "launcher_down"
        assert launchers(own) == []  # the third is put off
        launcher(own, last)
        assert api.sh(api.create()["id"], "echo on") == "on\n"


def test_a_parked_child_that_is_gone_costs_no_create(daemon_of):
    daemon = daemon_of(env={"CAY_POOL": 3}).start()
    with daemon.api() as api:
        children = wait_until(lambda: (lambda c: len(c) == 3 and c)(parked(daemon)), what="a full pool")
        for pid in children:
            kill(pid)
        for _ in range(4):
            id = api.create()["id"]
            assert api.sh(id, "echo on") == "on\n"
        assert "another takes its place" in daemon.log()
