"""kill -9 of the daemon in the middle of snapshots, restores, clones and deletes: the old state or the new one."""

import os
import random
import threading
import time

import pytest

from cay_harness import wait_until
from test_state_faults import failing

pytestmark = [pytest.mark.full, pytest.mark.counts_rows]

SEED = 20263
ROUNDS = 8


def quietly(function):
    """A request whose connection the crash will break; what became of it is what the test looks at."""
    try:
        return function()
    except Exception:
        return None


class Life(threading.Thread):
    """Works on one sandbox until the daemon dies. /root/n holds a number, and /root/same the same."""

    def __init__(self, daemon, box, random):
        super().__init__()
        self.api, self.box, self.random = daemon.api(timeout=60), box, random
        self.go, self.n = True, 0

    def run(self):
        while self.go and quietly(self.step) is not None:
            pass
        self.api.close()

    def step(self):
        api, box = self.api, self.box
        self.n += 1
        if api.try_exec(box, f"echo {self.n} >/root/n; head -c 300000 /dev/zero >/root/large; cp /root/n /root/same").status != 200:
            api.post(f"/sandboxes/{box}/start").ok()
            return True
        one = api.post(f"/sandboxes/{box}/snapshots", {}).ok()
        what = self.random.randrange(4)
        if what == 0:
            api.post(f"/sandboxes/{box}/snapshots/restore", {"snapshotId": one["id"]}).ok()
        elif what == 1:
            api.post(f"/snapshots/{one['id']}/clone", {}).ok()
        elif what == 2:
            api.post(f"/sandboxes/{box}/fork", {"count": 2}).ok()
        else:
            api.delete(f"/snapshots/{one['id']}").ok()
        return True


def check_box(api, id):
    if api.sandbox(id)["status"] == "stopped":
        api.post(f"/sandboxes/{id}/start").ok()
    said = api.exec(id, "cat /root/n; cat /root/same; wc -c </root/large")["stdout"].split()
    return said


def whole(daemon, api, box):
    """Every snapshot can be made a sandbox, every sandbox runs; then all of them can go, and nothing is left."""
    ids = api.ids()
    assert box in ids, "it was never removed"
    for id in ids:
        check_box(api, id)
    for one in api.get("/snapshots").ok()["snapshots"]:
        twin = api.post(f"/snapshots/{one['id']}/clone", {}).ok()["id"]
        first, second, size = api.exec(twin, "cat /root/n /root/same; wc -c </root/large")["stdout"].split()
        assert first == second and size == "300000", "a snapshot is of one moment, and whole"
        api.remove(twin)
        api.delete(f"/snapshots/{one['id']}").ok()
    for id in ids:
        if id != box:
            api.remove(id)


def nothing_left(daemon, api, box):
    api.remove(box)
    images = daemon.data / "images"
    wait_until(lambda: not os.listdir(images / "layers") and not os.listdir(images / "records"), 60,
               "layers and records to go with those who need them")
    assert not os.listdir(daemon.data / "snapshots")


def test_at_random_moments(daemon_of):
    chance = random.Random(SEED)
    daemon = daemon_of(env={"CAY_MAX_SANDBOXES": 100}).start()
    with daemon.api() as api:
        box = api.create()["id"]
        api.sh(box, "echo 0 >/root/n; cp /root/n /root/same; head -c 300000 /dev/zero >/root/large")
        for _ in range(ROUNDS):
            life = Life(daemon, box, random.Random(chance.random()))
            life.start()
            wait_until(lambda: life.n > 0 or not life.is_alive(), what="it to begin")
            time.sleep(chance.uniform(0.02, 0.25))  # the moment is what varies: nothing is waited for
            daemon.kill9()
            life.go = False
            life.join(30)
            daemon.start()
            api.close()
            whole(daemon, api, box)
        nothing_left(daemon, api, box)


@pytest.mark.parametrize("damage", [lambda text, id: text[:100], lambda text, id: f'{{"id": "{id}"}}',
                                    lambda text, id: text.replace('"imageId": "', '"imageId": 5, "was": "')],
                         ids=["cut", "empty", "changed"])
def test_a_damaged_document_costs_no_files(own, damage):
    """Which image it named is not known, so all stay until somebody has mended or removed it."""
    with own.api() as api:
        id = api.create()["id"]
        api.sh(id, "echo kept >/root/f")
        snap = api.post(f"/sandboxes/{id}/snapshots", {}).ok()["id"]
        api.remove(id)
        own.stop()
        document = own.data / "snapshots" / f"{snap}.json"
        whole = document.read_text()
        document.write_text(damage(whole, snap))
        own.start()
        assert api.get("/snapshots").ok()["snapshots"] == []
        assert [p["what"] for p in api.get("/health").ok()["problems"]] == ["document_damaged"]
        api.remove(api.create()["id"])
        own.stop()
        aside = own.data / "snapshots" / f"{snap}.json.damaged"
        aside.rename(document)
        document.write_text(whole)
        own.start()
        assert "problems" not in api.get("/health").ok()
        twin = api.post(f"/snapshots/{snap}/clone", {}).ok()["id"]
        assert api.sh(twin, "cat /root/f") == "kept\n"
        api.remove(twin)
        api.delete(f"/snapshots/{snap}").ok()


@pytest.mark.needs("program:strace")
def test_a_snapshot_that_is_told_to_have_failed_is_not_there(own):
    """Whichever sync of its files fails, of the document's folder too."""
    with own.api(timeout=60) as api:
        id = api.create()["id"]
        api.sh(id, "echo kept >/root/f")
        failed = 0
        for nth in range(1, 12):
            with failing(own, "fsync:error=EIO", nth), own.api(timeout=60) as mine:
                reply = mine.post(f"/sandboxes/{id}/snapshots", {})
            failed += reply.status != 200
            own.restart()
            listed = [s["id"] for s in api.get("/snapshots").ok()["snapshots"]]
            assert listed == ([reply.json["id"]] if reply.status == 200 else []), (nth, reply.body)
            for snap in listed:
                api.delete(f"/snapshots/{snap}").ok()
        assert failed, "no call failed"
        api.remove(id)


def test_clones_of_a_sandbox_that_is_removed_are_told_so(own):
    """They wait for one another; those that come too late find neither the sandbox nor its disk."""
    told = set()

    def clone(id):
        with own.api(timeout=60) as mine:
            reply = mine.post(f"/sandboxes/{id}/clone", {})
            told.add((reply.status, reply.json.get("code")))

    with own.api() as api:
        for _ in range(8):
            id = api.create()["id"]
            api.sh(id, "cd /root; for i in $(seq 300); do echo $i >f$i; done")
            threads = [threading.Thread(target=clone, args=(id,)) for _ in range(6)]
            [t.start() for t in threads]
            threads[0].join(0.03)
            api.delete(f"/sandboxes/{id}").ok()
            [t.join() for t in threads]
            for twin in api.ids():
                api.remove(twin)
    assert {code for status, code in told if status != 200} <= {
        "sandbox_not_found", "sandbox_removed", "sandbox_not_running", "commit_interrupted"}, told
