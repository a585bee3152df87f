"""A commit that takes long is in nobody's way."""

import os
import re
import signal
import threading

import pytest

from cay_harness import pids, read_text, wait_until

pytestmark = pytest.mark.core


def worker(daemon):
    for pid in pids():
        if re.match(rf"\d+ \(cay-image\) \S {daemon.pid} ", read_text(f"/proc/{pid}/stat")):
            return int(pid)
    return None


class Commit:
    """One whose worker is stopped by a signal, so that it does not end."""

    def __init__(self, daemon, api, id):
        self.thread = threading.Thread(target=self.run, args=(api.again(timeout=60), id))
        self.thread.start()
        self.pid = wait_until(lambda: worker(daemon), what="a worker")
        os.kill(self.pid, signal.SIGSTOP)

    def run(self, api, id):
        self.reply = api.post(f"/sandboxes/{id}/commit", {"name": "made:1"})
        api.close()

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self.reply


@pytest.fixture
def committed(own):
    """A sandbox with so much on its disk that its commit is not over before it is stopped."""
    with own.api() as api:
        id = api.create()["id"]
        api.sh(id, "mkdir /root/many; for i in $(seq 300); do echo $i >/root/many/$i; done; "
                   "head -c 120000000 /dev/zero >/root/large")
        yield own, api, id


def test_delete_interrupts_a_commit(committed):
    own, api, id = committed
    commit = Commit(own, api, id)
    api.remove(id)
    api.get(f"/sandboxes/{id}").failed(404)
    commit.thread.join(60)
    commit.reply.failed(409, "commit_interrupted")
    assert [i["name"] for i in api.get("/images").ok()["images"]] == ["host"]


def test_others_are_looked_after_and_calls_are_told_why_they_wait(committed):
    own, api, id = committed
    other = api.create()["id"]
    commit = Commit(own, api, id)
    os.kill(own.agent_pid(other), signal.SIGKILL)
    wait_until(lambda: api.sandbox(other)["status"] == "stopped", 60, "its end to be noticed")
    assert api.sandbox(id)["status"] == "running"
    api.try_exec(id, "true").failed(503, "sandbox_busy", "being committed")
    api.post(f"/sandboxes/{id}/commit", {"name": "made:2"}).failed(503, "sandbox_busy")
    api.post(f"/sandboxes/{id}/renew", {"expiresAt": api.sandbox(id)["createdAt"] + 3600000}).ok()
    assert commit.go_on().ok()["name"] == "made:1"
    assert api.sh(id, "ls /root/many | wc -l").strip() == "300"


def test_a_daemon_that_stops_ends_a_commit(committed):
    own, api, id = committed
    commit = Commit(own, api, id)
    assert own.stop() == 0
    commit.thread.join(60)
    assert commit.reply.status == 503
    own.start()
    assert api.sh(id, "ls /root/many | wc -l").strip() == "300"
