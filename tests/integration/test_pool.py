"""The warm pool: boxes that are up before somebody asks for them."""

import contextlib
import os
import random
import select
import signal
import sqlite3
import threading

import pytest

from cay_harness import cay, pids, read_text, wait_until

pytestmark = pytest.mark.core


def waiting(daemon):
    """The ids of boxes that wait, by their rows."""
    db = sqlite3.connect(f"file:{daemon.data}/cay.db?mode=ro", uri=True)
    try:
        return {id for id, in db.execute("SELECT id FROM sandbox WHERE state = 'prepared' AND image_id <> ''")}
    finally:
        db.close()


def agents(id):
    """Processes of a box: in its cgroups."""
    return [int(pid) for pid in pids() if id in read_text(f"/proc/{pid}/cgroup")]


def kill_all(pids):
    """Returns when the kernel says that they have ended: they leave their cgroups before that."""
    ends = [os.pidfd_open(pid) for pid in pids]
    for end in ends:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(end, signal.SIGKILL)
    for end in ends:
        assert select.select([end], [], [], 30)[0]
        os.close(end)


def full(api, n=None):
    def ready():
        status = api.get("/pool/status").ok()
        return status if status["ready"] == (status["total"] if n is None else n) else None

    return wait_until(ready, 30, what="a full pool")


@pytest.fixture
def pooled(daemon_of):
    return daemon_of(env={"CAY_POOL_SIZE": 2, "CAY_MAX_SANDBOXES": 100}).start()


def test_a_create_takes_a_box_that_waits_and_another_takes_its_place(pooled):
    with pooled.api() as api:
        assert full(api)["by_profile"] == {"host:512:1:false": 2}
        before = waiting(pooled)
        assert len(before) == 2 and not before & set(api.ids())
        s = api.create(name="mine", env={"A": "b"}, metadata={"c": "d"}, timeout=120)
        assert s["id"] in before and s["status"] == "running"
        assert (s["name"], s["metadata"], s["config"]["env"]) == ("mine", {"c": "d"}, {"A": "b"})
        assert api.sh(s["id"], "echo $A; pwd; hostname") == f"b\n/workspace\n{s['id'].replace('_', '-')}\n"
        full(api)
        assert s["id"] not in waiting(pooled)
        assert api.sandbox("mine")["id"] == s["id"]


def test_it_may_have_a_main_process_and_start_elsewhere(pooled):
    with pooled.api() as api:
        for fields in ({"workdir": "/srv/deep"}, {"entrypoint": ["sh", "-c", "echo begun; sleep 1000"]}):
            full(api)
            before = waiting(pooled)
            id = api.create(**fields)["id"]
            assert id in before
            assert api.sh(id, "pwd") == fields.get("workdir", "/workspace") + "\n"
            if "entrypoint" in fields:
                assert api.sandbox(id)["entrypointState"]["state"] == "running"


def test_other_limits_take_another_way(pooled):
    with pooled.api() as api:
        full(api)
        before = waiting(pooled)
        assert api.create(memory=128)["id"] not in before
        assert api.create(disk=128)["id"] not in before
        assert waiting(pooled) == before


def test_a_box_that_waits_has_the_agent_and_one_supervisor(pooled):
    with pooled.api() as api:
        full(api)
        for id in waiting(pooled):
            wait_until(lambda: len(agents(id)) == 2, what="the agent and one supervisor")
        id = api.create()["id"]
        assert api.sh(id, "echo one") == "one\n"
        assert api.sh(id, "echo two") == "two\n"


def test_a_box_whose_agent_is_gone_is_replaced(pooled):
    with pooled.api() as api:
        full(api)
        before = waiting(pooled)
        for id in before:
            kill_all(agents(id))
        id = api.create()["id"]
        assert id not in before and api.sh(id, "echo on") == "on\n"
        full(api)
        wait_until(lambda: not before & waiting(pooled), what="others in their place")


def test_an_image_that_is_retagged_makes_old_boxes_go(pooled, images_of):
    images = images_of(pooled)
    with pooled.api() as api:
        profile = api.post("/pool/profiles", {"image": "mine:1", "size": 1}).ok()
        wait_until(lambda: api.get("/pool/profiles").ok()["profiles"][1].get("error"), what="its error")
        images("one", "mine:1")
        full(api, 3)
        old = waiting(pooled)
        images("two", "mine:1")
        s = api.create(image="mine:1")
        assert api.sh(s["id"], "cat /word") == "two\n"
        full(api, 3)
        wait_until(lambda: len(old & waiting(pooled)) == 2, what="the old one to go")
        api.remove(s["id"])
        full(api, 3)
        api.delete(f"/images/{'mine:1'}").ok()  # it is in use by none
        full(api, 2)
        assert api.delete(f"/pool/profiles/{profile['id']}").ok() == {"success": True}


@pytest.fixture
def images_of(tmp_path):
    from cay_harness import busybox_root, cay

    def of(daemon):
        def make(word, name):
            root = tmp_path / word
            busybox_root(root)
            (root / "word").write_text(word + "\n")
            cay(daemon, "image", "import", str(root), name)
        return make
    return of


def test_profiles_of_callers_outlive_a_restart(pooled):
    with pooled.api() as api:
        profile = api.post("/pool/profiles", {"image": "host", "memory": 128, "size": 1}).ok()
        assert (profile["memory"], profile["size"], profile["source"]) == (128, 1, "api")
        assert api.post("/pool/profiles", {"image": "host", "memory": 128}).status == 409
        assert api.post("/pool/profiles", {"image": "host", "memory": 256, "size": 1000}).status == 429
        full(api, 3)
        pooled.restart()
        assert full(api, 3)["by_profile"] == {"host:512:1:false": 2, "host:128:1:false": 1}
        before = waiting(pooled)
        assert api.create(memory=128)["id"] in before
        full(api, 3)
        api.delete(f"/pool/profiles/{profile['id']}").ok()
        full(api, 2)
        assert api.delete(f"/pool/profiles/{profile['id']}").status == 404


def test_a_profile_may_be_a_template(pooled):
    with pooled.api() as api:
        api.post("/templates", {"name": "mine", "config": {"image": "host", "memory": 256, "workdir": "/srv/there",
                                                             "setup": ["echo built >/etc/built"]}}).ok()
        assert api.post("/pool/profiles", {"template": "none"}).status == 404
        assert api.post("/pool/profiles", {"template": "mine", "image": "host"}).status == 400
        profile = api.post("/pool/profiles", {"template": "mine", "size": 1}).ok()
        assert full(api, 3)["by_profile"] == {"host:512:1:false": 2, "mine:256:1:false": 1}
        before = waiting(pooled)
        s = api.post("/sandboxes", {"template": "mine"}).ok()
        assert s["id"] in before
        assert api.sh(s["id"], "pwd; cat /etc/built") == "/srv/there\nbuilt\n"
        api.remove(s["id"])
        api.delete(f"/pool/profiles/{profile['id']}").ok()
        full(api, 2)
        api.delete("/templates/mine").ok()


def test_a_profile_says_the_limits_that_its_boxes_have(pooled):
    """Those of its template from the start, within the daemon's range, and others when the template has others."""
    with pooled.api() as api:
        config = {"image": "host", "memory": 256}
        api.post("/templates", {"name": "sized", "config": config}).ok()
        profile = api.post("/pool/profiles", {"template": "sized", "size": 1}).ok()
        assert profile["memory"] == 256
        full(api, 3)
        api.post("/pool/profiles", {"template": "sized", "size": 1}).failed(409, "pool_profile_exists", profile["id"])
        small = api.post("/pool/profiles", {"image": "host", "memory": 1, "size": 1}).ok()
        assert small["memory"] == 64
        api.post("/pool/profiles", {"image": "host", "memory": 64, "size": 1}).failed(409, "pool_profile_exists")
        api.delete(f"/pool/profiles/{small['id']}").ok()
        api.delete("/templates/sized").ok()
        api.post("/templates", {"name": "sized", "config": {**config, "memory": 128}}).ok()
        wait_until(lambda: api.get("/pool/status").ok()["by_profile"].get("sized:128:1:false") == 1, 60, "boxes as they are now")
        before = waiting(pooled)
        assert api.post("/sandboxes", {"template": "sized"}).ok()["id"] in before
        api.delete("/templates/sized").ok()
        api.delete(f"/pool/profiles/{profile['id']}").ok()


@pytest.mark.counts_rows
def test_many_at_once_get_one_each(pooled):
    with pooled.api() as api:
        full(api)
        made, lock = [], threading.Lock()

        def one():
            with pooled.api() as mine:
                id = mine.create()["id"]
                with lock:
                    made.append(id)

        threads = [threading.Thread(target=one) for _ in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert len(set(made)) == 8
        for id in made:
            assert api.sh(id, "ls -A; echo on") == "on\n"


@pytest.mark.counts_rows
def test_kill_9_around_a_claim_loses_none_and_leaves_none(pooled):
    """An acknowledged one is there; what waited is thrown away, and the pool is full again."""
    rng = random.Random(7)
    with pooled.api() as api:
        acknowledged = set()
        for _ in range(6):
            full(api)
            before = waiting(pooled)

            def creates():
                with pooled.api() as mine:
                    try:
                        for _ in range(4):
                            acknowledged.add(mine.create()["id"])
                    except Exception:  # the daemon is gone
                        pass

            t = threading.Thread(target=creates)
            t.start()
            t.join(rng.uniform(0, 0.01))  # the moment of the crash is the test's input
            pooled.kill9()
            t.join()
            pooled.start()
            there = set(api.ids())
            assert acknowledged <= there
            full(api)
            wait_until(lambda: not (before - there) & waiting(pooled), what="those of before to go")
            for id in there:
                assert api.sandbox(id)["status"] == "running"
                assert api.sh(id, "echo on") == "on\n"


def test_the_command_line_adds_lists_and_removes_profiles(pooled):
    def do(*words):
        return cay(pooled, "pool", *words, check=True).stdout.decode()

    with pooled.api() as api:
        id = do("add", "--size", "1", "-m", "128", "host").strip()
        row = next(line for line in do("ls").splitlines() if line.startswith(id))
        assert row.split()[1:6] == ["host", "-", "-", "128", "MB"]
        full(api, 3)
        assert do("rm", id) == id + "\n"
        assert id not in do("ls", "--json")
        assert cay(pooled, "pool", "add").returncode == 2
