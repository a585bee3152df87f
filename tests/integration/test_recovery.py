"""The daemon dies; the sandboxes do not."""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import threading

import pytest

from cay_harness import SLOW, pids, read_text, wait_until
from cay_order import end_sleep

pytestmark = [pytest.mark.core, pytest.mark.counts_rows]

MANY = 100
KILLS = int(os.environ.get("CAY_KILLS", "8"))  # make soak has more


def test_kill_9_with_many_sandboxes_keeps_all_of_them(daemon_of):
    """The same ids, and their commands have not noticed."""
    own = daemon_of(env={"CAY_MAX_SANDBOXES": 2 * MANY}).start()
    with own.api() as api:
        ids = [api.create(name=f"n{i}", metadata={"i": str(i)})["id"] for i in range(MANY)]
        execs = {id: api.background(id, "echo up; i=0; while :; do i=$((i+1)); echo $i > /tmp/i; "
                                        "sleep 0.05; done") for id in ids[:5]}
        for id in ids:
            api.write(id, "mark", id)
        api.post(f"/sandboxes/{ids[-1]}/pause").ok()
        before = {id: api.sandbox(id) for id in ids}
        own.kill9()
        own.start()
        assert sorted(api.ids()) == sorted(ids)
        for id in ids:
            assert api.sandbox(id) == before[id]
        for id in ids[:-1]:
            assert api.read(id, "mark") == id
        for id, x in execs.items():
            assert api.background_status(x["id"])["running"]
            n = int(api.sh(id, "cat /tmp/i") or 0)
            wait_until(lambda: int(api.sh(id, "cat /tmp/i") or 0) > n, what="counting to go on")
        api.post(f"/sandboxes/{ids[-1]}/resume").ok()
        assert api.read(ids[-1], "mark") == ids[-1]


def test_kill_9_right_after_a_pause_a_resume_or_a_removal(own):
    """Who was told keeps what it was told."""
    with own.api() as api:
        id = api.create()["id"]
        for what, status in [("pause", "paused"), ("resume", "running")] * 2:
            api.post(f"/sandboxes/{id}/{what}").ok()
            own.kill9()
            own.start()
            assert api.sandbox(id)["status"] == status
        assert api.sh(id, "echo on") == "on\n"
        api.remove(id)
        own.kill9()
        own.start()
        assert id not in api.ids()


def test_sigterm_keeps_sandboxes(own):
    with own.api() as api:
        id = api.create()["id"]
        pid = api.background(id, "exec sleep 1000")["pid"]
        assert own.stop() == 0
        own.start()
        assert any(p["pid"] == pid for p in api.processes(id))


def test_sigterm_lets_a_request_finish(own):
    with own.api() as api:
        id = api.create()["id"]
        got = {}

        def run():
            with api.again() as mine:
                got["reply"] = mine.try_exec(id, "touch /tmp/on; sleep 271828; echo finished")

        t = threading.Thread(target=run)
        t.start()
        wait_until(lambda: api.exec(id, "test -e /tmp/on")["exitCode"] == 0)
        os.kill(own.pid, signal.SIGTERM)
        wait_until(lambda: "msg=stopping" in own.log())
        end_sleep(id, 271828)
        assert own.process.wait(60) == 0
        t.join()
        assert got["reply"].ok()["stdout"] == "finished\n"
        own.start()


def test_a_stop_tells_how_many_go_on(daemon_of):
    daemon = daemon_of().start()
    with daemon.api() as api:
        api.create()
        api.create()
    daemon.stop()
    assert re.search(r"sandboxes go on, .* count=2$", daemon.log(), re.M), daemon.log()
    daemon.start()
    with daemon.api() as api:
        for s in api.get("/sandboxes").ok()["items"]:
            api.remove(s["id"])
    daemon.stop()
    assert daemon.log().count("sandboxes go on") == 1


def test_stop_sandboxes_ends_them(daemon_of):
    daemon = daemon_of(args=["--stop-sandboxes"]).start()
    with daemon.api() as api:
        [api.create() for _ in range(3)]
    assert daemon.stop() == 0
    daemon.args = []
    daemon.start()
    with daemon.api() as api:
        assert [s for s in api.get("/sandboxes").ok()["items"] if s["status"] == "running"] == []


def test_after_a_reboot_sandboxes_are_stopped_and_say_why(own):
    """A reboot is simulated by another boot id in the rows."""
    with own.api() as api:
        ids = [api.create()["id"] for _ in range(2)]
        api.write(ids[0], "kept", "x")
        own.stop()
        own.change_sandboxes("boot_id = '00000000-0000-0000-0000-000000000000'")
        own.start()
        for id in ids:
            s = api.sandbox(id)
            assert s["status"] == "stopped", s
            assert "reboot" in str(s.get("reason", s.get("statusReason", ""))), s
            api.try_exec(id, "true").failed(409, text="not running: stopped")
            api.remove(id)


def test_a_dead_agent_is_noticed_and_named(own):
    """kill -9 of the agent: the sandbox is stopped with a reason, and can be removed."""
    with own.api() as api:
        id = api.create()["id"]
        pid = own.agent_pid(id)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: api.sandbox(id)["status"] == "stopped", 60, "the end to be noticed")
        assert "agent" in str(api.sandbox(id).get("reason", ""))
        api.try_exec(id, "true").failed(409)
        api.remove(id)


def test_an_agent_that_dies_while_the_daemon_is_away_is_noticed(own):
    with own.api() as api:
        id, stays = api.create()["id"], api.create()["id"]
        pid = own.agent_pid(id)
        own.kill9()
        os.kill(pid, signal.SIGKILL)
        own.start()
        wait_until(lambda: api.sandbox(id)["status"] == "stopped")
        assert api.sh(stays, "echo on") == "on\n"


def test_a_recorded_pid_that_is_another_process_now_is_left_alone(own):
    other = subprocess.Popen(["sleep", "1000"])
    try:
        with own.api() as api:
            id = api.create()["id"]
            own.stop()
            own.change_sandboxes("pid = ?", other.pid)
            own.start()
            assert api.sandbox(id)["status"] in ("stopped", "running")
            api.remove(id)
            assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_corrupt_database_is_put_aside_and_what_runs_is_taken_back(own):
    """F13: it says so, starts anew, and what runs is there again, also for the start after."""
    with own.api() as api:
        id = api.create(metadata={"a": "b"})["id"]
        api.write(id, "mark", "still here")
        own.wait_for_note(id)
        own.kill9()
        for extra in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                (own.data / f"cay.db{extra}").unlink()
        path = own.data / "cay.db"
        data = bytearray(path.read_bytes())
        data[:100] = b"\xff" * 100
        path.write_bytes(data)
        own.start()
        assert "database was lost" in own.log()
        assert list(own.data.glob("cay.db.corrupt-*"))
        s = api.sandbox(id)
        assert (s["status"], s["metadata"]) == ("running", {"a": "b"})
        assert api.read(id, "mark") == "still here"
        own.restart()
        assert api.sh(id, "cat /workspace/mark") == "still here"
        for each in api.ids():
            api.remove(each)


def test_kill_9_at_any_moment_leaves_whole_sandboxes_or_none(daemon_of):
    """F04: rounds of mixed load with the daemon killed somewhere in between."""
    daemon = daemon_of(env={"CAY_POOL": 2, "CAY_MAX_SANDBOXES": 100}).start()
    rng = random.Random(20)
    acknowledged, removed = set(), set()
    lock = threading.Lock()

    def load(stop, seed):
        mine = random.Random(seed)
        with daemon.api() as api:
            while not stop.is_set():
                try:
                    with lock:
                        some = list(acknowledged)
                    what = mine.random()
                    if what < 0.5 or not some:
                        reply = api.try_create()
                        if reply.status == 200:
                            with lock:
                                acknowledged.add(reply.json["id"])
                    elif what < 0.8:
                        api.try_exec(mine.choice(some), "echo x; sleep 0.01")
                    else:
                        id = mine.choice(some)
                        with lock:
                            acknowledged.discard(id)
                        if api.delete(f"/sandboxes/{id}").status != 200:
                            continue
                        with lock:
                            removed.add(id)
                except Exception:
                    if stop.is_set() or not daemon.running():
                        return

    for _ in range(KILLS):
        stop = threading.Event()
        threads = [threading.Thread(target=load, args=(stop, rng.random())) for _ in range(3)]
        [t.start() for t in threads]
        stop.wait(rng.uniform(0.02, 0.4))  # the moment of the crash is the test's input
        stop.set()
        daemon.kill9()
        [t.join() for t in threads]
        daemon.start()
        with daemon.api() as api:
            there = set(api.ids())
            assert acknowledged <= there, "an acknowledged sandbox is lost"
            assert not removed & there, "a removed sandbox is back"
            for id in there:
                assert api.sandbox(id)["status"] == "running"
                assert api.sh(id, "echo on") == "on\n"
            for id in list(there)[10:]:
                api.remove(id)
                acknowledged.discard(id)
            acknowledged &= set(api.ids())


def test_sigterm_ends_a_daemon_that_waits_in_its_start(daemon_of):
    """For a daemon that it is to replace and that does not answer."""
    daemon = daemon_of().start()
    daemon.kill9()
    (daemon.run / "replace.sock").unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(daemon.run / "replace.sock"))
        deaf.listen()
        ready = daemon.spawn(["--replace"])
        asked, _ = deaf.accept()
        with asked, open(ready, "rb") as said:
            daemon.process.send_signal(signal.SIGTERM)
            assert daemon.process.wait(60 * SLOW) == 0
            assert said.read() == b"", "it never said that it was ready"
    assert "stopped in the middle of the start" in daemon.log()
    daemon.start()


@pytest.mark.parametrize("remove", [False, True])
def test_sigterm_in_the_start_ends_the_sandboxes_that_were_to_end(daemon_of, remove):
    """The signal is there before the daemon is, so no step of the start comes before it."""
    def told():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.kill(os.getpid(), signal.SIGTERM)

    def sleeper():
        return [pid for pid in pids() if "98765.25" in read_text(f"/proc/{pid}/cmdline").split("\0")]

    daemon = daemon_of()
    folder = daemon.root / "own"
    folder.mkdir()
    daemon.data, daemon.run = folder / "data", folder / "run"
    api = daemon.start().api()
    id = api.create()["id"]
    api.post(f"/sandboxes/{id}/exec/background", {"command": "exec sleep 98765.25"}).ok()
    wait_until(sleeper)
    daemon.stop()
    os.close(daemon.spawn(["--stop-sandboxes", *(["--remove", str(folder)] if remove else [])], preexec_fn=told))
    assert daemon.process.wait(60 * SLOW) == 0, daemon.log()
    assert folder.exists() != remove
    assert not sleeper()
    assert daemon.start().api().ids() == []
